package approval

import (
	"strings"
	"testing"
	"time"
)

// guarantee D11
func TestADeadlineThatFailsRaisesAttentionOnceAndBacksOffAlone(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		id := b.start(b.as("rosa@example.com"), "short-lived", `{}`).ID
		b.raise(b.as("ana@example.com"), id, "note")
		other := b.atApproval("eva@example.com")
		b.pass(80 * time.Hour) // both are due now
		if _, err := b.svc.SweepOnce(b.ctx, 100, 0); err == nil || !strings.Contains(err.Error(), "the most that its definition allows") {
			t.Fatalf("the sweep does not report the failing deadline: %v", err)
		}
		if v := b.instance(other); v.State != "expired" {
			t.Errorf("its neighbour is %s: one failing deadline stalls the others", v.State)
		}
		v := b.instance(id)
		if !v.Attention || len(v.AttentionReasons) != 1 || v.AttentionReasons[0].Reason != "quarantine" {
			t.Fatalf("attention %v %v", v.Attention, v.AttentionReasons)
		}
		if _, err := b.svc.SweepOnce(b.ctx, 100, 0); err != nil {
			t.Errorf("it is offered again at once: %v", err)
		}
		b.pass(deadlineBackoff + time.Minute)
		if _, err := b.svc.SweepOnce(b.ctx, 100, 0); err == nil {
			t.Error("it is not offered again after its pause")
		}
		if rows := b.history(id); len(rows) != 3 {
			t.Errorf("%d history rows, want start, note and one quarantine", len(rows))
		}
	})
}
