package fsm_test

import (
	"slices"
	"time"

	"github.com/sosodev/duration"

	"vobo/internal/definitions"
	"vobo/internal/fault"
)

func step(from time.Time, iso string, times int) time.Time {
	d, err := duration.Parse(iso)
	if err != nil {
		panic(err)
	}
	if d.Negative {
		times = -times
	}
	day := from.AddDate(int(d.Years)*times, int(d.Months)*times, (int(d.Weeks)*7+int(d.Days))*times)
	return day.Add(time.Duration(times) * time.Duration(d.Hours*3600+d.Minutes*60+d.Seconds) * time.Second)
}

func (m *model) moment(d *definitions.Deadline, data map[string]any) (time.Time, bool) {
	env := m.env(nil)
	env.Data = data
	v, err := d.At.Eval(env)
	s, ok := v.(string)
	if err != nil || !ok || s == "" {
		return time.Time{}, false
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t.UTC(), true
	}
	t, err := time.Parse(time.DateOnly, s)
	return t, err == nil
}

func (m *model) dueOf(t *timer, a *act) time.Time {
	at := t.anchor
	iso := func(tpl *definitions.Template) string {
		s, err := tpl.String(m.env(a), definitions.EscapeNone)
		if err != nil {
			panic(err)
		}
		return s
	}
	if t.rule.After != nil {
		at = step(at, iso(t.rule.After), 1)
	} else if t.rule.Offset != nil {
		at = step(at, iso(t.rule.Offset), 1)
	}
	if t.rule.Every != nil {
		at = step(at, iso(t.rule.Every), t.k-1)
	}
	return at
}

func (m *model) arm(d *definitions.Deadline, wait int, anchor time.Time, a *act) {
	t := &timer{rule: d, wait: wait, anchor: anchor, k: 1}
	if d.At != nil {
		at, ok := m.moment(d, m.data)
		if !ok {
			return
		}
		t.anchor = at
	}
	t.due = m.dueOf(t, a)
	m.timers = append(m.timers, t)
}

// reset moves the `at` deadlines whose time has changed.
func (m *model) reset(old map[string]any, leaving bool) {
	rules := m.def.Deadlines
	if !leaving {
		rules = append(slices.Clone(rules), m.state.Deadlines...)
	}
	for i, d := range rules {
		if d.At == nil {
			continue
		}
		was, before := m.moment(d, old)
		is, after := m.moment(d, m.data)
		if before == after && was.Equal(is) {
			continue
		}
		at := slices.IndexFunc(m.timers, func(t *timer) bool { return t.rule == d })
		wait := m.wait
		if i < len(m.def.Deadlines) {
			wait = 0
		}
		switch {
		case at < 0 && after:
			m.arm(d, wait, m.entered, nil)
		case at >= 0 && !after:
			m.timers = slices.Delete(slices.Clone(m.timers), at, at+1)
		case at >= 0:
			m.timers[at].anchor, m.timers[at].deferred = is, false
			m.timers[at].due = m.dueOf(m.timers[at], nil)
		}
	}
}

func (m *model) holds(d *definitions.Deadline) bool {
	if d.When == nil {
		return true
	}
	ok, err := d.When.Bool(m.env(nil))
	return err != nil || ok
}

// fatal is the earliest due firing that leaves the wait.
func (m *model) fatal() *timer {
	var first *timer
	for _, t := range m.timers {
		if t.due.After(m.now) || t.rule.Action != definitions.ActionFire || first != nil && !t.due.Before(first.due) || !m.holds(t.rule) {
			continue
		}
		e := m.state.Event(t.rule.Event)
		if e != nil && slices.ContainsFunc(e.Arms, func(arm *definitions.Arm) bool { return !arm.Stay }) {
			first = t
		}
	}
	return first
}

// next moves a timer on to its first occurrence in the future, or removes it.
func (m *model) next(t *timer) {
	for t.rule.Every != nil && (t.rule.Times == 0 || t.k < t.rule.Times) {
		t.k++
		if t.due = m.dueOf(t, nil); t.due.After(m.now) {
			return
		}
	}
	m.timers = slices.DeleteFunc(slices.Clone(m.timers), func(o *timer) bool { return o == t })
}

// sweep does what the due timer t does; a fatal one that is due wins.
func (m *model) sweep(t *timer) fault.Code {
	if f := m.fatal(); f != nil {
		t = f
	}
	m.queued = nil
	d := t.rule
	switch {
	case !m.holds(d):
		m.next(t)
	case d.Action == definitions.ActionFire:
		event := m.state.Event(d.Event)
		if event == nil {
			t.deferred = true
			break
		}
		m.next(t)
		for _, o := range slices.Clone(m.timers) {
			if o.wait == 0 && o.rule.Action != definitions.ActionFire && !o.due.After(m.now) {
				m.next(o)
			}
		}
		return m.system(event, "timer", d.Effects, nil)
	case d.Action == definitions.ActionEscalate:
		m.next(t)
		m.add(d.Principals, nil)
		m.queue(d.Effects, nil)
	default:
		m.next(t)
		m.queue(d.Effects, nil)
	}
	m.seq++
	return ""
}
