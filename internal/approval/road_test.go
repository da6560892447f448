package approval

import (
	"testing"
	"time"

	"vobo/internal/fault"
	"vobo/internal/fsm"
)

func TestAnOnboardingIsApprovedByLinkAndFinishedByADocument(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		id := b.atApproval("eva@example.com")
		ana, bea := b.link(id, "ana@example.com"), b.link(id, "bea@example.com")
		view, err := b.svc.ViewToken(b.ctx, ana, "")
		if err != nil || view.Closed != nil {
			t.Fatalf("view: %v, closed %v", err, view.Closed)
		}
		if view.Task.Title != "Approve Eva" || len(view.Task.Facts) != 3 || len(view.Task.Events) != 2 {
			t.Fatalf("the page shows %q with %d facts and %d events", view.Task.Title, len(view.Task.Facts), len(view.Task.Events))
		}
		res, err := b.svc.DecideByToken(b.ctx, ana, RoutePage, RaiseRequest{Event: "approve", Digest: view.Task.Digest}, Caller{})
		if err != nil || res.Instance.State != "waiting_docs" || res.Replayed {
			t.Fatalf("approve: %+v, %v", res, err)
		}
		again, err := b.svc.DecideByToken(b.ctx, ana, RoutePage, RaiseRequest{Event: "approve"}, Caller{})
		if err != nil || !again.Replayed || again.Transition.Hash != res.Transition.Hash {
			t.Fatalf("the same decision again: %+v, %v", again, err)
		}
		_, err = b.svc.DecideByToken(b.ctx, bea, RoutePage, RaiseRequest{Event: "approve"}, Caller{})
		if f := fault.As(err); f == nil || f.Code != fault.AlreadyDecided || f.Winner == nil || f.Winner.Actor != "Ana" {
			t.Fatalf("the second approver is told: %v", err)
		}
		doc := map[string]any{"contract": tree(t, `{"name":"c.pdf","media_type":"application/pdf","size":10,"sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","uri":"mem://1"}`)}
		done, err := b.svc.Raise(b.ctx, b.as("rosa@example.com"), id, RaiseRequest{Event: "document_received", Documents: doc})
		if err != nil || done.Instance.Status != fsm.Finished {
			t.Fatalf("document: %+v, %v", done, err)
		}
		if n := len(b.history(id)); n != 4 {
			t.Fatalf("%d history rows, want 4", n)
		}
	})
}

func TestAnUndecidedOnboardingExpiresOnceAndItsLinksSayWhen(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		id := b.atApproval("eva@example.com")
		link := b.link(id, "ana@example.com")
		b.pass(73 * time.Hour)
		_, err := b.svc.DecideByToken(b.ctx, link, RoutePage, RaiseRequest{Event: "approve"}, Caller{})
		if fault.CodeOf(err) != fault.TokenExpired {
			t.Fatalf("before the sweep: %v", err)
		}
		if n := b.sweep(); n != 1 {
			t.Fatalf("%d deadlines fired, want the expiry alone", n)
		}
		if v := b.instance(id); v.State != "expired" || v.Status != fsm.Finished || len(v.Deadlines) != 0 {
			t.Fatalf("after the sweep: %+v", v)
		}
		if _, err = b.svc.DecideByToken(b.ctx, link, RoutePage, RaiseRequest{Event: "approve"}, Caller{}); fault.CodeOf(err) != fault.TokenExpired {
			t.Fatalf("after the sweep: %v", err)
		}
	})
}
