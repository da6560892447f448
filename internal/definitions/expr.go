package definitions

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"

	"vobo/internal/fault"
)

const (
	maxCost = 500_000 // of CEL, for expressions that may be dear
	// maxEvalTime only catches what the cost does not see.
	maxEvalTime    = 500 * time.Millisecond
	interruptEvery = 16 // iterations
)

// Expr is a compiled, type-checked CEL expression. It is safe for concurrent use.
type Expr struct {
	Text string

	sc      *scope
	checked *ast.AST
	result  *types.Type
	plain   *plainPath // the whole expression only reads a path
	program cel.Program
	dear    bool // bounded in cost and time
	fixed   bool // always gives value
	value   any
}

// Eval evaluates to a JSON tree (timestamps become RFC 3339 strings). Bounded in
// cost and time. Errors are *fault.Error of code guard-rejected with clear words.
// The tree is the caller's own.
func (e *Expr) Eval(env *Env) (any, error) {
	v, err := e.eval(env)
	if err != nil {
		return nil, e.refusal(err)
	}
	return CloneJSON(v), nil
}

// Bool evaluates to a boolean.
func (e *Expr) Bool(env *Env) (bool, error) {
	v, err := e.eval(env)
	if err != nil {
		return false, e.refusal(err)
	}
	b, ok := v.(bool)
	if !ok {
		return false, e.refusal(fmt.Errorf("it gives %s where true or false is needed", treeWords(v)))
	}
	return b, nil
}

// eval gives a tree that may share parts with env.
func (e *Expr) eval(env *Env) (any, error) {
	if env == nil {
		env = &Env{}
	}
	if e.plain != nil {
		v, err := e.plain.read(env)
		if err != nil {
			return nil, err
		}
		return plainToTree(v), nil
	}
	if e.program == nil {
		return nil, errors.New("it was never compiled")
	}
	v, err := e.run(&activation{env: env, sc: e.sc})
	if err != nil {
		return nil, err
	}
	return toTree(v)
}

func (e *Expr) run(vars cel.Activation) (ref.Val, error) {
	if !e.dear {
		v, _, err := e.program.Eval(vars)
		return v, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), maxEvalTime)
	defer cancel()
	v, _, err := e.program.ContextEval(ctx, vars)
	return v, err
}

// refusal puts an error of evaluation into words.
func (e *Expr) refusal(err error) error {
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return f
	}
	absent, isAbsent := errors.AsType[absentError](err)
	cancelled, isCancelled := errors.AsType[interpreter.EvalCancelledError](err)
	switch {
	case isAbsent:
		return fault.New(fault.GuardRejected, "%s is not set.", e.fullName(absent.field))
	case isCancelled && cancelled.Cause == interpreter.CostLimitExceeded:
		return fault.New(fault.GuardRejected, "The expression %q costs too much to evaluate.", shorten(e.Text, 80))
	case isCancelled || errors.Is(err, context.DeadlineExceeded):
		return fault.New(fault.GuardRejected, "The expression %q takes too long to evaluate.", shorten(e.Text, 80))
	}
	message := err.Error()
	if key, ok := strings.CutPrefix(message, "no such key: "); ok {
		return fault.New(fault.GuardRejected, "%s is not set.", e.fullName(key))
	}
	if index, ok := strings.CutPrefix(message, "index out of bounds: "); ok {
		return fault.New(fault.GuardRejected, "The expression %q cannot be evaluated: a list has no entry [%s].", shorten(e.Text, 80), index)
	}
	message = strings.ReplaceAll(strings.ReplaceAll(message, "@", ""), "_2", "")
	return fault.New(fault.GuardRejected, "The expression %q cannot be evaluated: %s.", shorten(e.Text, 80), strings.TrimSuffix(shorten(message, 200), "."))
}

// fullName finds the path that ends in field, if only one does.
func (e *Expr) fullName(field string) string {
	if e.plain != nil || e.checked == nil {
		return field
	}
	names := map[string]bool{}
	ast.PostOrderVisit(e.checked.Expr(), ast.NewExprVisitor(func(x ast.Expr) {
		if x.Kind() == ast.SelectKind && x.AsSelect().FieldName() == field && !x.AsSelect().IsTestOnly() {
			if text, ok := sourceOf(x); ok {
				names[text] = true
			}
		}
	}))
	if len(names) == 1 {
		for name := range names {
			return name
		}
	}
	return field
}

func treeWords(v any) string {
	switch v.(type) {
	case nil:
		return "nothing"
	case bool:
		return "true or false"
	case string:
		return "a text"
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	}
	return "a number"
}

// constant gives the value of an expression that is the same whatever it reads.
func (e *Expr) constant() (value any, ok bool) { return e.value, e.fixed }

// fits tells whether the expression's result may satisfy the schema, as far as its
// type says; with false, want names what the schema wants and got what there is.
func (e *Expr) fits(s *Schema) (ok bool, got, want string) {
	if s == nil || s.node == nil || s.node.kind == anyNode || e.result == nil {
		return true, "", ""
	}
	n := s.node
	got, want = typeWords(e.result.String()), kindWords[n.kind]
	if n.kind == boolNode {
		want = "true or false"
	}
	switch e.result.Kind() {
	case types.DynKind, types.AnyKind, types.ErrorKind, types.TypeParamKind:
		return true, got, want
	case types.NullTypeKind:
		return n.nullable, got, want
	case types.StringKind, types.TimestampKind, types.DurationKind, types.BytesKind:
		return n.kind == stringNode, got, want
	case types.IntKind, types.UintKind:
		return n.kind == integerNode || n.kind == numberNode, got, want
	case types.DoubleKind:
		return n.kind == numberNode, got, want
	case types.BoolKind:
		return n.kind == boolNode, got, want
	case types.ListKind:
		return n.kind == listNode, got, want
	case types.MapKind, types.StructKind:
		return n.kind == objectNode || n.kind == mapNode, got, want
	}
	return true, got, want
}

// noVars is an activation in which nothing has a value.
type noVars struct{}

func (noVars) Parent() cel.Activation         { return nil }
func (noVars) ResolveName(string) (any, bool) { return nil, false }

// fold finds out whether the expression is constant: reading anything is an error,
// and CEL's || and && look past errors where the other side decides.
func (e *Expr) fold() {
	if e.plain != nil {
		return
	}
	v, err := e.run(noVars{})
	if err != nil {
		return
	}
	if tree, err := toTree(v); err == nil {
		e.value, e.fixed = tree, true
	}
}

// Value is a `set` value: an expression or a YAML literal.
type Value struct {
	Expr    *Expr
	Literal any // with Expr nil
}

// Eval gives the JSON tree. The tree is the caller's own.
func (v *Value) Eval(env *Env) (any, error) {
	if v.Expr != nil {
		return v.Expr.Eval(env)
	}
	return CloneJSON(v.Literal), nil
}
