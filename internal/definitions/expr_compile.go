package definitions

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
)

// compileExpr parses, checks and plans an expression. With an error among the
// problems the expression is nil.
func compileExpr(text string, want exprType, sc *scope) (*Expr, []exprProblem) {
	if p := tooMuch(text); p != nil {
		return nil, []exprProblem{*p}
	}
	c, err := sc.checker()
	if err != nil {
		return nil, []exprProblem{{Code: "expression", Severity: Error, Detail: "The expression cannot be checked: " + err.Error() + "."}}
	}
	parsed, errs := c.parse(text)
	if len(errs) > 0 {
		return nil, syntaxProblems(text, errs)
	}
	checked, errs := c.check(text, parsed)
	if len(errs) > 0 {
		return nil, checkProblems(text, parsed, errs, sc, c)
	}
	e := &Expr{Text: text, sc: sc, checked: checked, result: checked.GetType(checked.Expr().ID())}
	r := &review{e: e, text: text, sc: sc}
	r.run(want)
	r.bound()
	if hasErrors(r.problems) {
		return nil, r.problems
	}
	if p := e.plan(); p != nil {
		return nil, append(r.problems, *p)
	}
	return e, r.problems
}

// plan makes the program. Plain paths need none.
func (e *Expr) plan() *exprProblem {
	if e.plain = plainPathOf(e.checked.Expr()); e.plain != nil {
		return nil
	}
	base, err := baseEnv()
	if err != nil {
		return &exprProblem{Code: "expression", Severity: Error, Detail: err.Error()}
	}
	options := []cel.ProgramOption{cel.EvalOptions(cel.OptOptimize)}
	if e.dear = isDear(e.checked); e.dear {
		options = append(options, cel.CostLimit(maxCost), cel.InterruptCheckFrequency(interruptEvery))
	}
	if e.program, err = base.PlanProgram(e.checked, options...); err != nil {
		return &exprProblem{Code: "expression", Severity: Error, Detail: sentence(err.Error())}
	}
	e.fold()
	return nil
}

// tooMuch refuses what the parser should not even begin with.
func tooMuch(text string) *exprProblem {
	refuse := func(at int, hint, format string, args ...any) *exprProblem {
		return &exprProblem{Offset: at, Code: "expression", Severity: Error, Hint: hint, Detail: fmt.Sprintf(format, args...)}
	}
	if strings.TrimSpace(text) == "" {
		return refuse(0, "", "The expression is empty.")
	}
	if utf8.RuneCountInString(text) > maxExprText {
		return refuse(0, "", "The expression is too long: at most %d characters.", maxExprText)
	}
	if at := strings.IndexByte(text, 0); at >= 0 {
		return refuse(at, "", "The character NUL is not allowed.")
	}
	depth, signs, symbols, inWord := 0, 0, 0, false
	for i := 0; i < len(text); i++ {
		word := isWordByte(text[i])
		if text[i] > ' ' && !(word && inWord) {
			symbols++
		}
		inWord = word
		if symbols > maxExprSymbols {
			return refuse(i, "", "The expression is too long: at most %d words and signs.", maxExprSymbols)
		}
		switch c := text[i]; c {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth--
		case '!', '-', '?':
			if signs++; signs > 4*maxExprDepth {
				return refuse(i, "", "The expression has too many of %q.", c)
			}
		case '"', '\'':
			if end := endOfText(text, i); end > 0 {
				i = end
			}
		}
		if depth > maxExprDepth {
			return refuse(i, "", "The expression nests deeper than %d brackets.", maxExprDepth)
		}
	}
	return nil
}

func isWordByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || c >= utf8.RuneSelf
}

// cheapCalls are bounded by the size of what they are given; the rest, and whatever
// loops, runs under a cost limit.
var cheapCalls = []string{
	operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot, operators.NotStrictlyFalse, operators.Conditional,
	operators.Equals, operators.NotEquals, operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals,
	operators.Subtract, operators.Multiply, operators.Divide, operators.Modulo, operators.Negate, operators.Index, operators.In,
	"size", "int", "double", "bool", "dyn", "timestamp", "duration", "startsWith", "endsWith", "contains", "round", "sum", sumDoubles,
	"@date", "@days", "@add",
}

func isDear(a *ast.AST) bool {
	dear := false
	ast.PostOrderVisit(a.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.ComprehensionKind:
			dear = true
		case ast.CallKind:
			name := e.AsCall().FunctionName()
			numeric := name == operators.Add && a.GetType(e.ID()).Kind() != types.StringKind && a.GetType(e.ID()).Kind() != types.ListKind && a.GetType(e.ID()).Kind() != types.DynKind
			dear = dear || !numeric && !slices.Contains(cheapCalls, name)
		}
	}))
	return dear
}

// review looks at a checked expression for what CEL lets pass.
type review struct {
	e        *Expr
	text     string
	sc       *scope
	problems []exprProblem
}

func (r *review) report(id int64, severity Severity, code, hint, format string, args ...any) {
	r.problems = append(r.problems, exprProblem{
		Offset: offsetOf(r.text, r.e.checked.SourceInfo().GetStartLocation(id)),
		Code:   code, Severity: severity, Hint: hint, Detail: fmt.Sprintf(format, args...),
	})
}

func (r *review) run(want exprType) {
	ast.PostOrderVisit(r.e.checked.Expr(), ast.NewExprVisitor(r.visit))
	if detail, hint := mismatch(want, r.e.result); detail != "" {
		r.report(r.e.checked.Expr().ID(), Error, "type", hint, "%s", detail)
	}
}

// mismatch says why a result does not fit its place.
func mismatch(want exprType, got *types.Type) (detail, hint string) {
	k := got.Kind()
	if k == types.DynKind || k == types.TypeParamKind || k == types.AnyKind || isNullable(got) && want != wantBool {
		return "", ""
	}
	fits, words := true, ""
	switch want {
	case wantBool:
		fits, words = k == types.BoolKind || isNullable(got), "true or false"
	case wantString:
		fits, words = k == types.StringKind, "a text"
	case wantList:
		fits, words = k == types.ListKind, "a list"
	case wantTime:
		fits, words = k == types.TimestampKind || k == types.StringKind, "a time"
	case wantNumber:
		fits, words = k == types.IntKind || k == types.UintKind || k == types.DoubleKind, "a number"
	case wantIndex:
		fits, words = k == types.IntKind || k == types.StringKind, "a whole number or a text"
	}
	if fits {
		return "", ""
	}
	if want == wantBool {
		hint = "compare it with something"
	}
	return fmt.Sprintf("This gives %s where %s is needed.", typeWords(got.String()), words), hint
}

func (r *review) visit(e ast.Expr) {
	switch e.Kind() {
	case ast.LiteralKind:
		if s, ok := e.AsLiteral().(types.String); ok && strings.ContainsRune(string(s), 0) {
			r.report(e.ID(), Error, "expression", "", "The character NUL is not allowed.")
		}
	case ast.CallKind:
		r.call(e, e.AsCall())
	}
}

func (r *review) call(e ast.Expr, c ast.CallExpr) {
	typeOf := func(i int) *types.Type { return r.e.checked.GetType(c.Args()[i].ID()) }
	switch c.FunctionName() {
	case operators.Equals, operators.NotEquals:
		if a, b := typeOf(0), typeOf(1); !mayEqual(a, b) {
			r.report(e.ID(), Error, "type", "", "%s is never equal to %s.", sentenceStart(typeWords(a.String())), typeWords(b.String()))
		}
	case operators.In:
		if in := typeOf(1); len(in.Parameters()) > 0 && !mayEqual(typeOf(0), in.Parameters()[0]) {
			r.report(e.ID(), Error, "type", "", "%s is never in a list or object of %s.", sentenceStart(typeWords(typeOf(0).String())), typeWords(in.Parameters()[0].String()))
		}
	case operators.Divide:
		if typeOf(0).Kind() == types.IntKind && typeOf(1).Kind() == types.IntKind {
			r.report(e.ID(), Warning, "integer-division", "write double(…) / 100.0 for the exact value", "A whole number divided by a whole number drops the rest.")
		}
	case "sum":
		r.sum(e, c, typeOf(0))
	case "workdays", "isopen", "@add_working":
		args := c.Args()
		r.calendar(args[len(args)-1])
		r.report(e.ID(), NotSupported, "not-supported", "", "Working time (%s) is not supported yet.", strings.TrimSuffix(strings.TrimPrefix(c.FunctionName(), "@"), "_working"))
	case "matches":
		r.regex(c)
	}
}

func (r *review) sum(e ast.Expr, c ast.CallExpr, of *types.Type) {
	if len(of.Parameters()) == 0 {
		return
	}
	switch of.Parameters()[0].Kind() {
	case types.DoubleKind:
		e.SetKindCase(ast.NewExprFactory().NewCall(e.ID(), sumDoubles, c.Args()...))
		r.e.checked.SetReference(e.ID(), ast.NewFunctionReference(sumDoubles))
	case types.IntKind, types.UintKind, types.DynKind, types.AnyKind, types.TypeParamKind:
	default:
		if !isNullable(of.Parameters()[0]) {
			r.report(e.ID(), Error, "type", "", "sum takes a list of numbers, and this is one of %s.", typeWords(of.Parameters()[0].String()))
		}
	}
}

func (r *review) calendar(e ast.Expr) {
	if e.Kind() != ast.LiteralKind {
		r.report(e.ID(), Error, "calendar", "such as 'office'", "The calendar is named by a text.")
		return
	}
	name := fmt.Sprint(e.AsLiteral().Value())
	if !slices.Contains(r.sc.calendars, name) {
		r.report(e.ID(), Error, "calendar", suggest(name, r.sc.calendars), "There is no calendar %s.", clip(name))
	}
}

// regex checks a pattern that stands literally; planning compiles it only once.
func (r *review) regex(c ast.CallExpr) {
	args := c.Args()
	if len(args) == 0 || args[len(args)-1].Kind() != ast.LiteralKind {
		return
	}
	check := schemaCheck{}
	check.pattern(fmt.Sprint(args[len(args)-1].AsLiteral().Value()), "")
	for _, p := range check.problems {
		r.report(args[len(args)-1].ID(), Error, "expression", p.Hint, "%s", p.Detail)
	}
}

func isNullable(t *types.Type) bool {
	return t.Kind() != types.NullTypeKind && t.Kind() != types.DynKind && t.Kind() != types.StructKind && t.IsAssignableType(types.NullType)
}

// mayEqual tells whether values of two types can be equal.
func mayEqual(a, b *types.Type) bool {
	anything := func(t *types.Type) bool {
		return t.Kind() == types.DynKind || t.Kind() == types.AnyKind || t.Kind() == types.TypeParamKind
	}
	number := func(t *types.Type) bool {
		return t.Kind() == types.IntKind || t.Kind() == types.UintKind || t.Kind() == types.DoubleKind
	}
	object := func(t *types.Type) bool { return t.Kind() == types.StructKind || t.Kind() == types.MapKind }
	switch {
	case anything(a) || anything(b), number(a) && number(b), object(a) && object(b):
		return true
	case a.Kind() == types.NullTypeKind:
		return b.IsAssignableType(types.NullType) || object(b)
	case b.Kind() == types.NullTypeKind:
		return a.IsAssignableType(types.NullType) || object(a)
	case a.Kind() == types.ListKind && b.Kind() == types.ListKind:
		return mayEqual(a.Parameters()[0], b.Parameters()[0])
	}
	return a.IsAssignableType(b) || b.IsAssignableType(a) || a.Kind() == b.Kind()
}

// offsetOf turns a place in the text, counted in characters, into a byte offset.
func offsetOf(text string, at common.Location) int {
	if at == nil || at.Line() < 1 || at.Column() < 0 {
		return 0
	}
	offset := 0
	for line := 1; line < at.Line(); line++ {
		next := strings.IndexByte(text[offset:], '\n')
		if next < 0 {
			return 0
		}
		offset += next + 1
	}
	for range at.Column() {
		if offset >= len(text) {
			break
		}
		_, size := utf8.DecodeRuneInString(text[offset:])
		offset += size
	}
	return offset
}

// refs names what the expression reads.
func (e *Expr) refs() exprRefs {
	var r exprRefs
	if e == nil || e.checked == nil {
		return r
	}
	data, selected := map[string]bool{}, map[int64]bool{}
	vars := map[string]bool{}
	ast.PreOrderVisit(e.checked.Expr(), ast.NewExprVisitor(func(x ast.Expr) {
		switch x.Kind() {
		case ast.SelectKind:
			s := x.AsSelect()
			if s.Operand().Kind() != ast.IdentKind {
				return
			}
			switch s.Operand().AsIdent() {
			case "data":
				data[s.FieldName()] = true
				selected[s.Operand().ID()] = true
			case "env":
				vars[s.FieldName()] = true
			case "instance":
				r.Requester = r.Requester || s.FieldName() == "requester"
			}
		case ast.IdentKind:
			r.ident(x.AsIdent())
			if x.AsIdent() == "data" && !selected[x.ID()] && e.sc.data != nil && e.sc.data.node != nil {
				for _, name := range e.sc.data.node.order {
					data[name] = true
				}
			}
		}
	}))
	r.Env, r.Data = setNames(vars), setNames(data)
	return r
}

func (r *exprRefs) ident(name string) {
	switch name {
	case "input":
		r.Input = true
	case "now":
		r.Now = true
	case "last":
		r.Last = true
	case "visits":
		r.Visits = true
	case "votes", "open_votes":
		r.Votes = true
	case "callback":
		r.Callback = true
	}
}

func setNames(set map[string]bool) []string {
	var names []string
	for n := range set {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// join takes in the names that another text reads.
func (r exprRefs) join(o exprRefs) exprRefs {
	both := func(a, b []string) []string {
		l := slices.Concat(a, b)
		slices.Sort(l)
		return slices.Compact(l)
	}
	return exprRefs{
		Env: both(r.Env, o.Env), Data: both(r.Data, o.Data),
		Input: r.Input || o.Input, Now: r.Now || o.Now, Last: r.Last || o.Last, Visits: r.Visits || o.Visits,
		Votes: r.Votes || o.Votes, Callback: r.Callback || o.Callback, Requester: r.Requester || o.Requester,
	}
}
