package definitions

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func texts(list []Principal) string {
	var words []string
	for _, p := range list {
		words = append(words, p.Text)
	}
	return strings.Join(words, " ")
}

func eventNames(s *State) string {
	var words []string
	for _, e := range s.Events {
		if e.Inherited {
			words = append(words, "("+e.Name+")")
		} else {
			words = append(words, e.Name)
		}
	}
	return strings.Join(words, " ")
}

func TestDefaultsAreFilledIn(t *testing.T) {
	t.Parallel()
	d := parseFile(t, "supplier.v1.yaml")
	if got := texts(d.Requesters); got != "role:requester role:operator role:admin" {
		t.Errorf("requesters %s", got)
	}
	if got := texts(d.Readers); got != "requester" || d.Readers[0].Kind != KindRequester {
		t.Errorf("readers %s", got)
	}
	if d.Limits != (Limits{Transitions: 500, DataBytes: 256 << 10}) {
		t.Errorf("limits %+v", d.Limits)
	}
	question, ask, create := d.Effect("question"), d.Effect("ask_signature"), d.Effect("create_vendor")
	if !question.Idempotent || question.Kind != EffectEmail || question.Retry != (Retry{24, 5 * time.Second, 6 * time.Hour}) {
		t.Errorf("question %+v", question)
	}
	if ask.Webhook.Method != "POST" || ask.Callback.As != "esign" || len(ask.Callback.Events) != 2 {
		t.Errorf("ask_signature %+v %+v", ask.Webhook, ask.Callback)
	}
	if create.Retry != (Retry{6, time.Second, 10 * time.Minute}) || create.Compensate != "close_vendor" || create.OnSuccess.Fire != "created" || len(create.OnSuccess.Set) != 1 {
		t.Errorf("create_vendor %+v", create)
	}
	reject := d.State("pending_approval").Event("reject")
	if approve := d.State("pending_approval").Event("approve"); approve.Comment != CommentOptional || reject.Comment != CommentRequired || len(approve.Quorum.Lines) != 2 {
		t.Errorf("approve %+v, reject %+v", approve, reject)
	}
	if s := d.State("signing"); s.Kind != Wait || len(s.Tasks) != 1 || s.Tasks[0].Show != nil || s.Event("approve") != nil || s.Deadlines[1].ID != "signing/1" {
		t.Errorf("signing %+v", s)
	}
	if s := d.State("cancelled"); s.Kind != Final || !s.Failed {
		t.Errorf("cancelled %+v", s)
	}
	if s := d.State("triage"); s.Kind != Choice || len(s.Choose) != 2 || s.Choose[1].When != nil || s.Choose[1].To != "pending_approval" {
		t.Errorf("triage %+v", s)
	}
}

func TestADefinitionWithoutDataHasNoFields(t *testing.T) {
	t.Parallel()
	d, problems := Parse("f", []byte("name: a\nversion: 1\ninitial: a\nstates: {a: {final: true}}\n"))
	if d == nil {
		t.Fatal(problems)
	}
	if errs := d.Data.Validate(map[string]any{}); len(errs) != 0 {
		t.Errorf("%v", errs)
	}
	if errs := d.Data.Validate(map[string]any{"a": json.Number("1")}); len(errs) != 1 {
		t.Errorf("%v", errs)
	}
}

func TestEventsOfTheTopLevelAreInheritedButForTheWaitsOwn(t *testing.T) {
	t.Parallel()
	d := parseFile(t, "04-kyc.yaml")
	for state, want := range map[string]string{
		"collecting":        "send_passport send_address_proof send_source_of_funds withdraw (expire)",
		"screening":         "screened unscreened",
		"first_review":      "pass ask_again (expire) (suspicious)",
		"compliance_review": "false_hit true_hit expire",
		"active":            "renew review close (suspicious)",
		"screened":          "",
		"blocked":           "",
	} {
		if got := eventNames(d.State(state)); got != want {
			t.Errorf("%s: %s, want %s", state, got, want)
		}
	}
	if to := d.State("compliance_review").Event("expire").Arms[0].To; to != "blocked" {
		t.Errorf("the wait's own expire leads to %s", to)
	}
	none, problems := Parse("f", []byte(changed(t, goLine, "go: {to: done, by: [owner]}\n      stop: none", "states:", "events: {stop: {to: done, by: [requester]}, halt: {to: done, by: [requester], in: [waiting]}}\nstates:")))
	if none == nil {
		t.Fatal(problems)
	}
	if got := eventNames(none.State("waiting")); got != "go expire (halt)" {
		t.Errorf("with none: %s", got)
	}
}

func TestLaterArmsInheritAllButWhenAndTo(t *testing.T) {
	t.Parallel()
	d, problems := Parse("f", []byte(changed(t, goLine, `go:
        - {when: data.amount > 5, to: done, by: [owner], not: ["group:risk"], set: {note: data.email, amount: 7}, unset: [file], compensate: true, comment: required}
        - {to: stay, not: []}
        - {when: data.amount > 1, to: waiting, by: ["role:operator"], set: {note: "'b'"}, compensate: false}`)))
	if d == nil {
		t.Fatal(problems)
	}
	e := d.State("waiting").Event("go")
	a := e.Arms
	if len(a) != 3 || e.Comment != CommentRequired {
		t.Fatalf("%+v", e)
	}
	if a[0].When == nil || a[0].To != "done" || a[0].Stay || texts(a[0].Not) != "group:risk" || len(a[0].Set) != 2 || len(a[0].Unset) != 1 || !a[0].Compensate {
		t.Errorf("first %+v", a[0])
	}
	if a[1].When != nil || a[1].To != "" || !a[1].Stay || texts(a[1].By) != "owner" || len(a[1].Not) != 0 || len(a[1].Set) != 2 || !a[1].Compensate {
		t.Errorf("second %+v", a[1])
	}
	if a[2].When == nil || a[2].To != "waiting" || texts(a[2].By) != "role:operator" || len(a[2].Set) != 1 || len(a[2].Unset) != 1 || a[2].Compensate {
		t.Errorf("third %+v", a[2])
	}
	if v := a[0].Set[1].Value; v.Expr != nil || v.Literal != json.Number("7") {
		t.Errorf("literal %+v", v)
	}
}

func TestPrincipalsKnowTheirKind(t *testing.T) {
	t.Parallel()
	d, problems := Parse("f", []byte(changed(t, "    owner: [requester]\n", "    owner: [requester, \"user:ana@example.com\", \"group:cc-{{ data.amount }}\", \"{{ data.email }}\"]\n    enter: [tell]\n",
		end, end+"effects: {tell: {email: {to: \"{{ data.email }}\", cc: [requester, owner, \"a@example.com\", \"{{ data.note }}@example.com\", \"email:{{ data.note }}\"], subject: a, body: b}}}\n")))
	if d == nil {
		t.Fatal(problems)
	}
	want := []PrincipalKind{KindRequester, KindUser, KindGroup, KindDynamic, KindDynamic, KindRequester, KindOwner, KindEmail, KindEmail, KindEmail}
	mail := d.Effect("tell").Email
	got := append(append(append([]Principal{}, d.State("waiting").Owner...), mail.To...), mail.Cc...)
	if len(got) != len(want) {
		t.Fatalf("%d principals, want %d", len(got), len(want))
	}
	for i, p := range got {
		if p.Kind != want[i] {
			t.Errorf("%s is %q, want %q", p.Text, p.Kind, want[i])
		}
		if fixed := p.Kind == KindRequester || p.Kind == KindOwner; fixed != (p.Name == nil) {
			t.Errorf("%s: name %v", p.Text, p.Name)
		}
	}
}

func TestTheEarlierHistoryIsAskedForOnlyWhereItIsRead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		pairs []string
		want  bool
	}{
		{"nothing", nil, false},
		{"did", []string{goLine, `go: {to: done, by: [owner], not: ["did:expire"]}`}, true},
		{"visits", []string{goLine, "go: {when: visits < 3, to: done, by: [owner]}"}, true},
		{"last in a task", []string{"    events:", "    task: {title: \"{{ last.comment }}\"}\n    events:"}, true},
		{"last in an effect of an event", []string{goLine, "go: {to: done, by: [owner], effects: [tell]}", end, end + "effects: {tell: {email: {to: requester, subject: a, body: \"{{ last.comment }}\"}}}\n"}, false},
		{"last in an effect of a deadline", []string{deadline, "{after: P1D, fire: expire, effects: [tell]}", end, end + "effects: {tell: {email: {to: requester, subject: a, body: \"{{ last.comment }}\"}}}\n"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d, problems := Parse("f", []byte(changed(t, c.pairs...)))
			if d == nil {
				t.Fatal(problems)
			}
			if d.NeedsPast != c.want {
				t.Errorf("NeedsPast is %v", d.NeedsPast)
			}
		})
	}
}

// field report B19
func TestDurationsAreStrict(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"PT0S": 0, "P1D": 24 * time.Hour, "P2W": 14 * 24 * time.Hour, "PT1H30M": 90 * time.Minute, "PT1.5S": 1500 * time.Millisecond, "-PT1H": -time.Hour, "P35D": 35 * 24 * time.Hour,
	} {
		d, err := ParseDuration(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if got := d.ToTimeDuration(); got != want {
			t.Errorf("%s is %v, want %v", text, got, want)
		}
	}
	for _, text := range []string{"", "P", "PT", "-P", "1D", "P1", "P1DT", "P1.5D", "PT1.5H", "P1D2Y", "P1W1D", "p1d", "P-1D", "+P1D", "P1S", "PT1D", "P400Y", "PT9999999999S", "P1000000Y", "P1D ", "1 day", "P１D"} {
		if d, err := ParseDuration(text); err == nil {
			t.Errorf("%q is read as %v", text, d)
		}
	}
}
