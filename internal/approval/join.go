package approval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"vobo/internal/deliver"
	"vobo/internal/fsm"
	"vobo/internal/store"
)

const (
	joinAgain     = 5 * time.Second  // until an effect that failed is looked at again; doubling
	joinAgainMost = 10 * time.Minute // the longest pause
	joinsKept     = 1_024            // effects whose terms are remembered
	joinsPast     = 10_000           // completions of pausing effects that one look reads past
)

// joinTerms are what a start effect waits for.
type joinTerms struct {
	all   bool
	need  int // at least 1
	items int
}

// joins is what this process remembers of start effects that wait for their children.
type joins struct {
	mu     sync.Mutex
	terms  map[store.StartEffect]joinTerms // a frozen list never changes, and may be long
	paused map[store.StartEffect]joinPause // whose look failed here
}

type joinPause struct {
	until time.Time
	tries int
}

func newJoins() *joins {
	return &joins{terms: map[store.StartEffect]joinTerms{}, paused: map[store.StartEffect]joinPause{}}
}

// known are the terms of a start effect, if its request was read here not long ago.
func (j *joins) known(of store.StartEffect) (terms joinTerms, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	terms, ok = j.terms[of]
	return terms, ok
}

// learn reads the terms of a start effect in its request.
func (j *joins) learn(of store.StartEffect, request json.RawMessage) (joinTerms, error) {
	f, err := thaw(request)
	if err == nil && f.Start == nil {
		err = errors.New("the request starts no children")
	}
	if err != nil {
		return joinTerms{}, err
	}
	terms := joinTerms{all: f.Start.All, need: max(f.Start.Need, 1), items: len(f.Start.Items)}
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.terms) >= joinsKept {
		clear(j.terms)
	}
	j.terms[of] = terms
	return terms, nil
}

// forget drops the terms of an effect that has ended.
func (j *joins) forget(of store.StartEffect) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.terms, of)
}

// failed makes an effect pause, each time for longer.
func (j *joins) failed(of store.StartEffect, now time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	tries := j.paused[of].tries
	j.paused[of] = joinPause{now.Add(min(joinAgainMost, joinAgain<<min(tries, 10))), tries + 1}
}

// worked ends an effect's pauses.
func (j *joins) worked(of store.StartEffect) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.paused, of)
}

func (j *joins) pausing(of store.StartEffect, now time.Time) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	p, failed := j.paused[of]
	return failed && now.Before(p.until)
}

// past is how many completions may stand at the head that are not to be looked at yet.
func (j *joins) past() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return min(len(j.paused), joinsPast)
}

// keep forgets the pauses of effects of which nothing is left to look at.
func (j *joins) keep(there map[store.StartEffect][]store.Completion) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for of := range j.paused {
		if _, is := there[of]; !is {
			delete(j.paused, of)
		}
	}
}

// JoinOnce looks at completions of children: where they decide what their parent waits
// for, the parent gets its one event. It returns how many completions are done with.
// Any number of replicas may look at the same: the fence of the parked effect lets one
// of them count. An effect that fails is logged, keeps one completion to be looked at
// after a growing pause, and holds up no other.
func (s *Service) JoinOnce(ctx context.Context, limit int) (int, error) {
	wanted := limit + s.joins.past()
	found, err := s.store.Completions(ctx, wanted)
	if err != nil {
		return 0, err
	}
	byEffect, order := map[store.StartEffect][]store.Completion{}, []store.StartEffect{}
	for _, c := range found {
		if byEffect[c.StartEffect] == nil {
			order = append(order, c.StartEffect)
		}
		byEffect[c.StartEffect] = append(byEffect[c.StartEffect], c)
	}
	if len(found) < wanted { // all there is
		s.joins.keep(byEffect)
	}
	looked := 0
	for _, of := range order {
		n, err := s.joinAndNote(ctx, of, byEffect[of])
		if looked += n; err != nil {
			return looked, err
		}
	}
	return looked, nil
}

// joinAndNote looks before it notes, so that a crash between the two looks again. An
// effect that is parked meanwhile makes a completion news again. noted is how many
// completions are done with; an error is that of noting them.
func (s *Service) joinAndNote(ctx context.Context, of store.StartEffect, completions []store.Completion) (noted int, err error) {
	now := s.mono()
	if s.joins.pausing(of, now) {
		return s.noteButOne(ctx, completions)
	}
	if err := s.joinChildren(ctx, of); err != nil {
		if ctx.Err() != nil {
			return 0, err
		}
		s.log.Error("the children of a start effect could not be joined; it is looked at again",
			"effect", effectKey(of.Parent, of.EffectID), "error", err)
		s.joins.failed(of, now)
		return s.noteButOne(ctx, completions)
	}
	s.joins.worked(of)
	return len(completions), s.store.NoteCompletions(ctx, completions)
}

// noteButOne leaves of an effect's completions the one of the last child to be looked at
// again: however many an effect that fails has, one stands in the way of others. All
// replicas leave the last, so that they do not note each other's.
func (s *Service) noteButOne(ctx context.Context, completions []store.Completion) (noted int, err error) {
	last := 0
	for i := range completions {
		if completions[i].Index > completions[last].Index {
			last = i
		}
	}
	rest := append(completions[:last:last], completions[last+1:]...)
	if len(rest) == 0 {
		return 0, nil
	}
	return len(rest), s.store.NoteCompletions(ctx, rest)
}

// joinChildren ends a start effect if it is parked and its children decide it.
func (s *Service) joinChildren(ctx context.Context, of store.StartEffect) error {
	e, err := s.store.ParkedEffect(ctx, of)
	if err != nil || e == nil {
		return err
	}
	terms, known := s.joins.known(of)
	if !known {
		if terms, err = s.joins.learn(of, e.Request); err != nil {
			return s.endParked(ctx, e, dead("The list of children cannot be read."))
		}
	}
	rep, err := s.joined(ctx, of, terms)
	if err != nil || rep == nil {
		return err
	}
	// Who parked it may have looked before the parent went on: then what became of the
	// children is nobody's concern.
	stands, err := s.stands(ctx, e, false)
	if err != nil {
		return err
	}
	if !stands {
		*rep = goneOn()
	}
	return s.endParked(ctx, e, *rep)
}

// joined says how a start effect ends; nil while its children have not decided it.
func (s *Service) joined(ctx context.Context, of store.StartEffect, terms joinTerms) (*report, error) {
	count, err := s.store.JoinOf(ctx, of, terms.need)
	if err != nil {
		return nil, err
	}
	var rep report
	switch {
	case terms.all && count.Bad > 0:
		rep = dead("Not all of the %d ended well.", terms.items)
	case !terms.all && count.Well < terms.need && count.Well+count.Open < terms.need:
		rep = dead("Fewer than %d of the %d can still end well.", terms.need, terms.items)
	case terms.all && count.Open > 0, !terms.all && count.Well < terms.need:
		return nil, nil //nolint:nilnil // not decided yet
	default:
		var which []string
		if !terms.all {
			which = []string{store.ChildEnded}
		}
		children, err := s.store.ChildResults(ctx, of, which...)
		if tooLarge(err) {
			rep = childrenTooLarge(err)
			break
		}
		if err != nil {
			return nil, err
		}
		trees := childTrees(children)
		rep = succeeded(trees, "%d of %d ended well.", len(trees), terms.items)
	}
	return &rep, nil
}

// endParked gives the parent its one event, or ends an effect that nobody needs any more
// without one. A conflict means that somebody else did.
func (s *Service) endParked(ctx context.Context, e *store.ClaimedEffect, rep report) error {
	r := fsm.ResultEvent{
		Effect: e.EffectID, Fence: e.Fence, Attempt: e.Attempt,
		Outcome: string(rep.Class), Detail: rep.Detail, Result: rep.result, Status: fsm.EffectSucceeded,
	}
	switch {
	case rep.gone:
		r.Status = fsm.EffectCancelled
	case rep.Class != deliver.Success:
		r.Status = fsm.EffectDead
	}
	end := s.hear
	if rep.gone {
		end = s.finish
	}
	if err := end(ctx, e, r); err != nil {
		return fmt.Errorf("the end of start effect %s: %w", e.Key, err)
	}
	s.joins.forget(store.StartEffect{Parent: e.Instance, EffectID: e.EffectID})
	if !rep.gone {
		s.metrics.outcome(e.Kind, rep.Outcome)
	}
	return nil
}
