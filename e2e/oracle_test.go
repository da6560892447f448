package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"vobo/internal/deliver"
	"vobo/internal/fsm"
	"vobo/internal/store"
	"vobo/internal/testkit"
)

// record is all that the service knows of one instance.
type record struct {
	instance
	rows    []row
	effects []kept
}

// row is a history row with what a replay needs.
type row struct {
	transition
	Kind         string   `json:"kind"`
	From         string   `json:"from"`
	Changes      []change `json:"changes"`
	Hash         string   `json:"hash"`
	PreviousHash string   `json:"previous_hash"`
}

type change struct {
	Pointer string          `json:"pointer"`
	Before  json.RawMessage `json:"before"`
	After   json.RawMessage `json:"after"`
}

// kept is an effect with what the oracle compares.
type kept struct {
	effect
	Kind       string `json:"kind"`
	Key        string `json:"key"`
	Idempotent bool   `json:"idempotent"`
}

// each reads every page of a list.
func each[T any](s *service, path string) []T {
	s.t.Helper()
	var all []T
	for cursor := ""; ; {
		var page struct {
			Items []T
			Next  string
		}
		s.api(desk, http.MethodGet, path+"limit=500&cursor="+cursor, nil).want(s.t, http.StatusOK).into(s.t, &page)
		all = append(all, page.Items...)
		if cursor = page.Next; cursor == "" {
			return all
		}
	}
}

// records reads every instance with its history and its effects.
func (s *service) records() map[string]*record {
	s.t.Helper()
	all := map[string]*record{}
	for _, i := range each[instance](s, "/v1/instances?") {
		all[i.ID] = &record{}
	}
	for _, e := range each[kept](s, "/v1/effects?") {
		if r := all[e.InstanceID]; r != nil {
			r.effects = append(r.effects, e)
		} else {
			s.t.Errorf("the effect %s belongs to no instance", e.Key)
		}
	}
	var lock sync.Mutex
	ids := slices.Collect(maps.Keys(all))
	together(8, func(n int) {
		for i := n; i < len(ids); i += 8 {
			var now instance
			s.api(desk, http.MethodGet, "/v1/instances/"+ids[i], nil).want(s.t, http.StatusOK).into(s.t, &now)
			rows := each[row](s, "/v1/instances/"+ids[i]+"/history?")
			lock.Lock()
			all[ids[i]].instance, all[ids[i]].rows = now, rows
			lock.Unlock()
		}
	})
	return all
}

// judge is the oracle over a torture: I1 to I8.
func (r *torture) judge(t *testing.T, kills int) {
	t.Helper()
	all := r.s.records()
	r.judgeAcks(t, all)
	rows, effects, keys := 0, 0, map[string]*kept{}
	for id, one := range all {
		rows += len(one.rows)
		effects += len(one.effects)
		one.judgeHistory(t)
		one.judgeEffects(t, keys)
		if one.ID != id {
			t.Errorf("%s is read as %s", id, one.ID)
		}
	}
	r.judgeChains(t, all)
	for _, p := range r.s.replicas { // I10
		if logs := p.Logs(); strings.Contains(logs, "panic") {
			t.Errorf("a replica panicked: %s", logs[strings.Index(logs, "panic"):])
		}
	}
	copies, again := r.judgeDeliveries(t, keys)
	if t.Failed() {
		return
	}
	j := r.journal
	n := j.count(acked)
	t.Logf("%d kills; %d operations: %d acknowledged (%d after asking again, %d as replays), %d refused, %d given up; %d instances, %d history rows, %d effects, %d deliveries (%d explained copies): 0 lost, 0 doubled (< %.3f %% at 95 %%)",
		kills, len(j.ops), n, j.count(func(o op) bool { return acked(o) && o.Asked > 1 }), j.count(func(o op) bool { return o.Replayed }),
		j.count(func(o op) bool { return o.Outcome == "refused" }), j.count(func(o op) bool { return o.Outcome == "unknown" }),
		len(all), rows, effects, copies, again, 300/float64(n))
}

// judgeAcks: I1 each acknowledged decision has exactly one row, I7 what nobody heard of
// is there as a whole or not at all (the rest of that is in judgeHistory and judgeEffects).
func (r *torture) judgeAcks(t *testing.T, all map[string]*record) {
	t.Helper()
	for _, what := range r.journal.bad {
		t.Errorf("neither taken nor safe to ask again: %s", what)
	}
	starts, gone := map[string]int{}, map[string]bool{}
	for _, o := range r.journal.ops {
		switch {
		case o.Kind == "start" && acked(o):
			starts[o.Key]++
		case o.Kind == "start":
			gone[o.Key] = true
		case o.Kind == "go" && acked(o):
			one := all[o.Instance]
			if one == nil {
				t.Errorf("the instance of the acknowledged decision %s is lost", o.Key)
				continue
			}
			round := int(o.Key[len(o.Key)-1] - '0')
			if found := one.decisions(round); found != 1 {
				t.Errorf("the acknowledged decision %s has %d rows", o.Key, found)
			}
		}
	}
	here := map[string]int{}
	for _, one := range all {
		name, _ := one.Data["n"].(string)
		here[name]++
		if starts[name] == 0 && !gone[name] {
			t.Errorf("nobody asked for the instance %s", name)
		}
	}
	for name := range starts {
		if here[name] != 1 {
			t.Errorf("there are %d instances of the acknowledged start %s", here[name], name)
		}
	}
}

// decisions counts the rows of the first or the second decision.
func (o *record) decisions(round int) (n int) {
	for _, row := range o.rows {
		if row.Event == "go" && row.From == []string{"", "first", "second"}[round] {
			n++
		}
	}
	return n
}

// judgeHistory: I2 every change of state has its row and the other way round, I3 the
// numbers are dense, I4 a replay gives what is stored, I8 each row links to the one before.
func (o *record) judgeHistory(t *testing.T) {
	t.Helper()
	state, data, before := "", any(map[string]any{}), ""
	for i, row := range o.rows {
		if row.Seq != i+1 {
			t.Errorf("%s: row %d has the number %d", o.ID, i+1, row.Seq)
		}
		if row.PreviousHash != before || row.Hash == "" {
			t.Errorf("%s: row %d does not link to the one before it", o.ID, row.Seq)
		}
		if row.From != state {
			t.Errorf("%s: row %d leaves %q, but the state was %q", o.ID, row.Seq, row.From, state)
		}
		if row.To != "" {
			state = row.To
		}
		for _, c := range row.Changes {
			data = apply(t, data, c)
		}
		before = row.Hash
	}
	if state != o.State || o.Revision != len(o.rows) {
		t.Errorf("%s: the history ends in %s after %d rows; stored is %s, revision %d", o.ID, state, len(o.rows), o.State, o.Revision)
	}
	if replayed, stored := text(t, data), text(t, o.Data); replayed != stored {
		t.Errorf("%s: a replay gives %s; stored is %s", o.ID, replayed, stored)
	}
	if want := []string{"", "first", "second", "done"}; o.State != want[min(len(o.moves()), 3)] {
		t.Errorf("%s: %d moves and the state %s", o.ID, len(o.moves()), o.State)
	}
}

// moves are the numbers of the rows that led to another state, the start among them; the
// outcome of an effect that nobody knows has a row too.
func (o *record) moves() []int {
	var all []int
	for _, row := range o.rows {
		if row.To != "" {
			all = append(all, row.Seq)
		}
	}
	return all
}

func text(t *testing.T, v any) string {
	t.Helper()
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// apply puts one change into a tree of data.
func apply(t *testing.T, at any, c change) any {
	t.Helper()
	var value any
	if len(c.After) > 0 {
		if err := json.Unmarshal(c.After, &value); err != nil {
			t.Fatal(err)
		}
	}
	path := strings.Split(c.Pointer, "/")[1:]
	if len(path) == 0 {
		return value
	}
	tree, ok := at.(map[string]any)
	if !ok {
		t.Fatalf("the change %s has no place", c.Pointer)
	}
	name := path[0]
	if was := []byte(text(t, tree[name])); len(path) == 1 && len(c.Before) > 0 && !bytes.Equal(was, c.Before) {
		t.Errorf("the change %s says it was %s; it was %s", c.Pointer, c.Before, was)
	}
	if len(path) > 1 {
		tree[name] = apply(t, tree[name], change{Pointer: "/" + strings.Join(path[1:], "/"), Before: c.Before, After: c.After})
	} else if c.After == nil {
		delete(tree, name)
	} else {
		tree[name] = value
	}
	return tree
}

// judgeEffects: I5 the effects are those that the definition prescribes for the rows,
// each key once; none ended otherwise than it may.
func (o *record) judgeEffects(t *testing.T, keys map[string]*kept) {
	t.Helper()
	var want, got []string
	for i, seq := range o.moves() {
		for n, name := range prescribed[i+1] {
			want = append(want, fmt.Sprintf("%s/%d/%d %s", o.ID, seq, n+1, name))
		}
	}
	for i := range o.effects {
		e := &o.effects[i]
		got = append(got, e.Key+" "+e.Name)
		if keys[e.Key] != nil {
			t.Errorf("the effect key %s is there twice", e.Key)
		}
		keys[e.Key] = e
		if e.Status != "succeeded" && (e.Status != "unknown" || e.Name != "called_once") {
			t.Errorf("the effect %s %s ended as %s: %+v", e.Key, e.Name, e.Status, e.Attempts)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		t.Errorf("the effects are %v, the definition prescribes %v", got, want)
	}
}

// judgeChains: I8 every row is what was recorded.
func (r *torture) judgeChains(t *testing.T, all map[string]*record) {
	t.Helper()
	db, err := store.Open(t.Context(), store.Config{URL: r.s.database})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	for id := range all {
		page, err := db.History(t.Context(), id, store.Paging{Limit: 500})
		if err != nil {
			t.Fatal(err)
		}
		if err := fsm.VerifyChain(page.Items); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
}

// judgeDeliveries: I6 what the outside world got is what the effects are: every effect
// that succeeded, nothing else, and no more copies than attempts whose end nobody saw.
func (r *torture) judgeDeliveries(t *testing.T, keys map[string]*kept) (total, again int) {
	t.Helper()
	seen := map[string]int{}
	for _, sink := range [][]string{webhookIDs(r.s.core.Calls()), webhookIDs(r.s.esign.Calls())} {
		for _, key := range sink {
			seen[key]++
		}
	}
	byMail := map[string]string{}
	for key, e := range keys {
		if e.Kind != "email" {
			continue
		}
		id, err := deliver.MessageID(key, "vobo@example.com")
		if err != nil {
			t.Fatal(err)
		}
		byMail[id] = key
	}
	for _, m := range r.s.mail.Mails() {
		if slices.Equal(m.To, []string{omar}) {
			continue // operators are told of calls whose end is unknown
		}
		if key, known := byMail[m.MessageID]; known {
			seen[key]++
		} else {
			t.Errorf("the mail %s %q belongs to no effect", m.MessageID, m.Subject)
		}
	}
	for key, n := range seen {
		total += n
		e := keys[key]
		if e == nil {
			t.Errorf("the delivery %s belongs to no effect", key)
			continue
		}
		again += n - 1
		unseen := 0
		for _, a := range e.Attempts {
			if a.Outcome != "success" {
				unseen++
			}
		}
		if n-1 > unseen {
			t.Errorf("%s %s came %d times, with %d attempts whose end was not seen", key, e.Name, n, unseen)
		}
		if !e.Idempotent && n > 1 {
			t.Errorf("%s %s may go out once, and came %d times", key, e.Name, n)
		}
	}
	for key, e := range keys {
		if e.Status == "succeeded" && seen[key] == 0 {
			t.Errorf("%s %s succeeded, and never came", key, e.Name)
		}
	}
	return total, again
}

func webhookIDs(calls []testkit.WebhookCall) []string {
	var ids []string
	for _, c := range calls {
		ids = append(ids, c.Header.Get("Webhook-Id"))
	}
	return ids
}
