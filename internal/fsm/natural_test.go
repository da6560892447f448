package fsm

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func mustPeriod(t testing.TB, text string) period {
	t.Helper()
	p, err := parsePeriod(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPeriodsAddByTheCalendarAndTheClock(t *testing.T) { // field reports B16, B20
	t.Parallel()
	for _, c := range []struct{ zone, from, period, want string }{
		{"America/New_York", "2026-03-07T02:30:00-05:00", "P1D", "2026-03-08T03:00:00-04:00"}, // gap: first valid instant
		{"America/New_York", "2026-03-07T02:30:00-05:00", "P2D", "2026-03-09T02:30:00-04:00"},
		{"America/New_York", "2026-10-31T01:30:00-04:00", "P1D", "2026-11-01T01:30:00-04:00"}, // fold: the earlier one
		{"America/New_York", "2026-10-31T09:00:00-04:00", "P1D", "2026-11-01T09:00:00-05:00"}, // the wall clock
		{"America/New_York", "2026-10-31T09:00:00-04:00", "PT24H", "2026-11-01T08:00:00-05:00"},
		{"Europe/Berlin", "2026-03-28T02:30:00+01:00", "P1D", "2026-03-29T03:00:00+02:00"},
		{"Europe/Berlin", "2026-10-24T02:30:00+02:00", "P1D", "2026-10-25T02:30:00+02:00"},
		{"Australia/Lord_Howe", "2026-10-03T02:15:00+10:30", "P1D", "2026-10-04T02:30:00+11:00"}, // half an hour
		{"Pacific/Apia", "2011-12-29T10:00:00-10:00", "P1D", "2011-12-31T00:00:00+14:00"},        // a day that is not there
		{"UTC", "2026-01-31T09:00:00Z", "P1M", "2026-02-28T09:00:00Z"},
		{"UTC", "2028-01-30T09:00:00Z", "P1M", "2028-02-29T09:00:00Z"},
		{"UTC", "2028-02-29T09:00:00Z", "P1Y", "2029-02-28T09:00:00Z"},
		{"UTC", "2026-01-31T09:00:00Z", "P1M1D", "2026-03-01T09:00:00Z"},
		{"UTC", "2026-01-31T09:00:00Z", "P35D", "2026-03-07T09:00:00Z"},
		{"UTC", "2026-01-31T09:00:00Z", "PT0S", "2026-01-31T09:00:00Z"},
		{"UTC", "2026-01-31T09:00:00Z", "-P1M", "2025-12-31T09:00:00Z"},
		{"UTC", "2026-01-31T09:00:00Z", "P2WT1H30M", "2026-02-14T10:30:00Z"},
		{"UTC", "2026-01-31T09:00:00Z", "PT0.25S", "2026-01-31T09:00:00.25Z"},
	} {
		from, err := time.Parse(time.RFC3339Nano, c.from)
		if err != nil {
			t.Fatal(err)
		}
		if got := mustPeriod(t, c.period).from(from, zone(t, c.zone)).In(zone(t, c.zone)).Format(time.RFC3339Nano); got != c.want {
			t.Errorf("%s + %s in %s is %s, want %s", c.from, c.period, c.zone, got, c.want)
		}
	}
}

func TestWhatIsNoDurationIsRefused(t *testing.T) { // field report B19
	t.Parallel()
	for _, text := range []string{"", "P", "-P", "PT", "1 day", "P400Y", "PT9999999999S", "P1.5D", "P0.5M", "P1DT", "PT1", "p1d"} {
		if p, err := parsePeriod(text); err == nil {
			t.Errorf("%q is read as %+v", text, p)
		}
	}
}

func TestOccurrencesAreCountedFromTheAnchor(t *testing.T) { // field report B20
	t.Parallel()
	s := &schedule{anchor: time.Date(2027, 1, 31, 9, 0, 0, 0, time.UTC), first: mustPeriod(t, "P1M"), every: mustPeriod(t, "P1M"), repeats: true, zone: time.UTC}
	want := []string{"02-28", "03-31", "04-30", "05-31", "06-30", "07-31", "08-31", "09-30", "10-31", "11-30", "12-31", "01-31", "02-29", "03-31"}
	for i, day := range want {
		if got := s.due(i + 1).Format("01-02"); got != day {
			t.Errorf("occurrence %d is on %s, want %s", i+1, got, day)
		}
	}
}

func TestTheNextOccurrenceIsTheFirstInTheFuture(t *testing.T) { // field report B13
	t.Parallel()
	anchor := time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		every string
		times int
		k     int
		late  time.Duration // since the anchor
		want  int
	}{
		{"P1D", 0, 1, 24 * time.Hour, 2},
		{"P1D", 0, 1, 108 * time.Hour, 5}, // 3.5 days after it was due
		{"P1D", 5, 1, 108 * time.Hour, 5},
		{"P1D", 4, 1, 108 * time.Hour, 0},
		{"P1D", 3, 3, 72 * time.Hour, 0},
		{"PT0S", 0, 1, 24 * time.Hour, 0}, // would never move: no further one
		{"PT1S", 0, 1, 24 * 365 * time.Hour, 24*364*3600 + 2},
	} {
		s := &schedule{anchor: anchor, first: mustPeriod(t, "P1D"), every: mustPeriod(t, c.every), repeats: true, times: c.times, zone: time.UTC}
		if got := s.after(c.k, anchor.Add(c.late)); got != c.want {
			t.Errorf("every %s, %d times, from %d, %s late: next is %d, want %d", c.every, c.times, c.k, c.late, got, c.want)
		}
	}
}

func TestWallClockGivesTheFirstInstantThatShowsIt(t *testing.T) { // guarantee R-17
	t.Parallel()
	zones := []*time.Location{zone(t, "America/New_York"), zone(t, "Europe/Berlin"), zone(t, "Australia/Lord_Howe"), zone(t, "Pacific/Apia"), zone(t, "Asia/Kathmandu"), zone(t, "America/Sao_Paulo")}
	rapid.Check(t, func(rt *rapid.T) {
		z := rapid.SampledFrom(zones).Draw(rt, "zone")
		wall := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(rapid.IntRange(0, 40*365*24*4).Draw(rt, "quarter")) * 15 * time.Minute)
		got := wallClock(wall, z)
		shows := func(t time.Time) time.Time {
			l := t.In(z)
			return time.Date(l.Year(), l.Month(), l.Day(), l.Hour(), l.Minute(), l.Second(), 0, time.UTC)
		}
		// walk all quarters near it: the first that shows the time or, in a gap, a later one
		for u := wall.Add(-27 * time.Hour); ; u = u.Add(15 * time.Minute) {
			if !shows(u).Before(wall) {
				if !got.Equal(u) {
					rt.Fatalf("%s in %s is %s, want %s", wall, z, got, u)
				}
				return
			}
		}
	})
}

func TestMatchingFillsAsManySlotsAsPossible(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		right := rapid.IntRange(0, 5).Draw(rt, "slots")
		edges := make([][]int, rapid.IntRange(0, 5).Draw(rt, "voters"))
		for v := range edges {
			for s := range right {
				if rapid.Bool().Draw(rt, "fits") {
					edges[v] = append(edges[v], s)
				}
			}
		}
		var best func(v int, used int) int
		best = func(v, used int) int {
			if v == len(edges) {
				return 0
			}
			most := best(v+1, used)
			for _, s := range edges[v] {
				if used&(1<<s) == 0 {
					most = max(most, 1+best(v+1, used|1<<s))
				}
			}
			return most
		}
		if got, want := maxMatching(edges, right), best(0, 0); got != want {
			rt.Fatalf("%v: %d, want %d", edges, got, want)
		}
	})
}

func TestTheMachineWalksWhatWasChosen(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		from string
		path []string
	}{{"a", []string{"b"}}, {"a", []string{"a"}}, {"a", []string{"c", "d", "a"}}, {"a", []string{"c", "d", "b"}}} {
		end, err := walk(c.from, "go", c.path)
		if err != nil || end != c.path[len(c.path)-1] {
			t.Errorf("%s by %v ends in %q: %v", c.from, c.path, end, err)
		}
	}
}
