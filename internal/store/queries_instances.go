package store

import (
	"context"
	"time"

	"vobo/internal/fault"
	"vobo/internal/fsm"
)

// InstanceFilter searches instances; zero fields do not filter.
type InstanceFilter struct {
	ID            string // exactly; one that is no id matches nothing
	Definition    string
	Version       int
	State         string
	Status        fsm.Status
	Attention     *bool
	Label         [2]string // name, value
	Key           *string
	Q             string // literal, case-insensitive in any script, over key, id, labels and searchable data
	StartedAfter  *time.Time
	StartedBefore *time.Time
	Sort          string  // started_at, entered_at: oldest first; -started_at (default), -entered_at: newest first
	ReadableBy    *Reader // nil: everything
}

// Reader narrows a list to what one caller may read.
type Reader struct {
	ID          string   // requester or started_by: the person's id or "system:NAME"
	Refs        []string // "user:ID", "system:NAME", "group:…" …: past or present assignee or owner of a task
	Definitions []string // definitions all of whose instances this caller may read
}

func instanceOrder(name, column string, desc bool) listOrder {
	return listOrder{name: "instances/" + name, columns: []sortColumn{
		{name: "instances." + column, kind: timeValue, desc: desc},
		{name: "instances.id", kind: idValue, desc: desc},
	}}
}

// instanceOrders are the orders of the list by Sort.
var instanceOrders = map[string]listOrder{
	"":            instanceOrder("-started_at", "started_at", true),
	"started_at":  instanceOrder("started_at", "started_at", false),
	"-started_at": instanceOrder("-started_at", "started_at", true),
	"entered_at":  instanceOrder("entered_at", "entered_at", false),
	"-entered_at": instanceOrder("-entered_at", "entered_at", true),
}

// isInstanceID tells whether a text is an id in the one form in which it is stored.
func isInstanceID(text string) bool {
	id, ok := parseIdent(text)
	return ok && id.text == text
}

func noInstance(id string) error {
	if err := checkText("The instance's id", id); err != nil {
		return err
	}
	return fault.New(fault.NotFound, "There is no instance %s.", id)
}

// Instances lists. Rows come without data. Malformed for an unknown Sort.
func (s *Store) Instances(ctx context.Context, f InstanceFilter, p Paging) (Page[fsm.Instance], error) {
	order, known := instanceOrders[f.Sort]
	if !known {
		return Page[fsm.Instance]{}, fault.New(fault.Malformed, "Instances cannot be sorted by %q. Use started_at, -started_at, entered_at or -entered_at.", f.Sort)
	}
	query, err := f.query()
	if err != nil {
		return Page[fsm.Instance]{}, err
	}
	tail, limit, err := query.paged(order, p)
	if err != nil {
		return Page[fsm.Instance]{}, err
	}
	rows, err := selectRows(s.reader(ctx), readInstance, selectInstances+tail, query.args...)
	if err != nil {
		return Page[fsm.Instance]{}, s.dbError(err)
	}
	return pageOf(order, limit, rows,
		func(i fsm.Instance) []any {
			if order.columns[0].name == "instances.entered_at" {
				return []any{i.EnteredAt, i.ID}
			}
			return []any{i.StartedAt, i.ID}
		}, itself)
}

func (f InstanceFilter) query() (*statement, error) {
	query := &statement{}
	if err := checkText("The filter", f.Definition, f.State, string(f.Status), f.Label[0], f.Label[1], f.Q); err != nil {
		return nil, err
	}
	for _, equal := range [][2]string{
		{"instances.definition", f.Definition}, {"instances.state", f.State}, {"instances.status", string(f.Status)},
	} {
		if equal[1] != "" {
			query.and(equal[0]+" = ?", equal[1])
		}
	}
	if f.ID != "" {
		if _, ok := parseIdent(f.ID); !ok {
			query.and("1 = 0")
		} else {
			query.and("instances.id = ?", f.ID)
		}
	}
	switch {
	case f.Version == 0:
	case !fitsColumn(int64(f.Version)):
		query.and("1 = 0")
	default:
		query.and("instances.version = ?", f.Version)
	}
	if f.Attention != nil {
		query.and(map[bool]string{true: "instances.attention", false: "NOT instances.attention"}[*f.Attention])
	}
	if f.Key != nil {
		if err := checkText("The key", *f.Key); err != nil {
			return nil, err
		}
		query.and(map[bool]string{true: "instances.instance_key = ?", false: "instances.instance_key <> '' AND instances.instance_key = ?"}[*f.Key == ""], *f.Key)
	}
	if f.Label[0] != "" {
		query.and("EXISTS (SELECT 1 FROM instance_labels l WHERE l.instance_id = instances.id AND l.name = ? AND l.value = ?)", f.Label[0], f.Label[1])
	}
	if pattern := likePattern(f.Q); pattern != "" {
		query.and("EXISTS (SELECT 1 FROM instance_data d WHERE d.instance_id = instances.id AND d.search LIKE ? ESCAPE '!')", pattern)
	}
	if f.StartedAfter != nil {
		query.and("instances.started_at > ?", stamp(*f.StartedAfter))
	}
	if f.StartedBefore != nil {
		query.and("instances.started_at < ?", stamp(*f.StartedBefore))
	}
	f.ReadableBy.narrow(query)
	return query, nil
}

// narrow keeps only what the reader may read; no reader may read all.
func (r *Reader) narrow(query *statement) {
	if r == nil {
		return
	}
	condition := `instances.definition IN ? OR instances.id IN (SELECT o.instance_id FROM task_owners o WHERE o.ref IN ?)`
	args := []any{r.Definitions, r.Refs}
	if r.ID != "" { // an empty started_by names nobody
		condition += " OR instances.requester = ? OR instances.started_by = ?"
		args = append(args, r.ID, r.ID)
	}
	query.and("("+condition+")", args...)
}

const selectInstances = `SELECT id, definition, version, hash, state, wait, revision, status, instance_key, requester,
	started_by, labels, started_at, entered_at, last_event_at, finished_at, head_hash, attention_reasons, compensation, parent
	FROM instances`

// readInstance reads a row of selectInstances: everything but the data.
func readInstance(row rowScanner, i *fsm.Instance) error {
	return row.Scan(&i.ID, &i.Definition, &i.Version, &i.Hash, &i.State, &i.Wait, &i.Revision, &i.Status, &i.Key, &i.Requester,
		&i.StartedBy, jsonColumn{&i.Labels}, timeColumn{&i.StartedAt}, timeColumn{&i.EnteredAt}, timeColumn{&i.LastEventAt},
		optionalTime{&i.FinishedAt}, &i.HeadHash, jsonColumn{&i.Attention}, jsonColumn{&i.Compensation}, parentColumn{&i.Parent})
}
