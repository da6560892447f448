package definitions

import (
	"fmt"
	"net/url"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	yaml "go.yaml.in/yaml/v4"
)

// schemaURL names a document to the library; nothing is read from there.
const schemaURL = "vobo://definition/schema"

// compileSchemaNode is compileSchema of a YAML mapping; the written order of
// properties is kept for forms.
func compileSchemaNode(n *yaml.Node) (*Schema, []exprProblem) {
	order := map[string][]string{}
	collectOrder(n, "", order)
	return compileOrdered(tree(n), order)
}

func collectOrder(n *yaml.Node, pointer string, order map[string][]string) {
	switch n.Kind {
	case yaml.MappingNode:
		if strings.HasSuffix(pointer, "/properties") {
			var names []string
			for i := 0; i+1 < len(n.Content); i += 2 {
				names = append(names, n.Content[i].Value)
			}
			order[pointer] = names
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			collectOrder(n.Content[i+1], pointer+"/"+escapePointer(n.Content[i].Value), order)
		}
	case yaml.SequenceNode:
		for i, c := range n.Content {
			collectOrder(c, fmt.Sprintf("%s/%d", pointer, i), order)
		}
	}
}

// compileSchema checks and compiles a decoded JSON Schema. Properties stand in
// the order of their names.
func compileSchema(v any) (*Schema, []exprProblem) { return compileOrdered(v, nil) }

func compileOrdered(v any, order map[string][]string) (*Schema, []exprProblem) {
	raw, ok := v.(map[string]any)
	if !ok {
		return nil, []exprProblem{{Code: "schema", Severity: Error, Detail: "A schema is an object.", Hint: "{type: object, properties: {…}}"}}
	}
	c := schemaCheck{root: raw}
	c.schema(raw, "", 0)
	if len(c.problems) > 0 {
		return nil, c.problems
	}
	s := newSchema(raw, order)
	if problems := s.checkDefaults(); len(problems) > 0 {
		return nil, problems
	}
	return s, nil
}

// newSchema makes the schema of a document that is known to be right.
func newSchema(raw map[string]any, order map[string][]string) *Schema {
	b := newNodeBuilder(raw, order)
	n := b.build(raw, "")
	return (&schemaDocument{raw: raw, order: order, structs: b.structs}).at(n)
}

// schemaDocument is what the schemas of one document share.
type schemaDocument struct {
	raw     map[string]any
	order   map[string][]string
	structs map[string]*node // the object types, by type name

	mu       sync.Mutex
	compiler *jsonschema.Compiler
}

// at makes the schema of one place; its validator is compiled when first used.
func (d *schemaDocument) at(n *node) *Schema {
	s := &Schema{doc: d, node: n}
	if n.raw != nil {
		s.validator = sync.OnceValues(func() (*jsonschema.Schema, error) { return d.compile(n.pointer) })
	}
	return s
}

// noLoader refuses whatever a schema would have to read from outside.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("the schema refers to %s, outside the definition", url)
}

func (d *schemaDocument) compile(pointer string) (*jsonschema.Schema, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.compiler == nil {
		c := jsonschema.NewCompiler()
		c.DefaultDraft(jsonschema.Draft2020)
		c.UseLoader(noLoader{})
		c.AssertFormat()
		if err := c.AddResource(schemaURL, d.raw); err != nil {
			return nil, err
		}
		d.compiler = c
	}
	place := schemaURL
	if pointer != "" {
		place += "#" + (&url.URL{Fragment: pointer}).EscapedFragment()
	}
	return d.compiler.Compile(place)
}

func pointerOf(tokens []string) string {
	var s strings.Builder
	for _, t := range tokens {
		s.WriteString("/" + escapePointer(t))
	}
	return s.String()
}

// checkDefaults holds every default against its own schema.
func (s *Schema) checkDefaults() []exprProblem {
	var problems []exprProblem
	seen := map[*node]bool{}
	var visit func(n *node)
	visit = func(n *node) {
		if n == nil || seen[n] {
			return
		}
		seen[n] = true
		if d, ok := n.raw["default"]; ok {
			if bad := s.doc.at(n).Validate(d); len(bad) > 0 {
				problems = append(problems, exprProblem{
					Pointer: n.pointer + "/default", Code: "schema", Severity: Error,
					Detail: "The default does not fit its schema: " + bad[0].Detail + ".",
				})
			}
		}
		for _, name := range n.order {
			visit(n.props[name])
		}
		visit(n.items)
		visit(n.extra)
	}
	visit(s.node)
	return problems
}
