package web

import (
	"fmt"
	"html/template"
	"strings"
	"time"
)

// zoneName is how a page names a zone: "Madrid", "UTC".
func zoneName(zone *time.Location) string {
	name := zone.String()
	if name == "Local" || name == "" {
		return "server time"
	}
	return strings.ReplaceAll(name[strings.LastIndex(name, "/")+1:], "_", " ")
}

// clock writes times for one reader.
type clock struct {
	now  time.Time
	zone *time.Location
	say  language
}

// date writes "Thu 3 Dec, 18:00", with the year where it is not the present one.
func (k clock) date(t time.Time) string {
	t = t.In(k.zone)
	layout := "Mon 2 Jan 2006, 15:04"
	if t.Year() == k.now.In(k.zone).Year() {
		layout = "Mon 2 Jan, 15:04"
	}
	return k.say.date(t, layout)
}

// full names the zone too.
func (k clock) full(t time.Time) string { return k.date(t) + " (" + zoneName(k.zone) + ")" }

// relative writes "in 2 days", "3 hours ago", "now". It never promises more time than is left.
func (k clock) relative(t time.Time) string {
	d := t.Sub(k.now)
	if d < 0 {
		d = -d
	}
	unit, n := "minute", int(d/time.Minute)
	switch {
	case d < time.Minute:
		return k.say.text("time.now")
	case d >= 48*time.Hour:
		unit, n = "day", int(d/(24*time.Hour))
		if t.After(k.now) {
			n = int((d + 30*time.Minute) / (24 * time.Hour)) // a week that began a moment ago is one
		}
	case d >= time.Hour:
		unit, n = "hour", int(d/time.Hour)
	}
	direction := "in"
	if t.Before(k.now) {
		direction = "ago"
	}
	if n == 1 {
		return k.say.text("time." + direction + "." + unit)
	}
	return k.say.text("time."+direction+"."+unit+"s", n)
}

// stamp is a <time> with the absolute time.
func (k clock) stamp(t time.Time) template.HTML { return k.element(t, k.date(t)) }

// stampFull names the zone and how far it is.
func (k clock) stampFull(t time.Time) template.HTML {
	return k.element(t, k.full(t)) + template.HTML(` · <span class="nowrap">`+template.HTMLEscapeString(k.relative(t))+`</span>`)
}

// stampRelative is a <time> in words; the absolute time is its title.
func (k clock) stampRelative(t time.Time) template.HTML { return k.element(t, k.relative(t)) }

func (k clock) element(t time.Time, text string) template.HTML {
	return template.HTML(fmt.Sprintf(`<time datetime="%s" title="%s">%s</time>`,
		t.UTC().Format(time.RFC3339), template.HTMLEscapeString(k.full(t)), template.HTMLEscapeString(text)))
}

// urgency says how near a deadline is: over, soon (a day), later.
func (k clock) urgency(t time.Time) string {
	switch left := t.Sub(k.now); {
	case left <= 0:
		return "over"
	case left <= 24*time.Hour:
		return "soon"
	}
	return "later"
}
