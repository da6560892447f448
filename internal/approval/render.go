package approval

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"vobo/internal/definitions"
	"vobo/internal/fault"
	"vobo/internal/fsm"
	"vobo/internal/store"
)

// EffectID is the public id of an effect or task: <instance>-<seq>-<n>.
func EffectID(instance string, id fsm.EffectID) string {
	return instance + "-" + strconv.Itoa(id.Seq) + "-" + strconv.Itoa(id.N)
}

// effectKey is the key of an effect: instance/seq/n.
func effectKey(instance string, id fsm.EffectID) string {
	return instance + "/" + strconv.Itoa(id.Seq) + "/" + strconv.Itoa(id.N)
}

// ParseID reads a public id. Fault not-found for anything else.
func ParseID(s string) (instance string, id fsm.EffectID, err error) {
	none := fault.New(fault.NotFound, "There is no such thing, or it is not yours to read.")
	parts := strings.Split(s, "-")
	if len(parts) != 7 { // a UUID has five
		return "", id, none
	}
	var serr, nerr error
	id.Seq, serr = strconv.Atoi(parts[5])
	id.N, nerr = strconv.Atoi(parts[6])
	if serr != nil || nerr != nil || id.Seq < 0 || id.N < 0 {
		return "", id, none
	}
	return strings.Join(parts[:5], "-"), id, nil
}

func summaryOf(in *fsm.Instance) Summary {
	return Summary{
		ID: in.ID, Definition: in.Definition, Version: in.Version, Key: in.Key,
		State: in.State, Status: in.Status, Revision: in.Revision,
	}
}

func timeOf(t *time.Time) *Time {
	if t == nil {
		return nil
	}
	return &Time{*t}
}

func list[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// instanceView renders an instance without what must be read beside it.
func instanceView(in *fsm.Instance) InstanceView {
	v := InstanceView{
		ID: in.ID, Definition: in.Definition, Version: in.Version, Hash: in.Hash, State: in.State,
		Status: in.Status, Attention: len(in.Attention) > 0, AttentionReasons: list(in.Attention), Key: in.Key,
		Labels: in.Labels, Requester: in.Requester, StartedBy: in.StartedBy, Revision: in.Revision,
		StartedAt: Time{in.StartedAt}, EnteredAt: Time{in.EnteredAt}, FinishedAt: timeOf(in.FinishedAt),
		Tasks: []TaskView{}, Deadlines: []DeadlineView{}, Effects: []EffectView{}, Events: []OfferedEvent{},
	}
	if in.Data != nil {
		v.Data = rawOf(in.Data)
	}
	if in.Compensation != nil {
		c := compensationView(in)
		v.Compensation = &c
	}
	if in.Parent != nil {
		v.Parent = in.Parent.Instance
	}
	return v
}

func deadlineViews(rows []fsm.DeadlineRow, zone *time.Location) []DeadlineView {
	out := make([]DeadlineView, 0, len(rows))
	for _, d := range rows {
		out = append(out, DeadlineView{
			Action: d.Action, Event: d.Event, DueAt: Time{d.DueAt}, Local: localTime(d.DueAt, zone),
			Occurrence: d.Occurrence, WholeInstance: d.Wait == 0,
		})
	}
	return out
}

// localTime writes a time for people with its zone and offset.
func localTime(t time.Time, zone *time.Location) string {
	if zone == nil {
		zone = time.UTC
	}
	return t.In(zone).Format("Mon 2 Jan 2006, 15:04 MST (-07:00)")
}

func actorView(a fsm.Actor) ActorView {
	return ActorView{ID: a.ID, Name: a.Name, For: a.For, Via: a.Via}
}

func transitionView(t *fsm.Transition) TransitionView {
	v := TransitionView{
		Seq: t.Seq, Kind: t.Kind, Event: t.Event, From: t.From, To: t.To, Via: list(t.Via),
		Actor: actorView(t.Actor), Assurance: t.Assurance, Comment: t.Comment, Reason: t.Reason, Input: rawOf(t.Input),
		Changes: list(t.Changes), Digest: t.Digest, DeadlinesCancelled: t.DeadlinesCancelled, At: Time{t.At},
		DefinitionVersion: t.DefinitionVersion, Hash: t.Hash, PreviousHash: t.PreviousHash,
	}
	if len(t.Documents) > 0 {
		v.Documents = rawOf(t.Documents)
	}
	return v
}

// resultOf renders the answer to an event from its history row and the instance's
// unchanging facts, so that a replay years later gives the first answer again.
func resultOf(d *definitions.Definition, in fsm.Instance, t fsm.Transition) Result {
	r := Result{Transition: transitionView(&t), Pending: t.Pending}
	state, status := t.To, fsm.Running
	if state == "" {
		state = t.From
	}
	st := d.State(state)
	if st != nil && st.Kind == definitions.Final {
		status = fsm.Finished
	}
	if t.Kind == fsm.TCancel {
		status = fsm.Cancelled
	}
	r.Instance = Summary{ID: in.ID, Definition: in.Definition, Version: d.Version, Key: in.Key, State: state, Status: status, Revision: t.Seq}
	if st != nil {
		r.StateLabel = st.Label("en")
		r.Next = nextSentence(st, &t)
	}
	r.EventLabel = t.Event
	if from := d.State(t.From); from != nil && from.Event(t.Event) != nil {
		r.EventLabel = from.Event(t.Event).Label("en")
	}
	return r
}

// nextSentence says what happens next.
func nextSentence(st *definitions.State, t *fsm.Transition) string {
	switch {
	case t.Pending != nil:
		return fmt.Sprintf("%d of %d approvals are in. You may change yours until the last one comes.", t.Pending.Have, t.Pending.Need)
	case t.Kind == fsm.TStay:
		return "The request is still open: you may answer it with the link below."
	case st.Kind == definitions.Final:
		return fmt.Sprintf("This ends here: %s. Nothing more is asked of you.", st.Label("en"))
	}
	return fmt.Sprintf("It goes on to: %s. Nothing more is asked of you here.", st.Label("en"))
}

// effectView renders an effect for whoever may read its instance: without its request,
// its result and what the other side said.
func (s *Service) effectView(e *store.EffectInfo) EffectView {
	key := effectKey(e.Instance, e.EffectID)
	v := EffectView{
		ID: EffectID(e.Instance, e.EffectID), InstanceID: e.Instance, Name: e.Name, Kind: e.Kind, Key: key,
		Status: e.Status, Reversible: e.Reversible, Idempotent: e.Idempotent, Attempts: make([]AttemptView, 0, len(e.Attempts)),
		NextAttemptAt: timeOf(e.NextAttemptAt), CorrelationID: key, QueuedAt: Time{e.QueuedAt}, FinishedAt: timeOf(e.DoneAt),
		Reason: reasonOf(e), GivenUp: e.GivenUp,
	}
	if e.Undoes != (fsm.EffectID{}) {
		v.Undoes = EffectID(e.Instance, e.Undoes)
	}
	for _, a := range e.Attempts {
		v.Attempts = append(v.Attempts, AttemptView{N: a.N, At: Time{a.At}, Outcome: a.Outcome, Detail: a.Detail, FinishedAt: timeOf(a.FinishedAt), Status: a.HTTP})
	}
	v.To = destination(e)
	return v
}

// fullEffectView adds what only those see who oversee all instances.
func (s *Service) fullEffectView(e *store.EffectInfo) EffectView {
	v := s.effectView(e)
	v.Request, v.Result = s.requestView(e), rawOf(e.Result)
	for i, a := range e.Attempts {
		v.Attempts[i].Answer = maskText(a.Answer)
	}
	return v
}

// reasonOf says why an effect is dead or unknown: its last attempt, or what a person said.
func reasonOf(e *store.EffectInfo) string {
	if e.Status != fsm.EffectDead && e.Status != fsm.EffectUnknown {
		return ""
	}
	for _, a := range slices.Backward(e.Attempts) {
		if a.Detail != "" {
			return a.Detail
		}
	}
	if e.Kind == kindManual {
		return "A person must do this by hand and then say so."
	}
	return ""
}

// destination says where an effect goes, without secrets and links.
func destination(e *store.EffectInfo) string {
	if e.LeftOut {
		return "(too long for a list)"
	}
	f, err := thaw(e.Request)
	if err != nil {
		return ""
	}
	switch {
	case f.Webhook != nil:
		return f.Webhook.Method + " " + maskURL(masked.inText(f.Webhook.URL))
	case f.Email != nil:
		return f.Email.To
	case f.TaskMail != nil:
		return f.TaskMail.To
	case f.Start != nil:
		return fmt.Sprintf("%d × %s", len(f.Start.Items), f.Start.Definition)
	case f.Raise != nil:
		return fmt.Sprintf("%s of %s %q", f.Raise.Event, f.Raise.Definition, f.Raise.Key)
	case f.Manual != nil:
		return "undo " + f.Manual.Name + " by hand"
	}
	return ""
}

func queuedView(instance string, q *fsm.QueuedEffect) EffectView {
	key := effectKey(instance, q.EffectID)
	status := fsm.EffectWaiting
	if q.Status != "" {
		status = q.Status
	}
	return EffectView{
		ID: EffectID(instance, q.EffectID), InstanceID: instance, Name: q.Name, Kind: q.Kind, Key: key,
		Status: status, Reversible: q.Reversible, Idempotent: q.Idempotent, Attempts: []AttemptView{}, CorrelationID: key,
	}
}

// cancelResultOf renders how far undoing is.
func cancelResultOf(_ *definitions.Definition, in fsm.Instance) CancelResult {
	return CancelResult{Instance: summaryOf(&in), Compensation: compensationView(&in)}
}

func compensationView(in *fsm.Instance) CompensationView {
	v := CompensationView{Items: []CompensationItemView{}, NotUndone: []string{}, Done: true}
	c := in.Compensation
	if c == nil {
		return v
	}
	v.Done, v.NotUndone = c.Done, list(c.NotUndone)
	for _, i := range c.Items {
		v.Items = append(v.Items, CompensationItemView{Effect: EffectID(in.ID, i.Effect), Name: i.Name, Undo: i.Undo, Status: i.Status})
	}
	return v
}
