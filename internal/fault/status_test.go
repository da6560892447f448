package fault

import (
	"slices"
	"testing"
)

func TestEveryCodeHasItsStatus(t *testing.T) {
	t.Parallel()
	codes := Codes()
	if len(codes) != len(statuses) || !slices.IsSorted(codes) {
		t.Errorf("%d codes for %d statuses: %v", len(codes), len(statuses), codes)
	}
	for _, c := range codes {
		if s := c.Status(); s < 400 || s > 599 || (s == 500) != (c == Internal) {
			t.Errorf("%s: %d", c, s)
		}
		if New(c, "x").Retryable() != slices.Contains([]Code{Unavailable, InProgress, RateLimited}, c) {
			t.Errorf("%s: retryable %t", c, New(c, "x").Retryable())
		}
	}
	if s := Code("never heard of").Status(); s != 500 {
		t.Errorf("no code: %d", s)
	}
}
