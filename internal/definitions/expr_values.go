package definitions

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// JSON trees enter expressions as they are: an object or list is wrapped, and a
// member is converted by its schema only when an expression reads it.

// absentError says that a field was read that is not there.
type absentError struct{ field string }

func (e absentError) Error() string { return e.field + " is not set" }

// fielder is what a typed field can be read from.
type fielder interface {
	field(name string) (any, error)
	hasField(name string) bool
}

var errNoConversion = errors.New("this value cannot be converted")

// adapter turns plain values into those of expressions.
type adapter struct{}

var _ types.Adapter = adapter{}

func (adapter) NativeToValue(v any) ref.Val {
	switch v := v.(type) {
	case ref.Val:
		return v
	case map[string]any, []any, json.Number:
		return toCEL(v, nil)
	}
	return types.DefaultTypeAdapter.NativeToValue(v)
}

// toCEL converts one value by its schema (nil: by its own kind).
func toCEL(v any, n *node) ref.Val {
	switch v := v.(type) {
	case nil:
		return types.NullValue
	case bool:
		return types.Bool(v)
	case string:
		return types.String(v)
	case json.Number:
		return numberToCEL(string(v), n)
	case map[string]any:
		if n == nil || n.kind != objectNode {
			n = untypedBelow(n)
		}
		return &object{m: v, n: n}
	case []any:
		l := &list{l: v}
		if n != nil {
			l.elem = n.items
		}
		return l
	}
	return adapter{}.NativeToValue(v)
}

func untypedBelow(n *node) *node {
	if n != nil && n.kind == mapNode {
		return n
	}
	return nil
}

func numberToCEL(text string, n *node) ref.Val {
	if n != nil && n.kind == numberNode {
		return floatToCEL(text)
	}
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return types.Int(i)
	}
	whole := !strings.ContainsAny(text, ".eE")
	if n != nil && n.kind == integerNode {
		text, whole = canonicalNumber(text), true
		if i, err := strconv.ParseInt(text, 10, 64); err == nil {
			return types.Int(i)
		}
		whole = !strings.ContainsAny(text, ".eE")
	}
	if whole {
		return types.NewErr("the whole number %s is too large for an expression", shorten(text, 40))
	}
	return floatToCEL(text)
}

func floatToCEL(text string) ref.Val {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return types.NewErr("the number %s is too large for an expression", shorten(text, 40))
	}
	return types.Double(f)
}

// object is a JSON object in an expression.
type object struct {
	m map[string]any
	n *node // nil: untyped
}

func (o *object) member(name string) *node {
	if o.n == nil {
		return nil
	}
	if p := o.n.props[name]; p != nil {
		return p
	}
	return o.n.extra
}

func (o *object) field(name string) (any, error) {
	v, ok := o.m[name]
	if !ok {
		return nil, absentError{name}
	}
	out := toCEL(v, o.member(name))
	if e, ok := out.(*types.Err); ok {
		return nil, e
	}
	return out, nil
}

func (o *object) hasField(name string) bool { _, ok := o.m[name]; return ok }

func (o *object) Type() ref.Type {
	if o.n != nil && o.n.kind == objectNode {
		return o.n.cel
	}
	return types.MapType
}

func (o *object) Value() any { return o }

func (o *object) ConvertToNative(t reflect.Type) (any, error) { return nativeOf(o, t) }

func (o *object) ConvertToType(t ref.Type) ref.Val { return convertType(o, t) }

func (o *object) Equal(other ref.Val) ref.Val { return equalAsTrees(o, other) }

func (o *object) Find(key ref.Val) (ref.Val, bool) {
	name, ok := key.(types.String)
	if !ok {
		return nil, false
	}
	v, ok := o.m[string(name)]
	if !ok {
		return nil, false
	}
	return toCEL(v, o.member(string(name))), true
}

func (o *object) Get(key ref.Val) ref.Val {
	if v, ok := o.Find(key); ok {
		return v
	}
	return types.WrapErr(absentError{fmt.Sprint(key.Value())})
}

func (o *object) IsSet(key ref.Val) ref.Val { return o.Contains(key) }

func (o *object) Contains(key ref.Val) ref.Val {
	name, ok := key.(types.String)
	return types.Bool(ok && o.hasField(string(name)))
}

func (o *object) Size() ref.Val { return types.Int(len(o.m)) }

func (o *object) Iterator() traits.Iterator {
	keys := make([]any, 0, len(o.m))
	for _, k := range sortedKeys(o.m) {
		keys = append(keys, k)
	}
	return &iterator{l: &list{l: keys}}
}

// list is a JSON array in an expression.
type list struct {
	l    []any
	elem *node
}

func (l *list) Type() ref.Type { return types.ListType }

func (l *list) Value() any { return l }

func (l *list) ConvertToNative(t reflect.Type) (any, error) { return nativeOf(l, t) }

func (l *list) ConvertToType(t ref.Type) ref.Val { return convertType(l, t) }

func (l *list) Equal(other ref.Val) ref.Val { return equalAsTrees(l, other) }

func (l *list) Add(other ref.Val) ref.Val {
	o, ok := other.(traits.Lister)
	if !ok {
		return types.MaybeNoSuchOverloadErr(other)
	}
	size, ok := o.Size().(types.Int)
	if !ok {
		return types.MaybeNoSuchOverloadErr(other)
	}
	all := make([]ref.Val, 0, len(l.l)+int(size))
	for _, v := range l.l {
		all = append(all, toCEL(v, l.elem))
	}
	for it := o.Iterator(); it.HasNext() == types.True; {
		all = append(all, it.Next())
	}
	return types.NewRefValList(adapter{}, all)
}

func (l *list) Contains(v ref.Val) ref.Val {
	for _, e := range l.l {
		if types.Equal(toCEL(e, l.elem), v) == types.True {
			return types.True
		}
	}
	return types.False
}

func (l *list) Get(index ref.Val) ref.Val {
	i, err := indexOf(index)
	if err != nil {
		return types.WrapErr(err)
	}
	if i < 0 || i >= len(l.l) {
		return types.WrapErr(absentError{fmt.Sprintf("[%d]", i)})
	}
	return toCEL(l.l[i], l.elem)
}

func (l *list) Iterator() traits.Iterator { return &iterator{l: l} }

func (l *list) Size() ref.Val { return types.Int(len(l.l)) }

type iterator struct {
	l    *list
	next int
}

func (it *iterator) HasNext() ref.Val { return types.Bool(it.next < len(it.l.l)) }

func (it *iterator) Next() ref.Val {
	if it.next >= len(it.l.l) {
		return nil
	}
	v := toCEL(it.l.l[it.next], it.l.elem)
	it.next++
	return v
}

func (it *iterator) Type() ref.Type                            { return types.IteratorType }
func (it *iterator) Value() any                                { return it }
func (it *iterator) Equal(ref.Val) ref.Val                     { return types.False }
func (it *iterator) ConvertToNative(reflect.Type) (any, error) { return nil, errNoConversion }
func (it *iterator) ConvertToType(t ref.Type) ref.Val          { return convertType(it, t) }

func nativeOf(v ref.Val, t reflect.Type) (any, error) {
	if reflect.TypeOf(v).AssignableTo(t) {
		return v, nil
	}
	tree, err := toTree(v)
	if err != nil {
		return nil, err
	}
	if tree != nil && reflect.TypeOf(tree).AssignableTo(t) {
		return tree, nil
	}
	return nil, errNoConversion
}

func convertType(v ref.Val, t ref.Type) ref.Val {
	switch {
	case t.TypeName() == v.Type().TypeName():
		return v
	case t == types.TypeType:
		if vt, ok := v.Type().(*types.Type); ok {
			return vt
		}
	}
	return types.NewErr("this value cannot be converted to %s", typeWords(t.TypeName()))
}

// equalAsTrees compares by what stands in JSON; numbers by value.
func equalAsTrees(a, b ref.Val) ref.Val {
	if types.IsUnknownOrError(b) {
		return b
	}
	x, err := toTree(a)
	if err != nil {
		return types.WrapErr(err)
	}
	y, err := toTree(b)
	if err != nil {
		return types.WrapErr(err)
	}
	return types.Bool(equalTree(x, y))
}

func equalTree(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for k, v := range a {
			w, there := b[k]
			if !there || !equalTree(v, w) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !equalTree(a[i], b[i]) {
				return false
			}
		}
		return true
	case json.Number:
		b, ok := b.(json.Number)
		return ok && (a == b || canonicalNumber(string(a)) == canonicalNumber(string(b)))
	}
	return a == b
}

// indexOf reads a list's index; CEL takes a double without fraction for one.
func indexOf(v ref.Val) (int, error) {
	switch i := v.(type) {
	case types.Int:
		return int(i), nil
	case types.Uint:
		if i <= math.MaxInt32 {
			return int(i), nil
		}
	case types.Double:
		if f := float64(i); f == math.Trunc(f) && math.Abs(f) <= math.MaxInt32 {
			return int(f), nil
		}
	}
	return 0, fmt.Errorf("%s is no index of a list", typeWords(v.Type().TypeName()))
}
