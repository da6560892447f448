package definitions

import (
	"cmp"
	"regexp"
	"slices"
	"time"

	yaml "go.yaml.in/yaml/v4"
)

func (b *builder) calendars(n *yaml.Node) {
	b.def.Calendars = map[string]*Calendar{}
	m := b.mapping(n, "calendars")
	if m == nil {
		return
	}
	for _, key := range m.keys {
		name, ok := b.name(key, "A calendar", partName)
		c := b.calendar(name, m.get(key.Value))
		if ok && c != nil {
			b.def.Calendars[name] = c
		}
	}
}

func (b *builder) calendar(name string, n *yaml.Node) *Calendar {
	m := b.mapping(n, "the calendar "+name)
	if m == nil {
		return nil
	}
	c := &Calendar{Name: name, Location: time.UTC}
	if zone := m.need("timezone"); zone != nil {
		if text, ok := b.text(zone, "timezone"); ok {
			location, err := time.LoadLocation(text)
			if err != nil || text == "" || text == "Local" {
				b.errorAt(zone, "timezone", "such as Europe/Madrid", "There is no time zone %s.", clip(text))
			} else {
				c.Location = location
			}
		}
	}
	b.calendarDays(c, m.need("days"))
	b.calendarHours(c, m.need("hours"))
	b.holidays(c, m.get("holidays"))
	m.done()
	return c
}

func (b *builder) calendarDays(c *Calendar, n *yaml.Node) {
	names := []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}
	days := b.list(n, "days")
	for _, d := range days {
		if i := slices.Index(names, d.Value); i < 0 || d.Kind != yaml.ScalarNode {
			b.errorAt(d, "day", "mon, tue, wed, thu, fri, sat or sun", "%s is no day.", clip(d.Value))
		} else if c.Days[i] {
			b.errorAt(d, "duplicate", "", "The day %s stands here twice.", d.Value)
		} else {
			c.Days[i] = true
		}
	}
	if n != nil && n.Kind == yaml.SequenceNode && len(days) == 0 {
		b.errorAt(n, "empty", "", "A calendar needs a working day.")
	}
}

var hoursPattern = regexp.MustCompile(`^([01][0-9]|2[0-3]):([0-5][0-9])-([01][0-9]|2[0-4]):([0-5][0-9])$`)

func (b *builder) calendarHours(c *Calendar, n *yaml.Node) {
	if n == nil {
		return
	}
	nodes := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		nodes = n.Content
	}
	if len(nodes) == 0 {
		b.errorAt(n, "empty", "", "A calendar needs working hours.")
	}
	for _, h := range nodes {
		parts := hoursPattern.FindStringSubmatch(h.Value)
		if parts == nil {
			b.errorAt(h, "hours", `such as "09:00-18:00"`, "%s are no hours.", clip(h.Value))
			continue
		}
		from, to := minutes(parts[1], parts[2]), minutes(parts[3], parts[4])
		if from >= to || to > 24*60 {
			b.errorAt(h, "hours", "", "The hours %s end before they begin.", h.Value)
			continue
		}
		c.Hours = append(c.Hours, [2]int{from, to})
	}
	slices.SortFunc(c.Hours, func(x, y [2]int) int { return cmp.Compare(x[0], y[0]) })
	for i := 1; i < len(c.Hours); i++ {
		if c.Hours[i][0] < c.Hours[i-1][1] {
			b.errorAt(n, "hours", "", "Two of the hours overlap.")
			return
		}
	}
}

// minutes reads two digits each of hours and minutes that a pattern has checked.
func minutes(hour, minute string) int {
	two := func(s string) int { return int(s[0]-'0')*10 + int(s[1]-'0') }
	return two(hour)*60 + two(minute)
}

var (
	countryPattern = regexp.MustCompile(`^[A-Z]{2}$`)
	regionPattern  = regexp.MustCompile(`^[A-Z0-9]{1,3}$`)
)

func (b *builder) holidays(c *Calendar, n *yaml.Node) {
	m := b.mapping(n, "holidays")
	if m == nil {
		return
	}
	if v := m.get("country"); v != nil {
		if c.Country = v.Value; !countryPattern.MatchString(v.Value) {
			b.errorAt(v, "country", "two capital letters, such as ES", "%s is no country code.", clip(v.Value))
		}
	}
	if v := m.get("region"); v != nil {
		if c.Region = v.Value; !regionPattern.MatchString(v.Value) {
			b.errorAt(v, "region", "the part after the country in ISO 3166-2, such as MD", "%s is no region code.", clip(v.Value))
		}
	}
	for _, d := range b.list(m.get("extra"), "extra") {
		if _, err := time.Parse(time.DateOnly, d.Value); err != nil {
			b.errorAt(d, "date", "such as 2026-12-24", "%s is no date.", clip(d.Value))
			continue
		}
		c.Extra = append(c.Extra, d.Value)
	}
	m.done()
}
