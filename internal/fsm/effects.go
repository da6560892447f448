package fsm

import (
	"encoding/json"
	"strings"
	"time"

	"vobo/internal/definitions"
	"vobo/internal/fault"
)

// What mails of the engine's own may cost: as an effect without `retry`.
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
	}
	return EffectID{}, fault.New(fault.Conflict, "The effect %s is of kind %s, which is not supported yet.", effect.Name, effect.Kind)
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
	row := p.newRow(Assignee{Kind: AssigneeCallback, Ref: "system:" + c.As, Events: c.Events, Effect: EffectID{Seq: p.seq, N: p.effectN + 1}})
	return EffectID{Seq: row.Seq, N: row.N}
}

func (p *planner) freezeEmail(effect *definitions.Effect, env *definitions.Env, undoes EffectID) (EffectID, error) {
	to, err := p.recipients(effect.Email.To, env)
	if err != nil {
		return EffectID{}, err
	}
	cc, err := p.recipients(effect.Email.Cc, env)
	if err != nil {
		return EffectID{}, err
	}
	var first EffectID
	for i, r := range to {
		mail := FrozenEmail{To: r.address, ToName: r.name}
		if i == 0 {
			for _, c := range cc {
				mail.Cc = append(mail.Cc, c.address)
			}
		}
		if mail.Subject, err = effect.Email.Subject.In(r.locale, env); err != nil {
			return EffectID{}, err
		}
		if mail.Body, err = effect.Email.Body.In(r.locale, env); err != nil {
			return EffectID{}, err
		}
		id, err := p.enqueue(queued(effect, undoes), &Frozen{Email: &mail})
		if err != nil {
			return EffectID{}, err
		}
		if i == 0 {
			first = id
		}
	}
	if len(to) == 0 {
		return p.enqueue(queued(effect, undoes), &Frozen{Email: &FrozenEmail{Problem: "Nobody with a mail address is meant by " + texts(effect.Email.To) + "."}})
	}
	return first, nil
}

func texts(principals []definitions.Principal) string {
	list := make([]string, len(principals))
	for i, principal := range principals {
		list[i] = principal.Text
	}
	return strings.Join(list, ", ")
}

type recipient struct{ address, name, locale string }

// recipients gives the distinct addresses of those who are meant.
func (p *planner) recipients(principals []definitions.Principal, env *definitions.Env) ([]recipient, error) {
	var all []recipient
	seen := map[string]bool{}
	people, err := p.expandAll(principals, env)
	if err != nil {
		return nil, err
	}
	for _, n := range people {
		to, ok := address(n.person)
		if key := strings.ToLower(to); ok && !seen[key] {
			seen[key] = true
			all = append(all, recipient{address: to, name: n.person.Name, locale: n.person.Locale})
		}
	}
	return all, nil
}

// mailNewTasks mails those whom this step made assignees.
func (p *planner) mailNewTasks(kind string) error {
	for i := range p.step.Assignees {
		a := &p.step.Assignees[i]
		if len(a.Events) == 0 || a.Stood || a.Kind == AssigneeCallback {
			continue
		}
		if err := p.mailTask(a, kind, 0, 0); err != nil {
			return err
		}
	}
	return nil
}

// mailTask mails somebody about the open wait, with the row's link where it has one.
// Systems get no mail.
func (p *planner) mailTask(a *Assignee, kind string, k, n int) error {
	if a.Kind != AssigneePerson && a.Kind != AssigneeOutside {
		return nil
	}
	who := p.single(idOf(a.Ref))
	if len(who) == 0 {
		return nil
	}
	person := who[0].person
	to, ok := address(person)
	if !ok {
		return nil
	}
	s, err := p.render()
	if err != nil {
		return err
	}
	process, err := p.def.Title.In(person.Locale, p.entered())
	if err != nil {
		return err
	}
	if process == "" {
		process = p.def.Name
	}
	mail := &FrozenTaskMail{
		Kind: kind, To: to, ToName: person.Name, Locale: person.Locale, Timezone: person.Timezone,
		Requester: nameOf(p.snap.Directory, p.inst.Requester), Process: process,
		Title: inLocale(s.title, person.Locale), Instructions: inLocale(s.instructions, person.Locale), Facts: s.facts,
		Since: p.inst.EnteredAt, DueAt: p.fatalAt(), ReminderK: k, ReminderN: n, Why: a.Lines, Others: p.others(a.Ref),
	}
	frozen := Frozen{TaskMail: mail}
	if a.State == LinkLive {
		frozen.Assignee = EffectID{Seq: a.Seq, N: a.N}
	} else {
		mail.OnlyInbox = true
	}
	if kind == "changed" {
		mail.Comment = p.ev.Comment
	}
	q := QueuedEffect{Name: kind, Kind: "task-mail", Droppable: true, Idempotent: true, Attempts: mailAttempts, First: mailFirst, Max: mailMax}
	if kind == "told" {
		q.Kind, q.Priority = "notice-mail", 5
	}
	_, err = p.enqueue(q, &frozen)
	return err
}

// others names who else was asked, at most linkBudget of them.
func (p *planner) others(ref string) []string {
	var names []string
	seen := map[string]bool{ref: true}
	for i := range p.rows {
		r := &p.rows[i]
		if r.Kind == AssigneeCallback || r.Stood || seen[r.Ref] || len(r.Events) == 0 || len(names) >= linkBudget {
			continue
		}
		seen[r.Ref] = true
		names = append(names, nameOf(p.snap.Directory, idOf(r.Ref)))
	}
	return names
}
