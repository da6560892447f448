package definitions

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// DiagramOptions marks where an instance stands.
type DiagramOptions struct {
	Current string
	Taken   [][2]string // from, to; from "" for the start
	Locale  string
}

// diagramEdge is all ways from one state to another; from "" is the start.
type diagramEdge struct {
	from, to string
	labels   []string
}

// edges gives the ways between states in written order, one for each pair; ways
// back to the same state and `stay` are left to loops.
func (d *Definition) edges(locale string) []*diagramEdge {
	var list []*diagramEdge
	byPair := map[[2]string]*diagramEdge{}
	add := func(from, to, label string) {
		if from == to {
			return
		}
		e := byPair[[2]string{from, to}]
		if e == nil {
			e = &diagramEdge{from: from, to: to}
			byPair[[2]string{from, to}] = e
			list = append(list, e)
		}
		if label != "" && !slices.Contains(e.labels, label) {
			e.labels = append(e.labels, label)
		}
	}
	add("", d.Initial, "")
	for _, s := range d.States {
		for _, arm := range s.Choose {
			add(s.Name, arm.To, armLabel(arm))
		}
		for _, e := range s.Events {
			for _, a := range e.Arms {
				if !a.Stay {
					add(s.Name, a.To, d.eventLabel(s, e, locale))
				}
			}
		}
	}
	return list
}

// loops gives the events that stay in the state or enter it anew.
func (d *Definition) loops(s *State, locale string) []string {
	var list []string
	for _, e := range s.Events {
		if slices.ContainsFunc(e.Arms, func(a *Arm) bool { return a.Stay || a.To == s.Name }) {
			list = append(list, d.eventLabel(s, e, locale))
		}
	}
	return list
}

const maxLabelRunes = 40

func armLabel(arm ChooseArm) string {
	if arm.When == nil {
		return "else"
	}
	return shortLabel(arm.When.Text)
}

// eventLabel is the event's label, with the time of the deadline that fires it.
func (d *Definition) eventLabel(s *State, e *Event, locale string) string {
	text := shortLabel(e.Label(locale))
	for _, list := range [][]*Deadline{s.Deadlines, d.Deadlines} {
		for _, deadline := range list {
			if deadline.Action == ActionFire && deadline.Event == e.Name && deadline.applies(s.Name) && deadline.After != nil {
				if span := shortDuration(deadline.After.Text); span != "" {
					return text + " (" + span + ")"
				}
			}
		}
	}
	return text
}

// shortLabel cuts a label and drops what cannot be drawn.
func shortLabel(s string) string {
	runes := []rune(strings.Join(strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " "))
	if len(runes) > maxLabelRunes {
		return string(runes[:maxLabelRunes-1]) + "…"
	}
	return string(runes)
}

var simpleDuration = regexp.MustCompile(`^P(T?)([0-9]+)([WYMDHS])$`)

// shortDuration writes a literal duration of one unit shortly; "" for others.
func shortDuration(text string) string {
	m := simpleDuration.FindStringSubmatch(text)
	if m == nil {
		return ""
	}
	unit := map[string]string{"W": "wk", "Y": "y", "M": "mo", "D": "d", "TH": "h", "TM": "min", "TS": "s"}[m[1]+m[3]]
	if unit == "" {
		return ""
	}
	return m[2] + " " + unit
}

// Mermaid draws the definition as Mermaid stateDiagram-v2 text. States are called
// s_NAME there, since Mermaid has words of its own.
func (d *Definition) Mermaid() string {
	var w strings.Builder
	w.WriteString("stateDiagram-v2\n")
	for _, s := range d.States {
		if s.Kind == Choice {
			fmt.Fprintf(&w, "    state s_%s <<choice>>\n", s.Name)
			continue
		}
		fmt.Fprintf(&w, "    state \"%s\" as s_%s\n", mermaidText(shortLabel(s.Label(""))), s.Name)
	}
	for _, e := range d.edges("") {
		if e.from == "" {
			fmt.Fprintf(&w, "    [*] --> s_%s\n", e.to)
			continue
		}
		fmt.Fprintf(&w, "    s_%s --> s_%s", e.from, e.to)
		mermaidLabel(&w, e.labels)
	}
	for _, s := range d.States {
		if loops := d.loops(s, ""); len(loops) > 0 {
			fmt.Fprintf(&w, "    s_%s --> s_%s", s.Name, s.Name)
			mermaidLabel(&w, loops)
		}
		if s.Kind == Final {
			fmt.Fprintf(&w, "    s_%s --> [*]\n", s.Name)
		}
	}
	return w.String()
}

func mermaidLabel(w *strings.Builder, labels []string) {
	if len(labels) > 0 {
		escaped := make([]string, len(labels))
		for i, l := range labels {
			escaped[i] = mermaidText(l)
		}
		w.WriteString(" : " + strings.Join(escaped, " / "))
	}
	w.WriteString("\n")
}

// mermaidText writes everything but letters, digits and harmless signs as Mermaid's
// entity codes.
func mermaidText(s string) string {
	var w strings.Builder
	for _, r := range s {
		if unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsDigit(r) || strings.ContainsRune(" .,!?()/_+=…", r) {
			w.WriteRune(r)
		} else {
			fmt.Fprintf(&w, "#%d;", r)
		}
	}
	return w.String()
}

// takenPairs gives the pairs of states that are drawn as taken: the given ones, or
// the shortest way over choices where a pair has no direct edge.
func (d *Definition) takenPairs(taken [][2]string) map[[2]string]bool {
	pairs := map[[2]string]bool{}
	for _, t := range taken {
		from := t[0]
		for _, to := range d.wayOverChoices(from, t[1]) {
			pairs[[2]string{from, to}] = true
			from = to
		}
	}
	return pairs
}

// wayOverChoices finds the states after from on the way to the goal.
func (d *Definition) wayOverChoices(from, goal string) []string {
	next := func(name string) []string {
		if name == "" {
			return []string{d.Initial}
		}
		if s := d.State(name); s != nil {
			return s.next()
		}
		return nil
	}
	before := map[string]string{}
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		for _, to := range next(queue[0]) {
			if _, seen := before[to]; seen {
				continue
			}
			before[to] = queue[0]
			if to == goal {
				way := []string{goal}
				for at := queue[0]; at != from; at = before[at] {
					way = append([]string{at}, way...)
				}
				return way
			}
			if s := d.State(to); s != nil && s.Kind == Choice {
				queue = append(queue, to)
			}
		}
	}
	return nil
}
