package fsm

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"sort"

	"vobo/internal/definitions"
	"vobo/internal/fault"
)

// Pair is one equality of a correlation: the path in the call's input and the value
// that it must have.
type Pair struct {
	Input string
	Value any
}

// CorrelationHash is under which a wait for event is found by a call that carries these
// values: SHA-256 over the event and the pairs in the order of their paths, every part
// with its length. ok is false where a value is absent or null: that matches nothing.
func CorrelationHash(event string, pairs []Pair) (hash []byte, ok bool) {
	sorted := append([]Pair(nil), pairs...)
	sort.Slice(sorted, func(i, j int) bool { return sorted[i].Input < sorted[j].Input })
	parts := []string{"correlate", event}
	for _, p := range sorted {
		if p.Value == nil {
			return nil, false
		}
		parts = append(parts, p.Input, string(definitions.CanonicalJSON(p.Value)))
	}
	return hashParts(parts), len(pairs) > 0
}

// KeyHash is under which a call for the instance with this business key is kept;
// definition "" stands for any.
func KeyHash(definition, key string) []byte { return hashParts([]string{"key", definition, key}) }

func hashParts(parts []string) []byte {
	h := sha256.New()
	for _, p := range parts {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(p))))
		h.Write([]byte(p))
	}
	return h.Sum(nil)
}

// correlates tells whether some event of the state finds its instance by correlation.
func correlates(state *definitions.State) bool {
	return state != nil && slices.ContainsFunc(state.Events, func(e *definitions.Event) bool { return len(e.Correlate) > 0 })
}

// correlations says by what calls find the instance after this step, where that may have
// changed, and under which hashes a call may have come already.
func (p *planner) correlations() {
	was := &p.snap.Instance
	moved := p.ev.Kind == KindStart || p.inst.Wait != was.Wait || p.inst.Status != was.Status
	if !moved && !p.step.DataChanged {
		return
	}
	open := p.state != nil && p.state.Kind == definitions.Wait && (p.inst.Status == Running || p.inst.Status == Suspended)
	var found []Correlation
	if open && correlates(p.state) {
		found = p.correlated(p.state, p.inst.Data)
		p.step.SetCorrelations = true
		if !moved && slices.EqualFunc(found, p.correlated(p.state, was.Data), sameCorrelation) {
			p.step.SetCorrelations = false
			return
		}
	} else if p.ev.Kind != KindStart && moved {
		p.step.SetCorrelations = correlates(p.def.State(was.State))
	}
	p.step.Correlations = found
	if !open {
		return
	}
	for _, c := range found {
		p.step.Awaits = append(p.step.Awaits, c.Hash)
	}
	if moved && p.state.TakesCalls && p.inst.Key != "" {
		p.step.Awaits = append(p.step.Awaits, KeyHash(p.def.Name, p.inst.Key), KeyHash("", p.inst.Key))
	}
}

func sameCorrelation(a, b Correlation) bool { return a.Event == b.Event && bytes.Equal(a.Hash, b.Hash) }

// correlated gives the hashes of a state's events with these data.
func (p *planner) correlated(state *definitions.State, data map[string]any) []Correlation {
	var all []Correlation
	for _, e := range state.Events {
		if hash, ok := CorrelationHash(e.Name, p.pairs(e, data)); ok {
			all = append(all, Correlation{Event: e.Name, Hash: hash})
		}
	}
	return all
}

// pairs gives what a call for the event must carry; nil values where data have none.
func (p *planner) pairs(e *definitions.Event, data map[string]any) []Pair {
	if len(e.Correlate) == 0 {
		return nil
	}
	env := *p.present()
	env.Data = data
	pairs := make([]Pair, len(e.Correlate))
	for i, c := range e.Correlate {
		v, _ := c.Data.Get(data, &env)
		pairs[i] = Pair{Input: c.Input.Text, Value: v}
	}
	return pairs
}

// CallFits says why a call without a token does not fit the open wait's correlation,
// without deciding anything; "" where it fits, or the wait does not know the event.
func CallFits(snap *Snapshot, event string, input any) string {
	p := newPlanner(snap, &Event{Kind: KindRaise, Assurance: ByCallback, Name: event, Input: input}, snap.Instance.LastEventAt)
	if p.state == nil {
		return ""
	}
	e := p.state.Event(event)
	if e == nil {
		return ""
	}
	if err := p.matches(e); err != nil {
		return fault.As(err).Message
	}
	return ""
}

// matches refuses a call without a token that was found by correlation and no longer
// fits: the data may have changed since. What the call does not carry is not compared:
// then it was found by its business key.
func (p *planner) matches(e *definitions.Event) error {
	if p.ev.Assurance != ByCallback || p.ev.Token {
		return nil
	}
	input, _ := p.ev.Input.(map[string]any)
	for i, pair := range p.pairs(e, p.inst.Data) {
		v, there := e.Correlate[i].Input.Get(input, p.present())
		if !there || v == nil {
			continue
		}
		if pair.Value == nil || !bytes.Equal(definitions.CanonicalJSON(v), definitions.CanonicalJSON(pair.Value)) {
			return fault.New(fault.EventNotAllowedHere, "%q of this instance is for calls with another %s.", e.Name, pair.Input)
		}
	}
	return nil
}
