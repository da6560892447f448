package approval

import (
	"context"
	"slices"
	"strings"
	"time"

	"vobo/internal/definitions"
	"vobo/internal/fault"
	"vobo/internal/fsm"
	"vobo/internal/store"
)

// TaskQuery searches tasks.
type TaskQuery struct {
	Folder     string // "" : all that the caller may see | mine | groups | waiting | done
	Owner      string // an owner line: "group:risk"
	Definition string
	Status     string // open | done | cancelled | expired
	Q          string
	DueBefore  *time.Time
	Sort       string // due | created | priority
}

// filter is the one rule by which folders, lists and counts agree.
func (s *Service) taskFilter(c Caller, q TaskQuery) (store.TaskFilter, error) {
	f := store.TaskFilter{Owner: q.Owner, Definition: q.Definition, Status: q.Status, Q: q.Q, DueBefore: q.DueBefore, Sort: q.Sort}
	me, groups := callerRef(c.ID, c.Kind), ownerRefs(c)
	switch q.Folder {
	case "":
		if !oversees(c) {
			f.Person, f.Groups = me, groups
		}
	case "mine":
		f.Person, f.Mine, f.Status = me, true, "open"
	case "groups":
		f.Groups, f.Status = groups, "open"
		if len(groups) == 0 {
			f.Person, f.Mine = me, true
		}
	case "waiting":
		f.Requester, f.Status = c.ID, "open"
	case "done":
		f.DecidedBy = c.ID
	default:
		return f, fault.New(fault.Malformed, "There is no folder %q. Use mine, groups, waiting or done.", q.Folder)
	}
	return f, nil
}

// Tasks lists tasks that are the caller's to see, one per wait.
func (s *Service) Tasks(ctx context.Context, c Caller, q TaskQuery, p store.Paging) (store.Page[TaskView], error) {
	var page store.Page[TaskView]
	f, err := s.taskFilter(c, q)
	if err != nil {
		return page, err
	}
	rows, err := s.store.Tasks(ctx, f, p)
	if err != nil {
		return page, err
	}
	dir, err := s.directory(ctx)
	if err != nil {
		return page, err
	}
	page.Next, page.Items = rows.Next, make([]TaskView, len(rows.Items))
	for i := range rows.Items {
		d, err := s.planner.Definition(ctx, rows.Items[i].Definition, rows.Items[i].Version)
		if err != nil {
			return page, err
		}
		page.Items[i] = rowView(&rows.Items[i], d, dir, c.Locale)
	}
	return page, nil
}

// InboxCounts counts the folders by the rule that lists them.
func (s *Service) InboxCounts(ctx context.Context, c Caller) (InboxCounts, error) {
	var counts InboxCounts
	for folder, n := range map[string]*int{"mine": &counts.Mine, "groups": &counts.Groups, "waiting": &counts.Waiting, "done": &counts.Done} {
		f, err := s.taskFilter(c, TaskQuery{Folder: folder})
		if err != nil {
			return counts, err
		}
		if *n, err = s.store.CountTasks(ctx, f); err != nil {
			return counts, err
		}
	}
	return counts, nil
}

// Task reads one task with its facts, history and the events that the caller may raise. Not-found.
func (s *Service) Task(ctx context.Context, c Caller, id string) (*TaskView, error) {
	snap, at, err := s.readTask(ctx, c, id)
	if err != nil {
		return nil, err
	}
	task, err := s.taskOfWait(ctx, snap, at.Seq, at.N)
	if err != nil {
		return nil, err
	}
	if task == nil {
		return nil, errNoTask
	}
	now, err := s.store.Now(ctx)
	if err != nil {
		return nil, err
	}
	actor := actorFor(c)
	v := s.taskView(snap, task, actor, c.Locale, now)
	v.Why = whyAsked(linesOf(snap, callerRef(c.ID, c.Kind)))
	return &v, s.addHistory(ctx, snap, &v)
}

var errNoTask = fault.New(fault.NotFound, "There is no such task, or it is not yours to read.")

func (s *Service) readTask(ctx context.Context, c Caller, id string) (*fsm.Snapshot, fsm.EffectID, error) {
	instance, at, err := ParseID(id)
	if err != nil {
		return nil, at, errNoTask
	}
	snap, err := s.readable(ctx, c, instance)
	if fault.CodeOf(err) == fault.NotFound {
		return nil, at, errNoTask
	}
	return snap, at, err
}

// DecideTask decides a task as the caller; the digest is that of what was read.
func (s *Service) DecideTask(ctx context.Context, c Caller, id string, r RaiseRequest) (*Result, error) {
	snap, at, err := s.readTask(ctx, c, id)
	if err != nil {
		return nil, err
	}
	if task, err := s.taskOfWait(ctx, snap, at.Seq, at.N); err != nil {
		return nil, err
	} else if task == nil {
		return nil, errNoTask
	}
	return s.raise(ctx, c, snap.Instance.ID, at.Seq, r)
}

// taskOfWait finds a task of the present wait in the snapshot, of an earlier one in the store.
func (s *Service) taskOfWait(ctx context.Context, snap *fsm.Snapshot, wait, n int) (*fsm.Task, error) {
	for i := range snap.Tasks {
		if snap.Tasks[i].Seq == wait && snap.Tasks[i].N == n {
			return &snap.Tasks[i], nil
		}
	}
	page, err := s.store.Tasks(ctx, store.TaskFilter{ID: EffectID(snap.Instance.ID, fsm.EffectID{Seq: wait, N: n})}, store.Paging{Limit: 1})
	if err != nil || len(page.Items) == 0 {
		return nil, err
	}
	return &page.Items[0].Task, nil
}

// rowView renders a task of a list: no facts, no events.
func rowView(r *store.TaskRow, d *definitions.Definition, dir *fsm.Directory, locale string) TaskView {
	v := TaskView{
		ID: EffectID(r.Instance, fsm.EffectID{Seq: r.Seq, N: r.N}), InstanceID: r.Instance, Definition: r.Definition,
		State: r.State, Title: inLocale(r.Title, locale), Priority: r.Priority, Status: r.Status, Owners: list(r.Owners),
		Assignees: list(r.Asked), ClaimedBy: r.ClaimedBy, DueAt: timeOf(r.DueAt), CreatedAt: Time{r.CreatedAt}, Digest: r.Digest,
		Events: []OfferedEvent{}, Key: r.Key, Requester: nameIn(dir, r.Requester), ProcessTitle: titleOf(d, locale),
	}
	if st := d.State(r.State); st != nil {
		v.StateLabel = st.Label(locale)
	}
	return v
}

// taskView renders a task of a read instance for an actor.
func (s *Service) taskView(snap *fsm.Snapshot, t *fsm.Task, actor fsm.Actor, locale string, now time.Time) TaskView {
	in := &snap.Instance
	row := store.TaskRow{Task: *t, Instance: in.ID, Definition: in.Definition, Version: in.Version, Key: in.Key, Requester: in.Requester}
	for _, a := range snap.Assignees {
		if a.Wait == t.Seq && taskNumber(&a) == t.N && a.Kind != fsm.AssigneeCallback && !slices.Contains(row.Asked, a.Ref) {
			row.Asked = append(row.Asked, a.Ref)
		}
	}
	v := rowView(&row, snap.Definition, snap.Directory, locale)
	v.Instructions, v.Facts = inLocale(t.Instructions, locale), t.Facts
	if t.Status == "open" && t.Seq == in.Wait {
		v.Events = s.offered(snap, actor, locale, now)
		for i := range snap.Votes {
			vote := voteView(&snap.Votes[i])
			v.EarlierVotes = append(v.EarlierVotes, vote)
			if snap.Votes[i].Actor.ID == actor.ID {
				v.OwnVote = &vote
			}
		}
	}
	return v
}

func voteView(p *fsm.Past) TransitionView {
	return TransitionView{
		Seq: p.Seq, Kind: p.Kind, Event: p.Event, From: p.From, Via: []string{}, Actor: actorView(p.Actor),
		Comment: p.Comment, Input: rawOf(p.Input), Changes: []fsm.Change{}, At: Time{p.At},
	}
}

// addHistory puts the instance's history beside a task, newest last.
func (s *Service) addHistory(ctx context.Context, snap *fsm.Snapshot, v *TaskView) error {
	rows, err := s.store.History(ctx, snap.Instance.ID, store.Paging{Limit: 200})
	if err != nil {
		return err
	}
	for i := range rows.Items {
		v.History = append(v.History, transitionView(&rows.Items[i]))
	}
	return nil
}

func linesOf(snap *fsm.Snapshot, ref string) []string {
	for _, a := range snap.Assignees {
		if a.Ref == ref && a.Wait == snap.Instance.Wait {
			return a.Lines
		}
	}
	return nil
}

// inLocale picks a text by locale: the locale, its language, every locale, English, any in order.
func inLocale(texts map[string]string, locale string) string {
	if t, ok := texts[locale]; ok && locale != "" {
		return t
	}
	if lang, _, found := strings.Cut(locale, "-"); found {
		if t, ok := texts[lang]; ok {
			return t
		}
	}
	for _, l := range []string{"", "en"} {
		if t, ok := texts[l]; ok {
			return t
		}
	}
	keys := make([]string, 0, len(texts))
	for k := range texts {
		keys = append(keys, k)
	}
	if len(keys) == 0 {
		return ""
	}
	return texts[slices.Min(keys)]
}

func nameIn(dir *fsm.Directory, id string) string {
	if dir != nil {
		if p := dir.Person(id); p != nil && p.Name != "" {
			return p.Name
		}
	}
	return id
}

func titleOf(d *definitions.Definition, locale string) string {
	t, err := d.Title.In(locale, &definitions.Env{})
	if err != nil || t == "" {
		return d.Name
	}
	return t
}

func (s *Service) zoneFor(c Caller) *time.Location {
	if c.Zone != nil {
		return c.Zone
	}
	return s.cfg.Zone
}

// taskNumber is the n of the task that an assignee row is about: rows count a wait's
// tasks from 0, task ids from 1.
func taskNumber(a *fsm.Assignee) int { return a.Task + 1 }
