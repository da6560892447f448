package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"vobo/internal/fault"
	"vobo/internal/fsm"
)

// taskSeed is what matters of a task written by a test.
type taskSeed struct {
	status, priority, title string
	due                     *time.Time
	created                 time.Time
	owners, named           []string
}

// task writes the task n of the wait 1 of an instance and returns its id.
func (b *bench) task(t *testing.T, instance string, n int, s taskSeed) string {
	t.Helper()
	s.status, s.title = orElse(s.status, "open"), orElse(s.title, "Approve it")
	if s.created.IsZero() {
		s.created = base
	}
	b.write(t, `INSERT INTO tasks (instance_id, seq, n, state, title, instructions, priority, status, facts, digest, owners, due_at,
		created_at, claimed_by, search) VALUES (?, 1, ?, 'review', ?, '', ?, ?, '', 'd', ?, ?, ?, '', ?)`,
		instance, n, asJSON(t, map[string]string{"": s.title}), orElse(s.priority, "normal"), s.status, asJSON(t, s.owners),
		optionalStamp(s.due), stamp(s.created), foldSearch(s.title, instance))
	refs := append(slices.Clone(s.owners), s.named...)
	slices.Sort(refs)
	for _, ref := range slices.Compact(refs) {
		b.write(t, `INSERT INTO task_owners (instance_id, seq, n, ref, owner, named, open) VALUES (?, 1, ?, ?, ?, ?, ?)`,
			instance, n, ref, slices.Contains(s.owners, ref), slices.Contains(s.named, ref), s.status == "open")
	}
	return fmt.Sprintf("%s-1-%d", instance, n)
}

func taskIDs(tasks []TaskRow) []string {
	ids := []string{}
	for _, task := range tasks {
		ids = append(ids, fmt.Sprintf("%s-%d-%d", task.Instance, task.Seq, task.N))
	}
	return ids
}

// findTasks lists and checks that the count is the list's length.
func (b *bench) findTasks(t *testing.T, f TaskFilter) []string {
	t.Helper()
	all := walk(t, 2, func() {}, func(ctx context.Context, p Paging) (Page[TaskRow], error) { return b.Tasks(ctx, f, p) })
	n, err := b.CountTasks(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	if n != len(all) {
		t.Errorf("%+v: the count is %d, the list has %d", f, n, len(all))
	}
	return taskIDs(all)
}

// field report B62
func TestAnInboxHasEachOpenTaskOfAPersonOnceAndItsCountIsItsLength(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		const ana, luis = "user:ana@example.com", "user:luis@example.com"
		risk, managers := []string{"group:risk"}, []string{"group:managers"}
		at := func(hours int) *time.Time { due := base.Add(time.Duration(hours) * time.Hour); return &due }
		rosas := b.instance(t, fsm.Instance{Requester: "rosa@example.com", Key: "K"})
		anas := b.instance(t, fsm.Instance{Requester: "ana@example.com", Definition: "supplier"})
		named := b.task(t, rosas, 1, taskSeed{named: []string{ana, luis}, due: at(3), owners: risk, title: "50% off"})
		byGroup := b.task(t, rosas, 2, taskSeed{owners: risk, due: at(2)})
		byName := b.task(t, rosas, 3, taskSeed{owners: []string{ana}, named: []string{ana}})
		others := b.task(t, anas, 1, taskSeed{owners: managers, named: []string{luis}, due: at(1)})
		done := b.task(t, anas, 2, taskSeed{owners: risk, named: []string{ana}, status: "done"})
		expired := b.task(t, anas, 3, taskSeed{owners: risk, named: []string{ana}, status: "expired"})
		b.transition(t, anas, fsm.Transition{Seq: 2, EventID: b.id(), Kind: fsm.TTransition, Wait: 1, Actor: fsm.Actor{Kind: fsm.ActorPerson, ID: "luis@example.com"}, At: base})
		b.transition(t, anas, fsm.Transition{Seq: 3, EventID: b.id(), Kind: fsm.TVote, Wait: 1, Actor: fsm.Actor{Kind: fsm.ActorPerson, ID: "luis@example.com"}, At: base})
		for name, c := range map[string]struct {
			filter TaskFilter
			want   []string
		}{
			"by name and by group":     {TaskFilter{Person: ana, Groups: risk}, []string{byGroup, named, byName}},
			"by name only":             {TaskFilter{Person: ana, Groups: risk, Mine: true}, []string{named, byName}},
			"by group only":            {TaskFilter{Groups: risk}, []string{byGroup, named}},
			"what is done":             {TaskFilter{Person: ana, Status: "done"}, []string{done}},
			"what has expired":         {TaskFilter{Groups: risk, Status: "expired"}, []string{expired}},
			"no member of any group":   {TaskFilter{Person: luis}, []string{others, named}},
			"nobody":                   {TaskFilter{Person: "user:x@example.com"}, nil},
			"a name is no group":       {TaskFilter{Person: "group:risk"}, nil},
			"owner":                    {TaskFilter{Owner: "group:risk", Status: "open"}, []string{byGroup, named}},
			"waiting for others":       {TaskFilter{Requester: "ana@example.com"}, []string{others}},
			"done by luis":             {TaskFilter{DecidedBy: "luis@example.com"}, []string{others, done, expired}},
			"done by ana":              {TaskFilter{DecidedBy: "ana@example.com"}, nil},
			"definition":               {TaskFilter{Definition: "supplier", Status: "open"}, []string{others}},
			"due before":               {TaskFilter{DueBefore: at(3)}, []string{others, byGroup}},
			"title":                    {TaskFilter{Q: "0%"}, []string{named}},
			"its instance's id":        {TaskFilter{Q: anas, Status: "open"}, []string{others}},
			"id":                       {TaskFilter{ID: done}, []string{done}},
			"no id":                    {TaskFilter{ID: done + "x"}, nil},
			"id with a leading zero":   {TaskFilter{ID: anas + "-1-02"}, nil},
			"id beyond every number":   {TaskFilter{ID: anas + "-1-99999999999999999999"}, nil},
			"mine without being named": {TaskFilter{Groups: risk, Mine: true}, nil},
		} {
			wantIDs(t, name, b.findTasks(t, c.filter), c.want...)
		}
	})
}

func TestTasksComeInEachOrderWithoutGapOrRepetitionAtAnyPageSize(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		random := rand.New(rand.NewPCG(1, 2))
		priorities := []string{"low", "normal", "high", "urgent", "other"}
		for range 12 {
			id := b.instance(t, fsm.Instance{})
			for n := range 5 {
				s := taskSeed{priority: priorities[random.IntN(5)], created: base.Add(time.Duration(random.IntN(4)) * time.Minute)}
				if due := base.Add(time.Duration(random.IntN(3)) * time.Hour); random.IntN(3) > 0 {
					s.due = &due
				}
				b.task(t, id, n, s)
			}
		}
		for _, sort := range []string{"", "due", "created", "priority"} {
			whole, err := b.Tasks(t.Context(), TaskFilter{Sort: sort}, Paging{Limit: 500})
			if err != nil || len(whole.Items) != 60 || whole.Next != "" {
				t.Fatalf("%s: %d rows, %v", sort, len(whole.Items), err)
			}
			wantTaskOrder(t, sort, whole.Items)
			for _, size := range []int{1, 7, 59, 60} {
				pages := walk(t, size, func() {}, func(ctx context.Context, p Paging) (Page[TaskRow], error) {
					return b.Tasks(ctx, TaskFilter{Sort: sort}, p)
				})
				wantIDs(t, fmt.Sprintf("%s in pages of %d", sort, size), taskIDs(pages), taskIDs(whole.Items)...)
			}
		}
		_, err := b.Tasks(t.Context(), TaskFilter{Sort: "title"}, Paging{})
		wantCode(t, err, fault.Malformed)
	})
}

func wantTaskOrder(t *testing.T, sort string, tasks []TaskRow) {
	t.Helper()
	never := base.Add(1000 * time.Hour)
	due := func(task TaskRow) time.Time {
		if task.DueAt == nil {
			return never
		}
		return *task.DueAt
	}
	ranks := map[string]int{"urgent": 0, "high": 1, "normal": 2, "other": 2, "low": 3}
	for i := 1; i < len(tasks); i++ {
		before, after := tasks[i-1], tasks[i]
		var wrong bool
		switch sort {
		case "created":
			wrong = before.CreatedAt.Before(after.CreatedAt)
		case "priority":
			wrong = ranks[before.Priority] > ranks[after.Priority] ||
				ranks[before.Priority] == ranks[after.Priority] && due(before).After(due(after))
		default:
			wrong = due(before).After(due(after))
		}
		if wrong {
			t.Errorf("%s: %+v comes before %+v", sort, before.Task, after.Task)
		}
	}
}

func TestATaskIsListedWithAllItsColumnsAndItsInstancesFacts(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		id := b.instance(t, fsm.Instance{Definition: "supplier", Version: 2, Key: "S-1", Requester: "rosa@example.com", Status: fsm.Suspended})
		due, closed := base.Add(time.Hour), base.Add(2*time.Hour)
		b.task(t, id, 4, taskSeed{
			priority: "high", status: "done", title: "Ärger", due: &due,
			owners: []string{"group:risk"}, named: []string{"user:luis@example.com", "user:ana@example.com"},
		})
		b.write(t, `UPDATE tasks SET instructions = ?, facts = ?, closed_at = ?, claimed_by = 'ana@example.com'`,
			`{"es":"Lea"}`, `[{"path":"a.b","label":"B","value":"x"}]`, stamp(closed))
		want := TaskRow{
			Task: fsm.Task{
				Seq: 1, N: 4, State: "review", Title: map[string]string{"": "Ärger"}, Instructions: map[string]string{"es": "Lea"}, Priority: "high",
				Status: "done", Facts: []fsm.Fact{{Path: "a.b", Label: "B", Value: "x"}}, Digest: "d", Owners: []string{"group:risk"},
				DueAt: &due, CreatedAt: base, ClosedAt: &closed, ClaimedBy: "ana@example.com",
			},
			Instance: id, Definition: "supplier", Version: 2, Key: "S-1", Requester: "rosa@example.com", InstanceStatus: fsm.Suspended, Wait: 1,
			Asked: []string{"user:ana@example.com", "user:luis@example.com"},
		}
		page, err := b.Tasks(t.Context(), TaskFilter{}, Paging{})
		if err != nil || len(page.Items) != 1 {
			t.Fatalf("got %+v, %v", page, err)
		}
		if !reflect.DeepEqual(page.Items[0], want) {
			t.Errorf("got  %+v\nwant %+v", page.Items[0], want)
		}
	})
}
