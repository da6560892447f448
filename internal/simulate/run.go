package simulate

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/sosodev/duration"

	"vobo/internal/fsm"
)

// Run runs one scenario file on the real Plan and prints its timeline. The error
// says why the scenario fails: which expectation does not hold and on which line,
// what the definition uses that is not supported yet, or what is wrong in the file.
func Run(file string, out io.Writer) error {
	s, err := readScenario(file)
	if err != nil {
		return err
	}
	w, err := s.world(file)
	if err != nil {
		return err
	}
	r := &runner{World: w, out: out}
	if err := r.start(&s.Start); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	var failed []error
	for i := range s.Steps {
		st := &s.Steps[i]
		if err := r.step(&st.step); err != nil {
			failed = append(failed, fmt.Errorf("%s:%d: %w", file, st.line, err))
		}
	}
	if len(failed) > 0 {
		return errors.Join(failed...)
	}
	r.print("ok")
	return r.broken
}

type runner struct {
	*World
	out     io.Writer
	now     time.Time
	started bool
	broken  error // the output could not be written
	since   struct{ history, effects, assignees int }
	mails   int // delivered since the last expectation
}

func (r *runner) print(format string, args ...any) {
	stamp := r.now.In(r.Zone).Format("2006-01-02 15:04:05 -07:00")
	if _, err := fmt.Fprintf(r.out, "%s  %s\n", stamp, fmt.Sprintf(format, args...)); err != nil {
		r.broken = err
	}
}

func (r *runner) start(s *startStep) error {
	at, err := moment(s.At, r.Zone)
	if err != nil {
		return err
	}
	r.now = at
	data, err := object(&s.Data, "start.data")
	if err != nil {
		return err
	}
	if data == nil {
		data = map[string]any{}
	}
	actor := r.Person(s.Requester)
	step := r.Fire(&fsm.Event{
		Kind: fsm.KindStart, Instance: "simulated", Actor: actor, Assurance: fsm.BySession,
		Start: &fsm.StartEvent{Data: data, Requester: s.Requester},
	}, nil, r.now)
	r.started = step.Refusal == nil
	return r.answer("start by "+s.Requester, s.Refused, step)
}

// answer prints what an event came to; a refusal must be the one expected.
func (r *runner) answer(what, refused string, step fsm.Step) error {
	switch {
	case step.Refusal != nil:
		r.print("%s: refused, %s: %s", what, step.Refusal.Code, step.Refusal.Message)
		if string(step.Refusal.Code) == refused {
			return nil
		}
		for _, f := range step.Refusal.Fields {
			r.print("    %s: %s", f.Pointer, f.Detail)
		}
		return fmt.Errorf("%s is refused: %w", what, step.Refusal)
	case step.Replay > 0:
		r.print("%s: recorded already (%d)", what, step.Replay)
	case step.Transition.Seq > 0:
		r.print("%s: %s", what, r.became(&step.Transition))
	}
	if refused != "" {
		return fmt.Errorf("%s is accepted, but should be refused with %s", what, refused)
	}
	return nil
}

func (r *runner) became(t *fsm.Transition) string {
	var parts []string
	switch {
	case t.To != "" && len(t.Via) > 0:
		parts = append(parts, "→ "+strings.Join(t.Via, " → ")+" → "+t.To)
	case t.To != "":
		parts = append(parts, "→ "+t.To)
	default:
		parts = append(parts, string(t.Kind)+" in "+t.From)
	}
	if t.Pending != nil {
		parts = append(parts, fmt.Sprintf("%d of %d votes", t.Pending.Have, t.Pending.Need))
	}
	if t.Reason != "" {
		parts = append(parts, t.Reason)
	}
	for _, e := range r.Effects {
		if e.Seq == t.Seq && r.named(&e) {
			parts = append(parts, "effect "+e.Name)
		}
	}
	return strings.Join(parts, ", ")
}

func (r *runner) step(s *step) error {
	if !r.started {
		return errors.New("the instance has not been started")
	}
	if err := r.clock(s); err != nil {
		return err
	}
	switch {
	case s.Event != "":
		return r.event(s)
	case s.Effect != "":
		return r.effect(s)
	case s.Cancel != "":
		return r.answer("cancel", s.Refused, r.Fire(&fsm.Event{Kind: fsm.KindCancel, Actor: r.Person(s.By), Reason: s.Cancel}, nil, r.now))
	case s.Expect != nil:
		r.deliver()
		return r.expect(s.Expect)
	case s.At == "" && s.After == "":
		return errors.New("a step is `at` or `after`, `event`, `effect`, `cancel` or `expect`")
	}
	return nil
}

// clock lets time pass to a step's own time; what is due on the way happens at its
// own time.
func (r *runner) clock(s *step) error {
	if s.At == "" && s.After == "" {
		return nil
	}
	to := r.now
	if s.At != "" {
		at, err := moment(s.At, r.Zone)
		if err != nil {
			return err
		}
		to = at
	} else {
		d, err := duration.Parse(s.After)
		if err != nil {
			return fmt.Errorf("after: %q is not a duration", s.After)
		}
		local := to.In(r.Zone).AddDate(int(d.Years), int(d.Months), int(d.Weeks)*7+int(d.Days))
		to = local.Add(time.Duration((d.Hours*3600 + d.Minutes*60 + d.Seconds) * float64(time.Second)))
	}
	if to.Before(r.now) {
		return fmt.Errorf("%s is before the step above it", s.At)
	}
	for d := r.Next(); d != nil && !d.DueAt.After(to); d = r.Next() {
		if d.DueAt.After(r.now) {
			r.deliver()
			r.now = d.DueAt
		}
		rule := "deadline " + d.Rule
		if err := r.answer(rule, "", r.Fire(Due(d), nil, r.now)); err != nil {
			return err
		}
	}
	if to.After(r.now) {
		r.deliver()
		r.now = to
	}
	return nil
}

// named tells whether a scenario speaks of the effect: one of the definition, or work
// that a person does by hand. The rest is the engine's own.
func (w *World) named(e *Effect) bool {
	return w.Definition.Effect(e.Name) != nil || e.Frozen.Manual != nil
}

// deliver sends every waiting mail: all arrive but those that cannot be sent. Children
// that are stopped stop. What happens elsewhere (webhooks, children, events of other
// instances) waits for the outcome that the scenario gives.
func (r *runner) deliver() {
	for i := range r.Effects {
		e := &r.Effects[i]
		if e.Status != fsm.EffectWaiting {
			continue
		}
		switch f := &e.Frozen; {
		case f.Stop != nil:
			e.Status = fsm.EffectSucceeded
		case f.Email != nil && f.Email.Problem != "":
			r.mailed(e, fsm.EffectDead, f.Email.Problem)
		case f.Email != nil || f.TaskMail != nil:
			r.mails++
			r.mailed(e, fsm.EffectSucceeded, "")
		}
	}
}

// mailed records what became of a mail. One of the engine's own that arrived means
// nothing to the instance.
func (r *runner) mailed(e *Effect, status fsm.EffectStatus, detail string) {
	if status == fsm.EffectSucceeded && r.Definition.Effect(e.Name) == nil {
		e.Status = status
		return
	}
	ev := &fsm.Event{Kind: fsm.KindEffectResult, Result: &fsm.ResultEvent{Effect: e.EffectID, Status: status, Detail: detail}}
	name := e.Name
	if step := r.Fire(ev, nil, r.now); step.Transition.Seq > 0 {
		r.print("mail %s: %s", name, r.became(&step.Transition))
	}
}

func (r *runner) event(s *step) error {
	input, err := tree(&s.Input)
	if err != nil {
		return err
	}
	documents, err := object(&s.Documents, "documents")
	if err != nil {
		return err
	}
	actor := r.Person(s.By)
	ev := &fsm.Event{Kind: fsm.KindRaise, Actor: actor, Assurance: fsm.BySession, Name: s.Event, Input: input, Comment: s.Comment, Documents: documents}
	if actor.Kind == fsm.ActorSystem {
		ev.Assurance = fsm.ByKey
	}
	return r.answer(s.Event+" by "+s.By, s.Refused, r.Fire(ev, nil, r.now))
}

// effect gives the outcome of an effect that waits; of one that is unknown, dead or done
// by hand it is what a person found out.
func (r *runner) effect(s *step) error {
	e, resolved := r.open(s.Effect)
	if e == nil {
		return fmt.Errorf("no effect %s is waiting", s.Effect)
	}
	result := &fsm.ResultEvent{Effect: e.EffectID, Status: fsm.EffectSucceeded, Resolved: resolved}
	switch {
	case s.Fails != "":
		result.Status, result.Detail = fsm.EffectDead, s.Fails
	case s.Unknown != "" && resolved:
		return fmt.Errorf("the effect %s is %s already: say succeeds or fails", s.Effect, e.Status)
	case s.Unknown != "":
		result.Status, result.Detail = fsm.EffectUnknown, s.Unknown
	default:
		answer, err := tree(&s.Succeeds)
		if err != nil {
			return err
		}
		result.Result = answer
	}
	ev := &fsm.Event{Kind: fsm.KindEffectResult, Result: result}
	if resolved {
		ev.Actor, ev.Reason = r.operator(s.By), s.Fails
	}
	return r.answer("effect "+s.Effect+" "+string(result.Status), s.Refused, r.Fire(ev, nil, r.now))
}

// open finds the effect of a step: one that waits, else one that a person resolves.
func (r *runner) open(name string) (e *Effect, resolved bool) {
	for _, status := range []fsm.EffectStatus{fsm.EffectWaiting, fsm.EffectUnknown, fsm.EffectDead} {
		at := slices.IndexFunc(r.Effects, func(e Effect) bool { return e.Name == name && e.Status == status })
		if at >= 0 {
			return &r.Effects[at], status != fsm.EffectWaiting
		}
	}
	return nil, false
}

// operator is who resolves an effect: the person named, else somebody of that role.
func (r *runner) operator(id string) fsm.Actor {
	if id != "" {
		return r.Person(id)
	}
	return fsm.Actor{Kind: fsm.ActorPerson, ID: "operator", Roles: []string{"operator"}}
}

// moment reads RFC 3339, or a local time or date in the zone.
func moment(text string, zone *time.Location) (time.Time, error) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02T15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, text, zone); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is not a time such as 2026-12-04T10:00:00+01:00", text)
}
