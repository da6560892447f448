package approval

import (
	"context"
	"fmt"
	"slices"
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
	v.Correlations = correlationViews(x.Correlations)
	if err := s.explainEffects(ctx, snap, v); err != nil {
		return nil, err
	}
	v.Sentence = strings.TrimSpace(sentence(&x, v, s.zoneFor(c)) + " " + undoing(snap.Instance.Compensation))
	return v, nil
}

// explainEffects adds what became of what the present wait sent, whom it started, and
// what came too late for an earlier wait.
func (s *Service) explainEffects(ctx context.Context, snap *fsm.Snapshot, v *ExplainView) error {
	page, err := s.store.Effects(ctx, store.EffectFilter{Instance: snap.Instance.ID}, store.Paging{Limit: 500})
	if err != nil {
		return err
	}
	v.Notifications = notifications(page.Items, snap.Instance.Wait)
	ofWait := slices.DeleteFunc(slices.Clone(page.Items), func(e store.EffectInfo) bool { return e.Wait != snap.Instance.Wait })
	if v.Children, err = s.childrenOf(ctx, ofWait); err != nil {
		return err
	}
	v.LateResults, err = s.lateResults(ctx, snap, page.Items)
	return err
}

// notifications is the delivery state of what a wait sent.
func notifications(effects []store.EffectInfo, wait int) []NotificationView {
	views := []NotificationView{}
	for i := range effects {
		e := &effects[i]
		if e.Wait != wait {
			continue
		}
		n := NotificationView{Effect: EffectID(e.Instance, e.EffectID), Name: e.Name, To: destination(e), Status: string(e.Status)}
		if len(e.Attempts) > 0 {
			n.Detail = e.Attempts[len(e.Attempts)-1].Detail
		}
		views = append(views, n)
	}
	return views
}

// correlationViews says what calls of webhook sources must carry for the open wait.
func correlationViews(all []fsm.ExplainedCorrelation) []CorrelationView {
	views := []CorrelationView{}
	for _, c := range all {
		v := CorrelationView{Event: c.Event, Pairs: []CorrelationMatch{}, Matched: c.Matched}
		for _, p := range c.Pairs {
			v.Pairs = append(v.Pairs, CorrelationMatch{Path: "data." + p.Data, Input: "input." + p.Input, Value: rawOf(p.Value)})
		}
		views = append(views, v)
	}
	return views
}

// lateRows is how many history rows are read to find when waits were left.
const lateRows = 2_000

// lateResults finds effects whose result came after the wait that queued them was left.
func (s *Service) lateResults(ctx context.Context, snap *fsm.Snapshot, effects []store.EffectInfo) ([]LateResultView, error) {
	views := []LateResultView{}
	over := func(e *store.EffectInfo) bool {
		return e.DoneAt != nil && e.Wait > 0 && e.Wait < snap.Instance.Wait &&
			(e.Status == fsm.EffectSucceeded || e.Status == fsm.EffectDead || e.Status == fsm.EffectUnknown)
	}
	if !slices.ContainsFunc(effects, func(e store.EffectInfo) bool { return over(&e) }) {
		return views, nil
	}
	left := map[int]time.Time{}
	paging := store.Paging{Limit: 500}
	for read := 0; read < lateRows; {
		rows, err := s.store.History(ctx, snap.Instance.ID, paging)
		if err != nil {
			return nil, err
		}
		for _, t := range rows.Items {
			if t.Wait > 0 && (t.To != "" || t.Kind == fsm.TCancel) {
				left[t.Wait] = t.At
			}
		}
		if read, paging.Cursor = read+len(rows.Items), rows.Next; rows.Next == "" {
			break
		}
	}
	for i := range effects {
		e := &effects[i]
		if at, ended := left[e.Wait]; ended && over(e) && e.DoneAt.After(at) && answersTheWait(snap.Definition, e) {
			views = append(views, LateResultView{Effect: EffectID(e.Instance, e.EffectID), Name: e.Name, Status: e.Status, At: Time{*e.DoneAt}})
		}
	}
	return views, nil
}

// answersTheWait tells whether a wait was to hear of an effect's result: the result of
// what nobody waits for is never late.
func answersTheWait(d *definitions.Definition, e *store.EffectInfo) bool {
	def := d.Effect(e.Name)
	return def != nil && e.Undoes == (fsm.EffectID{}) && (def.OnSuccess != nil || def.OnFailure != nil)
}

// undoing says where undoing stands and who is needed; "" where nothing is to be undone.
func undoing(c *fsm.Compensation) string {
	if c == nil || c.Done {
		return ""
	}
	for _, item := range c.Items {
		switch item.Status {
		case "succeeded", "skipped":
			continue
		case "blocked":
			return fmt.Sprintf("Undoing waits until it is known what became of %s.", item.Name)
		case "failed":
			return fmt.Sprintf("Undoing %s failed: an operator must try it again, or say what became of it.", item.Name)
		case "unknown":
			return fmt.Sprintf("It is not known whether %s is undone: an operator must find out and say so.", item.Name)
		}
		if item.Undo == "manual" {
			return fmt.Sprintf("An operator must undo %s by hand and say so.", item.Name)
		}
		return fmt.Sprintf("%s is being undone.", item.Name)
	}
	return ""
}

// sentence is the explanation in one paragraph.
func sentence(x *fsm.Explanation, v *ExplainView, zone *time.Location) string {
	switch x.Status {
	case fsm.Finished:
		return fmt.Sprintf("It ended in “%s” on %s. Nothing waits.", x.Label, localTime(x.Since, zone))
	case fsm.Cancelled:
		return "It was cancelled."
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
	b.WriteString(waitedFor(v))
	if len(x.Deadlines) > 0 {
		d := x.Deadlines[0]
		fmt.Fprintf(&b, " Next by itself: %s on %s.", d.Action, localTime(d.DueAt, zone))
	}
	if x.Status == fsm.Suspended {
		b.WriteString(" It is suspended: deadlines stand still.")
	}
	return b.String()
}

// waitedFor says which children and calls the present wait is missing.
func waitedFor(v *ExplainView) string {
	var b strings.Builder
	for _, c := range v.Children {
		fmt.Fprintf(&b, " Of %d instances that %s starts, %d ended well", c.Total, c.Name, c.Ended)
		if c.Bad > 0 {
			fmt.Fprintf(&b, " and %d did not", c.Bad)
		}
		b.WriteString(".")
	}
	for _, call := range v.Correlations {
		if !call.Matched {
			fmt.Fprintf(&b, " No call %s can be matched yet: its values are missing in the data.", call.Event)
			continue
		}
		pairs := make([]string, len(call.Pairs))
		for i, p := range call.Pairs {
			pairs[i] = fmt.Sprintf("%s = %s", strings.TrimPrefix(p.Input, "input."), p.Value)
		}
		fmt.Fprintf(&b, " It waits for a call %s with %s.", call.Event, strings.Join(pairs, " and "))
	}
	if n := len(v.LateResults); n == 1 {
		fmt.Fprintf(&b, " A result of %s came after its wait was over.", v.LateResults[0].Name)
	} else if n > 1 {
		fmt.Fprintf(&b, " %d results came after their waits were over.", n)
	}
	return b.String()
}
