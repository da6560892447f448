package definitions

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/checker"
	"cel.dev/cel-go/common"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/decls"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// exprProblem is a finding in an expression, template, path or schema. Offset is
// the byte offset in the text; Pointer is the place inside a schema or tree.
type exprProblem struct {
	Offset             int
	Pointer            string
	Code, Detail, Hint string
	Severity           Severity
}

// exprType is the type an expression must give.
type exprType int

// The types that a place may want.
const (
	wantAny exprType = iota
	wantBool
	wantString
	wantList
	wantTime // a time, or a text that holds one
	wantNumber
	wantIndex // a whole number or a text
)

// exprRefs are the names that a text reads.
type exprRefs struct {
	Env                                                  []string // env.NAME
	Input, Now, Last, Visits, Votes, Callback, Requester bool
	Data                                                 []string // top-level fields of data
}

// scope says which names an expression may use, and the schemas behind them. A
// scope is immutable; with… give wider copies, each with a checker of its own that
// is made when first needed.
type scope struct {
	data      *Schema
	names     map[string]bool
	input     *Schema
	hasInput  bool
	locals    map[string]*Schema
	calendars []string
	events    []string // known to votes; nil: any
	checker   func() (*scopeChecker, error)
}

// rootNames are the names that with may allow, with their types.
var rootNames = map[string]*types.Type{
	"actor": actorType.cel, "instance": instanceType.cel, "last": lastType.cel, "votes": votesType.cel,
	"open_votes": types.IntType, "visits": types.IntType, "result": types.DynType, "response": responseType.cel,
	"undone": undoneType.cel, "callback": callbackType.cel, "env": varsType.cel, "now": types.TimestampType,
}

// newScope makes a scope in which only data may be read; nil: untyped data.
func newScope(data *Schema) *scope { return (&scope{data: data}).ready() }

func (s *scope) copy() *scope {
	c := *s
	c.names, c.locals = maps.Clone(s.names), maps.Clone(s.locals)
	if c.names == nil {
		c.names = map[string]bool{}
	}
	if c.locals == nil {
		c.locals = map[string]*Schema{}
	}
	return &c
}

func (s *scope) ready() *scope {
	s.checker = sync.OnceValues(s.newChecker)
	return s
}

// with allows further names of rootNames.
func (s *scope) with(names ...string) *scope {
	c := s.copy()
	for _, n := range names {
		c.names[n] = true
	}
	return c.ready()
}

// withInput allows input; nil: untyped.
func (s *scope) withInput(in *Schema) *scope {
	c := s.copy()
	c.input, c.hasInput = in, true
	return c.ready()
}

// withLocal allows one more name; nil: untyped.
func (s *scope) withLocal(name string, t *Schema) *scope {
	c := s.copy()
	c.locals[name] = t
	return c.ready()
}

// withCalendars says which calendars there are.
func (s *scope) withCalendars(names []string) *scope {
	c := s.copy()
	c.calendars = names
	return c.ready()
}

// withEvents says which events votes.EVENT may name.
func (s *scope) withEvents(names []string) *scope {
	c := s.copy()
	c.events = append([]string{}, names...)
	return c.ready()
}

// scopeChecker parses and checks the expressions of one scope.
type scopeChecker struct {
	base     *cel.Env
	env      *checker.Env
	provider *provider
}

// baseChecker holds the declarations that all scopes share.
var baseChecker = sync.OnceValues(func() (*checker.Env, error) {
	base, err := baseEnv()
	if err != nil {
		return nil, err
	}
	env, err := checker.NewEnv(base.Container, &provider{}, checker.CrossTypeNumericComparisons(true))
	if err != nil {
		return nil, err
	}
	for _, f := range base.Functions() {
		if err := env.AddFunctions(f); err != nil {
			return nil, err
		}
	}
	return env, env.AddIdents(base.Variables()...)
})

func (s *scope) newChecker() (*scopeChecker, error) {
	base, err := baseEnv()
	if err != nil {
		return nil, err
	}
	shared, err := baseChecker()
	if err != nil {
		return nil, err
	}
	c := &scopeChecker{base: base, provider: &provider{open: s.openField}}
	c.env, err = checker.NewEnv(base.Container, c.provider, checker.CrossTypeNumericComparisons(true), checker.ValidatedDeclarations(shared))
	if err != nil {
		return nil, err
	}
	return c, c.env.AddIdents(s.variables(c.provider)...)
}

// variables declares the names of the scope and tells p their object types.
func (s *scope) variables(p *provider) []*decls.VariableDecl {
	var all []*decls.VariableDecl
	add := func(name string, t *Schema) {
		of := types.DynType
		if t != nil && t.node != nil {
			of = t.node.cel
			p.structs = append(p.structs, t.doc.structs)
		}
		all = append(all, decls.NewVariable(name, of))
	}
	add("data", s.data)
	if s.hasInput {
		add("input", s.input)
	}
	for name, t := range s.locals {
		add(name, t)
	}
	for name := range s.names {
		if of := rootNames[name]; of != nil && s.locals[name] == nil {
			all = append(all, decls.NewVariable(name, of))
		}
	}
	return all
}

// parse gives the syntax tree of a text. A plain path, which most expressions are,
// needs no grammar.
func (c *scopeChecker) parse(text string) (*ast.AST, []*common.Error) {
	if names := pathNames(text); names != nil {
		return pathTree(text, names), nil
	}
	parsed, issues := c.base.Parse(text)
	if issues.Err() != nil {
		return nil, issues.Errors()
	}
	return parsed.NativeRep(), nil
}

func (c *scopeChecker) check(text string, parsed *ast.AST) (*ast.AST, []*common.Error) {
	checked, errs := checker.Check(parsed, common.NewTextSource(text), c.env)
	return checked, errs.GetErrors()
}

// openField tells whether a record that takes many fields takes this one.
func (s *scope) openField(t *recordType, name string) bool {
	return t != votesType || s.events == nil || slices.Contains(s.events, name)
}

// allNames are the names that may be used, for hints.
func (s *scope) allNames() []string {
	names := slices.Concat([]string{"data"}, slices.Collect(maps.Keys(s.names)), slices.Collect(maps.Keys(s.locals)))
	if s.hasInput {
		names = append(names, "input")
	}
	slices.Sort(names)
	return names
}

func sortedNames(m map[string]*types.Type) []string { return slices.Sorted(maps.Keys(m)) }

// provider tells the checker about the object types of a scope. With planning set
// it takes any field of them: the checker has seen them before.
type provider struct {
	structs  []map[string]*node
	open     func(t *recordType, name string) bool
	planning bool
}

var builtinTypes = sync.OnceValues(func() (*types.Registry, error) { return types.NewRegistry() })

func (p *provider) EnumValue(name string) ref.Val { return types.NewErr("there is no %s", name) }

func (p *provider) FindIdent(name string) (ref.Val, bool) {
	registry, err := builtinTypes()
	if err != nil {
		return nil, false
	}
	return registry.FindIdent(name)
}

func (p *provider) node(name string) *node {
	for _, m := range p.structs {
		if n := m[name]; n != nil {
			return n
		}
	}
	return nil
}

func (p *provider) FindStructType(name string) (*types.Type, bool) {
	known := recordTypes[name] != nil || p.node(name) != nil || p.planning && strings.HasPrefix(name, "object ")
	if !known {
		return nil, false
	}
	return types.NewTypeTypeWithParam(types.NewObjectType(name)), true
}

func (p *provider) FindStructFieldNames(name string) ([]string, bool) {
	if t := recordTypes[name]; t != nil {
		return t.names, true
	}
	if n := p.node(name); n != nil {
		return n.order, true
	}
	return nil, false
}

func (p *provider) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	of := types.DynType
	if !p.planning {
		if of = p.typeOfField(name, field); of == nil {
			return nil, false
		}
	} else if _, ok := p.FindStructType(name); !ok {
		return nil, false
	}
	return &types.FieldType{
		Type: of,
		IsSet: func(target any) bool {
			f, ok := target.(fielder)
			return ok && f.hasField(field)
		},
		GetFrom: func(target any) (any, error) {
			if f, ok := target.(fielder); ok {
				return f.field(field)
			}
			return nil, absentError{field}
		},
	}, true
}

func (p *provider) typeOfField(name, field string) *types.Type {
	if t := recordTypes[name]; t != nil {
		of := t.fieldType(field)
		if of != nil && t.open != nil && p.open != nil && !p.open(t, field) {
			return nil
		}
		return of
	}
	n := p.node(name)
	switch {
	case n == nil:
		return nil
	case n.props[field] != nil:
		return n.props[field].cel
	case n.extra != nil:
		return n.extra.cel
	case n.open:
		return types.DynType
	}
	return nil
}

func (p *provider) NewValue(name string, _ map[string]ref.Val) ref.Val {
	return types.NewErr("objects are written {'name': value}, not %s{…}", name)
}

// activation gives a program the values of an Env.
type activation struct {
	env *Env
	sc  *scope
}

func (a *activation) Parent() cel.Activation { return nil }

func (a *activation) ResolveName(name string) (any, bool) {
	if name == zoneName {
		return zoneOf(a.env), true
	}
	v, ok := rootValue(a.env, name)
	if !ok {
		if name == "input" || a.sc.locals[name] != nil {
			return types.WrapErr(absentError{name}), true
		}
		return nil, false
	}
	return plainToCEL(v, a.sc.nodeOf(name)), true
}

// nodeOf is the schema's root behind a name.
func (s *scope) nodeOf(name string) *node {
	of := s.locals[name]
	switch name {
	case "data":
		of = s.data
	case "input":
		of = s.input
	}
	if of == nil {
		return nil
	}
	return of.node
}
