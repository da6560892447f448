package api

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"vobo/internal/approval"
	"vobo/internal/definitions"
	"vobo/internal/fault"
)

// body reads one JSON object field by field: exact digits, and every unknown or
// ill-typed field is named at once.
type body struct {
	fields map[string]any
	read   map[string]bool
	errs   []fault.Field
}

// readBody parses a request body. Faults: malformed with the position, invalid-input.
func readBody(raw []byte) (*body, error) {
	if len(raw) == 0 {
		return nil, fault.New(fault.Malformed, "The body is empty: send a JSON object.")
	}
	tree, err := definitions.DecodeJSON(raw)
	if err != nil {
		return nil, err
	}
	fields, ok := tree.(map[string]any)
	if !ok {
		return nil, fault.New(fault.Malformed, "The body must be a JSON object.")
	}
	return &body{fields: fields, read: map[string]bool{}}, nil
}

func (b *body) get(name string) (any, bool) {
	b.read[name] = true
	v, ok := b.fields[name]
	return v, ok
}

func (b *body) wrong(name, detail string) {
	b.errs = append(b.errs, fault.Field{Pointer: "/" + name, Detail: detail})
}

// text reads a string.
func (b *body) text(name string, required bool) string {
	v, ok := b.get(name)
	if !ok {
		if required {
			b.wrong(name, name+" is missing.")
		}
		return ""
	}
	s, ok := v.(string)
	if !ok {
		b.wrong(name, "Use a text.")
	} else if required && s == "" {
		b.wrong(name, name+" is empty.")
	}
	return s
}

// whole reads a whole number of at least 0.
func (b *body) whole(name string) int {
	v, ok := b.get(name)
	if !ok {
		return 0
	}
	if n, ok := v.(json.Number); ok {
		if i, err := strconv.Atoi(n.String()); err == nil && i >= 0 && i <= math.MaxInt32 {
			return i
		}
	}
	b.wrong(name, "Use a whole number of at least 0.")
	return 0
}

// flag reads true or false; false where it is absent.
func (b *body) flag(name string) bool {
	v, ok := b.get(name)
	if !ok {
		return false
	}
	yes, ok := v.(bool)
	if !ok {
		b.wrong(name, "Use true or false.")
	}
	return yes
}

// oneOf reads a text that is one of the known ones, "" where it is absent.
func (b *body) oneOf(name string, known []string) string {
	s := b.text(name, false)
	if s != "" && !slices.Contains(known, s) {
		b.wrong(name, "Use one of "+strings.Join(known, ", ")+".")
	}
	return s
}

// moment reads an RFC 3339 time; nil where it is absent.
func (b *body) moment(name string) *time.Time {
	s := b.text(name, false)
	if s == "" {
		return nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		b.wrong(name, "Use an RFC 3339 time, such as 2026-12-03T10:00:00Z.")
		return nil
	}
	return &t
}

// object reads an object; nil where it is absent.
func (b *body) object(name string, required bool) map[string]any {
	v, ok := b.get(name)
	if !ok {
		if required {
			b.wrong(name, name+" is missing.")
		}
		return nil
	}
	m, ok := v.(map[string]any)
	if !ok {
		b.wrong(name, "Use an object.")
	}
	return m
}

// texts reads an object of strings.
func (b *body) texts(name string) map[string]string {
	m := b.object(name, false)
	if m == nil {
		return nil
	}
	out := make(map[string]string, len(m))
	for k, v := range m {
		s, ok := v.(string)
		if !ok {
			b.wrong(name+"/"+k, "Use a text.")
		}
		out[k] = s
	}
	return out
}

// any reads whatever is there.
func (b *body) any(name string) any {
	v, _ := b.get(name)
	return v
}

// done refuses what was not read and what did not fit.
func (b *body) done() error {
	unknown := []string{}
	for k := range b.fields {
		if !b.read[k] {
			unknown = append(unknown, k)
		}
	}
	sort.Strings(unknown)
	for _, k := range unknown {
		b.wrong(k, fmt.Sprintf("There is no field %q here.", k))
	}
	if len(b.errs) == 0 {
		return nil
	}
	return fault.New(fault.InvalidInput, "The body does not fit.").With(b.errs...)
}

// idempotency is the caller's Idempotency-Key with the route and the body's hash.
func idempotency(present bool, key, route string, raw []byte) (approval.Idempotency, error) {
	if !present {
		return approval.Idempotency{}, nil
	}
	if key == "" || len(key) > 255 {
		return approval.Idempotency{}, fault.New(fault.Malformed, "An Idempotency-Key has 1 to 255 characters.")
	}
	hash := sha256.Sum256(raw)
	return approval.Idempotency{Key: key, Route: route, BodyHash: hash[:]}, nil
}

// raiseRequest reads {event, input?, comment?, documents?, digest?}.
func raiseRequest(raw []byte, withDigest bool) (approval.RaiseRequest, error) {
	b, err := readBody(raw)
	if err != nil {
		return approval.RaiseRequest{}, err
	}
	r := approval.RaiseRequest{
		Event: b.text("event", true), Input: b.any("input"), Comment: b.text("comment", false),
		Documents: b.object("documents", false),
	}
	if withDigest {
		r.Digest = b.text("digest", false)
	}
	return r, b.done()
}
