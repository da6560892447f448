package web

import (
	"strings"
	"testing"

	"vobo/internal/approval"
	"vobo/internal/definitions"
	"vobo/internal/fsm"
)

// giveUp marks one of the samples' effects as given up.
func giveUp(id string) func(*Config, *fakeService) {
	return func(_ *Config, f *fakeService) {
		for i := range f.effects {
			if f.effects[i].ID == id {
				f.effects[i].Status, f.effects[i].GivenUp = fsm.EffectDead, true
			}
		}
	}
}

func TestWhatWasGivenUpWaitsForNobody(t *testing.T) {
	t.Parallel()
	b := newBundle(t, giveUp(effectDead))
	wantText(t, b.get("/inbox", as("olga")), `class="badge" title="Things that wait for a person">4</span>`)
	w := b.get("/effects?status=dead", as("olga"))
	wantText(t, w, `aria-current="true">Failed <span class="badge">1</span>`, "Close account")
	wantNoText(t, w, effectDead)
	wantText(t, b.get("/effects?status=all", as("olga")), effectDead, "Given up")
	w = b.get("/effects/redrive?status=dead", as("olga"))
	wantText(t, w, "One effect will be tried again.", effectUndo)
	wantNoText(t, w, effectDead)
	for i := range b.svc.effects {
		b.svc.effects[i].GivenUp = b.svc.effects[i].Status == fsm.EffectDead
	}
	wantNoText(t, b.get("/effects?status=dead", as("olga")), "Try all of these again")
}

func TestAGivenUpEffectIsOnlyTriedAgainAndLeadsToWhoGaveItUp(t *testing.T) {
	t.Parallel()
	b := newBundle(t, giveUp(effectDead))
	w := b.get("/effects/"+effectDead, as("olga"))
	wantText(t, w, "Given up", `href="/flow`+instancePath+`#timeline"`, `value="again"`)
	wantNoText(t, w, `value="giveup"`, `value="happened"`)
	w = b.get("/effects/"+effectDead, as("vera"))
	wantText(t, w, "The history says who, when and why.")
	wantNoText(t, w, "An operator must say")
	wantNoText(t, b.get(instancePath, as("olga")), effectDead+`#decide`)
	b = newBundle(t, giveUp(effectManual))
	wantNoText(t, b.get("/effects/"+effectManual, as("olga")), `name="choice"`, "Do it by hand, then say so")
}

func TestTheTimelineSaysWhatAPersonDidAboutAnEffect(t *testing.T) {
	t.Parallel()
	b := newBundle(t, giveUp(effectDead), func(_ *Config, f *fakeService) {
		olga, at := approval.ActorView{ID: "olga@example.com", Name: "Olga"}, approval.Time{Time: sampleNow}
		f.history = append(
			f.history,
			approval.TransitionView{Seq: 11, Kind: fsm.TOperator, Event: "create_account", Reason: "core is back", Actor: olga, Assurance: fsm.BySession, At: at},
			approval.TransitionView{Seq: 12, Kind: fsm.TEffect, Event: "create_account", Reason: "nobody wants it", Actor: olga, Assurance: fsm.BySession, At: at},
			approval.TransitionView{Seq: 13, Kind: fsm.TEffect, Event: "ask_signature", Reason: "seen in their log", Actor: olga, Assurance: fsm.BySession, At: at},
			approval.TransitionView{Seq: 14, Kind: fsm.TEffect, Event: "tell_partner", Actor: approval.ActorView{ID: "effect:tell_partner"}, Assurance: fsm.ByEngine, At: at},
			approval.TransitionView{Seq: 15, Kind: fsm.TTransition, Event: "signed", Actor: approval.ActorView{ID: "system:esign"}, Assurance: fsm.ByCallback, At: at},
		)
	})
	w := b.get(instancePath, as("olga"))
	wantText(t, w, `id="timeline"`, "Tried again: <bdi>Create account</bdi>", "Given up: <bdi>Create account</bdi>", "nobody wants it", "Resolved: <bdi>Ask signature</bdi>", "Result of an effect", "by a callback")
	wantNoText(t, w, "one-time callback")
}

func TestAResultThatWasRefusedIsGivenAnew(t *testing.T) {
	t.Parallel()
	refuse := func(_ *Config, f *fakeService) {
		f.view.AttentionReasons = append(f.view.AttentionReasons, fsm.Attention{Reason: "result-refused", Ref: "2-1", Detail: "open_account: The field id is missing.", Since: sampleNow})
	}
	b := newBundle(t, refuse)
	path := "/effects/" + effectAccount
	w := b.get(path, as("olga"))
	wantText(t, w, "The field id is missing.", "What did it give?", "It happened; this is its result", `name="result"`)
	wantNoText(t, w, `value="again"`, `value="giveup"`)
	wantStatus(t, b.post(path, "olga", form("choice", "giveup", "reason", "x")), 422)
	wantChanges(t, b.svc, "")
	wantStatus(t, b.post(path, "olga", form("choice", "happened", "result", `{"id": 4711}`, "reason", "read in core")), 303)
	wantChanges(t, b.svc, "resolve "+effectAccount+" succeeded: read in core")
	if b.svc.solved.Result == nil {
		t.Error("the result was not handed on")
	}
	wantText(t, b.get(path, as("vera")), "The field id is missing.", "An operator must say")
	wantNoText(t, b.get("/effects/"+sampleID+"-2-2", as("olga")), "What did it give?")
}

func TestTheLastAttemptOfADeadEffectSaysThatTheyAreUsedUp(t *testing.T) {
	t.Parallel()
	b := newBundle(t, func(_ *Config, f *fakeService) { f.effects[2].Attempts = f.effects[2].Attempts[:2] })
	for _, path := range []string{"/effects/" + effectDead, instancePath} {
		w := b.get(path, as("olga"))
		wantText(t, w, "Did not work; worth another try", "Did not work; the attempts are used up")
		if n := strings.Count(w.Body.String(), "are used up"); n != 1 {
			t.Errorf("%s says %d times that the attempts are used up", path, n)
		}
	}
}

func TestMailsThatNeedNobodyAreFoldedAway(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	page := b.get(instancePath, as("olga")).Body.String()
	folded := strings.Index(page, "Mails that need nobody (1)")
	if folded < 0 || folded > strings.Index(page, effectDone) || folded < strings.LastIndex(page, effectRetrying) {
		t.Errorf("the mail that arrived is not folded away after the rest")
	}
	b.svc.effects[7].Status = fsm.EffectDead
	wantNoText(t, b.get(instancePath, as("olga")), "Mails that need nobody")
}

func TestAProcessIsCalledByItsTitle(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.svc.defs = []*definitions.Definition{parsed("name: supplier\nversion: 1\ntitle: {en: Take on a supplier, es: Alta de proveedor}\ninitial: done\nstates: {done: {final: true}}\n")}
	for _, path := range []string{instancePath, "/effects/" + effectDead} {
		wantText(t, b.get(path, as("olga")), "<bdi>Take on a supplier</bdi>")
	}
}
