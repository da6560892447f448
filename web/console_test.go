package web

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"vobo/internal/approval"
	"vobo/internal/definitions"
	"vobo/internal/fault"
	"vobo/internal/fsm"
	"vobo/internal/store"
)

func TestTheAttentionPageSaysWhetherAnythingIsWrong(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	w := b.get("/attention", as("vera"))
	wantText(t, w, "<bdi>5</bdi> things wait for a person", "Effects that failed", "Endpoints of the event feed that are off", "Calls that were refused", `href="/flow/effects?status=dead"`, `href="/flow/instances?attention=true"`)
	b.svc.effects, b.svc.sinks, b.svc.calls = nil, nil, nil
	wantText(t, b.get("/attention", as("vera")), "Nothing waits for you")
	wantStatus(t, b.get("/attention", as("luis")), 403)
}

func TestThoseWhoOverseeSeeHowManyThingsWaitOnEveryPage(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	for _, who := range []string{"olga", "vera"} {
		wantText(t, b.get("/inbox", as(who)), `href="/flow/attention"`, `class="badge" title="Things that wait for a person">5</span>`)
	}
	wantNoText(t, b.get("/inbox", as("luis")), "/attention", "badge")
	for range countLimit + 10 {
		b.svc.effects = append(b.svc.effects, sampleEffects()[2])
	}
	wantText(t, b.get("/inbox", as("olga")), `>5</span>`) // it stands for some seconds
	b.post("/effects/"+effectUnknown, "olga", form("choice", "giveup", "reason", "x"))
	wantText(t, b.get("/inbox", as("olga")), `>51&#43;</span>`) // and is counted anew after what an operator does
}

func TestTheConsoleListsEffectsByWhatBecameOfThem(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	w := b.get("/effects", as("olga"))
	wantText(t, w, "Create account", "Close account", "core.example.com answered 422", "3 attempts", "1 hour ago", "Supplier", "B-77120041", "ana@example.com", "Try all of these again…", `aria-current="true">Failed <span class="badge">2</span>`, `>Unknown <span class="badge">2</span>`, `>Trying again <span class="badge">1</span>`)
	wantNoText(t, w, "Ask signature", "Tell partner")
	wantText(t, b.get("/effects?status=unknown", as("olga")), "Undo by hand: <bdi>Order badge</bdi>", "Ask signature")
	w = b.get("/effects?status=retrying", as("olga"))
	wantText(t, w, "Tell partner", "next attempt", "in 12 minutes")
	wantNoText(t, w, "Try all of these again")
	w = b.get("/effects?status=unknown&name=ask_signature&kind=webhook&host=sign.example.com&definition=supplier", as("olga"))
	wantText(t, w, "Ask signature", `<details class="narrow-down" open>`, `value="ask_signature"`, `value="webhook" selected`, `value="supplier" selected`, `value="sign.example.com"`, `href="/flow/effects/redrive?definition=supplier&amp;host=sign.example.com&amp;kind=webhook&amp;name=ask_signature&amp;status=unknown"`)
	wantNoText(t, w, "Order badge")
	wantText(t, b.get("/effects?name=zzz", as("olga")), "No effect matches.", "Show all")
	b.get("/effects?cursor=c7", as("olga"))
	if b.svc.paging.Cursor != "c7" {
		t.Errorf("asked for %+v", b.svc.paging)
	}
	b.svc.effects = nil
	for status, want := range map[string]string{"dead": "No effect has failed.", "unknown": "The outcome of every effect is known.", "retrying": "No effect is being tried again.", "nonsense": "No effect has failed."} {
		wantText(t, b.get("/effects?status="+status, as("olga")), want)
	}
}

func TestReadersOfTheConsoleAreOfferedNothingThatTheyMayNotDo(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	wantNoText(t, b.get("/effects", as("vera")), "Try all of these again")
	w := b.get("/effects/"+effectDead, as("vera"))
	wantText(t, w, "An operator must say what became of it", "X-Region", "is not valid in ES")
	wantNoText(t, w, "<textarea", "Record it")
	wantNoText(t, b.get("/sinks", as("vera")), "/enable")
	for _, path := range []string{"/effects/" + effectDead, "/effects/redrive", "/sinks/audit/enable"} {
		for _, who := range []string{"vera", "luis"} {
			wantStatus(t, b.post(path, who, form("choice", "again", "reason", "x", "before", sampleNow.Format(time.RFC3339))), 403)
		}
	}
	wantChanges(t, b.svc, "")
}

func TestTheEffectPageShowsWhatHappenedAndWhatWasSent(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	w := b.get("/effects/"+effectDead, as("olga"))
	wantText(t, w, "Create account", "core.example.com answered 422", "Attempts (3)", "Did not work; worth another try", "Failed for good", "HTTP 503", "took <bdi>340</bdi> ms", "took <bdi>2.5</bdi> s", "upstream is down", "is not valid in ES",
		"POST https://core.example.com/accounts", "X-Region", "their values are not shown anywhere", "Talleres Núñez", "1250000", "[callback link]", sampleID+"/5/1", `href="/flow`+instancePath+`"`)
	w = b.get("/effects/"+effectAccount, as("olga"))
	wantText(t, w, "9007199254740993", "Done")
	wantNoText(t, w, "Record it")
	w = b.get("/effects/"+effectUnknown, as("luis"))
	wantText(t, w, "Outcome unknown", "no answer after 20 s", "See the request")
	wantNoText(t, w, "The request as sent", "alta@talleres.example", "Record it", `class="console"`)
}

func TestEachAnswerSaysItsConsequence(t *testing.T) {
	t.Parallel()
	for id, want := range map[string][]string{
		effectDead:    {"It counts as done, and “<bdi>Created</bdi>” follows.", "it does not happen twice", "It counts as failed, and “<bdi>Give it up</bdi>” follows, which undoes what has been done."},
		effectUnknown: {"What did you find out?", "it happens twice.", "It counts as failed. No event follows from it"},
		effectUndo:    {"It counts as undone, and undoing goes on with what is left.", "is listed as not undone", "What it undoes", "Open account", "9007199254740993"},
		effectManual:  {"Undo by hand: <bdi>Order badge</bdi>", "Do it by hand, then say so here", `<span class="title">Done</span>`, "Cannot be undone", "N-118"},
	} {
		b := newBundle(t)
		w := b.get("/effects/"+id, as("olga"))
		wantText(t, w, want...)
		wantNoText(t, w, " checked")
		if manual := id == effectManual; strings.Contains(w.Body.String(), `value="again"`) == manual {
			t.Errorf("%s: trying again is offered: %v", id, !manual)
		}
		b.svc.view.State = "signing"
		if id == effectDead {
			wantText(t, b.get("/effects/"+id, as("olga")), "does not follow any more")
		}
	}
}

func TestWhatUndoingWaitsForSaysSo(t *testing.T) {
	t.Parallel()
	b := newBundle(t, func(_ *Config, f *fakeService) {
		f.view.Compensation.Items = []approval.CompensationItemView{{Effect: effectUnknown, Name: "ask_signature", Undo: "close_account", Status: "blocked"}}
	})
	wantText(t, b.get("/effects/"+effectUnknown, as("olga")), "It counts as done, and then it is undone.", "there is nothing to undo, and undoing goes on")
	wantText(t, b.get(instancePath, as("luis")), "nobody knows yet whether that happened", `href="/flow/effects/`+effectUnknown+`">See what is wrong`)
}

func TestAnOperatorEndsAnEffectWithAReason(t *testing.T) {
	t.Parallel()
	path := "/effects/" + effectUnknown
	for choice, want := range map[string]string{
		"happened": "resolve " + effectUnknown + " succeeded: seen in their log",
		"again":    "retry " + effectUnknown + ": seen in their log",
		"giveup":   "resolve " + effectUnknown + " failed: seen in their log",
	} {
		b := newBundle(t)
		w := b.post(path, "olga", form("choice", choice, "once", "k1"))
		wantStatus(t, w, 422)
		wantText(t, w, "Type a reason", `href="#reason"`, `value="`+choice+`" id="choice-`+choice+`" checked`, `value="k1"`)
		w = b.post(path, "olga", form("choice", choice, "reason", "seen in their log", "result", `{"id": 9007199254740993}`, "once", "k1"))
		wantStatus(t, w, 303)
		if to := w.Header().Get("Location"); to != "/flow"+path {
			t.Errorf("leads to %s", to)
		}
		wantChanges(t, b.svc, want)
		if choice == "happened" && string(definitions.EncodeJSON(b.svc.solved.Result)) != `{"id":9007199254740993}` || choice == "giveup" && b.svc.solved.Result != nil {
			t.Errorf("%s: result %v", choice, b.svc.solved.Result)
		}
	}
	b := newBundle(t)
	w := b.post(path, "olga", form("reason", "x", "result", "{"))
	wantStatus(t, w, 422)
	wantText(t, w, "Choose one of the answers", `href="#choice"`)
	w = b.post(path, "olga", form("choice", "happened", "reason", "x", "result", "{"))
	wantStatus(t, w, 422)
	wantText(t, w, `href="#result"`, "This is not JSON")
	wantStatus(t, b.post("/effects/"+effectManual, "olga", form("choice", "again", "reason", "x")), 422)
	wantChanges(t, b.svc, "")
	b.svc.refuse = fault.New(fault.Conflict, "The effect is succeeded: only a dead or unknown one can be tried again.")
	w = b.post(path, "olga", form("choice", "again", "reason", "x"))
	wantStatus(t, w, 409)
	wantText(t, w, "only a dead or unknown one")
}

func TestARedriveFirstShowsWhatItWouldDo(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	w := b.get("/effects/redrive?status=dead", as("olga"))
	wantText(t, w, "2 effects will be tried again.", "Create account", "Close account", `name="before" value="2026-11-30T10:24:00Z"`, "Try 2 effects again")
	wantNoText(t, w, "Ask signature")
	wantText(t, b.get("/effects/redrive?status=unknown&name=ask_signature", as("olga")), "One effect will be tried again.", "effect <bdi>ask_signature</bdi>", "may make them happen twice")
	wantText(t, b.get("/effects/redrive?status=all&name=zzz", as("olga")), "There is nothing to try again any more.")
	wantChanges(t, b.svc, "")
}

// guarantee R-22
func TestARedriveSaysWhatBecameOfEach(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	before := "2026-11-30T10:23:59.5Z"
	w := b.post("/effects/redrive", "olga", form("status", "dead", "kind", "webhook", "before", before))
	wantStatus(t, w, 422)
	wantText(t, w, "Type a reason", `value="`+before+`"`, `name="kind" value="webhook"`)
	wantStatus(t, b.post("/effects/redrive", "olga", form("status", "dead", "reason", "x")), 400)
	wantChanges(t, b.svc, "")
	w = b.post("/effects/redrive", "olga", form("status", "dead", "kind", "webhook", "reason", "core is back", "before", before, "once", "k"))
	wantStatus(t, w, 200)
	wantText(t, w, "One effect is tried again", "Left out: 1", "It is done meanwhile.", effectUndo)
	wantChanges(t, b.svc, "redrive 1: core is back")
	if got := b.svc.redrive; got.Before == nil || got.Before.Format(time.RFC3339Nano) != before || got.Kind != "webhook" || got.DryRun || len(got.Status) != 1 || got.Status[0] != fsm.EffectDead {
		t.Errorf("asked for %+v", got)
	}
	b.svc.refuse = fault.New(fault.Unavailable, "The database does not answer.")
	wantStatus(t, b.post("/effects/redrive", "olga", form("reason", "x", "before", before)), 503)
}

func TestTheCancelPageShowsThePlanBeforeItIsCarriedOut(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	w := b.get(instancePath+"/cancel", as("olga"))
	wantText(t, w, "cannot be taken back", "by “<bdi>Close account</bdi>”", "by hand: an operator is asked", "Cannot be undone", "Is done to tidy up", "Tell partner", "One child that still runs", "Leave it as it is")
	w = b.post(instancePath+"/cancel", "olga", form())
	wantStatus(t, w, 422)
	wantText(t, w, "Type a reason")
	wantChanges(t, b.svc, "")
	w = b.post(instancePath+"/cancel", "olga", form("reason", "because"))
	wantStatus(t, w, 303)
	wantChanges(t, b.svc, "cancel "+sampleID+": because")
	b.svc.refuse = fault.New(fault.Conflict, "It has ended already.")
	w = b.post(instancePath+"/cancel", "olga", form("reason", "x"))
	wantStatus(t, w, 409)
	wantText(t, w, "It has ended already.")
}

func TestThePlanOfACancelFollowsTheDefinition(t *testing.T) {
	t.Parallel()
	effect := func(id, name string, status fsm.EffectStatus, undoes string) approval.EffectView {
		return approval.EffectView{ID: id, Name: name, Kind: "webhook", Status: status, Undoes: undoes}
	}
	p := undoPlanOf(&approval.InstanceView{}, sampleDefinition, []approval.EffectView{
		effect("9", "close_account", fsm.EffectSucceeded, "1"),
		effect("8", "task-mail", fsm.EffectSucceeded, ""),
		effect("7", "create_account", fsm.EffectWaiting, ""),
		effect("6", "create_account", fsm.EffectDead, ""),
		effect("5", "create_account", fsm.EffectUnknown, ""),
		effect("4", "order_badge", fsm.EffectSucceeded, ""),
		effect("3", "open_account", fsm.EffectSucceeded, ""),
		effect("2", "ask_signature", fsm.EffectSucceeded, ""),
		effect("1", "create_account", fsm.EffectSucceeded, ""),
	})
	var undo []string
	for _, step := range p.Undo {
		undo = append(undo, step.Name+" "+step.Undo)
	}
	got := strings.Join([]string{strings.Join(undo, ","), strings.Join(p.Stays, ","), strings.Join(p.Drops, ","), strings.Join(p.Awaits, ","), strings.Join(p.Tidies, ",")}, " | ")
	if want := "order_badge ,open_account close_account | ask_signature | create_account | create_account | tell_partner"; got != want {
		t.Errorf("plan %q, want %q", got, want)
	}
	if p.Nothing() || !undoPlanOf(&approval.InstanceView{}, nil, nil).Nothing() {
		t.Error("an empty plan is not told from another")
	}
}

func TestTheInstancePageSaysHowFarUndoingIsAndWhoMustAct(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	w := b.get(instancePath, as("olga"))
	wantText(t, w, "It stands at “<bdi>Open account</bdi>”: undoing it failed. An operator must", `aria-current="step"`, `href="/flow/effects/`+effectUndo+`"`, "Reserve limit", "Undone", "Waits its turn", "by hand: an operator is asked", "Not undone", "Welcome")
	items := func(statuses ...string) *approval.CompensationView {
		c := &approval.CompensationView{}
		for i, status := range statuses {
			undo := "close_account"
			if strings.HasPrefix(status, "manual ") {
				undo, status = "manual", strings.TrimPrefix(status, "manual ")
			}
			c.Items = append(c.Items, approval.CompensationItemView{Effect: "e", Name: string(rune('a' + i)), Undo: undo, Status: status})
		}
		return c
	}
	for _, c := range []struct {
		c      *approval.CompensationView
		want   string
		urgent bool
	}{
		{items("succeeded", "running", "waiting"), "undoing.goes", false},
		{items("failed", "waiting"), "undoing.failed", true},
		{items("blocked", "waiting"), "undoing.blocked", true},
		{items("unknown"), "undoing.unknown", true},
		{items("skipped", "manual unknown"), "undoing.manual", true},
		{items("manual blocked"), "undoing.blocked", true},
		{items("manual waiting"), "undoing.goes", false},
		{&approval.CompensationView{Done: true, Items: items("succeeded").Items}, "undoing.done", false},
		{&approval.CompensationView{Done: true}, "undoing.nothing", false},
		{&approval.CompensationView{Done: true, NotUndone: []string{"x"}}, "undoing.over", false},
	} {
		u := undoingOf(c.c, nil)
		if u.Sentence() != c.want || u.Urgent() != c.urgent {
			t.Errorf("%+v: %s, urgent %v", c.c, u.Sentence(), u.Urgent())
		}
		if english[u.Sentence()] == "" {
			t.Errorf("%q has no words", u.Sentence())
		}
		for _, item := range u.Items {
			if english[item.Words()] == "" {
				t.Errorf("%q has no words", item.Words())
			}
		}
	}
}

func TestTheInstancePageShowsFamilyCallsAndLateResults(t *testing.T) {
	t.Parallel()
	b := newBundle(t, func(_ *Config, f *fakeService) {
		f.history = append(f.history, approval.TransitionView{Seq: 5, Kind: fsm.TEffect, Event: "open_account", Reason: "late: the wait that asked for it is over", Actor: approval.ActorView{ID: "effect:open_account"}, At: approval.Time{Time: sampleNow}})
	})
	w := b.get(instancePath, as("luis"))
	if got := strings.Count(w.Body.String(), "Late: the wait that asked for it was over"); got != 2 { // in the timeline and at the effect
		t.Errorf("late is said %d times", got)
	}
	wantText(t, w, "Started by another request", `href="/flow/instances/0198c0de-7a11-7000-8000-0000000000ff"`, "Check sites", "1 running", "1 ended badly", "input.signer", "alta@talleres.example", "not known yet, so no call matches", "Late: the wait that asked for it was over")
	w = b.get(instancePath+"/children", as("luis"))
	wantText(t, w, "Child 1", "Ended well", "Could not be started", "There is a live request for the key north.", "Ask references")
	w = b.get(instancePath+"/children?effect="+url.QueryEscape(sampleID+"-3-2"), as("luis"))
	wantText(t, w, "Cancelled")
	wantNoText(t, w, "Ended well")
	wantStatus(t, b.get("/instances/none/children", as("luis")), 404)
	b.svc.children = nil
	wantText(t, b.get(instancePath+"/children", as("luis")), "No child was started yet.")
}

func TestCallsOfWebhookSourcesAreListedWithWhatBecameOfThem(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	w := b.get("/callbacks", as("vera"))
	wantText(t, w, "No request waits for it yet.", "The comment is missing", "from <bdi>esign</bdi>", "B-77120041", "E-118", "expires", "in 7 days", `rel="next" href="/flow/callbacks?cursor=older&amp;status=all"`, "No request waited for it in time.", `href="/flow`+instancePath+`"`)
	w = b.get("/callbacks?status="+store.CallRefused+"&source=esign", as("vera"))
	wantText(t, w, "The comment is missing", `value="esign"`)
	wantNoText(t, w, "E-118")
	wantText(t, b.get("/callbacks?status=waiting&event=zzz", as("vera")), "No call matches.")
	b.svc.calls = nil
	wantText(t, b.get("/callbacks?status=refused", as("vera")), "No call was refused.")
}

func TestAnOperatorEnablesAnEndpointOfTheFeed(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	wantText(t, b.get("/sinks", as("olga")), "warehouse", "1184", "answered 410 Gone", `href="/flow/sinks/audit/enable"`)
	w := b.get("/sinks/audit/enable", as("olga"))
	wantText(t, w, "“<bdi>audit</bdi>” gets everything that was kept for it", "answered 410 Gone")
	wantStatus(t, b.post("/sinks/audit/enable", "olga", form()), 422)
	wantChanges(t, b.svc, "")
	w = b.post("/sinks/audit/enable", "olga", form("reason", "their mistake is mended"))
	wantStatus(t, w, 303)
	if to := w.Header().Get("Location"); to != "/flow/sinks" {
		t.Errorf("leads to %s", to)
	}
	wantChanges(t, b.svc, "enable audit: their mistake is mended")
	b.svc.sinks = nil
	wantText(t, b.get("/sinks", as("olga")), "No endpoint is configured.")
}

func TestRaisingAFailedEventAgainWantsAReason(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	wantText(t, b.get(instancePath+"/retry", as("olga")), "raised once more")
	wantStatus(t, b.post(instancePath+"/retry", "olga", form()), 422)
	wantStatus(t, b.post(instancePath+"/retry", "olga", form("reason", "because")), 303)
	wantChanges(t, b.svc, "raise again "+sampleID+": because")
}

// guarantees S-06, S-18: what another system answered is text, whatever it is.
func TestAnAnswerThatIsMarkupIsShownAsText(t *testing.T) {
	t.Parallel()
	b := newBundle(t, func(_ *Config, f *fakeService) {
		f.effects[2].Attempts[2].Answer = "</pre><script>alert(document.domain)</script><svg/onload=alert(1)>\u202e"
		f.effects[2].Reason = `"><img src=x onerror=alert(1)>`
	})
	w := b.get("/effects/"+effectDead, as("olga"))
	wantText(t, w, "&lt;/pre&gt;&lt;script&gt;alert(document.domain)", "⟨U+202E⟩", "&lt;img src=x")
	wantNoText(t, w, "<script>alert", "<img src=x", "<svg/onload")
}
