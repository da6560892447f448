package definitions

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func parseChanged(t *testing.T, pairs ...string) *Definition {
	t.Helper()
	d, problems := Parse("f", []byte(changed(t, pairs...)))
	if d == nil {
		t.Fatalf("refused:\n%s", problems)
	}
	return d
}

func TestWhatTheSecretsMustHoldIsListedAndMissedByPlace(t *testing.T) {
	t.Parallel()
	hook := func(name, credentials, callback string) string {
		return "  " + name + ": {webhook: {url: \"https://a.example/\", credentials: " + credentials + "}, idempotent: true, reversible: false" + callback + "}\n"
	}
	verify := func(source string) string {
		return `, callback: {events: [go], as: "system:x", verify: ` + source + `}`
	}
	d := parseChanged(t, withEffects(hook("a", "erp", verify("esign"))+hook("b", "core", "")+hook("c", "erp", verify("bank")),
		append(enters("a, b, c"), goLine, `go: {to: done, by: [owner, "system:x"]}`)...)...)
	if got := fmt.Sprint(d.Credentials(), d.Sources()); got != "[core erp] [bank esign]" {
		t.Errorf("secrets %s", got)
	}
	if got := d.CheckSecrets([]string{"core", "erp"}, []string{"esign", "bank"}); len(got) != 0 {
		t.Errorf("nothing is missing, but: %s", got)
	}
	// a name is looked for among its own kind only, and reported once
	want := `f:23:57: The credentials erp are not configured here. (add it to the file of VOBO_WEBHOOK_SECRETS)
f:25:149: The webhook source bank is not configured here. (add it to the file of VOBO_WEBHOOK_SECRETS)`
	got := d.CheckSecrets([]string{"core", "bank"}, []string{"esign", "erp"})
	if got.String() != want || !got.Refuses() {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if d := parseFile(t, "agent-action.v1.yaml"); len(d.Credentials()) != 0 || len(d.Sources()) != 0 || len(d.CheckSecrets(nil, nil)) != 0 {
		t.Error("a definition without secrets needs some")
	}
}

func TestShapesOfCorrelationsStandOnce(t *testing.T) {
	t.Parallel()
	arm := func(pairs string) string {
		return `go: {to: done, by: [owner, "system:x"], correlate: ` + pairs + `}`
	}
	d := parseChanged(t, goLine, arm("{data.email: input.signer.email, data.amount: input.amount}"),
		"to: done, by: [timer]", "to: other, by: [timer]",
		"states:", "events: {answer: {to: done, by: [\"system:y\"], correlate: {data.note: input.ticket}}}\nstates:",
		end, end+"  other: {owner: [requester], deadlines: [{after: P1D, fire: shut}], events: {"+arm("{data.note: input.amount, data.email: input.signer.email}")+", shut: {to: third, by: [timer]}}}\n"+
			"  third: {owner: [requester], deadlines: [{after: P1D, fire: shut}], events: {"+arm("{data.email: input.amount}")+", shut: {to: done, by: [timer]}}}\n")
	if got := fmt.Sprint(d.Correlations()); got != "[{answer [ticket]} {go [amount]} {go [amount signer.email]}]" {
		t.Errorf("shapes %s", got)
	}
	if c := d.State("waiting").Event("go").Correlate[0]; c.Data.Text != "email" || c.Input.Text != "signer.email" {
		t.Errorf("correlate %+v", c)
	}
	if got := d.Correlations()[0]; got.Event != "answer" {
		t.Errorf("an inherited event has no shape: %v", got)
	}
}

func TestWaitsKnowWhetherTheyMayHaveStartedChildren(t *testing.T) {
	t.Parallel()
	part := func(start string) string { return "  part: {start: {definition: sub" + start + "}}\n" }
	pick := "  pick: {choose: [{when: data.amount > 1, to: other}, {to: done}]}\n" +
		"  other: {owner: [requester], deadlines: [{after: P1D, fire: shut}], events: {shut: {to: done, by: [timer]}}}\n"
	for _, c := range []struct {
		name  string
		pairs []string
		want  string // the states that do
	}{
		{"by entering", withEffects(part(""), enters("part")...), "waiting"},
		{"detached", withEffects(part(", detach: true"), enters("part")...), ""},
		{"by a stay", withEffects(part(""), goLine, "go: {to: stay, by: [owner], effects: [part]}"), "waiting"},
		{"by a deadline", withEffects(part(""), "[{after", "[{after: PT1H, remind: owner, effects: [part]}, {after"), "waiting"},
		{"by a deadline of the whole instance", withEffects(part(""), "states:", "deadlines: [{after: PT1H, tell: [owner], effects: [part]}]\nstates:"), "waiting"},
		{"by a transition over a choice", append(withEffects(part(""), goLine, "go: {to: pick, by: [owner], effects: [part]}"), end, pick+end), "other"},
		{"by a transition over a wait that is passed through", append(withEffects(part(""), goLine, "go: {to: busy, by: [owner], effects: [part]}"), end, pick+
			"  busy: {owner: [requester], choose: [{when: data.amount > 1, to: pick}], deadlines: [{after: P1D, fire: shut}], events: {shut: {to: done, by: [timer]}}}\n"+end), "busy other"},
		{"by a stay that makes a choice hold", append(withEffects(part(""), goLine, "go: {to: stay, by: [owner], effects: [part]}", "    events:", "    choose: [{when: data.amount > 1, to: pick}]\n    events:"), end, pick+end), "other waiting"},
		{"by a cancel", withEffects(part(", detach: true"), "initial: waiting", "initial: waiting\non_cancel: [part]"), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := parseChanged(t, c.pairs...)
			var got []string
			for _, name := range []string{"busy", "done", "other", "pick", "waiting"} {
				if s := d.State(name); s != nil && s.StartsChildren {
					got = append(got, name)
				}
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("got %v, want %s", got, c.want)
			}
		})
	}
}

func TestWaitsKnowWhetherASystemMayCall(t *testing.T) {
	t.Parallel()
	for by, want := range map[string]bool{
		`owner, "user:ana@example.com", "role:operator"`: false,
		`"system:x"`:                    true,
		`owner, "system:{{data.note}}"`: true,
		`"{{ data.note }}"`:             true,
	} {
		if d := parseChanged(t, goLine, "go: {to: done, by: ["+by+"]}"); d.State("waiting").TakesCalls != want || d.State("done").TakesCalls {
			t.Errorf("by %s: waiting %v, done %v", by, d.State("waiting").TakesCalls, d.State("done").TakesCalls)
		}
	}
	if d := parseFile(t, "10-postmortem-action.yaml"); !d.State("waiting_vendor").TakesCalls || d.State("working").TakesCalls {
		t.Error("the vendor desk may call where the vendor is waited for, and nowhere else")
	}
}

func TestKeysOfTrustedEffectsAreCompiled(t *testing.T) {
	t.Parallel()
	d := parseChanged(t, withEffects(`  tell: {email: {to: requester, subject: a, body: b, attachments: [data.file, "data.files[data.amount]"]}, on_undeliverable: escalate, on_cancel: [sorry]}
  sorry: {email: {to: requester, subject: a, body: "{{ last.comment }}", attachments: data.file}}
  book: {webhook: {url: "https://a.example/", credentials: core}, idempotent: false, reversible: true, compensate: manual}
  free: {webhook: {url: "https://a.example/"}, idempotent: true, reversible: false, undoes: book, callback: {events: [go], as: "system:x", verify: esign}}
  part: {start: {definition: sub, version: 3, for_each: "[data.amount, 2]", as: item, data: {who.number: item, ok: true}, wait: 2}}
  poke: {event: {definition: other-one, key: "{{ data.email }}/{{ data.amount }}", event: poked, input: {amount: "{{ data.amount }}"}}}
`, append(enters("tell, book, free, part, poke"), "initial: waiting", "initial: waiting\non_cancel: [sorry]",
		"    note:", "    files: {type: array, items: {type: object}}\n    note:",
		"[{after", `[{after: PT1H, escalate: ["role:operator"]}, {after`, goLine, `go: {to: done, by: [owner, "system:x", effect]}`,
		"    events:", "    task: {on_undeliverable: go}\n    events:")...)...)
	tell, sorry, book, free, part, poke := d.Effect("tell"), d.Effect("sorry"), d.Effect("book"), d.Effect("free"), d.Effect("part"), d.Effect("poke")
	if got := fmt.Sprintf("%v %v %s, %s", d.OnCancel, tell.OnCancel, tell.OnUndeliverable, d.State("waiting").Tasks[0].OnUndeliverable); got != "[sorry] [sorry] escalate, go" {
		t.Errorf("cancel and mail: %s", got)
	}
	if len(tell.Email.Attachments) != 2 || tell.Email.Attachments[0].Text != "file" || len(sorry.Email.Attachments) != 1 {
		t.Errorf("attachments %+v, %+v", tell.Email.Attachments, sorry.Email.Attachments)
	}
	if book.Compensate != "manual" || book.Webhook.Credentials != "core" || free.Undoes != "book" || free.Callback.Verify != "esign" {
		t.Errorf("book %+v, free %+v", book, free)
	}
	if !d.NeedsPast {
		t.Error("a mail at a cancel reads last, but earlier rows are not needed")
	}
	env := &Env{Data: map[string]any{"amount": json.Number("7"), "email": "a@b"}, Locals: map[string]any{"item": json.Number("9")}}
	s := part.Start
	if s.Definition != "sub" || s.Version != 3 || s.As != "item" || s.WaitFor != "2" || s.Detach || len(s.Data) != 2 || !part.Idempotent {
		t.Errorf("start %+v of %+v", s, part)
	}
	if items, err := s.ForEach.Eval(env); err != nil || string(CanonicalJSON(items)) != "[7,2]" {
		t.Errorf("for_each gives %v, %v", items, err)
	}
	made := map[string]any{}
	for _, a := range s.Data {
		v, err := a.Value.Eval(env)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Path.Set(made, v, env); err != nil {
			t.Fatal(err)
		}
	}
	if got := string(CanonicalJSON(made)); got != `{"ok":true,"who":{"number":9}}` {
		t.Errorf("a child's data: %s", got)
	}
	key, err := poke.Raise.Key.String(env, EscapeNone)
	input, failed := poke.Raise.Input.Eval(env)
	if err != nil || failed != nil || key != "a@b/7" || string(CanonicalJSON(input)) != `{"amount":7}` || poke.Raise.Definition != "other-one" || poke.Raise.Event != "poked" || !poke.Idempotent {
		t.Errorf("poke %q %v %v %v", key, input, err, failed)
	}
}

func TestAResultOfAnotherShapeIsAnErrorAndNoPanic(t *testing.T) {
	t.Parallel()
	d := parseChanged(t, withEffects("  part: {start: {definition: sub}, on_success: {set: {note: \"result[0].state\"}}}\n", enters("part")...)...)
	set := d.Effect("part").OnSuccess.Set[0].Value
	list := []any{map[string]any{"id": "1", "state": "done", "data": map[string]any{}}}
	if v, err := set.Eval(&Env{Result: list}); err != nil || v != "done" {
		t.Errorf("got %v, %v", v, err)
	}
	for _, strange := range []any{nil, "text", []any{}, []any{"text"}, []any{nil}, map[string]any{"state": "x"}, []any{map[string]any{"state": json.Number("1")}}} {
		if v, err := set.Eval(&Env{Result: strange}); err == nil && v != json.Number("1") {
			t.Errorf("%v gives %v", strange, v)
		}
	}
}

func TestEarlierRowsAreNeededWhereALateTextReadsLast(t *testing.T) {
	t.Parallel()
	hook := `{webhook: {url: "https://a.example/", body: "BODY"}, idempotent: true, reversible: false}`
	start := `{start: {definition: sub, data: {by: last.actor.id}, detach: true}}`
	each := `{start: {definition: sub, for_each: "[last.event]", as: item, detach: true}}`
	raise := `{event: {definition: sub, key: "{{ last.event }}", event: go}}`
	told := `{event: {definition: sub, key: a, event: go, input: "{{ last.event }}"}}`
	reads := strings.Replace(hook, "BODY", "{{ last.event }}", 1)
	silent := strings.Replace(hook, "BODY", "{{ data.email }}", 1)
	cancel := []string{"initial: waiting", "initial: waiting\non_cancel: [late]"}
	for _, c := range []struct {
		name, effect string
		pairs        []string
		want         bool
	}{
		{"entering: the present event", reads, enters("late"), false},
		{"a cancel", reads, cancel, true},
		{"a cancel that reads nothing of it", silent, cancel, false},
		{"a cancel after an effect", reads, enters("first"), true},
		{"a compensation", reads, enters("second"), true},
		{"a deadline", reads, []string{"[{after", "[{after: PT1H, remind: owner, effects: [late]}, {after"}, true},
		{"a child's data", start, cancel, true},
		{"a list of children", each, cancel, true},
		{"a key", raise, cancel, true},
		{"what another instance is told", told, cancel, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			text := "  late: " + c.effect + "\n"
			switch c.name {
			case "a cancel after an effect":
				text += calls("first", "reversible: false, on_cancel: [late]")
			case "a compensation":
				text += calls("second", "reversible: true, compensate: late")
			}
			if d := parseChanged(t, withEffects(text, c.pairs...)...); d.NeedsPast != c.want {
				t.Errorf("NeedsPast is %v", d.NeedsPast)
			}
		})
	}
}
