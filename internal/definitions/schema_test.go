package definitions

import (
	"fmt"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	yaml "go.yaml.in/yaml/v4"

	"vobo/internal/fault"
)

func fieldsText(fields []fault.Field) string {
	var out []string
	for _, f := range fields {
		out = append(out, f.Pointer+": "+f.Detail)
	}
	return strings.Join(out, "\n")
}

func TestAValueIsHeldAgainstItsSchemaInPlainWords(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ schema, value, want string }{
		{`{"type":"object","required":["limit"],"properties":{"limit":{"type":"integer","minimum":1}}}`, `{}`, "/limit: limit is missing"},
		{`{"type":"object","required":["limit"],"properties":{"limit":{"type":"integer","minimum":1}}}`, `{"limit":"x"}`, "/limit: Type a whole number of at least 1"},
		{`{"type":"object","required":["limit"],"properties":{"limit":{"type":"integer","minimum":1}}}`, `{"limit":0}`, "/limit: Type a whole number of at least 1"},
		{`{"properties":{"limit":{"type":"integer","minimum":1,"maximum":9}}}`, `{"limit":1.5}`, "/limit: Type a whole number of at least 1 and of at most 9"},
		{`{"properties":{"limit":{"type":"integer"}}}`, `{"limit":1.0}`, ""},
		{`{"properties":{"limit":{"type":"integer"}}}`, `{"limit":1e2}`, ""},
		{`{"properties":{"n":{"type":"integer","maximum":9007199254740992}}}`, `{"n":9007199254740993}`, "/n: Type a whole number of at most 9007199254740992"}, // field report B48
		{`{"properties":{"n":{"type":"number","exclusiveMinimum":0}}}`, `{"n":0}`, "/n: Type a number greater than 0"},
		{`{"properties":{"e":{"type":"string","format":"email"}}}`, `{"e":"x"}`, "/e: Type an e-mail address, such as name@example.com"},
		{`{"properties":{"d":{"type":"string","format":"date"}}}`, `{"d":"2026-02-30"}`, "/d: Type a date, such as 2026-01-31"},
		{`{"properties":{"d":{"type":"string","format":"date-time"}}}`, `{"d":"2026-02-20"}`, "/d: Type a date and time with its zone, such as 2026-01-31T09:00:00Z"},
		{`{"properties":{"s":{"type":"string","minLength":3}}}`, `{"s":"a"}`, "/s: Type at least 3 characters; there is 1"},
		{`{"properties":{"s":{"type":"string","minLength":1}}}`, `{"s":""}`, "/s: This may not be empty"},
		{`{"properties":{"s":{"type":"string","maxLength":2}}}`, `{"s":"ñññ"}`, "/s: Type at most 2 characters; there are 3"},
		{`{"properties":{"s":{"type":"string","pattern":"^PO-[0-9]{2}$"}}}`, `{"s":"PO-1"}`, "/s: This does not have the form asked for: ^PO-[0-9]{2}$"},
		{`{"properties":{"s":{"enum":["low","high",1]}}}`, `{"s":"mid"}`, "/s: Choose one of: low, high, 1"},
		{`{"properties":{"s":{"const":"x"}}}`, `{"s":"y"}`, "/s: This must be x"},
		{`{"properties":{"b":{"type":"boolean"}}}`, `{"b":"yes"}`, "/b: Choose yes or no (true or false)"},
		{`{"properties":{"o":{"type":"object"},"l":{"type":"array"}}}`, `{"o":1,"l":{}}`, "/l: Give a list\n/o: Give an object"},
		{`{"properties":{"s":{"type":["string","null"]}}}`, `{"s":1}`, "/s: Type a text, or nothing"},
		{`{"properties":{"l":{"type":"array","minItems":1,"items":{"type":"integer"}}}}`, `{"l":[]}`, "/l: Give at least 1 entry; there are 0"},
		{`{"properties":{"l":{"type":"array","items":{"type":"integer"}}}}`, `{"l":[1,"a",2,3,4,5,6,7,8,9,"b"]}`, "/l/1: Type a whole number\n/l/10: Type a whole number"},
		{`{"properties":{"l":{"uniqueItems":true}}}`, `{"l":[1,2,1]}`, "/l: Entries 1 and 3 are the same"},
		{`{"properties":{"a":{"type":"string"}},"additionalProperties":false}`, `{"b":1}`, "/b: There is no field b here"},
		{`{"properties":{"amount":{"type":"string"}},"additionalProperties":false}`, `{"amuont":1}`, "/amuont: There is no field amuont here; did you mean amount?"},
		{`{"properties":{"a/b":{"type":"object","required":["x~y"],"properties":{"x~y":{"title":"The thing"}}}}}`, `{"a/b":{}}`, "/a~1b/x~0y: The thing is missing"},
		{`{"anyOf":[{"required":["a"]},{"required":["b"]}]}`, `{}`, ": This fits none of the allowed forms"},
		{`{"oneOf":[{"required":["a"]},{"required":["b"]}]}`, `{"a":1,"b":1}`, ": This fits more than one of the forms of which exactly one is wanted"},
		{`{"allOf":[{"required":["a"]},{"required":["b"]}]}`, `{}`, "/a: a is missing\n/b: b is missing"},
		{`{"if":{"required":["a"]},"then":{"required":["b"]}}`, `{"a":1}`, "/b: b is missing"},
		{`{"dependentRequired":{"a":["b"]}}`, `{"a":1}`, "/b: b is missing; it goes with a"},
		{`{"properties":{"n":{"multipleOf":0.01}}}`, `{"n":0.015}`, "/n: Type a multiple of 0.01"},
		{`{"$defs":{"p":{"type":"object","required":["n"],"properties":{"n":{"type":"string"},"next":{"$ref":"#/$defs/p"}}}},"properties":{"p":{"$ref":"#/$defs/p"}}}`, `{"p":{"n":"a","next":{"n":1}}}`, "/p/next/n: Type a text"},
		{`{}`, `{"anything":[1]}`, ""},
	} {
		if got := fieldsText(mustSchema(t, c.schema).Validate(mustTree(t, c.value))); got != c.want {
			t.Errorf("%s %s:\n got %s\nwant %s", c.schema, c.value, got, c.want)
		}
	}
}

func TestASchemaThatTheLanguageDoesNotTakeIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ schema, pointer, detail string }{
		{`{"properties":{"a":{"$ref":"http://evil.example/schema"}}}`, "/properties/a/$ref", "points into $defs"},
		{`{"properties":{"a":{"$ref":"file:///etc/passwd"}}}`, "/properties/a/$ref", "points into $defs"},
		{`{"properties":{"a":{"$ref":"#/properties/b"},"b":{}}}`, "/properties/a/$ref", "points into $defs"},
		{`{"properties":{"a":{"$ref":"#/$defs/b"}}}`, "/properties/a/$ref", "There is no"},
		{`{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`, "/$defs/a/$ref", "circle"},
		{`{"$id":"http://evil.example/"}`, "/$id", "cannot be used"},
		{`{"$dynamicRef":"#x"}`, "/$dynamicRef", "cannot be used"},
		{`{"$schema":"http://json-schema.org/draft-07/schema#"}`, "/$schema", "2020-12"},
		{`{"properties":{"a":{"format":"emial"}}}`, "/properties/a/format", `There is no format "emial"`},
		{`{"properties":{"a":{"pattern":"("}}}`, "/properties/a/pattern", "does not work"},
		{`{"properties":{"a":{"pattern":"(a{500}){500}"}}}`, "/properties/a/pattern", "pattern"},
		{`{"properties":{"a":{"pattern":"((a{20}){20}){30}"}}}`, "/properties/a/pattern", "pattern"},
		{`{"properties":{"a":{"pattern":"` + strings.Repeat("a", 501) + `"}}}`, "/properties/a/pattern", "too long"},
		{`{"patternProperties":{"(":{}}}`, "/patternProperties", "does not work"},
		{`{"requird":["a"]}`, "/requird", `JSON Schema has no keyword "requird"`},
		{`{"type":"int"}`, "/type", `There is no type "int"`},
		{`{"type":["string","string"]}`, "/type", "twice"},
		{`{"type":[]}`, "/type", "type is one of"},
		{`{"required":"a"}`, "/required", "a list of names"},
		{`{"required":["a","a"]}`, "/required", "twice"},
		{`{"minLength":-1}`, "/minLength", "at least 0"},
		{`{"minLength":"1"}`, "/minLength", "at least 0"},
		{`{"maximum":"5"}`, "/maximum", "is a number"},
		{`{"multipleOf":0}`, "/multipleOf", "greater than 0"},
		{`{"enum":[]}`, "/enum", "a list of values"},
		{`{"enum":"a"}`, "/enum", "a list of values"},
		{`{"uniqueItems":1}`, "/uniqueItems", "true or false"},
		{`{"title":1}`, "/title", "is a text"},
		{`{"properties":[]}`, "/properties", "schemas by name"},
		{`{"properties":{"a":1}}`, "/properties/a", "A schema is an object"},
		{`{"allOf":[]}`, "/allOf", "a list of schemas"},
		{`{"dependentRequired":{"a":"b"}}`, "/dependentRequired/a", "a list of names"},
		{`{"properties":{"n":{"type":"integer","default":"x"}}}`, "/properties/n/default", "does not fit"},
		{strings.Repeat(`{"items":`, 70) + `{}` + strings.Repeat(`}`, 70), strings.Repeat("/items", 65), "too large"},
	} {
		v, err := DecodeJSON([]byte(c.schema))
		if strings.Contains(c.schema, `"items":{"items":{"items":{"items":`) {
			v, err = nestedItems(70), nil // deeper than JSON may be
		}
		if err != nil {
			t.Fatal(err)
		}
		s, problems := compileSchema(v)
		if s != nil || len(problems) == 0 || problems[0].Pointer != c.pointer || !strings.Contains(problems[0].Detail, c.detail) {
			t.Errorf("%.80s: %+v, want %s %s", c.schema, problems, c.pointer, c.detail)
		}
	}
	for _, v := range []any{nil, true, "object", []any{}} {
		if _, problems := compileSchema(v); len(problems) == 0 {
			t.Errorf("%v was taken", v)
		}
	}
}

func nestedItems(n int) any {
	var v any = map[string]any{}
	for range n {
		v = map[string]any{"items": v}
	}
	return v
}

// What schemaCheck lets pass, the library must compile: the validator is made late.
func TestACheckedSchemaAlwaysCompiles(t *testing.T) {
	t.Parallel()
	values := []string{`1`, `-1`, `1.5`, `0`, `"x"`, `true`, `null`, `[]`, `["a"]`, `["a","a"]`, `[1]`, `{}`, `[{}]`, `{"a":{}}`, `{"a":["b"]}`, `{"a":1}`, `"string"`, `"^a"`, `"date"`, `1e30`, `"#/$defs/a"`}
	taken := 0
	for _, key := range sortedKeys(keywordMap()) {
		for _, value := range values {
			text := fmt.Sprintf(`{"$defs":{"a":{}},"properties":{"p":{%q:%s}}}`, key, value)
			s, problems := compileSchema(mustTree(t, text))
			if len(problems) > 0 {
				continue
			}
			taken++
			if _, err := s.validator(); err != nil {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
	if taken < 100 {
		t.Errorf("only %d schemas were taken", taken)
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	if err := c.AddResource("vobo://x", map[string]any{"$ref": "http://evil.example/"}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Compile("vobo://x"); err == nil || !strings.Contains(err.Error(), "outside the definition") {
		t.Errorf("a reference to outside: %v", err)
	}
}

func keywordMap() map[string]any {
	m := map[string]any{}
	for k := range schemaKeywords {
		m[k] = nil
	}
	return m
}

func TestDefaultsFillWhatIsAbsent(t *testing.T) {
	t.Parallel()
	s := mustSchema(t, `{"properties":{"a":{"default":[1]},"b":{"type":"object","properties":{"c":{"default":"x"},"d":{}}},"l":{"items":{"properties":{"e":{"default":false}}}},"n":{"default":1}}}`)
	root := mustTree(t, `{"b":{"d":1},"l":[{},{"e":true}],"n":null}`)
	s.ApplyDefaults(root)
	if got := string(EncodeJSON(root)); got != `{"a":[1],"b":{"c":"x","d":1},"l":[{"e":false},{"e":true}],"n":null}` {
		t.Error(got)
	}
	root["a"].([]any)[0] = "changed"
	other := map[string]any{}
	s.ApplyDefaults(other)
	if got := string(EncodeJSON(other)); got != `{"a":[1],"n":1}` {
		t.Errorf("a default is shared: %s", got)
	}
}

func nodeSchema(t *testing.T, text string) *Schema {
	t.Helper()
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	s, problems := compileSchemaNode(doc.Content[0])
	if len(problems) > 0 {
		t.Fatalf("%+v", problems)
	}
	return s
}

const writtenOrder = `
type: object
required: [zeta, person]
properties:
  zeta: {type: integer, minimum: 1, maximum: 10, default: 5, title: How much}
  alpha: {enum: [low, high]}
  person:
    type: object
    required: [name]
    properties: {name: {type: string, minLength: 1, maxLength: 200, pattern: "^x"}, born_on: {type: string, format: date}}
  list: {type: array, items: {type: object, properties: {b: {type: number}, a: {type: boolean}}}}
`

func TestAFormHasItsFieldsInWrittenOrder(t *testing.T) {
	t.Parallel()
	fields := nodeSchema(t, writtenOrder).Fields()
	var names []string
	for _, f := range fields {
		names = append(names, f.Name)
	}
	if fmt.Sprint(names) != "[zeta alpha person list]" {
		t.Fatal(names)
	}
	zeta, person, list := fields[0], fields[2], fields[3]
	if zeta.Title != "How much" || zeta.Type != "integer" || zeta.Minimum != "1" || zeta.Maximum != "10" || !zeta.Required || fmt.Sprint(zeta.Default) != "5" {
		t.Errorf("%+v", zeta)
	}
	if fields[1].Type != "string" || fmt.Sprint(fields[1].Enum) != "[low high]" || fields[1].Required {
		t.Errorf("%+v", fields[1])
	}
	if name := person.Fields[0]; name.Name != "name" || name.MinLength != 1 || name.MaxLength != 200 || name.Pattern != "^x" || !name.Required {
		t.Errorf("%+v", person)
	}
	if born := person.Fields[1]; born.Title != "Born on" || born.Format != "date" {
		t.Errorf("%+v", born)
	}
	if list.Items == nil || list.Items.Fields[0].Name != "b" || list.Items.Fields[1].Type != "boolean" {
		t.Errorf("%+v", list)
	}
}

func TestASubsetHasOnlyTheNamedPaths(t *testing.T) {
	t.Parallel()
	s := nodeSchema(t, writtenOrder)
	var paths []Path
	for _, text := range []string{"list", "person.name", "zeta"} {
		p, problems := compilePath(text, newScope(s))
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		paths = append(paths, p)
	}
	sub := s.Subset(paths)
	var names []string
	for _, f := range sub.Fields() {
		names = append(names, f.Name)
	}
	if fmt.Sprint(names) != "[zeta person list]" || len(sub.Fields()[1].Fields) != 1 || sub.Fields()[2].Items.Fields[0].Name != "b" {
		t.Errorf("%s", sub.JSON())
	}
	for value, want := range map[string]string{
		`{"zeta":1,"person":{"name":"xa"}}`:                    "",
		`{"person":{}}`:                                        "/person/name: name is missing\n/zeta: How much is missing",
		`{"zeta":1,"person":{"name":"xa"},"alpha":"low"}`:      "/alpha: There is no field alpha here",
		`{"zeta":1,"person":{"name":"xa","born_on":"x"}}`:      "/person/born_on: There is no field born_on here",
		`{"zeta":1,"person":{"name":"xa"},"list":[{"b":"x"}]}`: "/list/0/b: Type a number",
	} {
		if got := fieldsText(sub.Validate(mustTree(t, value))); got != want {
			t.Errorf("%s: %s, want %s", value, got, want)
		}
	}
	with := mustSchema(t, `{"$defs":{"p":{"type":"string"}},"properties":{"a":{"$ref":"#/$defs/p"},"b":{}}}`)
	p, _ := compilePath("a", newScope(with))
	if got := fieldsText(with.Subset([]Path{p}).Validate(mustTree(t, `{"a":1}`))); got != "/a: Type a text" {
		t.Error(got)
	}
}

func TestASchemaIsFoundByPath(t *testing.T) {
	t.Parallel()
	s := nodeSchema(t, writtenOrder)
	sc := newScope(s)
	for text, want := range map[string]string{"zeta": "integer", "person.name": "string", "list[0].b": "number", "list": "array"} {
		p, problems := compilePath(text, sc)
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		at := s.At(p)
		if at == nil || formTypes[at.node.kind] != want {
			t.Errorf("%s: %s", text, at.JSON())
			continue
		}
		if got := at.Validate(map[string]any{}); len(got) != 1 || got[0].Pointer != "" {
			t.Errorf("%s: %v", text, got)
		}
	}
	if nothing := s.At(Path{Text: "x", p: &compiledPath{[]segment{{name: "x"}}}}); nothing != nil {
		t.Error("x is declared nowhere")
	}
}

func TestUndeclaredFieldsAreNamed(t *testing.T) {
	t.Parallel()
	s := nodeSchema(t, writtenOrder)
	got := fieldsText(s.Undeclared(mustTree(t, `{"zeta":1,"zet":2,"person":{"x":1},"list":[{"a":true},{"c":1}]}`)))
	want := "/list/1/c: There is no field c here\n/person/x: There is no field x here\n/zet: There is no field zet here; did you mean zeta?"
	if got != want {
		t.Error(got)
	}
	if got := mustSchema(t, `{"type":"object"}`).Undeclared(mustTree(t, `{"a":1}`)); got != nil {
		t.Error(got)
	}
}

func TestANilSchemaAllowsEverything(t *testing.T) {
	t.Parallel()
	var s *Schema
	s.ApplyDefaults(map[string]any{})
	if s.Validate("x") != nil || s.At(Path{}) != nil || s.Fields() != nil || s.Subset(nil) != nil || s.Undeclared("x") != nil || string(s.JSON()) != "{}" {
		t.Error("a nil schema says something")
	}
}
