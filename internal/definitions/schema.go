package definitions

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"vobo/internal/fault"
)

// Schema is a compiled JSON Schema 2020-12 (formats asserted, no remote
// references). It is immutable and safe for concurrent use; the methods of a nil
// Schema are those of one that allows everything.
type Schema struct {
	doc       *schemaDocument
	node      *node // the place in it
	validator func() (*jsonschema.Schema, error)
}

// Validate returns the errors of v by field, in a fixed order (by pointer); words
// for people. v is a JSON tree, see Env.
func (s *Schema) Validate(v any) []fault.Field {
	if s == nil || s.validator == nil {
		return nil
	}
	compiled, err := s.validator()
	if err != nil {
		return []fault.Field{{Detail: "This cannot be checked: its schema does not work."}}
	}
	err = compiled.Validate(v)
	if err == nil {
		return nil
	}
	return s.fieldErrors(err)
}

// ApplyDefaults fills absent fields that have a default, in objects that are there.
func (s *Schema) ApplyDefaults(root map[string]any) {
	if s != nil && s.node != nil {
		s.node.applyDefaults(root)
	}
}

func (n *node) applyDefaults(v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range n.order {
			p := n.props[name]
			if _, there := v[name]; !there {
				if d, ok := p.raw["default"]; ok {
					v[name] = CloneJSON(d)
				}
			}
			if member, there := v[name]; there {
				p.applyDefaults(member)
			}
		}
	case []any:
		if n.items == nil {
			return
		}
		for _, e := range v {
			n.items.applyDefaults(e)
		}
	}
}

// JSON is the schema as JSON, with the $defs that it may refer to.
func (s *Schema) JSON() json.RawMessage {
	if s == nil || s.node == nil || s.node.raw == nil {
		return json.RawMessage("{}")
	}
	return EncodeJSON(s.withDefs(s.node.raw))
}

func (s *Schema) withDefs(raw map[string]any) map[string]any {
	out := make(map[string]any, len(raw)+1)
	for k, v := range raw {
		out[k] = v
	}
	for _, key := range []string{"$defs", "definitions"} {
		if defs, ok := s.doc.raw[key]; ok {
			out[key] = defs
		}
	}
	return out
}

// At returns the schema of a path, or nil where nothing is declared.
func (s *Schema) At(p Path) *Schema {
	if s == nil || s.node == nil {
		return nil
	}
	n, _ := s.node.walk(p.segments())
	if n == nil {
		return nil
	}
	return s.doc.at(n)
}

// walk follows a path; declared tells whether the path may stand in data even
// where no node describes it.
func (n *node) walk(segments []segment) (at *node, declared bool) {
	for _, seg := range segments {
		switch {
		case n.kind == anyNode || n.kind == mapNode && n.extra == nil:
			return nil, true
		case n.kind == mapNode:
			n = n.extra
		case n.kind == listNode && seg.index != nil:
			if n.items == nil {
				return nil, true
			}
			n = n.items
		case n.kind == objectNode && seg.index == nil:
			next := n.props[seg.name]
			if next == nil {
				if n.extra == nil {
					return nil, n.open
				}
				next = n.extra
			}
			n = next
		case n.kind == objectNode:
			return nil, true // a field by a computed name
		default:
			return nil, false
		}
	}
	return n, true
}

// Subset makes the schema of an object that has only these paths, for `edit`. What
// is required in the parent is required here; other fields are refused.
func (s *Schema) Subset(paths []Path) *Schema {
	if s == nil || s.node == nil {
		return nil
	}
	order := map[string][]string{}
	var cut [][]segment
	for _, p := range paths {
		cut = append(cut, p.segments())
	}
	raw := s.withDefs(s.node.reduce(cut, "", order))
	for pointer, names := range s.doc.order {
		if strings.HasPrefix(pointer, "/$defs/") || strings.HasPrefix(pointer, "/definitions/") {
			order[pointer] = names
		}
	}
	return newSchema(raw, order)
}

// reduce gives the schema of an object with only the fields that the paths name.
func (n *node) reduce(paths [][]segment, pointer string, order map[string][]string) map[string]any {
	props := map[string]any{}
	at := pointer + "/properties"
	var names []string
	for _, name := range n.order {
		var below [][]segment
		whole := false
		for _, p := range paths {
			if len(p) > 0 && p[0].index == nil && p[0].name == name {
				below = append(below, p[1:])
				whole = whole || len(p) == 1 || p[1].index != nil
			}
		}
		child := n.props[name]
		switch {
		case len(below) == 0:
			continue
		case whole || child.kind != objectNode:
			props[name] = child.rawOrAny()
			child.keepOrder(at+"/"+escapePointer(name), order)
		default:
			props[name] = child.reduce(below, at+"/"+escapePointer(name), order)
		}
		names = append(names, name)
	}
	order[at] = names
	out := map[string]any{"type": "object", "properties": props, "additionalProperties": false}
	var required []any
	for _, name := range names {
		if n.required[name] {
			required = append(required, name)
		}
	}
	if len(required) > 0 {
		out["required"] = required
	}
	for _, key := range []string{"title", "description"} {
		if v, ok := n.raw[key]; ok {
			out[key] = v
		}
	}
	return out
}

func (n *node) rawOrAny() any {
	if n.raw == nil {
		return map[string]any{}
	}
	return n.raw
}

// keepOrder writes down the order of the properties below n for its new place.
func (n *node) keepOrder(pointer string, order map[string][]string) {
	if n.kind == objectNode && n.raw["properties"] != nil {
		order[pointer+"/properties"] = n.order
		for name, p := range n.props {
			if strings.HasPrefix(p.pointer, n.pointer+"/") {
				p.keepOrder(pointer+"/properties/"+escapePointer(name), order)
			}
		}
	}
	if n.items != nil && strings.HasPrefix(n.items.pointer, n.pointer+"/") {
		n.items.keepOrder(pointer+"/items", order)
	}
}

// Undeclared names the fields of v that no `properties` declares and no
// `additionalProperties` allows, for inputs in which unknown fields are refused.
func (s *Schema) Undeclared(v any) []fault.Field {
	if s == nil || s.node == nil {
		return nil
	}
	fields := s.node.undeclared(v, "", nil)
	sortFields(fields)
	return fields
}

func (n *node) undeclared(v any, pointer string, found []fault.Field) []fault.Field {
	switch v := v.(type) {
	case map[string]any:
		if n.kind != objectNode {
			return found
		}
		for k, e := range v {
			at := pointer + "/" + escapePointer(k)
			switch p := n.props[k]; {
			case p != nil:
				found = p.undeclared(e, at, found)
			case !n.open:
				found = append(found, fault.Field{Pointer: at, Detail: unknownField(k, n)})
			}
		}
	case []any:
		if n.items == nil {
			return found
		}
		for i, e := range v {
			found = n.items.undeclared(e, pointer+"/"+strconv.Itoa(i), found)
		}
	}
	return found
}

func unknownField(name string, n *node) string {
	text := fmt.Sprintf("There is no field %s here", shorten(name, 60))
	if n == nil {
		return text
	}
	if hint := suggest(name, n.order); hint != "" {
		text += "; " + hint
	}
	return text
}

// sortFields puts errors into a fixed order: by pointer, numbers as numbers.
func sortFields(fields []fault.Field) {
	slices.SortFunc(fields, func(a, b fault.Field) int {
		x, y := strings.Split(a.Pointer, "/"), strings.Split(b.Pointer, "/")
		return slices.CompareFunc(append(x, a.Detail), append(y, b.Detail), compareTokens)
	})
}

func compareTokens(a, b string) int {
	i, errA := strconv.Atoi(a)
	j, errB := strconv.Atoi(b)
	if errA == nil && errB == nil && i != j {
		return i - j
	}
	return strings.Compare(a, b)
}
