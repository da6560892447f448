package approval

import (
	"slices"
	"strings"
	"testing"
	"time"

	"vobo/internal/fsm"
	"vobo/internal/store"
)

// field report B48
func TestEveryDigitOfANumberIsKeptEverywhere(t *testing.T) {
	t.Parallel()
	const data = `{"id":616581622363398142,"n":9007199254740993,"u":18446744073709551615,"d":0.1,"z":-0}`
	digits := []string{"616581622363398142", "9007199254740993", "18446744073709551615", "0.1"}
	eachDatabase(t, func(t *testing.T, b *bundle) {
		rosa := b.as("rosa@example.com")
		v := b.start(rosa, "digits", data)
		has := func(what, text string, want ...string) {
			t.Helper()
			for _, d := range want {
				if !strings.Contains(text, d) {
					t.Errorf("%s has lost %s: %s", what, d, text)
				}
			}
		}
		has("the answer", string(v.Data), digits...)
		has("reading it", string(b.instance(v.ID).Data), digits...)
		b.deliver()
		call := b.hooks.WaitCalls(t, "/numbers", 1)[0]
		has("the webhook", string(call.Body), digits...)
		mails, err := b.svc.Mailbox(b.ctx, store.Paging{Limit: 10})
		if err != nil || len(mails.Items) == 0 {
			t.Fatalf("%d mails, %v", len(mails.Items), err)
		}
		has("the mail", mails.Items[0].Subject+mails.Items[0].Text, digits[:3]...)
		if _, err := b.svc.Raise(b.ctx, rosa, v.ID, RaiseRequest{Event: "keep", Input: tree(t, `{"n":18446744073709551614}`)}); err != nil {
			t.Fatal(err)
		}
		row := b.history(v.ID)[1]
		has("the history", string(row.Input)+string(Render(row.Changes)), "18446744073709551614", "9007199254740993")
		if _, err := b.svc.Raise(b.ctx, rosa, v.ID, RaiseRequest{Event: "keep", Input: tree(t, `{"n":9007199254740993}`)}); err != nil {
			t.Fatal(err)
		}
		// 2^53 + 1 is not 2^53, which a float would take it for.
		if _, err := b.svc.Raise(b.ctx, rosa, v.ID, RaiseRequest{Event: "equal"}); err == nil {
			t.Error("a guard takes 9007199254740993 for 9007199254740992")
		}
		b.raise(rosa, v.ID, "above")
	})
}

// D1, D2: the history is dense, chained and verifies.
func TestTheHistoryIsDenseAndItsChainVerifies(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		id := b.review()
		b.mustDecide(b.callback(id), RouteCallback, RaiseRequest{Event: "pinged", Input: tree(t, `{"n":1.50,"t":"é"}`)})
		b.mustDecide(b.link(id, "ana@example.com"), RoutePage, RaiseRequest{Event: "ask", Comment: "wozu?\n"})
		b.pass(25 * time.Hour)
		b.sweep()
		b.mustDecide(b.link(id, "bea@example.com"), RoutePage, RaiseRequest{Event: "approve", Input: limit(t, "5"), Comment: "ok"})
		page, err := b.store.History(b.ctx, id, store.Paging{Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		if err := fsm.VerifyChain(page.Items); err != nil {
			t.Errorf("the chain: %v", err)
		}
		for i := range page.Items {
			if page.Items[i].Seq != i+1 {
				t.Fatalf("row %d has seq %d", i, page.Items[i].Seq)
			}
		}
		changed := slices.Clone(page.Items)
		changed[1].Comment = "tampered"
		if fsm.VerifyChain(changed) == nil {
			t.Error("a changed comment is not found out")
		}
	})
}
