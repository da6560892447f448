package definitions

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"cel.dev/cel-go/common"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
)

// plainPath is an expression that only reads: data.signers[data.next].email. It is
// evaluated on the tree itself, so that digits stay as they came.
type plainPath struct {
	root  string
	steps []plainStep
}

// plainStep is a field, a constant index, or an index that is a path itself.
type plainStep struct {
	name  string
	index int
	list  bool
	by    *plainPath
}

// plainPathOf recognises a plain path; nil for any other expression.
func plainPathOf(e ast.Expr) *plainPath {
	switch e.Kind() {
	case ast.IdentKind:
		return &plainPath{root: e.AsIdent()}
	case ast.SelectKind:
		s := e.AsSelect()
		if s.IsTestOnly() {
			return nil
		}
		p := plainPathOf(s.Operand())
		if p != nil {
			p.steps = append(p.steps, plainStep{name: s.FieldName()})
		}
		return p
	case ast.CallKind:
		c := e.AsCall()
		if c.FunctionName() != operators.Index || len(c.Args()) != 2 {
			return nil
		}
		p := plainPathOf(c.Args()[0])
		s, ok := plainStepOf(c.Args()[1])
		if p == nil || !ok {
			return nil
		}
		p.steps = append(p.steps, s)
		return p
	}
	return nil
}

func plainStepOf(e ast.Expr) (plainStep, bool) {
	if e.Kind() == ast.LiteralKind {
		switch v := e.AsLiteral().(type) {
		case types.String:
			return plainStep{name: string(v)}, true
		case types.Int:
			return plainStep{index: int(v), list: true}, v >= 0
		}
		return plainStep{}, false
	}
	by := plainPathOf(e)
	return plainStep{by: by}, by != nil
}

// read gives the value; an absentError where something is not there.
func (p *plainPath) read(env *Env) (any, error) {
	at, there := rootValue(env, p.root)
	if !there {
		return nil, absentError{p.root}
	}
	for i, s := range p.steps {
		if s.by != nil {
			k, err := s.by.read(env)
			if err != nil {
				return nil, err
			}
			if s = stepBy(k); s.by != nil {
				return nil, absentError{p.textTo(i, env)}
			}
		}
		next, err := s.from(at)
		if err != nil {
			if _, absent := err.(absentError); absent {
				return nil, absentError{p.textTo(i, env)}
			}
			return nil, err
		}
		at = next
	}
	return at, nil
}

// stepBy makes a step of a computed index; one with by set for what is no index.
func stepBy(k any) plainStep {
	switch k := k.(type) {
	case string:
		return plainStep{name: k}
	case int:
		return plainStep{index: k, list: true}
	case json.Number:
		if i, err := strconv.Atoi(canonicalNumber(string(k))); err == nil {
			return plainStep{index: i, list: true}
		}
	}
	return plainStep{by: &plainPath{}}
}

func (s plainStep) from(at any) (any, error) {
	switch at := at.(type) {
	case map[string]any:
		if v, ok := at[s.name]; ok && !s.list {
			return v, nil
		}
	case []any:
		if s.list && s.index >= 0 && s.index < len(at) {
			return at[s.index], nil
		}
	case *record:
		if !s.list && at.t.fieldType(s.name) != nil {
			return at.t.get(at, s.name)
		}
	}
	return nil, absentError{s.name}
}

// textTo writes the path as far as its i-th step.
func (p *plainPath) textTo(i int, env *Env) string {
	text := p.root
	for _, s := range p.steps[:i+1] {
		switch {
		case s.by != nil:
			index := "…"
			if k, err := s.by.read(env); err == nil {
				index = fmt.Sprint(plainToTree(k))
			}
			text += "[" + index + "]"
		case s.list:
			text += "[" + strconv.Itoa(s.index) + "]"
		default:
			text += "." + s.name
		}
	}
	return text
}

// reservedWords are no names in CEL.
var reservedWords = []string{
	"true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if",
	"import", "let", "loop", "package", "namespace", "return", "var", "void", "while",
}

// pathNames splits data.applicant.name; nil for what is not just names and dots.
func pathNames(text string) []string {
	for i := range len(text) {
		if c := text[i]; c != '.' && (c >= utf8.RuneSelf || !isWordByte(c)) {
			return nil
		}
	}
	names := strings.Split(text, ".")
	for _, n := range names {
		if n == "" || n[0] >= '0' && n[0] <= '9' || slices.Contains(reservedWords, n) {
			return nil
		}
	}
	return names
}

// pathTree is the syntax tree of a path, with the places that the parser gives.
func pathTree(text string, names []string) *ast.AST {
	factory, info := ast.NewExprFactory(), ast.NewSourceInfo(common.NewTextSource(text))
	at := func(id int64, offset int) {
		info.SetOffsetRange(id, ast.OffsetRange{Start: int32(offset), Stop: int32(offset)})
	}
	e, offset := factory.NewIdent(1, names[0]), len(names[0])
	at(1, 0)
	for i, n := range names[1:] {
		id := int64(i) + 2
		e = factory.NewSelect(id, e, n)
		at(id, offset)
		offset += 1 + len(n)
	}
	return ast.NewAST(e, info)
}
