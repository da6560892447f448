package store

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"testing"
	"time"

	"gorm.io/gorm"

	"vobo/internal/fault"
	"vobo/internal/fsm"
)

func (b *bench) find(t *testing.T, f InstanceFilter) []string {
	t.Helper()
	page, err := b.Instances(t.Context(), f, Paging{})
	if err != nil {
		t.Fatal(err)
	}
	return idsOf(page.Items)
}

func wantIDs(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestInstancesAreFoundByEveryFilter(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		yes, no, key, none := true, false, "S-1", ""
		first := b.instance(t, fsm.Instance{
			Definition: "supplier", Version: 2, State: "signing", Status: fsm.Suspended, Key: key,
			Labels: map[string]string{"region": "EU"}, Attention: []fsm.Attention{{Reason: "no-owner", Since: base}},
		})
		second := b.instance(t, fsm.Instance{StartedAt: base.Add(time.Hour), EnteredAt: base.Add(-time.Hour), Labels: map[string]string{"region": "US"}})
		early, late := base.Add(-time.Minute), base.Add(time.Minute)
		for name, c := range map[string]struct {
			filter InstanceFilter
			want   []string
		}{
			"nothing":               {InstanceFilter{}, []string{second, first}},
			"definition":            {InstanceFilter{Definition: "supplier"}, []string{first}},
			"version":               {InstanceFilter{Version: 1}, []string{second}},
			"state":                 {InstanceFilter{State: "signing"}, []string{first}},
			"status":                {InstanceFilter{Status: fsm.Running}, []string{second}},
			"attention":             {InstanceFilter{Attention: &yes}, []string{first}},
			"no attention":          {InstanceFilter{Attention: &no}, []string{second}},
			"label":                 {InstanceFilter{Label: [2]string{"region", "US"}}, []string{second}},
			"label of other case":   {InstanceFilter{Label: [2]string{"region", "us"}}, nil},
			"key":                   {InstanceFilter{Key: &key}, []string{first}},
			"no key":                {InstanceFilter{Key: &none}, []string{second}},
			"started after":         {InstanceFilter{StartedAfter: &late}, []string{second}},
			"started before":        {InstanceFilter{StartedBefore: &late}, []string{first}},
			"started after both":    {InstanceFilter{StartedAfter: &early, Definition: "x"}, nil},
			"oldest start first":    {InstanceFilter{Sort: "started_at"}, []string{first, second}},
			"newest entry first":    {InstanceFilter{Sort: "-entered_at"}, []string{first, second}},
			"oldest entry first":    {InstanceFilter{Sort: "entered_at"}, []string{second, first}},
			"an unknown definition": {InstanceFilter{Definition: "' OR 1=1 --"}, nil},
		} {
			wantIDs(t, name, b.find(t, c.filter), c.want...)
		}
	})
}

func TestAnInstanceIsListedWithAllItsColumns(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		want := fsm.Instance{
			Definition: "supplier", Version: 3, State: "signing", Status: fsm.Running, Key: "S-1", Requester: "ana@example.com",
			StartedBy: "system:erp", Labels: map[string]string{"a": "b"}, StartedAt: base.Add(123 * time.Millisecond), EnteredAt: base.Add(time.Hour),
			Attention: []fsm.Attention{{Reason: "dead-effect", Ref: "x", Detail: "d", Since: base}},
		}
		want.ID = b.instance(t, want)
		finished := base.Add(2 * time.Hour)
		b.write(t, `UPDATE instances SET wait = 4, revision = 5, last_event_at = ?, finished_at = ?, compensation = ? WHERE id = ?`,
			stamp(finished), stamp(finished), `{"seq":4,"items":[],"not_undone":["mail"],"done":true}`, want.ID)
		want.Hash, want.HeadHash, want.Wait, want.Revision = "v1:x", "h", 4, 5
		want.LastEventAt, want.FinishedAt = finished, &finished
		want.Compensation = &fsm.Compensation{Seq: 4, Items: []fsm.CompensationItem{}, NotUndone: []string{"mail"}, Done: true}
		page, err := b.Instances(t.Context(), InstanceFilter{}, Paging{})
		if err != nil || len(page.Items) != 1 {
			t.Fatalf("got %v, %v", page, err)
		}
		if !reflect.DeepEqual(page.Items[0], want) {
			t.Errorf("got  %+v\nwant %+v", page.Items[0], want)
		}
	})
}

// field report B61
func TestSearchIsLiteralAndTakesEveryCaseOfEveryScript(t *testing.T) {
	t.Parallel()
	texts := []string{"50% off", "50x off", "a_b", "axb", `back\slash`, "ÄRGER", "Straße", "ПРИВЕТ", "it's \"quoted\""}
	onEachDatabase(t, func(t *testing.T, b *bench) {
		byText := map[string]string{}
		for n, text := range texts {
			byText[text] = b.instance(t, fsm.Instance{StartedAt: base.Add(time.Duration(n) * time.Minute)}, text)
		}
		for q, want := range map[string][]string{
			"50%":      {"50% off"},
			"%":        {"50% off"},
			"５０％":      {"50% off"},
			"_":        {"a_b"},
			"A_B":      {"a_b"},
			`BACK\`:    {`back\slash`},
			`\`:        {`back\slash`},
			"ärger":    {"ÄRGER"},
			"arger":    nil,
			"STRASSE":  {"Straße"},
			"привет":   {"ПРИВЕТ"},
			"'":        {`it's "quoted"`},
			`"QUOTED"`: {`it's "quoted"`},
			"!":        nil,
			"50x OFF":  {"50x off"},
		} {
			ids := []string{}
			for _, text := range want {
				ids = append(ids, byText[text])
			}
			wantIDs(t, q, b.find(t, InstanceFilter{Q: q}), ids...)
		}
		if got := b.find(t, InstanceFilter{Q: " \t "}); len(got) != len(texts) {
			t.Errorf("a blank search lists %d of %d", len(got), len(texts))
		}
		key := b.instance(t, fsm.Instance{Key: "Käse-7"})
		wantIDs(t, "the key", b.find(t, InstanceFilter{Q: "KÄSE"}), key)
		wantIDs(t, "the id", b.find(t, InstanceFilter{Q: key}), key)
	})
}

func TestWhatNoDatabaseCanLookForIsMalformed(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		long := make([]byte, longestText+1)
		for i := range long {
			long[i] = 'x'
		}
		for name, f := range map[string]InstanceFilter{
			"NUL": {Q: "a\x00b"}, "invalid UTF-8": {State: "\xff"}, "overlong": {Q: string(long)}, "an unknown order": {Sort: "title"},
			"NUL in a label": {Label: [2]string{"a", "\x00"}},
		} {
			if _, err := b.Instances(t.Context(), f, Paging{}); fault.CodeOf(err) != fault.Malformed {
				t.Errorf("%s: got %v", name, err)
			}
		}
		_, err := b.Instances(t.Context(), InstanceFilter{}, Paging{Cursor: "bm8"})
		wantCode(t, err, fault.Malformed)
		_, err = b.History(t.Context(), "not an id", Paging{})
		wantCode(t, err, fault.NotFound)
	})
}

// field report B51
func TestEveryInstanceIsSeenOnceWhileOthersAreAddedAndChanged(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		present := map[string]bool{}
		err := b.writer(t.Context()).Transaction(func(tx *gorm.DB) error {
			for range 250 {
				present[insertInstance(t, tx, b, fsm.Instance{})] = true // all at one time
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		changes := 0
		meanwhile := func() {
			if changes++; changes > 60 { // enough on both sides of those present
				return
			}
			b.instance(t, fsm.Instance{StartedAt: base.Add(time.Duration(changes-30) * time.Minute)})
			b.write(t, `UPDATE instances SET state = 'done', status = 'finished' WHERE id = ?`, firstOf(present))
		}
		for _, sort := range []string{"started_at", "-started_at"} {
			for _, size := range []int{1, 7, 100} {
				seen := map[string]int{}
				for _, id := range idsOf(walk(t, size, meanwhile, func(ctx context.Context, p Paging) (Page[fsm.Instance], error) {
					return b.Instances(ctx, InstanceFilter{Sort: sort}, p)
				})) {
					seen[id]++
				}
				for id, n := range seen {
					if n != 1 {
						t.Errorf("%s in pages of %d: %s is seen %d times", sort, size, id, n)
					}
				}
				for id := range present {
					if seen[id] == 0 {
						t.Errorf("%s in pages of %d: %s is skipped", sort, size, id)
					}
				}
			}
		}
	})
}

// firstOf is any key of a set.
func firstOf(set map[string]bool) string {
	for key := range set {
		return key
	}
	return ""
}

func TestAReaderSeesTheirOwnAndThoseTheyWereAskedAbout(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		minutes := 0
		instance := func(i fsm.Instance) string {
			minutes++
			i.StartedAt = base.Add(time.Duration(-minutes) * time.Minute)
			return b.instance(t, i)
		}
		requested := instance(fsm.Instance{Requester: "ana@example.com"})
		startedFor := instance(fsm.Instance{StartedBy: "ana@example.com"})
		asked, ofGroup, whole := instance(fsm.Instance{}), instance(fsm.Instance{}), instance(fsm.Instance{Definition: "report"})
		instance(fsm.Instance{})
		b.task(t, asked, 1, taskSeed{status: "expired", named: []string{"user:ana@example.com"}})
		b.task(t, ofGroup, 1, taskSeed{status: "done", owners: []string{"group:risk"}})
		ana := &Reader{ID: "ana@example.com", Refs: []string{"user:ana@example.com", "group:risk"}, Definitions: []string{"report"}}
		wantIDs(t, "ana", b.find(t, InstanceFilter{ReadableBy: ana}), requested, startedFor, asked, ofGroup, whole)
		wantIDs(t, "nobody", b.find(t, InstanceFilter{ReadableBy: &Reader{ID: "x@example.com"}}))
		wantIDs(t, "an empty reader", b.find(t, InstanceFilter{ReadableBy: &Reader{}}))
	})
}

func TestHistoryComesBackDigitByDigitInTheOrderItHappened(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		id := b.instance(t, fsm.Instance{})
		want := fsm.Transition{
			Seq: 2, EventID: "01980000-0000-7000-8000-00000000e002", Kind: fsm.TVote, Event: "approve", From: "review", Via: []string{"triage"},
			Wait: 1, Actor: fsm.Actor{Kind: fsm.ActorPerson, ID: "ana@example.com", Groups: []string{"risk"}}, Assurance: fsm.ByLink,
			Comment: "fine <&> ünïcode", Input: map[string]any{"amount": json.Number("1.0"), "zero": json.Number("-0"), "big": json.Number("1e2")},
			Documents: map[string]any{"d": "x"}, Changes: []fsm.Change{{Pointer: "/a", Before: json.Number("1.10"), After: "b"}},
			Digest: "d", Pending: &fsm.Pending{Have: 1, Need: 2}, Token: fsm.EffectID{Seq: 1, N: 3}, Reason: "r",
			DeadlinesCancelled: []string{"remind"}, At: base.Add(time.Millisecond), DefinitionVersion: 2, Salt: []byte{0, 1, 255}, Hash: "h2", PreviousHash: "h1",
		}
		b.transition(t, id, fsm.Transition{Seq: 1, EventID: "01980000-0000-7000-8000-00000000e001", Kind: fsm.TStart, To: "review", At: base})
		b.transition(t, id, want)
		rows := walk(t, 1, func() {}, func(ctx context.Context, p Paging) (Page[fsm.Transition], error) { return b.History(ctx, id, p) })
		if len(rows) != 2 || rows[0].Seq != 1 || rows[0].Pending != nil || rows[0].Input != nil {
			t.Fatalf("got %+v", rows)
		}
		if !reflect.DeepEqual(rows[1], want) {
			t.Errorf("got  %+v\nwant %+v", rows[1], want)
		}
		at, err := b.TransitionAt(t.Context(), id, 2)
		if err != nil || !reflect.DeepEqual(at, want) {
			t.Errorf("got %+v, %v", at, err)
		}
		_, err = b.TransitionAt(t.Context(), id, 3)
		wantCode(t, err, fault.NotFound)
		_, err = b.History(t.Context(), b.id(), Paging{})
		wantCode(t, err, fault.NotFound)
	})
}

// transition writes a history row.
func (b *bench) transition(t *testing.T, instance string, r fsm.Transition) {
	t.Helper()
	pending := fsm.Pending{}
	if r.Pending != nil {
		pending = *r.Pending
	}
	text := func(value any) string {
		if value == nil || reflect.ValueOf(value).IsZero() {
			return ""
		}
		return asJSON(t, value)
	}
	if r.Salt == nil {
		r.Salt = []byte{}
	}
	b.write(t, `INSERT INTO transitions (instance_id, seq, event_id, kind, event, from_state, to_state, via, wait, actor_kind, actor_id,
		actor, assurance, comment, input, documents, changes, digest, pending_have, pending_need, token_seq, token_n, reason,
		deadlines_cancelled, at, definition_version, salt, hash, previous_hash)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		instance, r.Seq, r.EventID, string(r.Kind), r.Event, r.From, r.To, text(r.Via), r.Wait, string(r.Actor.Kind), r.Actor.ID,
		asJSON(t, r.Actor), string(r.Assurance), r.Comment, text(r.Input), text(r.Documents), text(r.Changes), r.Digest,
		pending.Have, pending.Need, r.Token.Seq, r.Token.N, r.Reason, text(r.DeadlinesCancelled), stamp(r.At), r.DefinitionVersion,
		r.Salt, r.Hash, r.PreviousHash)
}
