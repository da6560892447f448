package approval

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"vobo/internal/fault"
	"vobo/internal/fsm"
)

// field report B10
func TestLinksOutliveARotationAndDieWithTheirKey(t *testing.T) {
	t.Parallel()
	eachRoute(t, func(t *testing.T, b *bundle, route Route) {
		one, two, three := b.review(), b.review(), b.review()
		first := b.ring.Active()
		old, sibling := b.link(one, "ana@example.com"), b.link(one, "bea@example.com")
		other, last := b.link(two, "ana@example.com"), b.link(three, "ana@example.com")
		b.rotated()
		if view, err := b.svc.ViewToken(b.ctx, old, "en"); err != nil || view.Closed != nil {
			t.Fatalf("after a rotation the page of the older link: %v, %v", view.Closed, err)
		}
		b.pass(25 * time.Hour)
		b.sweep()
		fresh := b.link(one, "ana@example.com")
		if again := b.link(three, "ana@example.com"); strings.Split(again, ".")[0] == strings.Split(last, ".")[0] {
			t.Error("the reminder's link is signed with the retired key")
		}
		_, err := b.decide(old, route, RaiseRequest{Event: "reject", Comment: "no"})
		wantCode(t, "the older link after the reminder", err, fault.TokenRevoked)
		b.mustDecide(fresh, route, RaiseRequest{Event: "reject", Comment: "no"})
		for what, link := range map[string]string{"the sibling": sibling, "the sibling's fresh one": b.link(one, "bea@example.com")} {
			_, err := b.decide(link, route, RaiseRequest{Event: "reject", Comment: "no"})
			wantCode(t, what, err, fault.AlreadyDecided)
		}
		b.mustDecide(b.link(two, "ana@example.com"), route, RaiseRequest{Event: "reject", Comment: "no"})
		if err := b.ring.Destroy(first); err != nil {
			t.Fatal(err)
		}
		for what, link := range map[string]string{"decided": other, "superseded": old, "open": last} {
			_, err := b.decide(link, route, RaiseRequest{Event: "reject", Comment: "no"})
			wantCode(t, "under a destroyed key: "+what, err, fault.InvalidToken)
		}
	})
}

// field report B55
func TestADeactivatedPersonIsOutByEveryDoorAtOnce(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		id := b.review()
		link := b.link(id, "ana@example.com")
		session, _, err := b.svc.LoginAs(b.ctx, "ana@example.com")
		if err != nil {
			t.Fatal(err)
		}
		ana := b.as("ana@example.com")
		if err := b.store.DeactivatePerson(b.ctx, "ana@example.com"); err != nil {
			t.Fatal(err)
		}
		_, err = b.decide(link, RoutePage, RaiseRequest{Event: "reject", Comment: "no"})
		wantCode(t, "her link", err, fault.TokenRevoked)
		if _, _, err := b.svc.Session(b.ctx, session); fault.CodeOf(err) != fault.Unauthorized {
			t.Errorf("her session: %v", err)
		}
		_, err = b.svc.Raise(b.ctx, ana, id, RaiseRequest{Event: "reject", Comment: "no"}) // a request that was let in just before
		wantCode(t, "her request under way", err, fault.NotPermitted)
		b.pass(2 * time.Second)
		_, err = b.svc.onBehalf(b.ctx, Caller{ID: "system:x", Roles: []string{"impersonator"}}, "ana@example.com")
		wantCode(t, "a key in her name", err, fault.Forbidden)
		if _, _, err := b.svc.LoginAs(b.ctx, "ana@example.com"); fault.CodeOf(err) != fault.Forbidden {
			t.Errorf("a new log-in: %v", err)
		}
		b.sync(func(*fsm.Person) {}) // a file that still lists her as active
		_, err = b.decide(link, RoutePage, RaiseRequest{Event: "reject", Comment: "no"})
		wantCode(t, "her link after a sync", err, fault.TokenRevoked)
		b.unchanged("a deactivated person", id, 1)
		next := b.review()
		if a := b.instance(next).Tasks[0].Assignees; len(a) != 1 || a[0] != "user:bea@example.com" {
			t.Errorf("a new wait asks %v", a)
		}
	})
}

// guarantee S-07
func TestNobodyApprovesTheirOwnRequestByAnyPath(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		var tried atomic.Int32
		b.sync(func(p *fsm.Person) {
			switch p.ID {
			case "ana@example.com":
				p.Roles = []string{"requester", "operator", "admin", "impersonator"}
			case "bea@example.com":
				p.Roles = []string{"requester", "impersonator"}
			}
		})
		b.pass(2 * time.Second)
		b.need("duel")
		ana, bea := b.as("ana@example.com"), b.as("bea@example.com")
		key := Caller{Kind: fsm.ActorSystem, ID: "system:hr", Roles: []string{"impersonator", "operator", "requester"}, Assurance: fsm.ByKey}
		inName, err := b.svc.onBehalf(b.ctx, key, "ana@example.com")
		if err != nil {
			t.Fatal(err)
		}
		started := func(c Caller, requester string) string {
			t.Helper()
			res, err := b.svc.Start(b.ctx, c, StartRequest{Definition: "duel", Data: tree(t, `{"title":"x"}`), Requester: requester})
			if err != nil {
				t.Fatal(err)
			}
			return res.View.ID
		}
		refused := func(what, id string, err error) {
			t.Helper()
			tried.Add(1)
			if c := fault.CodeOf(err); c != fault.NotPermitted && c != fault.EventNotAllowed {
				t.Errorf("%s: %v", what, err)
			}
			b.unchanged(what, id, 1)
		}
		approve := RaiseRequest{Event: "approve"}
		for what, id := range map[string]string{"her own": started(ana, ""), "on her behalf": started(inName, ""), "in her name by a key": started(key, "ana@example.com")} {
			for path, c := range map[string]Caller{"by session": ana, "on her behalf": inName, "as admin": {Kind: fsm.ActorPerson, ID: ana.ID, Roles: []string{"admin", "operator"}, Assurance: fsm.ByStepUp}} {
				_, err := b.svc.Raise(b.ctx, c, id, approve)
				refused(what+" "+path, id, err)
				_, err = b.svc.DecideTask(b.ctx, c, EffectID(id, fsm.EffectID{Seq: 1, N: 1}), approve)
				refused(what+" in the inbox "+path, id, err)
			}
			for _, route := range routes {
				_, err := b.decide(b.link(id, "ana@example.com"), route, approve)
				refused(what+" by link", id, err)
			}
			_, err := b.svc.Raise(b.ctx, key, id, approve)
			refused(what+" by the key itself", id, err)
		}
		// Who starts in somebody else's name is excluded as the requester is.
		id := started(bea, "rosa@example.com")
		_, err = b.svc.Raise(b.ctx, bea, id, approve)
		refused("the one who started it for Rosa", id, err)
		_, err = b.decide(b.link(id, "bea@example.com"), RoutePage, approve)
		refused("their link", id, err)
		if res := b.mustDecide(b.link(id, "ana@example.com"), RoutePage, approve); res.Instance.State != "approved" {
			t.Errorf("somebody else: %+v", res)
		}
		bound(t, "S-07 self-approvals", int(tried.Load()))
	})
}

// field report B45, guarantee R-34
func TestAQuorumClosesOnceWithAsManyPeopleAsItNeeds(t *testing.T) {
	t.Parallel()
	const rounds = 100
	eachDatabase(t, func(t *testing.T, b *bundle) {
		services := b.services(3)
		rosa := b.as("rosa@example.com")
		names := []string{"ana@example.com", "bea@example.com", "luis@example.com"}
		var wrong tally
		for i := range rounds {
			id := b.start(rosa, "board", fmt.Sprintf(`{"title":"%d"}`, i)).ID
			var links []string
			for _, n := range names {
				links = append(links, b.link(id, n))
			}
			var complete, pending, late atomic.Int32
			together(2*len(links), func(p int) { // everybody presses twice
				res, err := services[p%len(services)].DecideByToken(b.ctx, links[p%len(links)], routes[p%2], RaiseRequest{Event: "approve"}, Caller{})
				switch {
				case fault.CodeOf(err) == fault.AlreadyDecided:
					late.Add(1)
				case err != nil:
					wrong.add("%v", err)
				case res.Replayed:
				case res.Instance.State == "approved":
					complete.Add(1)
				default:
					pending.Add(1)
				}
			})
			if complete.Load() != 1 || pending.Load() != 1 || late.Load() != 2 {
				wrong.add("%d complete, %d pending, %d late", complete.Load(), pending.Load(), late.Load())
			}
			if n := len(b.history(id)); n != 3 || b.named(id, "tell") != 1 {
				wrong.add("%d rows and %d effects", n, b.named(id, "tell"))
			}
		}
		wrong.check(t, "R-34 quorums that closed at another number or twice", rounds)
	})
}

// field report B45
func TestOneVoteByLinkAndInboxCountsOnceAndARejectionClosesAll(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		id := b.start(b.as("rosa@example.com"), "board", `{"title":"x"}`).ID
		ana, bea := b.as("ana@example.com"), b.as("bea@example.com")
		b.mustDecide(b.link(id, ana.ID), RoutePage, RaiseRequest{Event: "approve"})
		res, err := b.svc.DecideTask(b.ctx, ana, b.instance(id).Tasks[0].ID, RaiseRequest{Event: "approve"})
		if err != nil || !res.Replayed || res.Pending == nil || res.Pending.Have != 1 {
			t.Fatalf("the same person in the inbox: %+v, %v", res, err)
		}
		changed, err := b.svc.Raise(b.ctx, ana, id, RaiseRequest{Event: "approve", Input: tree(t, `{"note":"on second thoughts"}`)})
		if err != nil || changed.Replayed || changed.Pending == nil || changed.Pending.Have != 1 || changed.Instance.State != "open" {
			t.Fatalf("the same person's changed vote: %+v, %v", changed, err)
		}
		link := b.link(id, bea.ID)
		b.mustDecide(b.link(id, "luis@example.com"), RoutePage, RaiseRequest{Event: "reject"})
		_, err = b.decide(link, RoutePage, RaiseRequest{Event: "approve"})
		if f := wantCode(t, "after the rejection", err, fault.AlreadyDecided); f.Winner == nil || f.Winner.Actor != "Luis" {
			t.Errorf("the winner: %+v", f.Winner)
		}
		counts, err := b.svc.InboxCounts(b.ctx, bea)
		if err != nil || counts.Mine != 0 || counts.Groups != 0 {
			t.Errorf("Bea's inbox: %+v, %v", counts, err)
		}
		effects := len(b.effects(id))
		b.pass(4 * 24 * time.Hour)
		if n := b.sweep(); n != 0 || len(b.effects(id)) != effects {
			t.Errorf("%d reminders fired, %d mails", n, len(b.effects(id))-effects)
		}
		if b.named(id, "tell") != 0 || b.instance(id).State != "rejected" {
			t.Errorf("it ended in %s", b.instance(id).State)
		}
	})
}

// guarantee S-05
func TestWhatWasNotShownIsNotDecided(t *testing.T) {
	t.Parallel()
	rounds := size(10, 100)
	eachDatabase(t, func(t *testing.T, b *bundle) {
		olga := b.as("olga@example.com")
		var wrong tally
		tries := 0
		for i := range rounds {
			id, other := b.review(), b.review()
			link := b.link(id, "ana@example.com")
			view, err := b.svc.ViewToken(b.ctx, link, "en")
			if err != nil {
				t.Fatal(err)
			}
			elsewhere, err := b.svc.ViewToken(b.ctx, b.link(other, "ana@example.com"), "en")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := b.svc.Raise(b.ctx, olga, id, RaiseRequest{Event: "revise", Input: tree(t, fmt.Sprintf(`{"title":"Changed %d"}`, i))}); err != nil {
				t.Fatal(err)
			}
			fresh := b.link(id, "ana@example.com")
			task := b.instance(id).Tasks[0]
			shown := view.Task.Digest
			for what, digest := range map[string]string{
				"what was read": shown, "another's": elsewhere.Task.Digest, "made up": "v1:" + strings.Repeat("0", 64),
				"cut": task.Digest[:len(task.Digest)-1], "upper case": strings.ToUpper(task.Digest) + "X",
			} {
				reject := RaiseRequest{Event: "reject", Comment: "no", Digest: digest}
				var errs []error
				for _, route := range routes {
					for _, l := range []string{link, fresh} {
						_, err := b.decide(l, route, reject)
						errs = append(errs, err)
					}
				}
				_, err := b.svc.DecideTask(b.ctx, b.as("ana@example.com"), task.ID, reject)
				errs = append(errs, err)
				_, err = b.svc.Raise(b.ctx, b.as("ana@example.com"), id, reject)
				errs = append(errs, err)
				for p, err := range errs {
					tries++
					if fault.CodeOf(err) != fault.ContentChanged {
						wrong.add("%s by path %d: %v", what, p, err)
					}
				}
			}
			if n := len(b.history(id)); n != 2 {
				wrong.add("%d rows", n)
			}
			done := b.mustDecide(fresh, RoutePage, RaiseRequest{Event: "reject", Comment: "no", Digest: task.Digest})
			if done.Transition.Digest != task.Digest {
				wrong.add("the history keeps %q", done.Transition.Digest)
			}
		}
		wrong.check(t, "S-05 decisions on what was not shown", tries)
	})
}
