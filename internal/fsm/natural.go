package fsm

import (
	"math"
	"time"

	"github.com/sosodev/duration"

	"vobo/internal/fault"
)

// period is an ISO 8601 duration in natural time: months and days are counted on
// the calendar, the rest is exact.
type period struct {
	months, days int
	exact        time.Duration
}

// maxYears bounds durations.
const maxYears = 100

// parsePeriod reads an ISO 8601 duration. Fractions are allowed in hours, minutes
// and seconds only.
func parsePeriod(text string) (period, error) {
	bad := func() (period, error) {
		return period{}, fault.New(fault.GuardRejected, "%q is not a duration such as P2D or PT4H.", text)
	}
	d, err := duration.Parse(text)
	if err != nil || text == "P" || text == "-P" || text[len(text)-1] == 'T' {
		return bad()
	}
	whole := []float64{d.Years*12 + d.Months, d.Weeks*7 + d.Days}
	seconds := d.Hours*3600 + d.Minutes*60 + d.Seconds
	if whole[0] > maxYears*12 || whole[1] > maxYears*366 || seconds > maxYears*366*86400 {
		return bad()
	}
	for _, f := range whole {
		if f != math.Trunc(f) {
			return bad()
		}
	}
	p := period{months: int(whole[0]), days: int(whole[1]), exact: time.Duration(math.Round(seconds*1e3)) * time.Millisecond}
	if d.Negative {
		p = p.times(-1)
	}
	return p, nil
}

func (p period) times(k int) period {
	return period{months: p.months * k, days: p.days * k, exact: p.exact * time.Duration(k)}
}

func (p period) plus(q period) period {
	return period{months: p.months + q.months, days: p.days + q.days, exact: p.exact + q.exact}
}

// from adds the period to t: first months (a day that the month lacks becomes its
// last), then days, both by the wall clock of zone, then the exact part.
func (p period) from(t time.Time, zone *time.Location) time.Time {
	if p.months != 0 || p.days != 0 {
		local := t.In(zone)
		y, m, d := local.Date()
		if p.months != 0 {
			first := time.Date(y, m+time.Month(p.months), 1, 0, 0, 0, 0, time.UTC)
			y, m = first.Year(), first.Month()
			d = min(d, time.Date(y, m+1, 0, 0, 0, 0, 0, time.UTC).Day())
		}
		day := time.Date(y, m, d+p.days, 0, 0, 0, 0, time.UTC)
		clock := time.Duration(local.Hour())*time.Hour + time.Duration(local.Minute())*time.Minute +
			time.Duration(local.Second())*time.Second + time.Duration(local.Nanosecond())
		t = wallClock(day.Add(clock), zone)
	}
	return t.Add(p.exact).UTC()
}

// wallClock gives the instant at which a clock on the wall of zone shows the fields
// of wall (whose own zone does not count). A time in a gap becomes the first instant
// after the gap; of a time that comes twice the earlier instant is taken.
func wallClock(wall time.Time, zone *time.Location) time.Time {
	fields := func(t time.Time) time.Time {
		y, m, d := t.Date()
		return time.Date(y, m, d, t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
	}
	want := fields(wall)
	t := time.Date(want.Year(), want.Month(), want.Day(), want.Hour(), want.Minute(), want.Second(), want.Nanosecond(), zone)
	start, end := t.ZoneBounds()
	switch got := fields(t); {
	case got.Before(want):
		return end
	case got.After(want):
		return start
	}
	if start.IsZero() {
		return t
	}
	_, before := start.Add(-time.Nanosecond).Zone()
	earlier := want.Add(-time.Duration(before) * time.Second).In(zone)
	if earlier.Before(start) && fields(earlier).Equal(want) {
		return earlier
	}
	return t
}

// startOfDay gives the first instant of a date (2006-01-02) in zone.
func startOfDay(date string, zone *time.Location) (time.Time, error) {
	day, err := time.Parse(time.DateOnly, date)
	if err != nil {
		return time.Time{}, err
	}
	return wallClock(day, zone).UTC(), nil
}
