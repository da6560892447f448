package definitions

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// FormField describes one field of a form.
type FormField struct {
	Name        string
	Title       string // of the schema's title, else the name in words
	Description string
	Type        string // string, integer, number, boolean, array, object, or "" (any)
	Format      string
	Enum        []any
	Required    bool
	Default     any
	Minimum     json.Number // "" : none
	Maximum     json.Number
	MinLength   int
	MaxLength   int // 0: none
	Pattern     string
	Fields      []FormField // object
	Items       *FormField  // array
}

// maxFormDepth ends the description of a type that contains itself.
const maxFormDepth = 16

// Fields describes the properties of an object schema in written order, for forms.
func (s *Schema) Fields() []FormField {
	if s == nil || s.node == nil {
		return nil
	}
	return s.node.fields(0)
}

func (n *node) fields(depth int) []FormField {
	if depth == maxFormDepth {
		return nil
	}
	var out []FormField
	for _, name := range n.order {
		f := n.props[name].formField(name, depth+1)
		f.Required = n.required[name]
		out = append(out, f)
	}
	return out
}

var formTypes = map[nodeKind]string{
	stringNode: "string", integerNode: "integer", numberNode: "number", boolNode: "boolean",
	objectNode: "object", mapNode: "object", listNode: "array",
}

func (n *node) formField(name string, depth int) FormField {
	f := FormField{Name: name, Title: nameInWords(name), Type: formTypes[n.kind], Fields: n.fields(depth)}
	if title, ok := n.raw["title"].(string); ok {
		f.Title = title
	}
	f.Description, _ = n.raw["description"].(string)
	f.Format, _ = n.raw["format"].(string)
	f.Pattern, _ = n.raw["pattern"].(string)
	f.Enum = asList(n.raw["enum"])
	if c, ok := n.raw["const"]; ok && f.Enum == nil {
		f.Enum = []any{c}
	}
	f.Default = CloneJSON(n.raw["default"])
	f.Minimum, _ = n.raw["minimum"].(json.Number)
	f.Maximum, _ = n.raw["maximum"].(json.Number)
	f.MinLength = intOf(n.raw["minLength"])
	f.MaxLength = intOf(n.raw["maxLength"])
	if n.items != nil && depth < maxFormDepth {
		items := n.items.formField("", depth+1)
		f.Items = &items
	}
	return f
}

// intOf reads a count of a schema; 0 where there is none.
func intOf(v any) int {
	n, ok := v.(json.Number)
	if !ok {
		return 0
	}
	i, err := strconv.Atoi(canonicalNumber(string(n)))
	if err != nil {
		return 0
	}
	return i
}

// nameInWords turns first_name into "First name".
func nameInWords(name string) string {
	text := strings.Join(strings.FieldsFunc(name, func(r rune) bool { return r == '_' || r == '-' || r == ' ' }), " ")
	first, size := utf8.DecodeRuneInString(text)
	if size == 0 {
		return ""
	}
	return string(unicode.ToUpper(first)) + text[size:]
}
