package definitions

import (
	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// Some functions of the libraries take time or room by the product of their
// arguments, within one call that nothing interrupts. The arguments of those are
// bounded before the call.

const (
	maxTextArgument = 16 << 10 // characters of a text that is searched or changed
	maxPartArgument = 256      // characters of what is searched for or put in
	maxListArgument = 1000     // entries of a list that is compared with itself or another
	maxSortArgument = 10000
)

// argumentBounds are the greatest sizes of a call's target and arguments; 0: any.
type argumentBounds struct {
	target int
	args   []int
}

var boundedCalls = map[string]argumentBounds{
	"replace":               {maxTextArgument, []int{0, maxPartArgument}},
	"indexOf":               {maxTextArgument, []int{maxPartArgument}},
	"lastIndexOf":           {maxTextArgument, []int{maxPartArgument}},
	"join":                  {0, []int{maxPartArgument}},
	"matches":               {maxTextArgument, []int{maxTextArgument, maxTextArgument}},
	"format":                {maxTextArgument, []int{maxListArgument}},
	"distinct":              {maxListArgument, nil},
	"sort":                  {maxSortArgument, nil},
	"@sortByAssociatedKeys": {maxSortArgument, []int{maxSortArgument}},
	"sets.contains":         {0, []int{maxListArgument, maxListArgument}},
	"sets.equivalent":       {0, []int{maxListArgument, maxListArgument}},
	"sets.intersects":       {0, []int{maxListArgument, maxListArgument}},
}

const boundName = "@bounded"

func boundFunction() cel.EnvOption {
	return cel.Function(boundName, cel.Overload(boundName, []*cel.Type{cel.DynType, cel.IntType}, cel.DynType, cel.BinaryBinding(func(v, limit ref.Val) ref.Val {
		sized, ok := v.(traits.Sizer)
		if !ok {
			return v
		}
		if n, ok := sized.Size().(types.Int); ok && n > limit.(types.Int) {
			what := "entries"
			if v.Type() == types.StringType {
				what = "characters"
			}
			return types.NewErr("%s is too long here: at most %d %s", typeWords(v.Type().TypeName()), limit, what)
		}
		return v
	})))
}

func shortLiteral(e ast.Expr, limit int) bool {
	if e.Kind() != ast.LiteralKind {
		return false
	}
	s, ok := e.AsLiteral().(types.String)
	return ok && len(s) <= limit
}

// bound puts the bounds around the arguments of the calls that need it.
func (r *review) bound() {
	a := r.e.checked
	next := ast.MaxID(a)
	factory := ast.NewExprFactory()
	wrap := func(e ast.Expr, limit int) ast.Expr {
		if limit == 0 || shortLiteral(e, limit) {
			return e
		}
		next += 2
		a.SetReference(next, ast.NewFunctionReference(boundName))
		a.SetType(next, a.GetType(e.ID()))
		a.SetType(next+1, types.IntType)
		return factory.NewCall(next, boundName, e, factory.NewLiteral(next+1, types.Int(limit)))
	}
	var calls []ast.Expr
	ast.PostOrderVisit(a.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.CallKind {
			if _, ok := boundedCalls[e.AsCall().FunctionName()]; ok {
				calls = append(calls, e)
			}
		}
	}))
	for _, e := range calls {
		c := e.AsCall()
		bounds := boundedCalls[c.FunctionName()]
		args := append([]ast.Expr{}, c.Args()...)
		for i := range min(len(args), len(bounds.args)) {
			args[i] = wrap(args[i], bounds.args[i])
		}
		if c.IsMemberFunction() {
			e.SetKindCase(factory.NewMemberCall(e.ID(), c.FunctionName(), wrap(c.Target(), bounds.target), args...))
		} else {
			e.SetKindCase(factory.NewCall(e.ID(), c.FunctionName(), args...))
		}
	}
}
