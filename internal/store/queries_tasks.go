package store

import (
	"context"
	"slices"
	"time"

	"vobo/internal/fault"
	"vobo/internal/fsm"
)

// TaskFilter searches tasks; zero fields do not filter, but that with Person, Groups or
// Requester and no Status only open tasks are meant.
type TaskFilter struct {
	ID         string   // <instance>-<seq>-<n>
	Person     string   // open to this ref ("user:ID", "system:NAME") as assignee
	Groups     []string // or to a present member of one of these owner refs ("group:risk", "role:operator")
	Mine       bool     // only those asked by name (assignee rows), not by group
	Owner      string   // an owner ref
	Requester  string   // waiting for others: what this person (an id) asked for, or started in another's name
	DecidedBy  string   // done by this person (an id): who voted, decided or answered by a stay in the task's wait
	Definition string
	DueBefore  *time.Time
	Status     string
	Q          string // title, instance id, business key
	Sort       string // "due" (default: nearest first, none last), "created" (newest first), "priority" (urgent first, then as due)
}

// TaskRow is a task with its instance's facts.
type TaskRow struct {
	fsm.Task
	Instance       string
	Definition     string
	Version        int
	Key            string
	Requester      string
	InstanceStatus fsm.Status
	Wait           int
	Asked          []string // refs of those asked by name, sorted
}

// taskOrder is an order of tasks and the sort values of a row in it.
type taskOrder struct {
	listOrder
	values func(t TaskRow) []any
}

var taskIdentity = []sortColumn{
	{name: "tasks.instance_id", kind: idValue}, {name: "tasks.seq", kind: numberValue}, {name: "tasks.n", kind: numberValue},
}

var (
	dueColumn      = sortColumn{name: "tasks.due_at", kind: timeValue, null: true}
	createdColumn  = sortColumn{name: "tasks.created_at", kind: timeValue, desc: true}
	priorityColumn = sortColumn{
		name: "CASE tasks.priority WHEN 'urgent' THEN 0 WHEN 'high' THEN 1 WHEN 'low' THEN 3 ELSE 2 END", kind: numberValue,
	}
)

func priorityRank(priority string) int {
	switch priority {
	case "urgent":
		return 0
	case "high":
		return 1
	case "low":
		return 3
	}
	return 2
}

func newTaskOrder(name string, columns []sortColumn, values func(t TaskRow) []any) taskOrder {
	return taskOrder{
		listOrder: listOrder{name: "tasks/" + name, columns: append(columns, taskIdentity...)},
		values:    func(t TaskRow) []any { return append(values(t), t.Instance, t.Seq, t.N) },
	}
}

// dueValue is nil for a task that is never due.
func dueValue(t TaskRow) any {
	if t.DueAt == nil {
		return nil
	}
	return *t.DueAt
}

var (
	tasksByDue      = newTaskOrder("due", []sortColumn{dueColumn}, func(t TaskRow) []any { return []any{dueValue(t)} })
	tasksByCreated  = newTaskOrder("created", []sortColumn{createdColumn}, func(t TaskRow) []any { return []any{t.CreatedAt} })
	tasksByPriority = newTaskOrder("priority", []sortColumn{priorityColumn, dueColumn},
		func(t TaskRow) []any { return []any{priorityRank(t.Priority), dueValue(t)} })

	taskOrders = map[string]taskOrder{"": tasksByDue, "due": tasksByDue, "created": tasksByCreated, "priority": tasksByPriority}
)

const fromTasks = ` FROM tasks JOIN instances ON instances.id = tasks.instance_id`

const selectTasks = `SELECT tasks.seq, tasks.n, tasks.state, tasks.title, tasks.instructions, tasks.priority, tasks.status,
	tasks.facts, tasks.digest, tasks.owners, tasks.due_at, tasks.created_at, tasks.closed_at, tasks.claimed_by,
	tasks.instance_id, instances.definition, instances.version, instances.instance_key, instances.requester,
	instances.status, instances.wait` + fromTasks

// readTask reads a row of selectTasks: everything but Asked.
func readTask(row rowScanner, t *TaskRow) error {
	return row.Scan(&t.Seq, &t.N, &t.State, jsonColumn{&t.Title}, jsonColumn{&t.Instructions}, &t.Priority, &t.Status,
		jsonColumn{&t.Facts}, &t.Digest, jsonColumn{&t.Owners}, optionalTime{&t.DueAt}, timeColumn{&t.CreatedAt},
		optionalTime{&t.ClosedAt}, &t.ClaimedBy, &t.Instance, &t.Definition, &t.Version, &t.Key, &t.Requester,
		&t.InstanceStatus, &t.Wait)
}

// Tasks lists, one row per task. Malformed for an unknown Sort.
func (s *Store) Tasks(ctx context.Context, f TaskFilter, p Paging) (Page[TaskRow], error) {
	order, known := taskOrders[f.Sort]
	if !known {
		return Page[TaskRow]{}, fault.New(fault.Malformed, "Tasks cannot be sorted by %q. Use due, created or priority.", f.Sort)
	}
	query, err := f.query()
	if err != nil {
		return Page[TaskRow]{}, err
	}
	tail, limit, err := query.paged(order.listOrder, p)
	if err != nil {
		return Page[TaskRow]{}, err
	}
	rows, err := selectRows(s.reader(ctx), readTask, selectTasks+tail, query.args...)
	if err != nil {
		return Page[TaskRow]{}, s.dbError(err)
	}
	page, err := pageOf(order.listOrder, limit, rows, order.values, itself)
	if err != nil {
		return Page[TaskRow]{}, err
	}
	return page, s.dbError(s.readAsked(ctx, page.Items))
}

// CountTasks counts by the same rule as Tasks.
func (s *Store) CountTasks(ctx context.Context, f TaskFilter) (int, error) {
	query, err := f.query()
	if err != nil {
		return 0, err
	}
	n, _, err := selectOne(s.reader(ctx), readCount, "SELECT count(*)"+fromTasks+" WHERE "+query.conditions(), query.args...)
	return n, s.dbError(err)
}

// readAsked fills in who was asked by name.
func (s *Store) readAsked(ctx context.Context, tasks []TaskRow) error {
	if len(tasks) == 0 {
		return nil
	}
	type askedRow struct {
		id  itemID
		ref string
	}
	asked, err := selectRows(s.reader(ctx), func(row rowScanner, a *askedRow) error {
		return row.Scan(&a.id.instance, &a.id.seq, &a.id.n, &a.ref)
	}, `SELECT instance_id, seq, n, ref FROM task_owners WHERE instance_id IN ? AND named`, instancesOf(tasks, func(t TaskRow) string { return t.Instance }))
	if err != nil {
		return err
	}
	refs := map[itemID][]string{}
	for _, a := range asked {
		refs[a.id] = append(refs[a.id], a.ref)
	}
	for i := range tasks {
		tasks[i].Asked = refs[itemID{tasks[i].Instance, tasks[i].Seq, tasks[i].N}]
		slices.Sort(tasks[i].Asked)
	}
	return nil
}

// instancesOf gives the instances of rows, each once.
func instancesOf[T any](rows []T, instance func(T) string) []string {
	ids := make([]string, 0, len(rows))
	for _, row := range rows {
		ids = append(ids, instance(row))
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// query gives the one rule that lists and counts share.
func (f TaskFilter) query() (*statement, error) {
	query := &statement{}
	texts := append([]string{f.Person, f.Owner, f.Requester, f.DecidedBy, f.Definition, f.Status, f.Q}, f.Groups...)
	if err := checkText("The filter", texts...); err != nil {
		return nil, err
	}
	if f.ID != "" {
		query.item("tasks", f.ID)
	}
	if f.Status == "" && (f.Person != "" || len(f.Groups) > 0 || f.Requester != "") {
		f.Status = "open"
	}
	switch f.Status {
	case "":
	case "open": // a literal, so that the index of open tasks serves it
		query.and("tasks.status = 'open'")
	default:
		query.and("tasks.status = ?", f.Status)
	}
	f.people(query)
	if f.Definition != "" {
		query.and("instances.definition = ?", f.Definition)
	}
	if f.DueBefore != nil {
		query.and("tasks.due_at < ?", stamp(*f.DueBefore))
	}
	if pattern := likePattern(f.Q); pattern != "" {
		query.and("tasks.search LIKE ? ESCAPE '!'", pattern)
	}
	return query, nil
}

// people adds the conditions about who has to do with a task.
func (f TaskFilter) people(query *statement) {
	groups := f.Groups
	if f.Mine {
		groups = nil
	}
	if f.Person != "" || len(f.Groups) > 0 {
		open := ""
		if f.Status == "open" {
			open = " AND o.open = TRUE"
		}
		query.and(`(tasks.instance_id, tasks.seq, tasks.n) IN (SELECT o.instance_id, o.seq, o.n FROM task_owners o
			WHERE o.ref IN ?`+open+` AND ((o.named AND o.ref = ?) OR (o.owner AND o.ref IN ?)))`,
			append([]string{f.Person}, groups...), f.Person, groups)
	}
	if f.Owner != "" {
		query.and(`EXISTS (SELECT 1 FROM task_owners o WHERE o.instance_id = tasks.instance_id AND o.seq = tasks.seq
			AND o.n = tasks.n AND o.ref = ? AND o.owner)`, f.Owner)
	}
	if f.Requester != "" {
		query.and("(instances.requester = ? OR instances.started_by = ?)", f.Requester, f.Requester)
	}
	if f.DecidedBy != "" {
		query.and(`(tasks.instance_id, tasks.seq) IN (SELECT t.instance_id, t.wait FROM transitions t
			WHERE t.actor_kind = 'person' AND t.actor_id = ? AND t.kind IN ('transition', 'vote', 'stay'))`, f.DecidedBy)
	}
}
