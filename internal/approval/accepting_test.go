package approval

import (
	"strings"
	"testing"
	"time"

	"vobo/internal/fault"
	"vobo/internal/fsm"
)

// The rows of "Decisions by token" of a link that is open.

// row 9
func TestALinkAllowsItsEventsAndFourEyesHold(t *testing.T) {
	t.Parallel()
	eachRoute(t, func(t *testing.T, b *bundle, route Route) {
		id := b.review()
		link := b.link(id, "ana@example.com")
		for _, event := range []string{"", "signed", "expire", "nonsense", "APPROVE"} {
			_, err := b.decide(link, route, RaiseRequest{Event: event, Digest: "changed"}) // comes before "content changed"
			wantCode(t, "event "+event, err, fault.EventNotAllowed)
		}
		// Ana asks herself: her link has no approve, and no way around that has.
		own := b.start(b.as("ana@example.com"), "review", `{"title":"Mine","amount":100}`).ID
		hers := b.link(own, "ana@example.com")
		_, err := b.decide(hers, route, RaiseRequest{Event: "approve", Input: limit(t, "5")})
		wantCode(t, "her own request", err, fault.EventNotAllowed)
		// A rule that has come to stand against her since the link was made.
		later := b.review()
		link = b.link(later, "ana@example.com")
		b.write("UPDATE instances SET requester = 'ana@example.com' WHERE id = '" + later + "'")
		_, err = b.decide(link, route, RaiseRequest{Event: "approve", Digest: "changed", Input: "ill-formed"})
		if f := wantCode(t, "four eyes", err, fault.NotPermitted); !strings.Contains(f.Message, "requester") {
			t.Errorf("the rule is not named: %s", f.Message)
		}
		b.unchanged("not permitted", later, 1)
	})
}

// row 10
func TestAChangeOfWhatWasShownVoidsLinksAndTellsTheOthers(t *testing.T) {
	t.Parallel()
	eachRoute(t, func(t *testing.T, b *bundle, route Route) {
		id := b.review()
		ana, bea := b.link(id, "ana@example.com"), b.link(id, "bea@example.com")
		view, err := b.svc.ViewToken(b.ctx, bea, "en")
		if err != nil {
			t.Fatal(err)
		}
		res := b.mustDecide(ana, route, RaiseRequest{Event: "revise", Input: tree(t, `{"title":"Tables"}`)})
		if res.Token == "" || res.Token == ana || res.Transition.Kind != fsm.TStay {
			t.Fatalf("revised: %+v", res)
		}
		for _, digest := range []string{"", view.Task.Digest} {
			_, err := b.decide(bea, route, RaiseRequest{Event: "reject", Digest: digest}) // comes before "comment required"
			wantCode(t, "Bea's older link", err, fault.ContentChanged)
		}
		fresh := b.link(id, "bea@example.com")
		if fresh == bea || b.named(id, "changed") != 1 {
			t.Fatalf("%d mails about the change, to a fresh link: %v", b.named(id, "changed"), fresh != bea)
		}
		_, err = b.decide(fresh, route, RaiseRequest{Event: "reject", Comment: "no", Digest: view.Task.Digest})
		wantCode(t, "the old digest on the fresh link", err, fault.ContentChanged)
		now, err := b.svc.ViewToken(b.ctx, fresh, "en")
		if err != nil || now.Task.Title != "Review Tables" || now.Task.Digest == view.Task.Digest {
			t.Fatalf("the fresh page: %q, %v", now.Task.Title, err)
		}
		done := b.mustDecide(fresh, route, RaiseRequest{Event: "reject", Comment: "no", Digest: now.Task.Digest})
		if done.Transition.Digest != now.Task.Digest {
			t.Errorf("the history keeps digest %q", done.Transition.Digest)
		}
	})
}

// row 11
func TestIllFormedInputNamesItsFieldsAndUsesNothingUp(t *testing.T) {
	t.Parallel()
	eachRoute(t, func(t *testing.T, b *bundle, route Route) {
		id := b.review()
		link := b.link(id, "ana@example.com")
		for what, c := range map[string]struct {
			r       RaiseRequest
			pointer string
		}{
			"no comment":      {RaiseRequest{Event: "reject"}, "/comment"},
			"a blank comment": {RaiseRequest{Event: "reject", Comment: " \n"}, "/comment"},
			"no input":        {RaiseRequest{Event: "approve"}, ""},
			"a field missing": {RaiseRequest{Event: "approve", Input: tree(t, `{}`)}, "/limit"},
			"a wrong type":    {RaiseRequest{Event: "approve", Input: limit(t, `"five"`)}, "/limit"},
			"below the least": {RaiseRequest{Event: "approve", Input: limit(t, "0")}, "/limit"},
			"a check fails":   {RaiseRequest{Event: "approve", Input: limit(t, "101")}, "/limit"},
			"input unasked":   {RaiseRequest{Event: "reject", Comment: "no", Input: tree(t, `{"x":1}`)}, ""},
			"no document":     {RaiseRequest{Event: "attach"}, "/documents/contract"},
			"a bad document":  {RaiseRequest{Event: "attach", Documents: tree(t, `{"contract":{"name":"c.pdf"}}`)}, ""},
			"a long comment":  {RaiseRequest{Event: "reject", Comment: strings.Repeat("ü", MaxComment+1)}, "/comment"},
		} {
			_, err := b.decide(link, route, c.r)
			f := wantCode(t, what, err, fault.InvalidInput)
			if len(f.Fields) == 0 {
				t.Errorf("%s: no field is named: %s", what, f.Message)
				continue
			}
			found := c.pointer == ""
			for _, field := range f.Fields {
				found = found || field.Pointer == c.pointer
			}
			if !found {
				t.Errorf("%s: %+v, want %s", what, f.Fields, c.pointer)
			}
		}
		b.unchanged("ill-formed input", id, 1)
		if res := b.mustDecide(link, route, RaiseRequest{Event: "reject", Comment: strings.Repeat("ü", MaxComment)}); res.Instance.State != "rejected" {
			t.Errorf("afterwards it led to %s", res.Instance.State)
		}
	})
}

// row 12, and the last but one
func TestAGuardSaysWhatIsInTheWayAndThenLetsPass(t *testing.T) {
	t.Parallel()
	eachRoute(t, func(t *testing.T, b *bundle, route Route) {
		id := b.review()
		link := b.link(id, "ana@example.com")
		_, err := b.decide(link, route, RaiseRequest{Event: "pay"})
		wantCode(t, "the guard", err, fault.GuardRejected)
		b.unchanged("a guard", id, 1)
		data := b.query(b.raw(), "SELECT data FROM instance_data WHERE instance_id = '"+id+"'")[0]
		b.write("UPDATE instance_data SET data = '" + strings.ReplaceAll(data, `"ready":false`, `"ready":true`) + "' WHERE instance_id = '" + id + "'")
		if res := b.mustDecide(link, route, RaiseRequest{Event: "pay"}); res.Replayed || res.Instance.State != "approved" || res.Transition.Assurance != fsm.ByLink {
			t.Errorf("then: %+v", res)
		}
	})
}

// the last row
func TestAVoteIsNotedUntilTheQuorumIsComplete(t *testing.T) {
	t.Parallel()
	eachRoute(t, func(t *testing.T, b *bundle, route Route) {
		rosa := b.as("rosa@example.com")
		b.write("DELETE FROM claims") // the second route's round has the same business key
		id := b.start(rosa, "supplier", `{"name":"Acme","tax_id":"X`+string(route)+`","email":"a@example.com","yearly":5000}`).ID
		ana, bea, luis := b.link(id, "ana@example.com"), b.link(id, "bea@example.com"), b.link(id, "luis@example.com")
		first := b.mustDecide(ana, route, RaiseRequest{Event: "approve", Input: limit(t, "5")})
		if first.Pending == nil || first.Pending.Have != 1 || first.Pending.Need != 2 || first.Instance.State != "pending_approval" || first.Transition.Kind != fsm.TVote {
			t.Fatalf("the first vote: %+v", first)
		}
		if res := b.mustDecide(ana, route, RaiseRequest{Event: "approve", Input: limit(t, "5")}); !res.Replayed || res.Pending == nil {
			t.Errorf("the same vote again: %+v", res)
		}
		_, err := b.decide(ana, route, RaiseRequest{Event: "approve", Input: limit(t, "6")})
		wantCode(t, "another vote by the used link", err, fault.AlreadyDecided)
		// A standing vote is changed where no link is used up.
		changed, err := b.svc.Raise(b.ctx, b.as("ana@example.com"), id, RaiseRequest{Event: "approve", Input: limit(t, "7")})
		if err != nil || changed.Pending == nil || changed.Pending.Have != 1 {
			t.Fatalf("a changed vote: %+v, %v", changed, err)
		}
		// A second of the same line fills no other line.
		if res := b.mustDecide(bea, route, RaiseRequest{Event: "approve", Input: limit(t, "8")}); res.Pending == nil || res.Pending.Have != 1 {
			t.Errorf("two of risk: %+v", res.Pending)
		}
		last := b.mustDecide(luis, route, RaiseRequest{Event: "approve", Input: limit(t, "9")})
		if last.Instance.State != "signing" || last.Transition.Kind != fsm.TTransition {
			t.Errorf("the completing vote: %+v", last)
		}
		// The first voter's link still gives their own answer.
		if res := b.mustDecide(ana, route, RaiseRequest{Event: "approve", Input: limit(t, "5")}); !res.Replayed || res.Transition.Seq != first.Transition.Seq {
			t.Errorf("the first vote again, after the end: %+v", res)
		}
		if n := b.named(id, "ask_signature"); n != 1 {
			t.Errorf("%d signatures asked for", n)
		}
	})
}

func TestAfterAStayTheSuccessorDecidesAndTheUsedLinkStaysUsed(t *testing.T) {
	t.Parallel()
	eachRoute(t, func(t *testing.T, b *bundle, route Route) {
		id := b.review()
		link, bea := b.link(id, "ana@example.com"), b.link(id, "bea@example.com")
		deadlines := b.instance(id).Deadlines
		asked := b.mustDecide(link, route, RaiseRequest{Event: "ask", Comment: "which chairs?"})
		if asked.Token == "" || asked.Token == link || asked.Instance.State != "open" {
			t.Fatalf("asked: %+v", asked)
		}
		if now := b.instance(id).Deadlines; len(now) != len(deadlines) || now[0].DueAt != deadlines[0].DueAt {
			t.Errorf("a stay moved the deadlines: %+v, were %+v", now, deadlines)
		}
		again := b.mustDecide(link, route, RaiseRequest{Event: "ask", Comment: "which chairs?"})
		if !again.Replayed || again.Token != asked.Token {
			t.Errorf("the same again gives another successor: %+v", again)
		}
		_, err := b.decide(link, route, RaiseRequest{Event: "reject", Comment: "no"})
		wantCode(t, "another act by the used link", err, fault.AlreadyDecided)
		res := b.mustDecide(asked.Token, route, RaiseRequest{Event: "approve", Input: limit(t, "5")})
		if res.Instance.State != "approved" {
			t.Errorf("the successor led to %s", res.Instance.State)
		}
		_, err = b.decide(bea, route, RaiseRequest{Event: "reject", Comment: "no"})
		wantCode(t, "Bea", err, fault.AlreadyDecided)
	})
}

func TestACallbackTokenRemembersEachEventWithItsInput(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		id := b.review()
		token := b.callback(id)
		ping := func(input string) *Result {
			t.Helper()
			return b.mustDecide(token, RouteCallback, RaiseRequest{Event: "pinged", Input: tree(t, input)})
		}
		one, two := ping(`{"n":1}`), ping(`{"n":2}`)
		if one.Replayed || two.Replayed || one.Transition.Seq == two.Transition.Seq {
			t.Fatalf("two pings: %+v, %+v", one.Transition, two.Transition)
		}
		if again := ping(`{"n":1}`); !again.Replayed || again.Transition.Seq != one.Transition.Seq {
			t.Errorf("the first ping again: %+v", again)
		}
		_, err := b.decide(token, RouteCallback, RaiseRequest{Event: "approve"})
		wantCode(t, "an event that is not its", err, fault.EventNotAllowed)
		signed := b.mustDecide(token, RouteCallback, RaiseRequest{Event: "signed"})
		if signed.Instance.State != "approved" {
			t.Fatalf("signed: %+v", signed)
		}
		b.pass(5 * 365 * 24 * time.Hour)
		if again := ping(`{"n":2}`); !again.Replayed || again.Transition.Seq != two.Transition.Seq {
			t.Errorf("the second ping, five years later: %+v", again)
		}
		if again := b.mustDecide(token, RouteCallback, RaiseRequest{Event: "signed"}); !again.Replayed {
			t.Error("signed again is no replay")
		}
		_, err = b.decide(token, RouteCallback, RaiseRequest{Event: "pinged", Input: tree(t, `{"n":3}`)})
		wantCode(t, "a new ping when it is over", err, fault.AlreadyDecided)
		b.unchanged("callbacks", id, 4)
	})
}

// guarantee S-01, field report B01
func TestLookingAtALinkChangesNothing(t *testing.T) {
	t.Parallel()
	const visits = 100
	eachDatabase(t, func(t *testing.T, b *bundle) {
		id, over, used := b.review(), b.review(), b.review()
		b.mustDecide(b.link(used, "ana@example.com"), RoutePage, RaiseRequest{Event: "reject", Comment: "no"})
		links := []string{b.link(id, "ana@example.com"), b.link(id, "bea@example.com"), b.link(over, "ana@example.com"), b.link(used, "ana@example.com")}
		if _, err := b.svc.Cancel(b.ctx, admin, over, "over", Idempotency{}); err != nil {
			t.Fatal(err)
		}
		db := b.raw()
		before := b.fingerprint(db)
		for i := range visits {
			link := links[i%len(links)]
			ctx := WithClient(b.ctx, Client{IP: "192.0.2." + string(rune('1'+i%3)), UserAgent: "Mail-Gateway/1.0"})
			if _, err := b.svc.ViewToken(ctx, link, []string{"", "en", "es"}[i%3]); err != nil {
				t.Fatal(err)
			}
		}
		if b.fingerprint(db) != before {
			t.Error("looking changed the database")
		}
		if res := b.mustDecide(links[1], RoutePage, RaiseRequest{Event: "reject", Comment: "no"}); res.Replayed {
			t.Error("the link was used by looking")
		}
		if b.fingerprint(db) == before {
			t.Fatal("the fingerprint does not see a decision")
		}
		bound(t, "S-01 visits that changed something", visits)
	})
}
