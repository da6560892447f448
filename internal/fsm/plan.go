package fsm

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"vobo/internal/definitions"
	"vobo/internal/fault"
)

// Refusal is a refused event: nothing is written but, perhaps, an audit line.
type Refusal = fault.Error

// Plan decides one event at one instant. It is pure and never panics: an invariant
// that does not hold is a Refusal of code internal whose cause says which, and the
// caller quarantines the instance.
func Plan(snap *Snapshot, ev *Event, now time.Time) (step Step) {
	defer func() {
		if r := recover(); r != nil {
			step = Step{Refusal: fault.Wrap(fmt.Errorf("plan panicked: %v\n%s", r, debug.Stack()), fault.Internal,
				"The service failed on this instance; its operators have been told.")}
		}
	}()
	if snap.Definition == nil {
		return refused(broken("the snapshot has no definition"))
	}
	p := newPlanner(snap, ev, now)
	if err := p.plan(); err != nil {
		return refused(err)
	}
	return p.step
}

func refused(err error) Step { return Step{Refusal: fault.As(err)} }

// broken is an invariant that does not hold: never caused by what a caller sends.
func broken(format string, args ...any) error {
	return fault.Wrap(fmt.Errorf(format, args...), fault.Internal,
		"The service failed on this instance; its operators have been told.")
}

// errReplay ends planning with Step.Replay set.
var errReplay = errors.New("replay")

func (p *planner) plan() error {
	err := p.dispatch()
	if errors.Is(err, errReplay) {
		p.step = Step{Replay: p.step.Replay}
		return nil
	}
	return err
}

func (p *planner) dispatch() error {
	switch p.ev.Kind {
	case KindStart:
		return p.start()
	case KindRaise:
		return p.raise()
	case KindDeadline:
		return p.deadline()
	case KindEffectResult:
		return p.result()
	case KindCancel:
		return p.cancel()
	case KindRetryEffect:
		return p.retryEffect()
	case KindRaiseAgain:
		return p.raiseAgain()
	case KindQuarantine:
		return p.quarantine()
	}
	return broken("unknown kind of event %q", p.ev.Kind)
}

// EffectNeed is the answer of NeedsEffects.
type EffectNeed int

// The needs.
const (
	NeedNone EffectNeed = iota
	NeedOne
	NeedAll
)

// NeedsEffects tells which effects' rows the store must load for this event: none,
// the one of a result or retry, or all of the instance (cancel; a compensation was
// asked for; events that may compensate; a task mail that may be the last to fail).
func NeedsEffects(snap *Snapshot, ev *Event) EffectNeed {
	switch ev.Kind {
	case KindStart:
		return NeedNone
	case KindCancel:
		return NeedAll
	case KindEffectResult, KindRetryEffect:
		if snap.Instance.Compensation != nil || mayCompensate(snap, "") || needsMails(snap, ev.Result) {
			return NeedAll
		}
		return NeedOne
	case KindRaise:
		if mayCompensate(snap, ev.Name) {
			return NeedAll
		}
	case KindDeadline, KindRaiseAgain:
		if mayCompensate(snap, "") {
			return NeedAll
		}
	}
	return NeedNone
}

// needsMails tells whether a dead effect may be a mail about the present task whose
// failing depends on those of the others.
func needsMails(snap *Snapshot, r *ResultEvent) bool {
	state := snap.Definition.State(snap.Instance.State)
	if r == nil || r.Status != EffectDead || state == nil {
		return false
	}
	return slices.ContainsFunc(state.Tasks, func(t *definitions.Task) bool { return t.OnUndeliverable != "" })
}

// mayCompensate tells whether the event ("" : any) may compensate in the present wait.
func mayCompensate(snap *Snapshot, event string) bool {
	state := snap.Definition.State(snap.Instance.State)
	if state == nil || snap.Instance.Status != Running {
		return false
	}
	for _, e := range state.Events {
		if event != "" && e.Name != event {
			continue
		}
		for _, arm := range e.Arms {
			if arm.Compensate {
				return true
			}
		}
	}
	return false
}

// move is what an event does: an arm already chosen, and what goes with it.
type move struct {
	kind       TransitionKind
	event      string
	set        []definitions.Assign
	unset      []definitions.Path
	documents  []definitions.DocumentRule
	edit       []definitions.Path
	effects    []string
	to         string // "" : stays
	compensate bool
	by         closing
}

// closing tells how tasks of a left wait end.
type closing string

const (
	closeDone      closing = "done"
	closeExpired   closing = "expired"
	closeCancelled closing = "cancelled"
)
