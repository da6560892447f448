package approval

import (
	"context"
	"fmt"
	"strings"
	"time"

	"vobo/internal/definitions"
	"vobo/internal/fsm"
	"vobo/internal/store"
)

// offered renders the events that an actor may raise now. An event whose rules
// cannot be evaluated is left out and the fault stands in the log: raising it says why.
func (s *Service) offered(snap *fsm.Snapshot, actor fsm.Actor, locale string, now time.Time) []OfferedEvent {
	events, err := fsm.OfferedEvents(snap, actor, locale, now)
	if err != nil {
		s.log.Warn("the events of an instance could not be offered", "instance", snap.Instance.ID, "error", err)
		return []OfferedEvent{}
	}
	out := make([]OfferedEvent, 0, len(events))
	for i := range events {
		out = append(out, offeredEvent(snap.Definition, &events[i], locale))
	}
	return out
}

func offeredEvent(d *definitions.Definition, o *fsm.Offered, locale string) OfferedEvent {
	v := OfferedEvent{Name: o.Event, Title: o.Label, Comment: commentWord(o.Comment), Documents: []DocumentNeed{}, Blocked: o.Blocked}
	if o.Form != nil {
		v.Form, v.Fields = o.Form.JSON(), o.Form.Fields()
	}
	for _, r := range o.Documents {
		v.Documents = append(v.Documents, DocumentNeed{r.Name, r.Required})
	}
	if len(o.To) == 1 {
		v.To = o.To[0]
	}
	v.Effect = effectSentence(d, o, locale)
	return v
}

func commentWord(r definitions.CommentRule) string {
	switch r {
	case definitions.CommentRequired:
		return "required"
	case definitions.CommentNone:
		return "none"
	}
	return "optional"
}

// effectSentence says in one line what an event does.
func effectSentence(d *definitions.Definition, o *fsm.Offered, locale string) string {
	var where []string
	for _, to := range o.To {
		if to == "" {
			where = append(where, "the request stays open")
			continue
		}
		st := d.State(to)
		switch {
		case st == nil:
		case st.Kind == definitions.Final:
			where = append(where, "it ends: "+st.Label(locale))
		case st.Kind == definitions.Choice:
			where = append(where, "it goes on")
		default:
			where = append(where, "it goes on to: "+st.Label(locale))
		}
	}
	text := strings.Join(where, ", or ")
	if q := o.Quorum; q != nil && q.Need > 1 {
		text = fmt.Sprintf("your vote counts, %d of %d are in; with the last one %s", q.Have, q.Need, text)
	}
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// Explain says why an instance waits. Fault not-found.
func (s *Service) Explain(ctx context.Context, c Caller, id string) (*ExplainView, error) {
	snap, err := s.readable(ctx, c, id)
	if err != nil {
		return nil, err
	}
	now, err := s.store.Now(ctx)
	if err != nil {
		return nil, err
	}
	x, err := fsm.Explain(snap, now)
	if err != nil {
		return nil, err
	}
	v := &ExplainView{
		Instance: summaryOf(&snap.Instance), WaitsFor: []WaitsFor{}, Events: []ExplainedEvent{},
		Deadlines: []DeadlineView{}, Notifications: []NotificationView{}, Attention: list(snap.Instance.Attention),
	}
	for _, w := range x.WaitsFor {
		if w.Gone {
			continue
		}
		v.WaitsFor = append(v.WaitsFor, WaitsFor{Who: w.Ref, Name: w.Name, Rule: strings.Join(w.Lines, ", "), Voted: w.Voted != ""})
	}
	for _, e := range x.Events {
		v.Events = append(v.Events, ExplainedEvent{Name: e.Event, Title: e.Label, By: list(e.By), Not: list(e.Not), Blocked: e.Blocked, Missing: e.Missing})
		if e.Quorum != nil {
			if v.Quorum == nil {
				v.Quorum = map[string]fsm.Pending{}
			}
			v.Quorum[e.Event] = *e.Quorum
		}
	}
	v.Deadlines = deadlineViews(snap.Deadlines, s.zoneFor(c))
	if v.Notifications, err = s.notifications(ctx, snap); err != nil {
		return nil, err
	}
	v.Sentence = sentence(&x, v, s.zoneFor(c))
	return v, nil
}

// notifications is the delivery state of what the present wait sent.
func (s *Service) notifications(ctx context.Context, snap *fsm.Snapshot) ([]NotificationView, error) {
	page, err := s.store.Effects(ctx, store.EffectFilter{Instance: snap.Instance.ID}, store.Paging{Limit: 500})
	if err != nil {
		return nil, err
	}
	views := []NotificationView{}
	for i := range page.Items {
		e := &page.Items[i]
		if e.Wait != snap.Instance.Wait {
			continue
		}
		n := NotificationView{Effect: EffectID(e.Instance, e.EffectID), Name: e.Name, Status: string(e.Status)}
		n.To, _ = destination(e)
		if len(e.Attempts) > 0 {
			n.Detail = e.Attempts[len(e.Attempts)-1].Detail
		}
		views = append(views, n)
	}
	return views, nil
}

// sentence is the explanation in one paragraph.
func sentence(x *fsm.Explanation, v *ExplainView, zone *time.Location) string {
	switch x.Status {
	case fsm.Finished:
		return fmt.Sprintf("It ended in “%s” on %s. Nothing waits.", x.Label, localTime(x.Since, zone))
	case fsm.Cancelled:
		return "It was cancelled. No person is waited for."
	}
	var b strings.Builder
	fmt.Fprintf(&b, "In “%s” since %s", x.Label, localTime(x.Since, zone))
	var names []string
	for _, w := range v.WaitsFor {
		if w.Voted {
			continue
		}
		name := w.Name
		if name == "" {
			name = w.Who
		}
		names = append(names, name)
	}
	switch {
	case len(names) > 6:
		fmt.Fprintf(&b, ", waiting for %s and %d others", strings.Join(names[:5], ", "), len(names)-5)
	case len(names) > 0:
		fmt.Fprintf(&b, ", waiting for %s", strings.Join(names, ", "))
	}
	b.WriteString(".")
	for _, e := range v.Events {
		if q, ok := v.Quorum[e.Name]; ok {
			fmt.Fprintf(&b, " %s has %d of %d", e.Title, q.Have, q.Need)
			if len(e.Missing) > 0 {
				fmt.Fprintf(&b, " (still to come: %s)", strings.Join(e.Missing, ", "))
			}
			b.WriteString(".")
		}
	}
	if len(x.Deadlines) > 0 {
		d := x.Deadlines[0]
		fmt.Fprintf(&b, " Next by itself: %s on %s.", d.Action, localTime(d.DueAt, zone))
	}
	if x.Status == fsm.Suspended {
		b.WriteString(" It is suspended: deadlines stand still.")
	}
	return b.String()
}
