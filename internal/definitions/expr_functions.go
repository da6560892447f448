package definitions

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"strings"
	"sync"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common"
	"cel.dev/cel-go/common/ast"
	celenv "cel.dev/cel-go/common/env"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/ext"
	"github.com/sosodev/duration"
)

const (
	maxExprText    = 4096 // characters of one expression
	maxExprSymbols = 400  // words and signs; each text in quotes is one
	maxExprNodes   = 2000
	maxExprDepth   = 32 // brackets within brackets
	maxRegexSize   = 500
)

// zoneName is the hidden variable with the zone of date, days and add.
const zoneName = "@zone"

// baseEnv is CEL with the libraries and functions of the language; every scope
// extends it. It also plans all programs.
var baseEnv = sync.OnceValues(newBaseEnv)

func newBaseEnv() (*cel.Env, error) {
	// Equality is declared anew: CEL's own refuses to compare an int with a double.
	std := &celenv.LibrarySubset{ExcludeFunctions: []*celenv.Function{
		celenv.NewFunction(operators.Equals), celenv.NewFunction(operators.NotEquals), celenv.NewFunction(operators.In),
	}}
	options := []cel.EnvOption{
		cel.CustomTypeAdapter(adapter{}),
		cel.CustomTypeProvider(&provider{planning: true}),
		cel.StdLib(cel.StdLibSubset(std)),
		cel.CrossTypeNumericComparisons(true),
		cel.DefaultUTCTimeZone(true),
		cel.EagerlyValidateDeclarations(true),
		cel.ParserExpressionSizeLimit(maxExprText),
		cel.ParserRecursionLimit(4 * maxExprDepth),
		cel.ParserErrorRecoveryLimit(8),
		cel.ExpressionNodeLimit(maxExprNodes),
		cel.RegexProgramSizeLimit(maxRegexSize),
		// Versions are pinned: a newer library must not change what definitions may say.
		ext.Strings(ext.StringsVersion(5)), ext.Math(ext.MathVersion(2)), ext.Sets(ext.SetsVersion(1)),
		ext.Lists(ext.ListsVersion(4), ext.ListsMaxRangeSize(maxSortArgument)),
		cel.Variable(zoneName, zoneType),
	}
	options = append(options, equalityFunctions()...)
	options = append(options, numberFunctions()...)
	options = append(options, timeFunctions()...)
	options = append(options, boundFunction())
	return cel.NewCustomEnv(options...)
}

func equalityFunctions() []cel.EnvOption {
	two := []*cel.Type{cel.DynType, cel.DynType}
	contains := func(v, in ref.Val) ref.Val {
		if c, ok := in.(traits.Container); ok {
			return c.Contains(v)
		}
		return types.MaybeNoSuchOverloadErr(in)
	}
	return []cel.EnvOption{
		cel.Function(operators.Equals, cel.Overload("equals", two, cel.BoolType, cel.BinaryBinding(types.Equal))),
		cel.Function(operators.NotEquals, cel.Overload("not_equals", two, cel.BoolType, cel.BinaryBinding(func(a, b ref.Val) ref.Val {
			eq := types.Equal(a, b)
			if b, ok := eq.(types.Bool); ok {
				return !b
			}
			return eq
		}))),
		cel.Function(operators.In,
			cel.Overload("in_list", []*cel.Type{cel.DynType, cel.ListType(cel.DynType)}, cel.BoolType, cel.BinaryBinding(contains)),
			cel.Overload("in_map", []*cel.Type{cel.DynType, cel.MapType(cel.DynType, cel.DynType)}, cel.BoolType, cel.BinaryBinding(contains))),
	}
}

func numberFunctions() []cel.EnvOption {
	element := cel.TypeParamType("A")
	return []cel.EnvOption{
		cel.Function("sum", cel.Overload("sum_list", []*cel.Type{cel.ListType(element)}, element, cel.UnaryBinding(sum))),
		// The checked program calls it instead where the entries are doubles, so that nothing sums up to 0.0.
		cel.Function(sumDoubles, cel.Overload(sumDoubles, []*cel.Type{cel.ListType(cel.DynType)}, cel.DoubleType, cel.UnaryBinding(func(l ref.Val) ref.Val {
			return asDouble(sum(l))
		}))),
		cel.Function("round",
			cel.Overload("round_double", []*cel.Type{cel.DoubleType, cel.IntType}, cel.DoubleType, cel.BinaryBinding(round)),
			cel.Overload("round_int", []*cel.Type{cel.IntType, cel.IntType}, cel.IntType, cel.BinaryBinding(round))),
	}
}

const sumDoubles = "@sum_doubles"

func asDouble(v ref.Val) ref.Val {
	if i, ok := v.(types.Int); ok {
		return types.Double(i)
	}
	return v
}

// sum adds up numbers: ints to an int, with a double among them to a double.
func sum(v ref.Val) ref.Val {
	l, ok := v.(traits.Lister)
	if !ok {
		return types.MaybeNoSuchOverloadErr(v)
	}
	var total ref.Val = types.IntZero
	for it := l.Iterator(); it.HasNext() == types.True; {
		e := it.Next()
		switch n := e.(type) {
		case types.Int, types.Uint:
			if _, isDouble := total.(types.Double); isDouble {
				e = e.ConvertToType(types.DoubleType)
			} else {
				e = e.ConvertToType(types.IntType)
			}
		case types.Double:
			total = asDouble(total)
		case *types.Err:
			return n
		default:
			return types.NewErr("sum takes numbers, and there is %s", typeWords(e.Type().TypeName()))
		}
		if types.IsError(e) {
			return e
		}
		if total = total.(traits.Adder).Add(e); types.IsError(total) {
			return total
		}
	}
	return total
}

// round rounds half away from zero, as the decimal digits read.
func round(x, digits ref.Val) ref.Val {
	n, ok := digits.(types.Int)
	if !ok || n < 0 || n > 15 {
		return types.NewErr("round takes 0 to 15 digits")
	}
	f, ok := x.(types.Double)
	if !ok || math.IsNaN(float64(f)) || math.IsInf(float64(f), 0) {
		return x
	}
	exact, ok := new(big.Rat).SetString(plainFloat(float64(f)))
	if !ok {
		return x
	}
	scale := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil))
	exact.Mul(exact, scale)
	half := big.NewRat(1, 2)
	if exact.Sign() < 0 {
		half.Neg(half)
	}
	exact.Add(exact, half)
	whole := new(big.Rat).SetInt(new(big.Int).Quo(exact.Num(), exact.Denom()))
	out, _ := whole.Quo(whole, scale).Float64()
	return types.Double(out)
}

var zoneType = types.NewOpaqueType("zone")

// zone is the value of the hidden variable.
type zone struct{ l *time.Location }

func zoneOf(env *Env) ref.Val {
	if env.Zone == nil {
		return utcZone
	}
	return &zone{env.Zone}
}

var utcZone = &zone{time.UTC}

func (z *zone) ConvertToNative(reflect.Type) (any, error) { return nil, errNoConversion }
func (z *zone) ConvertToType(t ref.Type) ref.Val          { return convertType(z, t) }
func (z *zone) Equal(other ref.Val) ref.Val               { return types.Bool(other == z) }
func (z *zone) Type() ref.Type                            { return zoneType }
func (z *zone) Value() any                                { return z }

// zoned makes a macro that hands the zone to a function as its last argument.
func zoned(name string, args int) cel.Macro {
	return cel.GlobalMacro(name, args, func(f cel.MacroExprFactory, _ ast.Expr, args []ast.Expr) (ast.Expr, *common.Error) {
		return f.NewCall("@"+name, append(append([]ast.Expr{}, args...), f.NewIdent(zoneName))...), nil
	})
}

func timeFunctions() []cel.EnvOption {
	at, text, span := cel.TimestampType, cel.StringType, cel.DurationType
	overloads := func(name string, result *cel.Type, f func(args ...ref.Val) ref.Val, signatures ...[]*cel.Type) cel.EnvOption {
		var opts []cel.FunctionOpt
		for i, s := range signatures {
			opts = append(opts, cel.Overload(fmt.Sprintf("%s_%d", name, i), s, result, cel.FunctionBinding(f)))
		}
		return cel.Function(name, opts...)
	}
	return []cel.EnvOption{
		cel.Macros(zoned("date", 1), zoned("days", 2), zoned("add", 2),
			cel.GlobalMacro("add", 3, func(f cel.MacroExprFactory, _ ast.Expr, args []ast.Expr) (ast.Expr, *common.Error) {
				return f.NewCall("@add_working", args...), nil
			})),
		overloads("@date", at, dateOf, []*cel.Type{text, zoneType}, []*cel.Type{at, zoneType}),
		overloads("@days", cel.IntType, daysBetween, []*cel.Type{at, at, zoneType}, []*cel.Type{text, text, zoneType}, []*cel.Type{at, text, zoneType}, []*cel.Type{text, at, zoneType}),
		overloads("@add", at, addDuration, []*cel.Type{at, text, zoneType}, []*cel.Type{at, span, zoneType}, []*cel.Type{text, text, zoneType}, []*cel.Type{text, span, zoneType}),
		overloads("@add_working", at, noWorkingTime, []*cel.Type{at, text, text}, []*cel.Type{text, text, text}),
		overloads("workdays", cel.IntType, noWorkingTime, []*cel.Type{at, at, text}, []*cel.Type{text, text, text}, []*cel.Type{at, text, text}, []*cel.Type{text, at, text}),
		overloads("isopen", cel.BoolType, noWorkingTime, []*cel.Type{at, text}, []*cel.Type{text, text}),
	}
}

func noWorkingTime(...ref.Val) ref.Val { return types.NewErr("working time is not supported yet") }

func dateOf(args ...ref.Val) ref.Val {
	t, err := instant(args[0], args[1])
	if err != nil {
		return types.WrapErr(err)
	}
	year, month, day := t.Date()
	return types.Timestamp{Time: time.Date(year, month, day, 0, 0, 0, 0, t.Location()).UTC()}
}

// instant reads a time, an RFC 3339 text, or a date (the start of that day in the zone).
func instant(v, z ref.Val) (time.Time, error) {
	where := time.UTC
	if z, ok := z.(*zone); ok {
		where = z.l
	}
	switch v := v.(type) {
	case types.Timestamp:
		return v.Time.In(where), nil
	case types.String:
		if t, err := time.ParseInLocation(time.DateOnly, string(v), where); err == nil {
			return t, nil
		}
		if t, err := time.Parse(time.RFC3339Nano, strings.ToUpper(string(v))); err == nil {
			return t.In(where), nil
		}
		return time.Time{}, fmt.Errorf("%q is neither a date nor a time", shorten(string(v), 40))
	}
	return time.Time{}, errors.New("this is no time")
}

// daysBetween counts the calendar days of the zone in [a, b); negative where b is before a.
func daysBetween(args ...ref.Val) ref.Val {
	a, err := instant(args[0], args[2])
	if err != nil {
		return types.WrapErr(err)
	}
	b, err := instant(args[1], args[2])
	if err != nil {
		return types.WrapErr(err)
	}
	return types.Int((dayNumber(b) - dayNumber(a)))
}

func dayNumber(t time.Time) int64 {
	year, month, day := t.Date()
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix() / 86400
}

// addDuration adds an ISO 8601 duration: years, months (clamped to the month's
// last day), weeks and days by the calendar of the zone, the rest exactly.
func addDuration(args ...ref.Val) ref.Val {
	t, err := instant(args[0], args[2])
	if err != nil {
		return types.WrapErr(err)
	}
	switch d := args[1].(type) {
	case types.Duration:
		t = t.Add(d.Duration)
	case types.String:
		if t, err = addISO(t, string(d)); err != nil {
			return types.WrapErr(err)
		}
	default:
		return types.MaybeNoSuchOverloadErr(args[1])
	}
	t = t.UTC()
	if y := t.Year(); y < 1 || y > 9999 {
		return types.NewErr("the time is outside the years 1 to 9999")
	}
	return types.Timestamp{Time: t}
}

func addISO(t time.Time, text string) (time.Time, error) {
	d, err := duration.Parse(text)
	if err != nil || text == "P" || strings.HasSuffix(text, "T") {
		return t, fmt.Errorf("%q is no ISO 8601 duration, such as P2D or PT4H", shorten(text, 40))
	}
	sign := 1.0
	if d.Negative {
		sign = -1
	}
	for _, part := range []float64{d.Years, d.Months, d.Weeks, d.Days} {
		if part != math.Trunc(part) || math.Abs(part) > 1e6 {
			return t, fmt.Errorf("%q is out of range, or has a fraction of a day or more", shorten(text, 40))
		}
	}
	exact := sign * (d.Hours*3600 + d.Minutes*60 + d.Seconds)
	if math.Abs(exact) > 9e9 {
		return t, fmt.Errorf("%q is out of range", shorten(text, 40))
	}
	months := int(sign * (d.Years*12 + d.Months))
	if months != 0 {
		year, month, day := t.Date()
		first := time.Date(year, month+time.Month(months), 1, 0, 0, 0, 0, time.UTC)
		last := time.Date(first.Year(), first.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day()
		t = onDay(t, first.Year(), first.Month(), min(day, last))
	}
	if days := int(sign * (d.Weeks*7 + d.Days)); days != 0 {
		year, month, day := t.Date()
		t = onDay(t, year, month, day+days)
	}
	return t.Add(time.Duration(math.Round(exact * 1e9))), nil
}

// onDay is the same time of another day.
func onDay(t time.Time, year int, month time.Month, day int) time.Time {
	return time.Date(year, month, day, t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), t.Location())
}
