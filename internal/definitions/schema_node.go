package definitions

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cel.dev/cel-go/common/types"
)

// nodeKind is what an expression takes a value of a schema for.
type nodeKind int

const (
	anyNode nodeKind = iota
	stringNode
	integerNode
	numberNode
	boolNode
	objectNode // fields are known
	mapNode    // an object without properties
	listNode
)

// node is one place of a schema, as expressions, forms and defaults see it.
type node struct {
	raw      map[string]any
	pointer  string // in the schema's document
	kind     nodeKind
	nullable bool
	cel      *types.Type
	props    map[string]*node
	order    []string // names of props, as written where that is known
	required map[string]bool
	open     bool  // fields that are not in props may stand
	extra    *node // what those are; nil: untyped
	items    *node
}

// nodeBuilder makes the nodes of one schema document.
type nodeBuilder struct {
	root    map[string]any
	order   map[string][]string // written order of `properties`, by pointer of that object
	refs    map[string]*node
	structs map[string]*node // by name of the expression type
	family  string           // parts the type names of documents that use $ref
}

func newNodeBuilder(root map[string]any, order map[string][]string) *nodeBuilder {
	b := &nodeBuilder{root: root, order: order, refs: map[string]*node{}, structs: map[string]*node{}}
	for _, key := range []string{"$defs", "definitions"} {
		if defs, ok := root[key]; ok {
			b.family += shortHash(CanonicalJSON(defs))
		}
	}
	return b
}

func shortHash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}

func escapePointer(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "~", "~0"), "/", "~1")
}

func unescapePointer(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "~1", "/"), "~0", "~")
}

func (b *nodeBuilder) build(schema any, pointer string) *node {
	raw, ok := schema.(map[string]any)
	if !ok {
		return &node{pointer: pointer, cel: types.DynType}
	}
	if target, ok := raw["$ref"].(string); ok && raw["type"] == nil && raw["properties"] == nil {
		return b.reference(target)
	}
	return b.fill(&node{cel: types.DynType}, raw, pointer, "")
}

// reference builds what #/$defs/NAME points to, once; it may point to itself.
func (b *nodeBuilder) reference(target string) *node {
	if n, ok := b.refs[target]; ok {
		return n
	}
	n := &node{cel: types.DynType}
	b.refs[target] = n
	var at any = b.root
	pointer := strings.TrimPrefix(target, "#")
	for _, token := range strings.Split(pointer, "/")[1:] {
		m, ok := at.(map[string]any)
		if !ok {
			return n
		}
		at = m[unescapePointer(token)]
	}
	raw, ok := at.(map[string]any)
	if !ok {
		return n
	}
	if next, ok := raw["$ref"].(string); ok && raw["type"] == nil && raw["properties"] == nil {
		*n = *b.reference(next)
		return n
	}
	return b.fill(n, raw, pointer, "object "+b.family+target)
}

// fill makes n of raw; name is the type's name if it must be known beforehand.
func (b *nodeBuilder) fill(n *node, raw map[string]any, pointer, name string) *node {
	n.raw, n.pointer = raw, pointer
	n.kind, n.nullable = kindOf(raw)
	switch n.kind {
	case objectNode:
		b.fillObject(n, raw, pointer, name)
	case listNode:
		n.cel = types.NewListType(types.DynType)
		if items, ok := raw["items"].(map[string]any); ok && raw["prefixItems"] == nil {
			n.items = b.build(items, pointer+"/items")
			n.cel = types.NewListType(n.items.cel)
		}
	case stringNode:
		n.cel = types.StringType
	case integerNode:
		n.cel = types.IntType
	case numberNode:
		n.cel = types.DoubleType
	case boolNode:
		n.cel = types.BoolType
	}
	if n.nullable {
		n.cel = nullableType(n)
	}
	return n
}

func nullableType(n *node) *types.Type {
	switch n.kind {
	case stringNode, integerNode, numberNode, boolNode:
		return types.NewNullableType(n.cel)
	case objectNode:
		return n.cel
	}
	return types.DynType
}

func (b *nodeBuilder) fillObject(n *node, raw map[string]any, pointer, name string) {
	n.props, n.required = map[string]*node{}, map[string]bool{}
	if name != "" {
		n.cel = types.NewObjectType(name)
		b.structs[name] = n
	}
	b.addProperties(n, raw, pointer, 0)
	switch extra := raw["additionalProperties"].(type) {
	case map[string]any:
		n.open, n.extra = true, b.build(extra, pointer+"/additionalProperties")
	case bool:
		n.open = extra
	}
	if raw["patternProperties"] != nil || raw["unevaluatedProperties"] != nil {
		n.open, n.extra = true, nil
	}
	if len(n.props) == 0 && raw["additionalProperties"] != false {
		n.kind, n.open = mapNode, true
		value := types.DynType
		if n.extra != nil {
			value = n.extra.cel
		}
		n.cel = types.NewMapType(types.StringType, value)
		return
	}
	if name == "" {
		name = "object " + shortHash([]byte(n.signature()))
		n.cel = types.NewObjectType(name)
		b.structs[name] = n
	}
}

// maxApplicators bounds how deep allOf within allOf is looked into for fields.
const maxApplicators = 8

// addProperties takes in the properties of raw and of what applies in the same place.
func (b *nodeBuilder) addProperties(n *node, raw map[string]any, pointer string, depth int) {
	if props, ok := raw["properties"].(map[string]any); ok {
		at := pointer + "/properties"
		for _, k := range orderedKeys(props, b.order[at]) {
			if n.props[k] == nil {
				n.props[k] = b.build(props[k], at+"/"+escapePointer(k))
				n.order = append(n.order, k)
			}
		}
	}
	for _, r := range asList(raw["required"]) {
		if s, ok := r.(string); ok && depth == 0 {
			n.required[s] = true
		}
	}
	if depth == maxApplicators {
		return
	}
	for _, key := range []string{"allOf", "anyOf", "oneOf"} {
		for i, sub := range asList(raw[key]) {
			if m, ok := sub.(map[string]any); ok {
				b.addProperties(n, m, fmt.Sprintf("%s/%s/%d", pointer, key, i), depth+1)
			}
		}
	}
	for _, key := range []string{"if", "then", "else"} {
		if m, ok := raw[key].(map[string]any); ok {
			b.addProperties(n, m, pointer+"/"+key, depth+1)
		}
	}
	if target, ok := raw["$ref"].(string); ok {
		for name, p := range b.reference(target).props {
			if n.props[name] == nil {
				n.props[name] = p
				n.order = append(n.order, name)
			}
		}
	}
}

// signature says what expressions can tell two object types apart by.
func (n *node) signature() string {
	var s strings.Builder
	for _, k := range slices.Sorted(maps.Keys(n.props)) {
		fmt.Fprintf(&s, "%q:%s;", k, n.props[k].cel)
	}
	if n.open {
		s.WriteString("*")
		if n.extra != nil {
			s.WriteString(n.extra.cel.String())
		}
	}
	return s.String()
}

func asList(v any) []any { l, _ := v.([]any); return l }

func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }

// orderedKeys gives the keys of m in the written order, sorted where it is not known.
func orderedKeys(m map[string]any, written []string) []string {
	if len(written) == len(m) {
		return written
	}
	return sortedKeys(m)
}

// kindOf reads `type`, else the values of `enum` or `const`, else the keywords used.
func kindOf(raw map[string]any) (kind nodeKind, nullable bool) {
	var names []string
	switch t := raw["type"].(type) {
	case string:
		names = []string{t}
	case []any:
		for _, e := range t {
			if s, ok := e.(string); ok {
				names = append(names, s)
			}
		}
	default:
		return kindWithoutType(raw)
	}
	if i := slices.Index(names, "null"); i >= 0 && len(names) > 1 {
		names, nullable = slices.Delete(names, i, i+1), true
	}
	if len(names) != 1 {
		return anyNode, false
	}
	return kindNames[names[0]], nullable
}

var kindNames = map[string]nodeKind{
	"string": stringNode, "integer": integerNode, "number": numberNode,
	"boolean": boolNode, "object": objectNode, "array": listNode,
}

func kindWithoutType(raw map[string]any) (nodeKind, bool) {
	values := asList(raw["enum"])
	if c, ok := raw["const"]; ok {
		values = []any{c}
	}
	if len(values) > 0 {
		return kindOfValues(values)
	}
	switch {
	case raw["properties"] != nil:
		return objectNode, false
	case raw["items"] != nil:
		return listNode, false
	}
	return anyNode, false
}

func kindOfValues(values []any) (kind nodeKind, nullable bool) {
	kind = -1
	for _, v := range values {
		k := anyNode
		switch v := v.(type) {
		case nil:
			nullable = true
			continue
		case string:
			k = stringNode
		case bool:
			k = boolNode
		case json.Number:
			k = integerNode
			if strings.ContainsAny(canonicalNumber(string(v)), ".") {
				k = numberNode
			}
		}
		switch {
		case kind == -1 || kind == k:
			kind = k
		case kind == integerNode && k == numberNode || kind == numberNode && k == integerNode:
			kind = numberNode
		default:
			return anyNode, false
		}
	}
	if kind == -1 {
		return anyNode, false
	}
	return kind, nullable
}
