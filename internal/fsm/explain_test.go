package fsm_test

import (
	"slices"
	"strings"
	"testing"

	"vobo/internal/definitions"
	"vobo/internal/fault"
	"vobo/internal/fsm"
)

func TestExplainSaysForWhomItWaitsAndWhatComesNext(t *testing.T) {
	t.Parallel()
	b := newBundle(t, example(t, "supplier.v1.yaml"))
	b.start("rosa@example.com", supplierData)
	b.accepted(b.raise("ana@example.com", "approve", b.input(`{"limit":1}`)))
	x, err := fsm.Explain(b.w.Snapshot(&fsm.Event{}, nil), b.now)
	if err != nil {
		t.Fatal(err)
	}
	if x.State != "pending_approval" || x.Label == "" || x.Status != fsm.Running || !x.Since.Equal(monday) {
		t.Errorf("%+v", x)
	}
	if w := x.WaitsFor[0]; w.Name != "Ana" || w.Voted != "approve" || !slices.Equal(w.Lines, []string{"group:risk"}) {
		t.Errorf("waits for %+v", w)
	}
	approve := x.Events[0]
	if approve.Event != "approve" || *approve.Quorum != (fsm.Pending{Have: 1, Need: 2}) || !slices.Equal(approve.Missing, []string{"group:legal"}) ||
		!slices.Equal(approve.Not, []string{"requester"}) || len(approve.Who) != 3 {
		t.Errorf("approve %+v", approve)
	}
	var next []string
	for _, d := range x.Deadlines {
		next = append(next, d.Action)
	}
	if !slices.Equal(next, []string{"remind owner", "escalate group:managers", "fire expire"}) || x.Deadlines[0].Times != 3 {
		t.Errorf("deadlines %+v", x.Deadlines)
	}
}

func TestOfferedEventsAreWhatTheCallerMayRaise(t *testing.T) {
	t.Parallel()
	b := newBundle(t, parse(t, strings.Replace(strings.Replace(lonely, "who: {type: string}", "who: {type: string}, never: {type: string}", 1), "      go:", "      never: {to: over, by: [owner], when: has(data.never), comment: required}\n      later: {to: over, by: [owner], when: \"now > timestamp('2030-01-01T00:00:00Z')\"}\n      change: {to: stay, by: [owner], edit: [who]}\n      go:", 1)))
	b.start("rosa@example.com", `{"who":"ana@example.com"}`)
	for who, want := range map[string]string{"ana@example.com": "never* later change go", "rosa@example.com": "", "luis@example.com": ""} {
		list, err := fsm.OfferedEvents(b.w.Snapshot(&fsm.Event{}, nil), b.w.Person(who), "en", b.now)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, o := range list {
			if o.Blocked != "" {
				o.Event += "*"
			}
			if o.Event == "change" && (!o.Edit || o.Values["who"] != "ana@example.com" || o.Form == nil) {
				t.Errorf("change %+v", o)
			}
			if o.Event == "never*" && o.Comment != definitions.CommentRequired {
				t.Errorf("never %+v", o)
			}
			names = append(names, o.Event)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s may raise %q, want %q", who, got, want)
		}
	}
}

func TestTheDigestOfTheWaitIsThatOfItsTask(t *testing.T) {
	t.Parallel()
	b := boardBundle(t, "ana")
	got, err := fsm.Digest(b.w.Snapshot(&fsm.Event{}, nil))
	if err != nil || got != b.w.Tasks[0].Digest || got == "" {
		t.Errorf("%q, %v; the task has %q", got, err, b.w.Tasks[0].Digest)
	}
}

func TestTheDigestCoversWhatIsShownAndAsked(t *testing.T) { // guarantee S-05
	t.Parallel()
	of := func(src, data string) string {
		b := newBundle(t, parse(t, src))
		b.w.Directory = fsm.NewDirectory(1, []fsm.Person{{ID: "rosa@example.com", Roles: []string{"requester"}, Active: true}, {ID: "ana@example.com", Groups: []string{"board"}, Active: true}})
		b.start("rosa@example.com", data)
		return b.w.Tasks[0].Digest
	}
	base := of(board, `{"text":"a"}`)
	if of(board, `{"text":"a"}`) != base {
		t.Fatal("the digest of the same is not the same")
	}
	if of(board, `{"text":"a","n":5}`) != base {
		t.Error("what is not shown changes it")
	}
	if of(board, `{"text":"b"}`) == base {
		t.Error("another fact does not change it")
	}
	for what, r := range map[string][2]string{
		"title":        {"Vote on", "Decide on"},
		"instructions": {"show: [data.text]", "instructions: Look, show: [data.text]"},
		"shown facts":  {"show: [data.text]", "show: [data.text, data.n]"},
		"form":         {"properties: {n: {type: integer}}", "properties: {n: {type: integer, minimum: 0}}"},
		"comment rule": {"      edit: {to: stay, by: [owner],", "      edit: {to: stay, by: [owner], comment: required,"},
		"events":       {"      edit:", "      change:"},
	} {
		if of(strings.Replace(board, r[0], r[1], 1), `{"text":"a"}`) == base {
			t.Errorf("another %s does not change it", what)
		}
	}
}

func TestTheBusinessKeyIsComputedAfterDefaultsAndOnce(t *testing.T) {
	t.Parallel()
	def := example(t, "onboarding.v1.yaml")
	key, err := fsm.KeyOf(def, object(t, onboardingData), nil)
	if err != nil || key != "ada@example.org" {
		t.Errorf("%q, %v", key, err)
	}
	for _, data := range []string{`{"applicant":{"name":"x"}}`, `{}`, `{"applicant":{"email":""}}`} {
		if _, err := fsm.KeyOf(def, object(t, data), nil); fault.CodeOf(err) != fault.InvalidInput {
			t.Errorf("%s: %v", data, err)
		}
	}
	if key, err := fsm.KeyOf(example(t, "agent-action.v1.yaml"), object(t, `{}`), nil); err != nil || key != "" {
		t.Errorf("without a key: %q, %v", key, err)
	}
	with := strings.Replace(board, "initial: open", "key: data.text\ninitial: open", 1)
	if key, err := fsm.KeyOf(parse(t, with), object(t, `{}`), nil); err != nil || key != "a" {
		t.Errorf("the default is not used: %q, %v", key, err)
	}
}

func TestAStartIsRefusedWithEveryFieldThatDoesNotFit(t *testing.T) {
	t.Parallel()
	b := newBundle(t, example(t, "onboarding.v1.yaml"))
	r := b.refused(b.w.Fire(b.startEvent("rosa@example.com", `{"applicant":{"name":"","email":"nobody"},"total":-1}`), nil, b.now), fault.InvalidInput)
	var at []string
	for _, f := range r.Fields {
		at = append(at, f.Pointer)
	}
	slices.Sort(at)
	if !slices.Equal(at, []string{"/applicant/email", "/applicant/name", "/total"}) {
		t.Errorf("fields %v", r.Fields)
	}
}
