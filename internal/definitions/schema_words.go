package definitions

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"vobo/internal/fault"
)

const (
	maxFieldErrors  = 100
	maxListedValues = 20
)

// fieldErrors gives one error per field and reason, in a fixed order.
func (s *Schema) fieldErrors(err error) []fault.Field {
	var validation *jsonschema.ValidationError
	if !errors.As(err, &validation) {
		return []fault.Field{{Detail: "This value cannot be checked."}}
	}
	seen := map[fault.Field]bool{}
	var fields []fault.Field
	add := func(f fault.Field) {
		if !seen[f] {
			seen[f] = true
			fields = append(fields, f)
		}
	}
	s.collect(validation, add)
	sortFields(fields)
	if len(fields) > maxFieldErrors {
		fields = fields[:maxFieldErrors]
	}
	return fields
}

func (s *Schema) collect(e *jsonschema.ValidationError, add func(fault.Field)) {
	at := pointerOf(e.InstanceLocation)
	place := s.placeOf(e.SchemaURL)
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		for _, name := range k.Missing {
			add(fault.Field{Pointer: at + "/" + escapePointer(name), Detail: titleOf(place, name) + " is missing"})
		}
		return
	case *kind.DependentRequired:
		for _, name := range k.Missing {
			add(fault.Field{Pointer: at + "/" + escapePointer(name), Detail: fmt.Sprintf("%s is missing; it goes with %s", titleOf(place, name), k.Prop)})
		}
		return
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			add(fault.Field{Pointer: at + "/" + escapePointer(name), Detail: unknownField(name, s.nodeAt(e.InstanceLocation))})
		}
		return
	case *kind.AnyOf, *kind.OneOf, *kind.Not:
	default:
		if len(e.Causes) > 0 {
			for _, c := range e.Causes {
				s.collect(c, add)
			}
			return
		}
	}
	add(fault.Field{Pointer: at, Detail: errorWords(e.ErrorKind, place)})
}

// placeOf finds the schema that an error comes from.
func (s *Schema) placeOf(location string) map[string]any {
	_, fragment, _ := strings.Cut(location, "#")
	pointer, err := url.PathUnescape(fragment)
	if err != nil {
		return nil
	}
	var at any = s.doc.raw
	for _, token := range strings.Split(pointer, "/")[1:] {
		switch v := at.(type) {
		case map[string]any:
			at = v[unescapePointer(token)]
		case []any:
			i := intOf(json.Number(token))
			if i >= len(v) {
				return nil
			}
			at = v[i]
		default:
			return nil
		}
	}
	raw, _ := at.(map[string]any)
	return raw
}

// nodeAt follows a place of the instance; nil where the schema says nothing.
func (s *Schema) nodeAt(tokens []string) *node {
	n := s.node
	for _, t := range tokens {
		switch {
		case n == nil:
			return nil
		case n.items != nil:
			n = n.items
		case n.props[t] != nil:
			n = n.props[t]
		default:
			n = n.extra
		}
	}
	return n
}

// titleOf is the title of a property, else its name.
func titleOf(place map[string]any, name string) string {
	props, _ := place["properties"].(map[string]any)
	p, _ := props[name].(map[string]any)
	if title, ok := p["title"].(string); ok && title != "" {
		return title
	}
	return name
}

// errorWords says what to do about an error of a value.
func errorWords(k jsonschema.ErrorKind, place map[string]any) string {
	switch k := k.(type) {
	case *kind.Type, *kind.Minimum, *kind.Maximum, *kind.ExclusiveMinimum, *kind.ExclusiveMaximum:
		return wanted(place)
	case *kind.MultipleOf:
		return "Type a multiple of " + ratWords(k.Want)
	case *kind.Enum:
		return "Choose one of: " + valueList(k.Want)
	case *kind.Const:
		return "This must be " + shorten(valueWords(k.Want), 60)
	case *kind.Format:
		return formatWords(k.Want)
	case *kind.Pattern:
		return "This does not have the form asked for: " + k.Want
	case *kind.MinLength:
		if k.Got == 0 {
			return "This may not be empty"
		}
		return fmt.Sprintf("Type at least %s; there %s", count(k.Want, "character"), isAre(k.Got))
	case *kind.MaxLength:
		return fmt.Sprintf("Type at most %s; there %s", count(k.Want, "character"), isAre(k.Got))
	case *kind.MinItems:
		return fmt.Sprintf("Give at least %s; there %s", count(k.Want, "entry"), isAre(k.Got))
	case *kind.MaxItems:
		return fmt.Sprintf("Give at most %s; there %s", count(k.Want, "entry"), isAre(k.Got))
	case *kind.MinProperties:
		return fmt.Sprintf("Give at least %s; there %s", count(k.Want, "field"), isAre(k.Got))
	case *kind.MaxProperties:
		return fmt.Sprintf("Give at most %s; there %s", count(k.Want, "field"), isAre(k.Got))
	case *kind.UniqueItems:
		return fmt.Sprintf("Entries %d and %d are the same", k.Duplicates[0]+1, k.Duplicates[1]+1)
	case *kind.PropertyNames:
		return fmt.Sprintf("The name %s is not allowed", shorten(k.Property, 60))
	case *kind.OneOf:
		if k.Subschemas != nil {
			return "This fits more than one of the forms of which exactly one is wanted"
		}
		return "This fits none of the allowed forms"
	case *kind.AnyOf:
		return "This fits none of the allowed forms"
	case *kind.FalseSchema:
		return "This may not be given"
	}
	return "This value is not allowed here"
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if noun == "entry" {
		return fmt.Sprintf("%d entries", n)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func isAre(n int) string {
	if n == 1 {
		return "is 1"
	}
	return fmt.Sprintf("are %d", n)
}

// wanted says which value a schema wants, with its bounds.
func wanted(place map[string]any) string {
	k, nullable := kindOf(place)
	text := "Type " + kindWords[k] + boundWords(place, k)
	switch k {
	case anyNode:
		return "This has the wrong type"
	case boolNode:
		text = "Choose yes or no (true or false)"
	case objectNode, mapNode, listNode:
		text = "Give " + kindWords[k]
	}
	if nullable {
		text += ", or nothing"
	}
	return text
}

var kindWords = map[nodeKind]string{
	stringNode: "a text", integerNode: "a whole number", numberNode: "a number",
	objectNode: "an object", mapNode: "an object", listNode: "a list",
}

func boundWords(place map[string]any, k nodeKind) string {
	if k != integerNode && k != numberNode {
		return ""
	}
	var parts []string
	for _, b := range []struct{ key, words string }{
		{"minimum", "of at least "}, {"exclusiveMinimum", "greater than "}, {"maximum", "of at most "}, {"exclusiveMaximum", "less than "},
	} {
		if n, ok := place[b.key].(json.Number); ok {
			parts = append(parts, b.words+plainNumber(string(n)))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return " " + strings.Join(parts, " and ")
}

func formatWords(format string) string {
	switch format {
	case "email":
		return "Type an e-mail address, such as name@example.com"
	case "date":
		return "Type a date, such as 2026-01-31"
	case "date-time":
		return "Type a date and time with its zone, such as 2026-01-31T09:00:00Z"
	case "time":
		return "Type a time with its zone, such as 09:00:00Z"
	case "duration":
		return "Type a duration, such as P1D or PT2H"
	case "uri", "iri":
		return "Type a full address, such as https://example.com/page"
	case "uuid":
		return "Type a UUID, such as 123e4567-e89b-12d3-a456-426614174000"
	}
	return "This is not of the format " + format
}

func ratWords(r *big.Rat) string {
	if r.IsInt() {
		return r.Num().String()
	}
	f, _ := r.Float64()
	return plainFloat(f)
}

func valueWords(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	return string(EncodeJSON(v))
}

func valueList(values []any) string {
	var list []string
	for i, v := range values {
		if i == maxListedValues {
			list = append(list, "…")
			break
		}
		list = append(list, shorten(valueWords(v), 60))
	}
	return strings.Join(list, ", ")
}
