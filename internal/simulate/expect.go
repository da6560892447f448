package simulate

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"vobo/internal/definitions"
	"vobo/internal/fsm"
)

// expect compares and begins a new count of what is counted since the last one.
func (r *runner) expect(x *expect) error {
	var wrong []error
	check := func(name string, got, want any) {
		if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
			wrong = append(wrong, fmt.Errorf("%s is %s, expected %s", name, g, w))
		}
	}
	if x.State != "" {
		check("state", r.Instance.State, x.State)
	}
	if x.Status != "" {
		check("status", r.Instance.Status, x.Status)
	}
	if x.Pending != nil {
		check("pending", r.lastPending(), fmt.Sprintf("%d of %d", x.Pending.Have, x.Pending.Need))
	}
	if x.Deadlines != nil {
		check("deadlines", len(r.Deadlines), *x.Deadlines)
	}
	if x.Tasks != nil {
		check("tasks", r.asked(), sorted(*x.Tasks))
	}
	if x.Attention != nil {
		var reasons []string
		for _, a := range r.Instance.Attention {
			reasons = append(reasons, a.Reason)
		}
		check("attention", sorted(reasons), sorted(*x.Attention))
	}
	if x.Emails != nil {
		check("emails", r.mails, *x.Emails)
	}
	r.expectSince(x, check)
	if err := r.expectData(x); err != nil {
		wrong = append(wrong, err)
	}
	r.mails = 0
	r.since.history, r.since.effects, r.since.assignees = len(r.History), len(r.Effects), len(r.Assignees)
	return errors.Join(wrong...)
}

func (r *runner) expectSince(x *expect, check func(string, any, any)) {
	if x.Reminders != nil {
		n := 0
		for _, t := range r.History[r.since.history:] {
			if t.Kind == fsm.TReminder {
				n++
			}
		}
		check("reminders", n, *x.Reminders)
	}
	if x.Effects != nil {
		var names []string
		for _, e := range r.Effects[r.since.effects:] {
			if r.named(&e) && !slices.Contains(names, e.Name) {
				names = append(names, e.Name)
			}
		}
		check("effects", names, *x.Effects)
	}
	if x.EscalatedTo != nil {
		var ids []string
		for _, a := range r.Assignees[r.since.assignees:] {
			if len(a.Lines) > 0 && strings.HasPrefix(a.Lines[0], "escalation ") {
				ids = append(ids, strings.TrimPrefix(a.Ref, "user:"))
			}
		}
		check("escalated_to", sorted(ids), sorted(*x.EscalatedTo))
	}
}

// lastPending is how far the quorum of the present wait is.
func (r *runner) lastPending() string {
	for i := len(r.History) - 1; i >= 0; i-- {
		if t := &r.History[i]; t.Wait == r.Instance.Wait && t.Pending != nil {
			return fmt.Sprintf("%d of %d", t.Pending.Have, t.Pending.Need)
		}
	}
	return "none"
}

// asked gives who has an open task that they have not voted on.
func (r *runner) asked() []string {
	open := slices.ContainsFunc(r.Tasks, func(t fsm.Task) bool { return t.Seq == r.Instance.Wait && t.Status == "open" })
	if !open {
		return []string{}
	}
	var ids []string
	for _, a := range r.Assignees {
		id := strings.TrimPrefix(a.Ref, "user:")
		if a.Wait == r.Instance.Wait && a.Kind != fsm.AssigneeCallback && len(a.Events) > 0 && !a.Stood && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return sorted(ids)
}

func (r *runner) expectData(x *expect) error {
	want, err := tree(&x.Data)
	if err != nil || want == nil {
		return err
	}
	if path, ok := contains(r.Instance.Data, want, "data"); !ok {
		return fmt.Errorf("%s is not as expected; data are %s", path, definitions.EncodeJSON(r.Instance.Data))
	}
	return nil
}

// contains tells whether want is part of have: of objects the written fields, of the
// rest the value. It names the first path that differs.
func contains(have, want any, path string) (string, bool) {
	w, ok := want.(map[string]any)
	if !ok {
		return path, string(definitions.CanonicalJSON(have)) == string(definitions.CanonicalJSON(want))
	}
	h, ok := have.(map[string]any)
	if !ok {
		return path, false
	}
	for k, v := range w {
		if at, ok := contains(h[k], v, path+"."+k); !ok {
			return at, false
		}
	}
	return path, true
}

func sorted(list []string) []string {
	c := append([]string{}, list...)
	slices.Sort(c)
	return c
}
