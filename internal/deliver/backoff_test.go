package deliver

import (
	"math"
	"strings"
	"testing"
	"time"

	"vobo/internal/testkit"
)

func TestBackoffGrowsToItsCeilingWithFullJitter(t *testing.T) {
	t.Parallel()
	const almost = 1 - 1e-12
	for _, c := range []struct {
		attempt     int
		first, most time.Duration
		rnd         float64
		after, want time.Duration
	}{
		{1, 5 * time.Second, 6 * time.Hour, almost, 0, 5 * time.Second},
		{2, 5 * time.Second, 6 * time.Hour, almost, 0, 10 * time.Second},
		{5, 5 * time.Second, 6 * time.Hour, 0.5, 0, 40 * time.Second},
		{24, 5 * time.Second, 6 * time.Hour, almost, 0, 6 * time.Hour},
		{1 << 30, time.Second, math.MaxInt64, almost, 0, math.MaxInt64},
		{1000, time.Nanosecond, 10 * time.Minute, almost, 0, 10 * time.Minute},
		{1, 10 * time.Minute, time.Minute, almost, 0, time.Minute},
		{3, time.Second, time.Minute, 0, 0, 0},
		{0, time.Second, time.Minute, almost, 0, time.Second},
		{-5, time.Second, time.Minute, almost, 0, time.Second},
		{1, time.Second, time.Minute, 7, 0, time.Second},
		{1, time.Second, time.Minute, -7, 0, 0},
		{1, time.Second, time.Minute, math.NaN(), 0, 0},
		{1, -time.Second, time.Minute, 0.5, 0, 0},
		{1, 0, time.Minute, 0.5, 0, 0},
		// What the receiver asks for is a minimum, and capped.
		{1, time.Second, time.Minute, 0, 2 * time.Minute, 2 * time.Minute},
		{9, time.Minute, time.Hour, almost, 2 * time.Minute, time.Hour},
		{1, time.Second, time.Minute, 0, 200 * 365 * 24 * time.Hour, 24 * time.Hour},
		{1, time.Second, time.Minute, 0, -time.Hour, 0},
	} {
		got := Backoff(c.attempt, c.first, c.most, c.rnd, c.after)
		if diff := got - c.want; diff > time.Microsecond || diff < -time.Microsecond && c.want != math.MaxInt64 || got < 0 {
			t.Errorf("Backoff(%d, %v, %v, %v, %v) = %v, want %v", c.attempt, c.first, c.most, c.rnd, c.after, got, c.want)
		}
	}
}

// field report B14: retries are spread out, not in lockstep.
func TestBackoffSpreadsRetriesEvenly(t *testing.T) {
	t.Parallel()
	buckets := map[time.Duration]int{}
	for i := range 6000 {
		wait := Backoff(5, 5*time.Second, 6*time.Hour, float64(i)/6000, 0)
		buckets[wait/time.Second]++
	}
	for second, n := range buckets {
		if n > 6000/40 {
			t.Errorf("%d of 6000 retries fall in second %d", n, second)
		}
	}
}

// field report B30
func TestRetryAfterIsReadAsSecondsOrDateAndNothingElse(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 12, 3, 10, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		values []string
		want   time.Duration
	}{
		{nil, 0},
		{[]string{""}, 0},
		{[]string{"120"}, 2 * time.Minute},
		{[]string{" 120 "}, 2 * time.Minute},
		{[]string{"0"}, 0},
		{[]string{"000120"}, 2 * time.Minute},
		{[]string{"Thu, 03 Dec 2026 10:02:00 GMT"}, 2 * time.Minute},
		{[]string{"Thursday, 03-Dec-26 10:02:00 GMT"}, 2 * time.Minute},
		{[]string{"Thu Dec  3 10:02:00 2026"}, 2 * time.Minute},
		{[]string{"Thu, 03 Dec 2026 09:00:00 GMT"}, 0},
		{[]string{"Fri, 31 Dec 9999 23:59:59 GMT"}, 24 * time.Hour},
		{[]string{"-3"}, 0},
		{[]string{"1.5"}, 0},
		{[]string{"1e9"}, 0},
		{[]string{"120 s"}, 0},
		{[]string{"soon"}, 0},
		{[]string{"2026-12-03T10:02:00Z"}, 0},
		{[]string{"86401"}, 24 * time.Hour},
		{[]string{"9999999999"}, 24 * time.Hour},
		{[]string{"99999999999999999999999999"}, 24 * time.Hour},
		{[]string{"30", "120"}, 2 * time.Minute},
		{[]string{"120", "garbage"}, 2 * time.Minute},
	} {
		if got := ParseRetryAfter(c.values, now); got != c.want {
			t.Errorf("ParseRetryAfter(%q) = %v, want %v", c.values, got, c.want)
		}
	}
}

// field report B30
func FuzzRetryAfter(f *testing.F) {
	now := time.Date(2026, 12, 3, 10, 0, 0, 0, time.UTC)
	for _, form := range testkit.RetryAfterForms(now, MaxRetryAfter) {
		for _, v := range form.Values {
			f.Add(v)
		}
	}
	f.Fuzz(func(t *testing.T, v string) {
		wait := ParseRetryAfter([]string{v}, now)
		if wait < 0 || wait > MaxRetryAfter {
			t.Fatalf("%q waits %s", v, wait)
		}
		if wait%time.Second != 0 || wait > 0 && strings.Trim(v, "0123456789 \t") == "" && strings.Trim(v, "0 \t") == "" {
			t.Fatalf("%q waits %s", v, wait)
		}
		if again := ParseRetryAfter([]string{v, v, "-3"}, now); again != wait {
			t.Fatalf("%q twice waits %s, once %s", v, again, wait)
		}
	})
}
