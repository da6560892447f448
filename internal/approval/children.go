package approval

import (
	"context"

	"vobo/internal/fault"
	"vobo/internal/fsm"
	"vobo/internal/store"
)

// ChildView is a child of an instance.
type ChildView struct {
	Index  int    `json:"index"`
	ID     string `json:"id,omitempty"`
	Effect string `json:"effect"`
	Status string `json:"status"` // running | ended | failed | cancelled | refused
	Detail string `json:"detail,omitempty"`
	DoneAt *Time  `json:"done_at,omitempty"`
}

// Children lists the children of an instance, of one start effect or (effect "") of all.
// Not-found where the caller may not read the instance, or the effect is not its own.
func (s *Service) Children(ctx context.Context, c Caller, instance, effect string, p store.Paging) (store.Page[ChildView], error) {
	var none store.Page[ChildView]
	if _, err := s.readable(ctx, c, instance); err != nil {
		return none, err
	}
	var id fsm.EffectID
	if effect != "" {
		of, eid, err := ParseID(effect)
		if err != nil {
			return none, err
		}
		if of != instance {
			return none, fault.New(fault.NotFound, "The instance has no such effect.")
		}
		id = eid
	}
	rows, err := s.store.Children(ctx, instance, id, p)
	if err != nil {
		return none, err
	}
	page := store.Page[ChildView]{Next: rows.Next, Items: make([]ChildView, 0, len(rows.Items))}
	for _, r := range rows.Items {
		page.Items = append(page.Items, ChildView{
			Index: r.Index, ID: r.ID, Effect: EffectID(instance, r.Effect), Status: r.Status, Detail: r.Detail, DoneAt: timeOf(r.DoneAt),
		})
	}
	return page, nil
}
