package definitions

import (
	"fmt"
	"slices"
	"strings"

	"vobo/internal/fault"
)

const (
	maxPrincipalName = 254
	maxSpliced       = 1000 // principals that one {{ expression }} may give
)

// bareKinds stand without a name.
var bareKinds = []PrincipalKind{KindRequester, KindOwner, KindTimer, KindEffect}

// namedKinds stand with a name behind a colon.
var namedKinds = []PrincipalKind{KindUser, KindGroup, KindRole, KindEmail, KindDid, KindSystem}

// Resolve gives the principals this one stands for (Dynamic: a list; empty where a
// field is absent). Requester, owner, timer, effect and did come back as they are.
// A list within a name gives one principal for each entry. Errors are of code
// guard-rejected.
func (p Principal) Resolve(env *Env) ([]Ref, error) {
	if p.Name == nil || slices.Contains(bareKinds, p.Kind) {
		if p.Kind == KindDynamic {
			return nil, nil
		}
		return []Ref{{Kind: p.Kind}}, nil
	}
	if p.Kind == KindDid || p.Name.Static() {
		return refsOf(p.Kind, []any{p.Name.Text})
	}
	v, err := p.Name.Value(env)
	if err != nil {
		return nil, err
	}
	names, ok := v.([]any)
	if !ok {
		names = []any{v}
	}
	if len(names) > maxSpliced {
		return nil, fault.New(fault.GuardRejected, "%s gives %d principals; at most %d are allowed.", p.Text, len(names), maxSpliced)
	}
	return refsOf(p.Kind, names)
}

func refsOf(kind PrincipalKind, names []any) ([]Ref, error) {
	var refs []Ref
	for _, v := range names {
		if v == nil || v == "" {
			continue // an absent field names nobody
		}
		name, err := plainText(v)
		if err != nil {
			return nil, err
		}
		ref := Ref{Kind: kind, Name: name}
		if kind == KindDynamic {
			ref, err = dynamicRef(name)
		} else {
			err = checkName(name)
		}
		if err != nil {
			return nil, err
		}
		if !slices.Contains(refs, ref) {
			refs = append(refs, ref)
		}
	}
	return refs, nil
}

// dynamicRef reads what an expression gave: people, groups and systems, but never
// the product's own hands.
func dynamicRef(name string) (Ref, error) {
	ref, err := ParseRef(name)
	if err == nil && (ref.Kind == KindTimer || ref.Kind == KindEffect || ref.Kind == KindDid) {
		err = fault.New(fault.GuardRejected, "%q may not come from an expression.", shorten(name, 60))
	}
	return ref, err
}

// ParseRef reads "group:risk", "requester", "ana@example.com" (KindEmail). Errors
// are of code guard-rejected.
func ParseRef(s string) (Ref, error) {
	kind, name, named := strings.Cut(s, ":")
	switch {
	case !named && slices.Contains(bareKinds, PrincipalKind(s)):
		return Ref{Kind: PrincipalKind(s)}, nil
	case named && slices.Contains(namedKinds, PrincipalKind(kind)):
		ref := Ref{Kind: PrincipalKind(kind), Name: name}
		return ref, checkName(name)
	case strings.Contains(s, "@"):
		return Ref{Kind: KindEmail, Name: s}, checkName(s)
	}
	return Ref{}, fault.New(fault.GuardRejected, "%q names nobody: write user:, group: or role: and the name.", shorten(s, 60))
}

func checkName(name string) error {
	wrong := ""
	switch {
	case name == "":
		wrong = "is empty"
	case len(name) > maxPrincipalName:
		wrong = fmt.Sprintf("is longer than %d characters", maxPrincipalName)
	case strings.TrimSpace(name) != name:
		wrong = "begins or ends with a space"
	case strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }):
		wrong = "has a control character"
	}
	if wrong != "" {
		return fault.New(fault.GuardRejected, "The name %q of a principal %s.", shorten(name, 60), wrong)
	}
	return nil
}
