package definitions

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"cel.dev/cel-go/common"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
)

// syntaxProblems puts the parser's errors into words; only the first of a place.
func syntaxProblems(text string, errs []*common.Error) []exprProblem {
	var problems []exprProblem
	for _, e := range errs {
		p := exprProblem{Offset: offsetOf(text, e.Location), Code: "expression", Severity: Error}
		switch message := strings.TrimPrefix(e.Message, "Syntax error: "); {
		case strings.Contains(message, "recursion"), strings.Contains(message, "node count"), strings.Contains(message, "node limit"):
			return []exprProblem{{Code: "expression", Severity: Error, Detail: "The expression is too large."}}
		case strings.Contains(message, "'<EOF>'") || p.Offset >= len(text):
			p.Detail = "The expression ends too early."
		case strings.HasPrefix(message, "token recognition"):
			p.Detail = "This character is not expected here."
		case e.Message != message:
			p.Detail = fmt.Sprintf("%q is not expected here.", tokenAt(text, p.Offset))
		default:
			p.Detail = sentence(message)
		}
		if !slices.ContainsFunc(problems, func(q exprProblem) bool { return q.Offset == p.Offset }) {
			problems = append(problems, p)
		}
		if len(problems) == 3 {
			break
		}
	}
	return problems
}

func tokenAt(text string, at int) string {
	rest := text[min(at, len(text)):]
	end := strings.IndexFunc(rest, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' })
	switch {
	case end < 0:
		end = len(rest)
	case end == 0:
		_, end = utf8.DecodeRuneInString(rest)
	}
	return shorten(rest[:end], 40)
}

var (
	undeclared     = regexp.MustCompile(`^undeclared reference to '([^']*)'`)
	undefinedField = regexp.MustCompile(`^undefined field '([^']*)'`)
	noOverload     = regexp.MustCompile(`^found no matching overload for '([^']*)' applied to '(.*)'$`)
	noSelection    = regexp.MustCompile(`^type '(.*)' does not support field selection`)
)

// checkProblems puts the checker's errors into words.
func checkProblems(text string, parsed *ast.AST, errs []*common.Error, sc *scope, c *scopeChecker) []exprProblem {
	var problems []exprProblem
	for _, e := range errs {
		p := exprProblem{Offset: offsetOf(text, e.Location), Code: "type", Severity: Error, Detail: sentence(e.Message)}
		if m := undeclared.FindStringSubmatch(e.Message); m != nil {
			p.Code, p.Detail, p.Hint = "unknown-name", "", ""
			p.Detail, p.Hint = unknownName(strings.TrimPrefix(m[1], "@"), parsed, sc, c)
		} else if m := undefinedField.FindStringSubmatch(e.Message); m != nil {
			p.Code = "unknown-field"
			p.Detail, p.Hint = unknownFieldOf(m[1], e.ExprID, parsed, sc, c)
			if x := exprOf(parsed, e.ExprID); x != nil && x.Kind() == ast.SelectKind {
				p.Offset = fieldOffset(text, p.Offset, m[1])
			}
		} else if m := noOverload.FindStringSubmatch(e.Message); m != nil {
			p.Detail = overloadWords(m[1], m[2])
		} else if m := noSelection.FindStringSubmatch(e.Message); m != nil {
			p.Detail = sentenceStart(typeWords(m[1])) + " has no fields."
		} else if strings.HasPrefix(e.Message, "expected type") {
			p.Detail = "The parts of a condition (a ? b : c), list or loop have types that do not go together."
		}
		if !slices.Contains(problems, p) {
			problems = append(problems, p)
		}
	}
	return problems
}

// fieldOffset moves from the dot to the field's name.
func fieldOffset(text string, at int, field string) int {
	if at < len(text) {
		if i := strings.Index(text[at:], field); i >= 0 && i <= 2 {
			return at + i
		}
	}
	return at
}

func unknownName(name string, parsed *ast.AST, sc *scope, c *scopeChecker) (detail, hint string) {
	called := false
	ast.PostOrderVisit(parsed.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		called = called || e.Kind() == ast.CallKind && strings.TrimPrefix(e.AsCall().FunctionName(), "@") == name
	}))
	switch {
	case name == "input" && !called:
		return "There is no input here.", ""
	case rootNames[name] != nil && !called:
		return fmt.Sprintf("%s cannot be used here.", name), ""
	case called:
		var names []string
		for f := range c.base.Functions() {
			if !strings.ContainsAny(f, "@_") {
				names = append(names, f)
			}
		}
		slices.Sort(names)
		return fmt.Sprintf("There is no function %s.", clip(name)), suggest(name, append(names, "date", "days", "add"))
	}
	if hint = suggest(name, sc.allNames()); hint == "" {
		if slices.ContainsFunc(sc.fieldsOfData(), func(f string) bool { return f == name }) {
			hint = "write data." + name
		} else {
			hint = "a text stands in quotes: '" + shorten(name, 40) + "'"
		}
	}
	return fmt.Sprintf("There is no %s.", clip(name)), hint
}

func (s *scope) fieldsOfData() []string {
	if s.data == nil || s.data.node == nil {
		return nil
	}
	return s.data.node.order
}

// unknownFieldOf names the object that lacks the field and the nearest field it has.
func unknownFieldOf(field string, id int64, parsed *ast.AST, sc *scope, c *scopeChecker) (detail, hint string) {
	e := exprOf(parsed, id)
	if e == nil || e.Kind() != ast.SelectKind {
		return fmt.Sprintf("There is no field %s.", clip(field)), ""
	}
	operand := e.AsSelect().Operand()
	owner, ok := sourceOf(operand)
	if !ok {
		owner = "this object"
	}
	if operand.Kind() == ast.IdentKind && operand.AsIdent() == "votes" {
		return fmt.Sprintf("There is no event %s to have votes.", clip(field)), suggest(field, sc.events)
	}
	return fmt.Sprintf("%s has no field %s.", owner, clip(field)), suggest(field, fieldsOf(operand, sc, c))
}

// fieldsOf finds the fields of what an expression gives by checking it alone.
func fieldsOf(e ast.Expr, sc *scope, c *scopeChecker) []string {
	text, ok := sourceOf(e)
	if !ok {
		return sc.everyField()
	}
	parsed, errs := c.parse(text)
	if len(errs) > 0 {
		return sc.everyField()
	}
	checked, errs := c.check(text, parsed)
	if len(errs) > 0 {
		return sc.everyField()
	}
	names, _ := c.provider.FindStructFieldNames(checked.GetType(checked.Expr().ID()).TypeName())
	return names
}

// everyField lists the fields of all objects, for hints where the object is not known.
func (s *scope) everyField() []string {
	var names []string
	for _, of := range []*Schema{s.data, s.input} {
		if of != nil {
			for _, n := range of.doc.structs {
				names = append(names, n.order...)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func exprOf(a *ast.AST, id int64) ast.Expr {
	var found ast.Expr
	ast.PostOrderVisit(a.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.ID() == id {
			found = e
		}
	}))
	return found
}

// sourceOf writes a path of names, fields and constant indexes as it was.
func sourceOf(e ast.Expr) (string, bool) {
	switch e.Kind() {
	case ast.IdentKind:
		return e.AsIdent(), !strings.HasPrefix(e.AsIdent(), "@")
	case ast.SelectKind:
		of, ok := sourceOf(e.AsSelect().Operand())
		return of + "." + e.AsSelect().FieldName(), ok
	case ast.LiteralKind:
		switch v := e.AsLiteral().(type) {
		case types.Int:
			return strconv.FormatInt(int64(v), 10), true
		case types.String:
			return strconv.Quote(string(v)), true
		}
	case ast.CallKind:
		c := e.AsCall()
		if c.FunctionName() == operators.Index && len(c.Args()) == 2 {
			of, ok := sourceOf(c.Args()[0])
			by, also := sourceOf(c.Args()[1])
			return of + "[" + by + "]", ok && also
		}
	}
	return "", false
}

// overloadWords says which types an operator or function does not take.
func overloadWords(function, applied string) string {
	var args []string
	inner := strings.TrimPrefix(applied, "(")
	if target, rest, ok := strings.Cut(applied, ".("); ok {
		args, inner = append(args, typeWords(target)), rest
	}
	for _, a := range splitTypes(strings.TrimSuffix(inner, ")")) {
		if a != "zone" {
			args = append(args, typeWords(a))
		}
	}
	name := strings.TrimSuffix(strings.TrimPrefix(function, "@"), "_working")
	if symbol, ok := operators.FindReverse(function); ok && symbol != "" {
		name = symbol
	}
	name = strings.Trim(name, "_")
	text := fmt.Sprintf("%s does not take %s.", name, strings.Join(args, " and "))
	if len(args) == 2 && args[0] != args[1] && strings.ContainsAny(args[0]+args[1], " ") && strings.Contains(args[0], "number") && strings.Contains(args[1], "number") {
		text = strings.TrimSuffix(text, ".") + "; write double() around the whole number."
	}
	return text
}

// splitTypes splits "int, list(map(string, dyn))" at its outer commas.
func splitTypes(s string) []string {
	var out []string
	depth, from := 0, 0
	for i, r := range s {
		switch r {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth == 0 {
				out = append(out, strings.TrimSpace(s[from:i]))
				from = i + 1
			}
		}
	}
	if last := strings.TrimSpace(s[from:]); last != "" {
		out = append(out, last)
	}
	return out
}

func sentenceStart(s string) string {
	r, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(r)) + s[size:]
}

// sentence makes a library's message a short sentence of ours.
func sentence(message string) string {
	message, _, _ = strings.Cut(strings.TrimSpace(message), "\n")
	return strings.TrimSuffix(sentenceStart(shorten(message, 200)), ".") + "."
}
