package definitions

import (
	"slices"
	"strings"

	yaml "go.yaml.in/yaml/v4"
)

// checks reads rules with words for people.
func (b *builder) checks(n *yaml.Node, w where) []Check {
	var list []Check
	for _, c := range b.list(n, "check") {
		m := b.mapping(c, "a check")
		if m == nil {
			continue
		}
		check := Check{That: b.expr(m.need("that"), "that", wantBool, w), Say: b.words(m.need("say"), "say", w)}
		if at := m.get("at"); at != nil {
			text, ok := b.text(at, "at")
			if ok && text != "" && !strings.HasPrefix(text, "/") {
				b.errorAt(at, "pointer", "such as /limit", "at must be a JSON pointer.")
			}
			check.At = text
		}
		m.done()
		list = append(list, check)
	}
	return list
}

// assigns reads `set`: data paths and values. paths says what the paths are checked
// against; nil: the data of another definition, not known here.
func (b *builder) assigns(n *yaml.Node, what string, w where, paths *scope) []Assign {
	m := b.mapping(n, what)
	if m == nil {
		return nil
	}
	own := paths != nil
	if !own {
		paths = newScope(nil)
	}
	var list []Assign
	for _, key := range m.keys {
		p, ok := b.setPath(key, what, where{sc: paths})
		v := b.value(m.values[key.Value], what+"."+key.Value, key.Value, w, own)
		if ok && v != nil {
			list = append(list, Assign{Path: p, Value: v})
		}
	}
	return list
}

// value compiles a value of `set`: a YAML number, boolean or null is a literal.
func (b *builder) value(n *yaml.Node, what, path string, w where, own bool) *Value {
	if n.Kind != yaml.ScalarNode {
		b.errorAt(n, "type", `write it as an expression in quotes, such as "[]" or "{'a': 1}"`, "%s must be an expression, a number, a boolean or null.", what)
		return nil
	}
	if scalarKind(n) != textScalar {
		if own {
			b.checkLiteral(n, what, path)
		}
		return &Value{Literal: tree(n)}
	}
	want := wantAny
	if own {
		want = b.wantedAt(path)
	}
	e := b.expr(n, what, want, w)
	if e == nil {
		return nil
	}
	return &Value{Expr: e}
}

// checkLiteral checks a literal against the schema of the field that it goes to.
func (b *builder) checkLiteral(n *yaml.Node, what, path string) {
	schema := b.schemaAt(path)
	if schema == nil {
		return
	}
	allowed := schemaTypes(schema)
	if len(allowed) == 0 {
		return
	}
	var is []string
	switch scalarKind(n) {
	case nullScalar:
		is = []string{"null"}
	case boolScalar:
		is = []string{"boolean"}
	default:
		is = []string{"number"}
		if !strings.ContainsAny(n.Value, ".eE") {
			is = append(is, "integer")
		}
	}
	if !slices.ContainsFunc(is, func(t string) bool { return slices.Contains(allowed, t) }) {
		b.errorAt(n, "type", "", "%s: %s does not fit the type %s.", what, n.Value, strings.Join(allowed, " or "))
	}
}

// wantedAt gives the type that the expression for a simple data path must have.
func (b *builder) wantedAt(path string) exprType {
	switch types := schemaTypes(b.schemaAt(path)); {
	case len(types) != 1:
		return wantAny
	case types[0] == "string":
		return wantString
	case types[0] == "boolean":
		return wantBool
	case types[0] == "array":
		return wantList
	case types[0] == "number" || types[0] == "integer":
		return wantNumber
	}
	return wantAny
}

// schemaAt follows a path of plain names through the written schema.
func (b *builder) schemaAt(path string) map[string]any {
	schema, _ := b.tree["data"].(map[string]any)
	for _, part := range strings.Split(path, ".") {
		properties, _ := schema["properties"].(map[string]any)
		schema, _ = properties[part].(map[string]any)
		if schema == nil {
			return nil
		}
	}
	return schema
}

func schemaTypes(schema map[string]any) []string {
	switch t := schema["type"].(type) {
	case string:
		return []string{t}
	case []any:
		var list []string
		for _, v := range t {
			if s, ok := v.(string); ok {
				list = append(list, s)
			}
		}
		return list
	}
	return nil
}
