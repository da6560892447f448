package approval

import (
	"context"
	"errors"
	"fmt"
	"time"

	"vobo/internal/fault"
	"vobo/internal/fsm"
	"vobo/internal/store"
)

const (
	redriveUsual = 500
	redriveMost  = 10_000
	redriveWidth = 16 // retries that share commits
)

// RedriveRequest tries dead or unknown effects again in bulk.
type RedriveRequest struct {
	Status     []fsm.EffectStatus // dead, unknown; empty: dead
	Definition string
	Name       string
	Kind       string
	Host       string
	Instance   string
	Before     *time.Time // queued before
	Limit      int        // 0: 500, at most 10,000
	Reason     string
	DryRun     bool
}

// RedriveResult says what became of each.
type RedriveResult struct {
	Matched int           `json:"matched"`
	Retried int           `json:"retried"`
	Skipped int           `json:"skipped"` // changed meanwhile
	DryRun  bool          `json:"dry_run"`
	More    bool          `json:"more"` // the limit was reached
	Items   []RedriveItem `json:"items"`

	Replayed bool `json:"-"` // everything in it was retried by an earlier call with this Idempotency-Key
}

// RedriveItem is one effect of a redrive.
type RedriveItem struct {
	Effect  string `json:"effect"`
	Outcome string `json:"outcome"` // retried | skipped | would-retry
	Detail  string `json:"detail,omitempty"`
}

// Redrive tries what fits the filter again, each effect once. Operators only. It is not
// one transaction: each effect is an event of its own instance. Under one Idempotency-Key
// an effect is tried again once for ever, also where it has failed again since.
func (s *Service) Redrive(ctx context.Context, c Caller, r RedriveRequest, idem Idempotency) (*RedriveResult, error) {
	if err := operatorOnly(c, "redrive effects"); err != nil {
		return nil, err
	}
	if err := checkRedrive(&r); err != nil {
		return nil, err
	}
	if _, err := idempotencyClaim(c, idem); err != nil {
		return nil, err
	}
	found, more, err := s.redrivable(ctx, &r)
	if err != nil {
		return nil, err
	}
	res := &RedriveResult{Matched: len(found), DryRun: r.DryRun, More: more, Items: make([]RedriveItem, len(found))}
	replays := make([]bool, len(found))
	errs := make([]error, len(found))
	inParallel(redriveWidth, len(found), func(i int) {
		res.Items[i], replays[i], errs[i] = s.redriveOne(ctx, c, &r, &found[i], idem)
	})
	replayed := 0
	var failed error
	for i := range res.Items {
		if errs[i] != nil { // what was retried stays so: the answer says which
			failed = errors.Join(failed, errs[i])
			res.Items[i].Detail = fault.As(errs[i]).Message
		}
		if res.Items[i].Outcome == outcomeRetried {
			res.Retried++
		}
		if res.Items[i].Outcome == outcomeSkipped {
			res.Skipped++
		}
		if replays[i] {
			replayed++
		}
	}
	if failed != nil {
		s.log.Error("a redrive failed for some of its effects", "retried", res.Retried, "skipped", res.Skipped, "error", failed)
	}
	if failed != nil && res.Retried == 0 {
		return nil, failed
	}
	res.Replayed = replayed > 0 && replayed == len(found)
	if r.DryRun || res.Retried == replayed {
		return res, nil
	}
	s.metrics.redrives.Add(float64(res.Retried - replayed))
	return res, s.store.Audit(ctx, store.AuditLine{Actor: c.ID, Action: "effects-redriven", Instance: r.Instance, Detail: redriveDetail(&r, res)})
}

// The outcomes of an effect of a redrive.
const (
	outcomeRetried    = "retried"
	outcomeSkipped    = "skipped"
	outcomeWouldRetry = "would-retry"
)

func checkRedrive(r *RedriveRequest) error {
	if err := checkReason(r.Reason); err != nil {
		return err
	}
	if len(r.Status) == 0 {
		r.Status = []fsm.EffectStatus{fsm.EffectDead}
	}
	for _, status := range r.Status {
		if status != fsm.EffectDead && status != fsm.EffectUnknown {
			return fault.New(fault.InvalidInput, "Only dead and unknown effects can be tried again.").With(
				fault.Field{Pointer: "/status", Detail: "Use dead, unknown or both."})
		}
	}
	if r.Limit < 0 || r.Limit > redriveMost {
		return fault.New(fault.InvalidInput, "The limit is out of range.").With(
			fault.Field{Pointer: "/limit", Detail: fmt.Sprintf("Use 1 to %d.", redriveMost)})
	}
	if r.Limit == 0 {
		r.Limit = redriveUsual
	}
	return nil
}

// redrivable reads what fits the filter and was not given up, up to its limit; more: there
// is more.
func (s *Service) redrivable(ctx context.Context, r *RedriveRequest) (found []store.RedriveCandidate, more bool, err error) {
	filter := store.EffectFilter{
		Instance: r.Instance, Status: r.Status, Kind: r.Kind, Name: r.Name,
		Host: r.Host, Before: r.Before, Definition: r.Definition,
	}
	paging := store.Paging{}
	for len(found) < r.Limit {
		paging.Limit = min(500, r.Limit-len(found))
		page, err := s.store.RedriveCandidates(ctx, filter, paging)
		if err != nil {
			return nil, false, err
		}
		found = append(found, page.Items...)
		if page.Next == "" {
			return found, false, nil
		}
		paging.Cursor = page.Next
	}
	return found, true, nil
}

// redriveOne tries one effect again as it was found; one that somebody else has changed
// since is skipped. replayed: an earlier call with the key did it.
func (s *Service) redriveOne(ctx context.Context, c Caller, r *RedriveRequest, e *store.RedriveCandidate, idem Idempotency) (item RedriveItem, replayed bool, err error) {
	item = RedriveItem{Effect: EffectID(e.Instance, e.Effect), Outcome: outcomeSkipped}
	if err := retryable(e.Kind, e.Status); err != nil {
		item.Detail = fault.As(err).Message
		return item, false, nil
	}
	if r.DryRun {
		item.Outcome = outcomeWouldRetry
		return item, false, nil
	}
	if idem.Route != "" {
		idem.Route += " " + item.Effect
	}
	f, err := s.operate(ctx, c, e.Instance, r.Reason, idem, marshal(RedriveItem{Effect: item.Effect, Outcome: outcomeRetried}),
		func(ev *fsm.Event) { ev.Kind, ev.Effect = fsm.KindRetryEffect, &e.Effect }, onceFor(e.Instance, e.Effect, e.Attempts, e.DoneAt))
	switch {
	case fault.CodeOf(err) == fault.Conflict || fault.CodeOf(err) == fault.NotFound:
		item.Detail = fault.As(err).Message
		return item, false, nil
	case err != nil:
		return item, false, err
	case f.kept != nil && f.kept.Kind == store.ClaimEffect:
		item.Detail = fault.As(triedAgain()).Message
		return item, false, nil
	case f.kept != nil:
		item.Outcome, item.Detail = outcomeRetried, "An earlier call with this Idempotency-Key tried it again."
		return item, true, nil
	}
	item.Outcome = outcomeRetried
	return item, false, nil
}

func redriveDetail(r *RedriveRequest, res *RedriveResult) map[string]any {
	detail := map[string]any{"reason": r.Reason, "matched": res.Matched, "retried": res.Retried, "skipped": res.Skipped}
	statuses := make([]any, len(r.Status))
	for i, status := range r.Status {
		statuses[i] = string(status)
	}
	detail["status"] = statuses
	for name, value := range map[string]string{"definition": r.Definition, "name": r.Name, "kind": r.Kind, "host": r.Host} {
		if value != "" {
			detail[name] = value
		}
	}
	if r.Before != nil {
		detail["before"] = r.Before.UTC().Format(time.RFC3339Nano)
	}
	return detail
}

// inParallel runs f for 0…n-1, width at a time, and waits for all.
func inParallel(width, n int, f func(i int)) {
	next := make(chan int)
	done := make(chan struct{})
	workers := min(width, n)
	for range workers {
		go func() {
			for i := range next {
				f(i)
			}
			done <- struct{}{}
		}()
	}
	for i := range n {
		next <- i
	}
	close(next)
	for range workers {
		<-done
	}
}
