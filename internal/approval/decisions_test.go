package approval

import (
	"strings"
	"testing"
	"time"

	"vobo/internal/fault"
	"vobo/internal/fsm"
)

// Each test shows a row of "Decisions by token" on both routes, and with it that the
// rows above it come first.

var routes = []Route{RoutePage, RouteCallback}

// eachRoute runs a test on both databases and both routes.
func eachRoute(t *testing.T, f func(t *testing.T, b *bundle, route Route)) {
	t.Helper()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		for _, route := range routes {
			f(t, b, route)
		}
	})
}

// limit is the input of an approval.
func limit(t *testing.T, n string) any { return tree(t, `{"limit":`+n+`}`) }

// unchanged checks that nothing was written to an instance and that its link still works.
func (b *bundle) unchanged(what, id string, rows int) {
	b.t.Helper()
	if n := len(b.history(id)); n != rows {
		b.t.Errorf("%s: %d history rows, want %d: %v", what, n, rows, b.states(id))
	}
}

// row 1
func TestEveryTokenThatIsNotAuthenticGetsOneAnswer(t *testing.T) {
	t.Parallel()
	eachRoute(t, func(t *testing.T, b *bundle, route Route) {
		id, other := b.review(), b.review()
		link := b.link(id, "ana@example.com")
		parts := strings.Split(link, ".")
		foreign := strings.Split(b.link(other, "ana@example.com"), ".")
		forged := map[string]string{
			"empty": "", "words": "no-token", "dots": "..", "a byte less": link[:len(link)-1], "a byte more": link + "A", "a space": link + " ",
			"another's signature": parts[0] + "." + parts[1] + "." + foreign[2], "another's claims": parts[0] + "." + foreign[1] + "." + parts[2],
			"no signature": parts[0] + "." + parts[1] + ".", "upper case": strings.ToUpper(link), "four parts": link + ".x",
		}
		if route == RoutePage {
			forged["a callback on the page"] = b.callback(id)
		}
		db := b.raw()
		before := b.fingerprint(db)
		var said string
		for what, token := range forged {
			_, err := b.decide(token, route, RaiseRequest{Event: "reject", Comment: "no"})
			f := wantCode(t, what, err, fault.InvalidToken)
			if said == "" {
				said = f.Message
			}
			if f.Message != said || f.Winner != nil || f.Instance != "" {
				t.Errorf("%s is told %q, others %q", what, f.Message, said)
			}
			if _, err := b.svc.ViewToken(b.ctx, token, ""); fault.CodeOf(err) != fault.InvalidToken {
				t.Errorf("%s, seen: %v", what, err)
			}
		}
		if b.fingerprint(db) != before {
			t.Error("a forged token changed the database")
		}
	})
}

// row 1: authentic by signature, but its row is of another instance or gone
func TestASignedTokenWithoutItsRowIsNotAuthentic(t *testing.T) {
	t.Parallel()
	eachRoute(t, func(t *testing.T, b *bundle, route Route) {
		id := b.review()
		link := b.link(id, "ana@example.com")
		b.write("UPDATE assignees SET jti_hash = NULL WHERE instance_id = '" + id + "' AND kind = 'person'")
		_, err := b.decide(link, route, RaiseRequest{Event: "reject", Comment: "no"})
		_, forged := b.decide(link+"x", route, RaiseRequest{Event: "reject", Comment: "no"})
		if f, g := wantCode(t, "its row is gone", err, fault.InvalidToken), fault.As(forged); f.Message != g.Message {
			t.Errorf("a lost row is told %q, a forged token %q", f.Message, g.Message)
		}
		b.unchanged("a token without its row", id, 1)
	})
}

// row 2
func TestTheSameDecisionAgainIsTheFirstAnswerForYears(t *testing.T) {
	t.Parallel()
	eachRoute(t, func(t *testing.T, b *bundle, route Route) {
		id := b.review()
		link := b.link(id, "ana@example.com")
		first := b.mustDecide(link, route, RaiseRequest{Event: "approve", Input: limit(t, "5")})
		if first.Replayed || first.Instance.State != "approved" || first.Transition.Seq != 2 {
			t.Fatalf("the first: %+v", first)
		}
		for _, after := range []time.Duration{0, time.Hour, 5 * 365 * 24 * time.Hour} {
			b.pass(after)
			for _, again := range routes {
				res := b.mustDecide(link, again, RaiseRequest{Event: "approve", Input: limit(t, "5"), Comment: "typed anew", Digest: "old"})
				first.Replayed = true
				if got, want := string(Render(res)), string(Render(first)); got != want {
					t.Errorf("after %s by %s:\n%s\nwant\n%s", after, again, got, want)
				}
			}
		}
		// By another path of the same person.
		task := EffectID(id, fsm.EffectID{Seq: 1, N: 1})
		res, err := b.svc.DecideTask(b.ctx, b.as("ana@example.com"), task, RaiseRequest{Event: "approve", Input: limit(t, "5")})
		if err != nil || !res.Replayed || res.Transition.Hash != first.Transition.Hash {
			t.Errorf("in the inbox: %+v, %v", res, err)
		}
		b.unchanged("replays", id, 2)
	})
}

// row 2: the other way round: decided in the inbox, then by the link
func TestTheLinkOfWhoDecidedInTheInboxGivesThatAnswer(t *testing.T) {
	t.Parallel()
	eachRoute(t, func(t *testing.T, b *bundle, route Route) {
		id := b.review()
		link := b.link(id, "ana@example.com")
		task := EffectID(id, fsm.EffectID{Seq: 1, N: 1})
		first, err := b.svc.DecideTask(b.ctx, b.as("ana@example.com"), task, RaiseRequest{Event: "reject", Comment: "no"})
		if err != nil {
			t.Fatal(err)
		}
		if res := b.mustDecide(link, route, RaiseRequest{Event: "reject", Comment: "no"}); !res.Replayed || res.Transition.Hash != first.Transition.Hash {
			t.Errorf("by the link: %+v", res)
		}
		// row 3
		_, err = b.decide(link, route, RaiseRequest{Event: "approve", Input: limit(t, "5")})
		if f := wantCode(t, "another decision", err, fault.AlreadyDecided); f.Winner == nil || f.Winner.Event != "reject" {
			t.Errorf("the winner: %+v", f.Winner)
		}
	})
}

// row 3
func TestAnotherDecisionOnAUsedLinkIsToldWhatWasDecided(t *testing.T) {
	t.Parallel()
	eachRoute(t, func(t *testing.T, b *bundle, route Route) {
		id := b.review()
		link := b.link(id, "ana@example.com")
		b.mustDecide(link, route, RaiseRequest{Event: "approve", Input: limit(t, "5")})
		for _, r := range []RaiseRequest{{Event: "reject", Comment: "no"}, {Event: "approve", Input: limit(t, "6")}, {Event: "nonsense"}} {
			for _, state := range []string{"in the group", "out of it"} { // what was decided comes before who may decide
				b.sync(func(p *fsm.Person) {
					if state != "in the group" && p.ID == "ana@example.com" {
						p.Groups = nil
					}
				})
				_, err := b.decide(link, route, r)
				f := wantCode(t, r.Event+" "+state, err, fault.AlreadyDecided)
				if f.Winner == nil || f.Winner.Event != "approve" || f.Winner.Actor != "Ana" || f.Winner.At.IsZero() {
					t.Errorf("%s: the winner is %+v", r.Event, f.Winner)
				}
			}
		}
		b.sync(func(*fsm.Person) {})
		view, err := b.svc.ViewToken(b.ctx, link, "en")
		if err != nil || view.Own == nil || view.Own.Transition.Event != "approve" {
			t.Errorf("the page: %+v, %v", view, err)
		}
		b.unchanged("another decision", id, 2)
	})
}

// row 4
func TestALinkIsRevokedWithItsHoldersRight(t *testing.T) {
	t.Parallel()
	eachRoute(t, func(t *testing.T, b *bundle, route Route) {
		id, left := b.review(), b.review()
		link, late := b.link(id, "ana@example.com"), b.link(left, "ana@example.com")
		b.mustDecide(b.link(left, "bea@example.com"), route, RaiseRequest{Event: "reject", Comment: "no"})
		for what, change := range map[string]func(p *fsm.Person){
			"out of the group": func(p *fsm.Person) { p.Groups = nil },
			"deactivated":      func(p *fsm.Person) { p.Active = false },
		} {
			b.sync(func(p *fsm.Person) {
				if p.ID == "ana@example.com" {
					change(p)
				}
			})
			_, err := b.decide(link, route, RaiseRequest{Event: "reject", Comment: "no"})
			wantCode(t, what, err, fault.TokenRevoked)
			_, err = b.decide(late, route, RaiseRequest{Event: "reject", Comment: "no"})
			wantCode(t, what+", and the wait is over", err, fault.TokenRevoked)
			view, err := b.svc.ViewToken(b.ctx, link, "en")
			if err != nil || fault.CodeOf(view.Closed) != fault.TokenRevoked {
				t.Errorf("%s: the page says %v, %v", what, view.Closed, err)
			}
		}
		b.sync(func(*fsm.Person) {})
		b.unchanged("a revoked link", id, 1)
	})
}

// row 5
func TestAWaitLeftBySomebodyElseSaysHowByWhomAndWhen(t *testing.T) {
	t.Parallel()
	eachRoute(t, func(t *testing.T, b *bundle, route Route) {
		id := b.review()
		ana, bea := b.link(id, "ana@example.com"), b.link(id, "bea@example.com")
		b.mustDecide(ana, route, RaiseRequest{Event: "reject", Comment: "no"})
		b.pass(100 * time.Hour) // the wait's deadline is long past, but it was left before
		for _, r := range []RaiseRequest{{Event: "reject", Comment: "no"}, {Event: "approve", Input: limit(t, "5")}} {
			_, err := b.decide(bea, route, r)
			f := wantCode(t, "Bea's "+r.Event, err, fault.AlreadyDecided)
			if f.Winner == nil || f.Winner.Actor != "Ana" || f.Winner.Event != "reject" {
				t.Errorf("the winner is %+v", f.Winner)
			}
		}
		cancelled := b.review()
		link := b.link(cancelled, "bea@example.com")
		if _, err := b.svc.Cancel(b.ctx, admin, cancelled, "a mistake", Idempotency{}); err != nil {
			t.Fatal(err)
		}
		_, err := b.decide(link, route, RaiseRequest{Event: "reject", Comment: "no"})
		if f := wantCode(t, "after a cancel", err, fault.AlreadyDecided); f.Winner == nil || f.Winner.Event != "cancel" {
			t.Errorf("after a cancel the winner is %+v", f.Winner)
		}
	})
}

// row 6
func TestAfterItsFatalDeadlineALinkIsExpiredSweptOrNot(t *testing.T) {
	t.Parallel()
	eachRoute(t, func(t *testing.T, b *bundle, route Route) {
		id := b.review()
		ana, bea := b.link(id, "ana@example.com"), b.link(id, "bea@example.com")
		b.write("UPDATE assignees SET state = 'superseded' WHERE instance_id = '" + id + "' AND ref = 'user:bea@example.com'")
		b.pass(73 * time.Hour)
		for _, swept := range []bool{false, true} {
			if swept {
				b.sweep()
			}
			for _, link := range []string{ana, bea} { // expiry comes before "superseded"
				_, err := b.decide(link, route, RaiseRequest{Event: "reject", Comment: "no"})
				f := wantCode(t, "past the deadline", err, fault.TokenExpired)
				if !strings.Contains(f.Message, "Rosa") {
					t.Errorf("whom to ask is not said: %s", f.Message)
				}
			}
		}
		if v := b.instance(id); v.State != "expired" {
			t.Errorf("it is in %s", v.State)
		}
	})
}

// row 7
func TestAReminderSupersedesTheOlderLinkAndTheFreshOneWorks(t *testing.T) {
	t.Parallel()
	eachRoute(t, func(t *testing.T, b *bundle, route Route) {
		id := b.review()
		old := b.link(id, "ana@example.com")
		b.pass(25 * time.Hour)
		b.sweep()
		fresh := b.link(id, "ana@example.com")
		if fresh == old {
			t.Fatal("the reminder brought no fresh link")
		}
		b.write("UPDATE instances SET status = 'suspended' WHERE id = '" + id + "'") // comes after
		_, err := b.decide(old, route, RaiseRequest{Event: "reject", Comment: "no"})
		wantCode(t, "the older link", err, fault.TokenRevoked)
		// row 8: before the event is even looked at
		_, err = b.decide(fresh, route, RaiseRequest{Event: "nonsense"})
		wantCode(t, "suspended", err, fault.Suspended)
		b.write("UPDATE instances SET status = 'running' WHERE id = '" + id + "'")
		if res := b.mustDecide(fresh, route, RaiseRequest{Event: "reject", Comment: "no"}); res.Instance.State != "rejected" {
			t.Errorf("the fresh link led to %s", res.Instance.State)
		}
		// The older link of one who decided: the same again is a replay by another link of theirs.
		if res, err := b.decide(old, route, RaiseRequest{Event: "reject", Comment: "no"}); err != nil || !res.Replayed {
			t.Errorf("the same by the older link: %+v, %v", res, err)
		}
		_, err = b.decide(old, route, RaiseRequest{Event: "approve", Input: limit(t, "5")})
		wantCode(t, "another decision by the older link", err, fault.AlreadyDecided)
	})
}
