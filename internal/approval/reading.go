package approval

import (
	"context"
	"encoding/json"
	"time"

	"vobo/internal/definitions"
	"vobo/internal/fault"
	"vobo/internal/fsm"
	"vobo/internal/store"
)

const kindWebhook = "webhook"

// viewOfStart renders the instance that a start made, from its step alone: the
// answer needs no second read.
func (s *Service) viewOfStart(before *fsm.Snapshot, step *fsm.Step) InstanceView {
	after := &fsm.Snapshot{
		Definition: before.Definition, Instance: step.Instance, Assignees: step.Assignees,
		Tasks: step.TasksOpened, Deadlines: step.DeadlinesSet, Directory: before.Directory, Vars: before.Vars, Zone: before.Zone,
	}
	v := instanceView(&step.Instance)
	v.Deadlines = deadlineViews(step.DeadlinesSet, s.cfg.Zone)
	actor := step.Transition.Actor
	for i := range step.TasksOpened {
		v.Tasks = append(v.Tasks, s.taskView(after, &step.TasksOpened[i], actor, "", step.Transition.At))
	}
	v.Events = s.offered(after, actor, "", step.Transition.At)
	for i := range step.Effects {
		v.Effects = append(v.Effects, queuedView(step.Instance.ID, &step.Effects[i]))
	}
	return v
}

// result renders what became of an event.
func (s *Service) result(ctx context.Context, f *fired) (*Result, error) {
	if f.kept != nil {
		r := &Result{}
		raw, err := s.keptRaw(ctx, f.kept, r)
		r.Replayed, r.Raw = true, raw
		return r, err
	}
	if f.replay > 0 {
		r, err := s.resultAt(ctx, f.job.Snapshot, f.replay)
		if err != nil {
			return nil, err
		}
		r.Replayed = true
		return r, nil
	}
	step := &f.job.Step
	r := resultOf(f.job.Snapshot.Definition, step.Instance, step.Transition)
	r.Token = s.token(step.Instance.ID, step.Assignees, step.Successor)
	return &r, nil
}

// resultAt renders the answer that an earlier act had.
func (s *Service) resultAt(ctx context.Context, snap *fsm.Snapshot, seq int) (*Result, error) {
	t, err := s.store.TransitionAt(ctx, snap.Instance.ID, seq)
	if err != nil {
		return nil, err
	}
	d, err := s.planner.Definition(ctx, snap.Instance.Definition, t.DefinitionVersion)
	if err != nil {
		return nil, err
	}
	r := resultOf(d, snap.Instance, t)
	if r.Token, err = s.successorAt(ctx, snap.Instance.ID, &t); err != nil {
		return nil, err
	}
	return &r, nil
}

// keptRaw is an idempotency key's first answer, byte for byte, its token signed again; it
// fills into, which is of the answer's shape.
func (s *Service) keptRaw(ctx context.Context, row *store.ClaimRow, into any) (json.RawMessage, error) {
	var kept keptAnswer
	if err := json.Unmarshal(row.Answer, &kept); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(kept.Answer, into); err != nil {
		return nil, err
	}
	token, err := s.tokenAt(ctx, row.Instance, kept.Token)
	if err != nil || token == "" {
		return kept.Answer, err
	}
	switch v := into.(type) {
	case *Result:
		v.Token = token
	case *InstanceView:
		v.Token = token
	}
	return marshal(into), nil
}

// Instance reads an instance as the caller may. Fault not-found.
func (s *Service) Instance(ctx context.Context, c Caller, id string) (*InstanceView, error) {
	snap, err := s.readable(ctx, c, id)
	if err != nil {
		return nil, err
	}
	now, err := s.store.Now(ctx)
	if err != nil {
		return nil, err
	}
	v := instanceView(&snap.Instance)
	v.Deadlines = deadlineViews(snap.Deadlines, s.zoneFor(c))
	actor := actorFor(c)
	for i := range snap.Tasks {
		v.Tasks = append(v.Tasks, s.taskView(snap, &snap.Tasks[i], actor, c.Locale, now))
	}
	v.Events = s.offered(snap, actor, c.Locale, now)
	effects, err := s.store.Effects(ctx, store.EffectFilter{Instance: id}, store.Paging{Limit: 500})
	if err != nil {
		return nil, err
	}
	for i := range effects.Items {
		v.Effects = append(v.Effects, s.effectView(&effects.Items[i]))
	}
	v.Children, err = s.childrenOf(ctx, effects.Items)
	return &v, err
}

// Instances searches what the caller may read.
func (s *Service) Instances(ctx context.Context, c Caller, f store.InstanceFilter, p store.Paging) (store.Page[InstanceView], error) {
	f.ReadableBy = readerOf(c)
	rows, err := s.store.Instances(ctx, f, p)
	if err != nil {
		return store.Page[InstanceView]{}, err
	}
	page := store.Page[InstanceView]{Items: make([]InstanceView, len(rows.Items)), Next: rows.Next}
	for i := range rows.Items {
		page.Items[i] = instanceView(&rows.Items[i])
	}
	return page, nil
}

// History lists the history rows.
func (s *Service) History(ctx context.Context, c Caller, id string, p store.Paging) (store.Page[TransitionView], error) {
	if _, err := s.readable(ctx, c, id); err != nil {
		return store.Page[TransitionView]{}, err
	}
	rows, err := s.store.History(ctx, id, p)
	if err != nil {
		return store.Page[TransitionView]{}, err
	}
	page := store.Page[TransitionView]{Items: make([]TransitionView, len(rows.Items)), Next: rows.Next}
	for i := range rows.Items {
		page.Items[i] = transitionView(&rows.Items[i])
	}
	return page, nil
}

// Diagram draws the instance's definition with the path it took.
func (s *Service) Diagram(ctx context.Context, c Caller, id string) ([]byte, error) {
	snap, err := s.readable(ctx, c, id)
	if err != nil {
		return nil, err
	}
	o := definitions.DiagramOptions{Current: snap.Instance.State, Locale: c.Locale}
	paging := store.Paging{Limit: 500}
	for {
		rows, err := s.store.History(ctx, id, paging)
		if err != nil {
			return nil, err
		}
		for _, t := range rows.Items {
			if t.To == "" {
				continue
			}
			from := t.From
			for _, via := range append(t.Via, t.To) {
				o.Taken = append(o.Taken, [2]string{from, via})
				from = via
			}
		}
		if rows.Next == "" {
			return snap.Definition.SVG(o), nil
		}
		paging.Cursor = rows.Next
	}
}

// Links lists who has a link, opened when, and what became of it.
func (s *Service) Links(ctx context.Context, c Caller, id string) ([]LinkView, error) {
	snap, err := s.readable(ctx, c, id)
	if err != nil {
		return nil, err
	}
	infos, err := s.store.Assignees(ctx, id)
	if err != nil {
		return nil, err
	}
	views := make([]LinkView, 0, len(infos))
	for i := range infos {
		a := &infos[i]
		actor := actorOf(a.Ref, snap.Directory)
		v := LinkView{
			ID: EffectID(id, fsm.EffectID{Seq: a.Seq, N: a.N}), Person: actor.ID, Name: actor.Name,
			State: linkState(a, &snap.Instance), FetchedAt: a.FetchedAt, Fetches: a.FetchCount, Delivery: a.Delivery,
		}
		if v.MadeAt, err = s.madeAt(ctx, id, a.Seq); err != nil {
			return nil, err
		}
		views = append(views, v)
	}
	return views, nil
}

func (s *Service) madeAt(ctx context.Context, id string, seq int) (at time.Time, err error) {
	t, err := s.store.TransitionAt(ctx, id, seq)
	return t.At, err
}

func linkState(a *store.AssigneeInfo, in *fsm.Instance) string {
	switch {
	case a.Consumed > 0:
		return "used"
	case a.State == fsm.LinkNone:
		return "none"
	case a.State != fsm.LinkLive:
		return string(a.State)
	case a.Wait != in.Wait || in.Status == fsm.Finished || in.Status == fsm.Cancelled:
		return "over"
	}
	return string(fsm.LinkLive)
}

// Effects lists effects of an instance that the caller may read, or (operators) of all.
func (s *Service) Effects(ctx context.Context, c Caller, f store.EffectFilter, p store.Paging) (store.Page[EffectView], error) {
	var page store.Page[EffectView]
	if f.Instance != "" {
		if _, err := s.readable(ctx, c, f.Instance); err != nil {
			return page, err
		}
	} else if !oversees(c) {
		return page, fault.New(fault.Forbidden, "Only operators see the effects of all instances. Name one: ?instance_id=…")
	}
	rows, err := s.store.Effects(ctx, f, p)
	if err != nil {
		return page, err
	}
	page.Next = rows.Next
	page.Items = make([]EffectView, len(rows.Items))
	for i := range rows.Items {
		page.Items[i] = s.effectView(&rows.Items[i])
	}
	return page, nil
}

// Effect reads one effect of an instance that the caller may read; request, result and
// answers only for those who oversee. Not-found.
func (s *Service) Effect(ctx context.Context, c Caller, id string) (*EffectView, error) {
	e, err := s.effect(ctx, id)
	if err != nil {
		return nil, err
	}
	snap, err := s.readable(ctx, c, e.Instance)
	switch {
	case fault.CodeOf(err) == fault.NotFound:
		return nil, effectNotFound()
	case err != nil:
		return nil, err
	}
	v := s.effectView(e)
	if oversees(c) {
		v = s.fullEffectView(e)
	}
	v.Definition, v.InstanceKey = snap.Instance.Definition, snap.Instance.Key
	v.Requester = snap.Instance.Requester
	if p := snap.Directory.Person(v.Requester); p != nil {
		v.Requester = p.Name
	}
	late, err := s.lateResults(ctx, snap, []store.EffectInfo{*e})
	v.Late = len(late) > 0
	return &v, err
}

// EffectCounts counts all effects that are not over for good, by status. Who oversees.
func (s *Service) EffectCounts(ctx context.Context, c Caller) (map[fsm.EffectStatus]int, error) {
	if !oversees(c) {
		return nil, fault.New(fault.Forbidden, "Only operators see the effects of all instances.")
	}
	counts, err := s.store.Counts(ctx)
	if err != nil {
		return nil, err
	}
	byStatus := make(map[fsm.EffectStatus]int, len(counts.EffectsByStatus))
	for status, n := range counts.EffectsByStatus {
		byStatus[fsm.EffectStatus(status)] = n
	}
	return byStatus, nil
}

const (
	childrenCounted = 1_000 // of one start effect, of each kind
	startsCounted   = 50    // start effects of one instance
)

// childrenOf counts the children of the start effects among effects, which are of one
// instance and newest first.
func (s *Service) childrenOf(ctx context.Context, effects []store.EffectInfo) ([]ChildrenView, error) {
	views := []ChildrenView{}
	for i := range effects {
		e := &effects[i]
		if e.Kind != kindStart || len(views) == startsCounted {
			continue
		}
		of := store.StartEffect{Parent: e.Instance, EffectID: e.EffectID}
		join, err := s.store.JoinOf(ctx, of, childrenCounted)
		if err != nil {
			return nil, err
		}
		v := ChildrenView{
			Effect: EffectID(e.Instance, e.EffectID), Name: e.Name,
			Running: join.Open, Ended: join.Well, Bad: join.Bad, Total: join.Open + join.Well + join.Bad,
		}
		if n, err := s.childrenWanted(ctx, of, e); err != nil {
			return nil, err
		} else if n > 0 {
			v.Total = n
		}
		views = append(views, v)
	}
	return views, nil
}

// childrenWanted is how long a start effect's list is; 0 where it cannot be read.
func (s *Service) childrenWanted(ctx context.Context, of store.StartEffect, e *store.EffectInfo) (int, error) {
	terms, known := s.joins.known(of)
	if known {
		return terms.items, nil
	}
	if e.LeftOut {
		whole, err := s.effect(ctx, EffectID(e.Instance, e.EffectID))
		if err != nil {
			return 0, err
		}
		e = whole
	}
	terms, err := s.joins.learn(of, e.Request)
	if err != nil {
		return 0, nil //nolint:nilerr // the effect itself says so
	}
	return terms.items, nil
}
