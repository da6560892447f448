package fsm_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"vobo/internal/definitions"
	"vobo/internal/fault"
	"vobo/internal/fsm"
)

// same compares what Plan has made with the model.
func (r *run) same(what string, code fault.Code) {
	r.trace = append(r.trace, fmt.Sprintf("%s %s -> %q %s", r.now.Format("01-02 15:04"), what, code, r.w.Instance.State))
	m, w := r.m, r.w
	differ := func(name, plan, model string) {
		if plan != model {
			r.rt.Fatalf("%s\nafter %s %s differs:\nplan  %s\nmodel %s", strings.Join(r.trace, "\n"), what, name, plan, model)
		}
	}
	differ("state", w.Instance.State, m.name())
	differ("status", string(w.Instance.Status), m.status)
	differ("wait", fmt.Sprint(w.Instance.Wait), fmt.Sprint(m.wait))
	differ("revision", fmt.Sprint(w.Instance.Revision), fmt.Sprint(m.seq))
	differ("data", text(w.Instance.Data), text(m.data))
	var plan, model []string
	for _, d := range w.Deadlines {
		plan = append(plan, fmt.Sprintf("%s #%d %s %v", d.Rule, d.Occurrence, d.DueAt.UTC().Format(time.RFC3339), d.Deferred))
	}
	for _, t := range m.timers {
		model = append(model, fmt.Sprintf("%s #%d %s %v", t.rule.ID, t.k, t.due.UTC().Format(time.RFC3339), t.deferred))
	}
	slices.Sort(plan)
	slices.Sort(model)
	differ("deadlines", strings.Join(plan, "\n"), strings.Join(model, "\n"))
	if m.status == "running" {
		differ("asked", r.askedByPlan(), r.askedByModel())
		differ("votes", r.votesOfPlan(), r.votesOfModel())
	}
	if code == "" {
		differ("effects", strings.Join(r.queuedByPlan(), " "), strings.Join(m.queued, " "))
	}
	r.effects = len(w.Effects)
	r.newLinks()
	if len(w.History) != w.Instance.Revision {
		r.rt.Fatalf("%d rows at revision %d", len(w.History), w.Instance.Revision)
	}
}

func (r *run) verify() {
	if err := fsm.VerifyChain(r.w.History); err != nil {
		r.rt.Errorf("%s\n%v", strings.Join(r.trace, "\n"), err)
	}
}

// aim picks a cell that the sequence tries to reach, and how far every state is
// from there.
func (r *run) aim() {
	var all [][2]string
	into := map[string][]string{}
	for _, s := range r.def.States {
		for _, e := range s.Events {
			all = append(all, [2]string{s.Name, e.Name})
			for _, arm := range e.Arms {
				into[arm.To] = append(into[arm.To], s.Name)
			}
		}
		for _, arm := range s.Choose {
			into[arm.To] = append(into[arm.To], s.Name)
		}
	}
	r.target = rapid.SampledFrom(all).Draw(r.rt, "target")
	r.steps = map[string]int{r.target[0]: 0}
	for queue := []string{r.target[0]}; len(queue) > 0; queue = queue[1:] {
		for _, from := range into[queue[0]] {
			if _, known := r.steps[from]; !known {
				r.steps[from] = r.steps[queue[0]] + 1
				queue = append(queue, from)
			}
		}
	}
}

// toward gives an event of the present wait that leads to the target, or nil.
func (r *run) toward() *definitions.Event {
	here, known := r.steps[r.m.name()]
	if !known || r.m.status != "running" {
		return nil
	}
	if r.m.name() == r.target[0] {
		return r.m.state.Event(r.target[1])
	}
	var events []*definitions.Event
	for _, e := range r.m.state.Events {
		if slices.ContainsFunc(e.Arms, func(arm *definitions.Arm) bool { d, ok := r.steps[arm.To]; return ok && d < here }) {
			events = append(events, e)
		}
	}
	if len(events) == 0 {
		return nil
	}
	return rapid.SampledFrom(events).Draw(r.rt, "leading on")
}

func (r *run) pursue(e *definitions.Event) {
	switch system := bySystem(e); {
	case system && rapid.Bool().Draw(r.rt, "by the system"):
		r.byHand(e)
	case system:
		r.effect()
	default:
		r.someone(e.Name)
	}
}

// bySystem tells whether a timer or an effect may raise the event.
func bySystem(e *definitions.Event) bool {
	return slices.ContainsFunc(e.Arms[0].By, func(p definitions.Principal) bool {
		return p.Kind == definitions.KindTimer || p.Kind == definitions.KindEffect
	})
}

func (r *run) askedByPlan() string {
	rows := map[string]string{}
	for _, a := range r.w.Assignees {
		if a.Wait == r.w.Instance.Wait && a.Kind != fsm.AssigneeCallback && !a.Stood {
			rows[strings.TrimPrefix(a.Ref, "user:")] = strings.Join(a.Events, ",")
		}
	}
	return text(rows)
}

func (r *run) askedByModel() string {
	rows := map[string]string{}
	for id, x := range r.m.asked {
		rows[id] = strings.Join(x.events, ",")
	}
	return text(rows)
}

func (r *run) votesOfPlan() string {
	votes := map[string]string{}
	for _, a := range r.w.Assignees {
		if a.Wait == r.w.Instance.Wait && a.Vote > 0 {
			votes[strings.TrimPrefix(a.Ref, "user:")] = r.w.History[a.Vote-1].Event
		}
	}
	return text(votes)
}

func (r *run) votesOfModel() string {
	votes := map[string]string{}
	for id, v := range r.m.votes {
		votes[id] = v.event
	}
	return text(votes)
}

// queuedByPlan gives the declared effects of the last step; of a mail to several
// people one entry.
func (r *run) queuedByPlan() []string {
	var names []string
	for _, e := range r.w.Effects[r.effects:] {
		if r.def.Effect(e.Name) == nil || e.Undoes != (fsm.EffectID{}) {
			continue
		}
		if n := len(names); e.Kind != "email" || n == 0 || names[n-1] != e.Name {
			names = append(names, e.Name)
		}
	}
	return names
}

// newLinks takes the links of the last step into the model's world; in a wait whose
// shown content changed, older ones are replaced.
func (r *run) newLinks() {
	for _, a := range r.w.Assignees {
		known := slices.ContainsFunc(r.links, func(l *link) bool { return l.id == fsm.EffectID{Seq: a.Seq, N: a.N} })
		if known || a.Nonce == nil || a.Kind == fsm.AssigneeCallback {
			continue
		}
		person := strings.TrimPrefix(a.Ref, "user:")
		x := r.m.asked[person]
		if x == nil || len(x.events) == 0 {
			r.rt.Fatalf("%s\na link for %s, whom the model does not ask", strings.Join(r.trace, "\n"), person)
		}
		r.links = append(r.links, &link{id: fsm.EffectID{Seq: a.Seq, N: a.N}, person: person, wait: r.m.wait, events: x.events})
	}
	if r.m.changed {
		r.m.changed = false
		for _, l := range r.links {
			if l.wait == r.m.wait && l.id.Seq < r.m.seq && l.used == nil && l.dead == "" {
				l.dead = fault.ContentChanged
			}
		}
	}
}

// fillIn makes input and documents for an event: mostly fitting, sometimes not.
func (r *run) fillIn(a *act, event *definitions.Event) {
	schema := event.Form
	if event.Edit != nil {
		schema = r.def.Data.Subset(event.Edit)
	}
	if schema != nil {
		in := map[string]any{}
		for _, f := range schema.Fields() {
			if was, ok := r.m.data[f.Name]; ok && event.Edit != nil && (f.Type == "object" || f.Type == "array" || rapid.Bool().Draw(r.rt, "keep")) {
				in[f.Name] = was
				continue
			}
			if f.Required || rapid.Bool().Draw(r.rt, "optional") {
				in[f.Name] = r.value(f)
			}
		}
		if rapid.IntRange(0, 19).Draw(r.rt, "spoil") == 0 {
			for _, k := range slices.Sorted(maps.Keys(in))[:min(1, len(in))] {
				delete(in, k)
			}
		}
		a.input = in
	} else if rapid.IntRange(0, 19).Draw(r.rt, "stray input") == 0 {
		a.input = map[string]any{"stray": true}
	}
	for _, d := range event.Documents {
		if rapid.IntRange(0, 5).Draw(r.rt, "document") > 0 {
			ev := &fsm.Event{}
			document(d.Name)(ev)
			a.documents = ev.Documents
		}
	}
}

func (r *run) value(f definitions.FormField) any {
	switch {
	case f.Name == "template_sha256":
		return r.m.data["template_sha256"]
	case f.Name == "bounced", f.Name == "complaints":
		return json.Number(rapid.SampledFrom([]string{"0", "0", "0", "7"}).Draw(r.rt, f.Name))
	case f.Name == "recipients_sha256":
		return "x"
	case len(f.Enum) > 0:
		return rapid.SampledFrom(f.Enum).Draw(r.rt, f.Name)
	case f.Format == "email":
		return rapid.SampledFrom([]string{"p2@example.com", "p3@example.com", "p5@example.com", "p1@example.com"}).Draw(r.rt, f.Name)
	case f.Format == "date":
		return r.now.AddDate(0, 0, rapid.IntRange(-2, 60).Draw(r.rt, f.Name)).Format(time.DateOnly)
	case f.Format == "date-time":
		return r.now.Add(time.Duration(rapid.IntRange(1, 400).Draw(r.rt, f.Name)) * time.Hour).Format(time.RFC3339)
	}
	switch f.Type {
	case "integer", "number":
		v, err := definitions.DecodeJSON(fmt.Append(nil, rapid.SampledFrom([]int{1, 1, 2, 40, 5000000, 0, 0}).Draw(r.rt, f.Name)))
		if err != nil {
			r.rt.Fatal(err)
		}
		return v
	case "boolean":
		return rapid.Bool().Draw(r.rt, f.Name)
	case "object":
		o := map[string]any{}
		for _, sub := range f.Fields {
			o[sub.Name] = r.value(sub)
		}
		return o
	case "array":
		if f.Items == nil {
			return []any{}
		}
		return []any{r.value(*f.Items)}
	}
	return rapid.SampledFrom([]string{"a longer text than ten", "1", "2"}).Draw(r.rt, f.Name)
}
