package fsm

import (
	"encoding/json"
	"time"

	"vobo/internal/definitions"
)

// Kinds of effects as they stand in their rows.
const (
	kindEmail    = string(definitions.EffectEmail)
	kindStart    = string(definitions.EffectStart)
	kindStop     = "stop"
	kindManual   = "manual"
	kindTaskMail = "task-mail"
	kindNotice   = "notice-mail"
)

// What effects of the engine's own may cost: as an effect without `retry`.
const (
	mailAttempts = 24
	mailFirst    = 5 * time.Second
	mailMax      = 6 * time.Hour
)

// queue freezes effects by name, in order.
func (p *planner) queue(names []string) error {
	for _, name := range names {
		effect := p.def.Effect(name)
		if effect == nil {
			return broken("definition %s has no effect %q", p.def.Name, name)
		}
		if effect.When != nil {
			holds, err := effect.When.Bool(p.present())
			if err != nil {
				return err
			}
			if !holds {
				continue
			}
		}
		if _, err := p.freeze(effect, p.present(), EffectID{}); err != nil {
			return err
		}
	}
	return nil
}

// freeze evaluates an effect's request and queues it; of a mail one effect for each
// recipient. It returns the id of the first.
func (p *planner) freeze(effect *definitions.Effect, env *definitions.Env, undoes EffectID) (EffectID, error) {
	switch effect.Kind {
	case definitions.EffectWebhook:
		return p.freezeWebhook(effect, env, undoes)
	case definitions.EffectEmail:
		return p.freezeEmail(effect, env, undoes)
	case definitions.EffectStart:
		return p.freezeStart(effect, env, undoes)
	case definitions.EffectEvent:
		return p.freezeRaise(effect, env, undoes)
	}
	return EffectID{}, broken("effect %s is of the unknown kind %q", effect.Name, effect.Kind)
}

// enqueue numbers and keeps an effect.
func (p *planner) enqueue(q QueuedEffect, request *Frozen) (EffectID, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return EffectID{}, broken("freezing %s: %v", q.Name, err)
	}
	p.effectN++
	q.EffectID = EffectID{Seq: p.seq, N: p.effectN}
	q.Wait, q.Request, q.Input = p.inst.Wait, body, p.ev.Input
	q.Link = request.Assignee
	if request.Callback != (EffectID{}) {
		q.Link = request.Callback
	}
	p.step.Effects = append(p.step.Effects, q)
	return q.EffectID, nil
}

func queued(effect *definitions.Effect, undoes EffectID) QueuedEffect {
	return QueuedEffect{
		Name: effect.Name, Kind: string(effect.Kind), Droppable: effect.Callback != nil && undoes == EffectID{},
		Idempotent: effect.Idempotent, Reversible: effect.Reversible, Priority: 5,
		Attempts: effect.Retry.Attempts, First: effect.Retry.First, Max: effect.Retry.Max, Undoes: undoes,
	}
}

func (p *planner) freezeWebhook(effect *definitions.Effect, env *definitions.Env, undoes EffectID) (EffectID, error) {
	w := effect.Webhook
	frozen := Frozen{Webhook: &FrozenWebhook{Method: w.Method, Credentials: w.Credentials}}
	if effect.Callback != nil && p.inst.Status == Running {
		env = p.withCallback(effect.Callback, env)
		frozen.Callback = p.callbackRow(effect.Callback)
	}
	var err error
	if frozen.Webhook.URL, err = w.URL.String(env, definitions.EscapeURL); err != nil {
		return EffectID{}, err
	}
	for _, h := range w.Headers {
		value, err := h.Value.String(env, definitions.EscapeHeader)
		if err != nil {
			return EffectID{}, err
		}
		frozen.Webhook.Headers = append(frozen.Webhook.Headers, [2]string{h.Name, value})
	}
	if w.Body != nil {
		frozen.Webhook.HasBody = true
		if frozen.Webhook.Body, err = w.Body.Eval(env); err != nil {
			return EffectID{}, err
		}
	}
	return p.enqueue(queued(effect, undoes), &frozen)
}

func (p *planner) withCallback(c *definitions.Callback, env *definitions.Env) *definitions.Env {
	with := *env
	with.Callback.URL = MarkerCallbackURL
	with.Callback.URLs = make(map[string]string, len(c.Events))
	for _, event := range c.Events {
		with.Callback.URLs[event] = MarkerCallbackEvent(event)
	}
	return &with
}

// callbackRow makes the one-time token of a system for the wait now open. Its effect
// is the next to be queued.
func (p *planner) callbackRow(c *definitions.Callback) EffectID {
	a := Assignee{Kind: AssigneeCallback, Ref: "system:" + c.As, Events: c.Events, Effect: EffectID{Seq: p.seq, N: p.effectN + 1}}
	if c.Verify != "" {
		a.Lines = []string{verifyPrefix + c.Verify}
	}
	row := p.newRow(a)
	return EffectID{Seq: row.Seq, N: row.N}
}
