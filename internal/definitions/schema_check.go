package definitions

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	maxSchemaPlaces  = 5000  // schemas within one document
	maxSchemaDepth   = 64    // levels of them
	maxPatternLength = 500   // characters of one pattern
	maxPatternSize   = 10000 // instructions of one compiled pattern
)

// schemaCheck refuses what the language does not take in schemas.
type schemaCheck struct {
	root     map[string]any
	places   int
	problems []exprProblem
}

func (c *schemaCheck) report(pointer, hint, format string, args ...any) {
	c.problems = append(c.problems, exprProblem{Pointer: pointer, Code: "schema", Severity: Error, Hint: hint, Detail: fmt.Sprintf(format, args...)})
}

// What a keyword holds.
const (
	holdsValue = iota
	holdsSchema
	holdsSchemas    // a list
	holdsSchemaMap  // by name
	holdsNotAllowed // known, but not part of the language
)

var schemaKeywords = map[string]int{
	"type": holdsValue, "enum": holdsValue, "const": holdsValue, "title": holdsValue, "description": holdsValue,
	"default": holdsValue, "examples": holdsValue, "deprecated": holdsValue, "readOnly": holdsValue, "writeOnly": holdsValue,
	"multipleOf": holdsValue, "maximum": holdsValue, "exclusiveMaximum": holdsValue, "minimum": holdsValue, "exclusiveMinimum": holdsValue,
	"maxLength": holdsValue, "minLength": holdsValue, "pattern": holdsValue, "format": holdsValue,
	"maxItems": holdsValue, "minItems": holdsValue, "uniqueItems": holdsValue, "maxContains": holdsValue, "minContains": holdsValue,
	"maxProperties": holdsValue, "minProperties": holdsValue, "required": holdsValue, "dependentRequired": holdsValue,
	"contentEncoding": holdsValue, "contentMediaType": holdsValue, "$comment": holdsValue, "$schema": holdsValue, "$ref": holdsValue,
	"items": holdsSchema, "additionalProperties": holdsSchema, "contains": holdsSchema, "propertyNames": holdsSchema, "not": holdsSchema,
	"if": holdsSchema, "then": holdsSchema, "else": holdsSchema, "unevaluatedItems": holdsSchema, "unevaluatedProperties": holdsSchema, "contentSchema": holdsSchema,
	"allOf": holdsSchemas, "anyOf": holdsSchemas, "oneOf": holdsSchemas, "prefixItems": holdsSchemas,
	"properties": holdsSchemaMap, "patternProperties": holdsSchemaMap, "$defs": holdsSchemaMap, "definitions": holdsSchemaMap, "dependentSchemas": holdsSchemaMap,
	"$id": holdsNotAllowed, "$anchor": holdsNotAllowed, "$dynamicRef": holdsNotAllowed, "$dynamicAnchor": holdsNotAllowed, "$vocabulary": holdsNotAllowed,
}

var schemaFormats = []string{
	"date", "date-time", "time", "duration", "email", "uri", "uri-reference", "uri-template", "iri", "iri-reference",
	"uuid", "ipv4", "ipv6", "hostname", "json-pointer", "relative-json-pointer", "regex", "period", "semver",
}

func (c *schemaCheck) schema(v any, pointer string, depth int) {
	raw, ok := v.(map[string]any)
	if !ok {
		if _, ok := v.(bool); !ok {
			c.report(pointer, "", "A schema is an object, true or false.")
		}
		return
	}
	if c.places++; c.places > maxSchemaPlaces || depth > maxSchemaDepth {
		if c.places == maxSchemaPlaces+1 || depth == maxSchemaDepth+1 {
			c.report(pointer, "", "The schema is too large: at most %d places and %d levels.", maxSchemaPlaces, maxSchemaDepth)
		}
		return
	}
	for _, key := range sortedKeys(raw) {
		c.keyword(key, raw[key], pointer+"/"+escapePointer(key), depth)
	}
}

func (c *schemaCheck) keyword(key string, v any, pointer string, depth int) {
	holds, known := schemaKeywords[key]
	switch {
	case !known && strings.HasPrefix(key, "x-"):
	case !known:
		c.report(pointer, suggest(key, sortedKeywords()), "JSON Schema has no keyword %s.", clip(key))
	case holds == holdsNotAllowed:
		c.report(pointer, "use $defs and $ref", "The keyword %s cannot be used in a definition.", key)
	case holds == holdsSchema:
		c.schema(v, pointer, depth+1)
	case holds == holdsSchemas:
		subs := asList(v)
		if len(subs) == 0 {
			c.report(pointer, "", "%s holds a list of schemas.", key)
		}
		for i, sub := range subs {
			c.schema(sub, fmt.Sprintf("%s/%d", pointer, i), depth+1)
		}
	case holds == holdsSchemaMap:
		m, ok := v.(map[string]any)
		if !ok {
			c.report(pointer, "", "%s holds schemas by name.", key)
		}
		for _, name := range sortedKeys(m) {
			if key == "patternProperties" {
				c.pattern(name, pointer)
			}
			c.schema(m[name], pointer+"/"+escapePointer(name), depth+1)
		}
	default:
		c.value(key, v, pointer)
	}
}

func sortedKeywords() []string {
	var names []string
	for name, holds := range schemaKeywords {
		if holds != holdsNotAllowed {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// What the value of a keyword must be.
var (
	textKeywords   = []string{"title", "description", "$comment", "contentEncoding", "contentMediaType", "$ref", "$schema", "pattern", "format"}
	switchKeywords = []string{"deprecated", "readOnly", "writeOnly", "uniqueItems"}
	numberKeywords = []string{"multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum"}
	countKeywords  = []string{"maxLength", "minLength", "maxItems", "minItems", "maxContains", "minContains", "maxProperties", "minProperties"}
	typeNames      = []string{"string", "integer", "number", "boolean", "object", "array", "null"}
)

func (c *schemaCheck) value(key string, v any, pointer string) {
	text, isText := v.(string)
	number, isNumber := v.(json.Number)
	_, isSwitch := v.(bool)
	list, isList := v.([]any)
	switch {
	case slices.Contains(textKeywords, key):
		if !isText {
			c.report(pointer, "put it in quotes", "%s is a text.", key)
			return
		}
		c.text(key, text, pointer)
	case slices.Contains(switchKeywords, key) && !isSwitch:
		c.report(pointer, "", "%s is true or false.", key)
	case slices.Contains(numberKeywords, key):
		if !isNumber {
			c.report(pointer, "", "%s is a number.", key)
		} else if plain := canonicalNumber(string(number)); key == "multipleOf" && (plain == "0" || plain[0] == '-') {
			c.report(pointer, "", "multipleOf is greater than 0.")
		}
	case slices.Contains(countKeywords, key):
		if n, err := strconv.Atoi(canonicalNumber(string(number))); !isNumber || err != nil || n < 0 || n > math.MaxInt32 {
			c.report(pointer, "", "%s is a whole number of at least 0.", key)
		}
	case key == "type":
		c.types(v, pointer)
	case key == "required":
		c.names(key, v, pointer)
	case key == "dependentRequired":
		m, ok := v.(map[string]any)
		if !ok {
			c.report(pointer, "", "dependentRequired holds lists of names by name.")
		}
		for _, name := range sortedKeys(m) {
			c.names(key, m[name], pointer+"/"+escapePointer(name))
		}
	case key == "enum" && len(list) == 0, key == "examples" && !isList:
		c.report(pointer, "[value, …]", "%s is a list of values.", key)
	}
}

func (c *schemaCheck) text(key, text, pointer string) {
	switch key {
	case "$schema":
		if strings.TrimSuffix(text, "#") != jsonschema.Draft2020.String() {
			c.report(pointer, "leave $schema out", "Schemas are JSON Schema 2020-12.")
		}
	case "$ref":
		c.reference(text, pointer)
	case "format":
		if !slices.Contains(schemaFormats, text) {
			c.report(pointer, suggest(text, schemaFormats), "There is no format %s.", clip(text))
		}
	case "pattern":
		c.pattern(text, pointer)
	}
}

func (c *schemaCheck) reference(text, pointer string) {
	if !strings.HasPrefix(text, "#/$defs/") && !strings.HasPrefix(text, "#/definitions/") {
		c.report(pointer, "write #/$defs/NAME", "A $ref points into $defs of the same schema.")
		return
	}
	_, name, _ := strings.Cut(text[2:], "/")
	defs, _ := c.root[text[2:strings.Index(text[2:], "/")+2]].(map[string]any)
	if _, there := defs[name]; !there || strings.ContainsAny(name, "/~%") {
		c.report(pointer, suggest(name, sortedKeys(defs)), "There is no %s.", clip(text))
		return
	}
	// A definition that is nothing but another reference can lead in a circle.
	seen := map[string]bool{}
	for next := text; next != ""; {
		if seen[next] {
			c.report(pointer, "", "The $ref %s leads in a circle.", clip(text))
			return
		}
		seen[next] = true
		next = refOf(c.root, next)
	}
}

// refOf gives the $ref that stands directly in what a $ref points to.
func refOf(root map[string]any, target string) string {
	group, name, _ := strings.Cut(strings.TrimPrefix(target, "#/"), "/")
	defs, _ := root[group].(map[string]any)
	def, _ := defs[name].(map[string]any)
	next, _ := def["$ref"].(string)
	return next
}

func (c *schemaCheck) types(v any, pointer string) {
	list := asList(v)
	if name, ok := v.(string); ok {
		list = []any{name}
	}
	if len(list) == 0 {
		c.report(pointer, "", "type is one of %s, or a list of them.", strings.Join(typeNames, ", "))
	}
	for i, e := range list {
		name, ok := e.(string)
		switch {
		case !ok || !slices.Contains(typeNames, name):
			c.report(pointer, suggest(name, typeNames), "There is no type %s: it is one of %s.", clip(valueWords(e)), strings.Join(typeNames, ", "))
		case slices.Contains(list[:i], e):
			c.report(pointer, "", "type names %s twice.", name)
		}
	}
}

func (c *schemaCheck) names(key string, v any, pointer string) {
	l, ok := v.([]any)
	seen := map[string]bool{}
	for _, e := range l {
		name, isText := e.(string)
		ok = ok && isText
		if isText && seen[name] {
			c.report(pointer, "", "%s names %s twice.", key, clip(name))
		}
		seen[name] = true
	}
	if !ok {
		c.report(pointer, "[name, …]", "%s is a list of names.", key)
	}
}

// pattern refuses what RE2 cannot run, and what takes absurd room.
func (c *schemaCheck) pattern(text, pointer string) {
	if len(text) > maxPatternLength {
		c.report(pointer, "", "The pattern is too long: at most %d characters.", maxPatternLength)
		return
	}
	re, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		c.report(pointer, "", "The pattern does not work: %s.", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
		return
	}
	program, err := syntax.Compile(re.Simplify())
	if err != nil || len(program.Inst) > maxPatternSize {
		c.report(pointer, "use smaller counts", "The pattern is too large.")
	}
}
