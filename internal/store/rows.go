package store

import (
	"errors"
	"time"

	"vobo/internal/fsm"
)

// The columns that the readers below take, in their order; the alias is the table's
// first letter.
const (
	instanceColumns = `i.id, i.definition, i.version, i.hash, i.state, i.wait, i.revision, i.status, i.instance_key,
		i.requester, i.started_by, i.labels, i.started_at, i.entered_at, i.last_event_at, i.finished_at, i.head_hash,
		i.attention_reasons, i.compensation, i.parent`
	assigneeColumns = `a.instance_id, a.seq, a.n, a.wait, a.task, a.kind, a.ref, a.lines, a.events, a.nonce, a.kid,
		a.jti_hash, a.digest, a.state, a.consumed, a.vote, a.stood, a.effect_seq, a.effect_n`
	taskColumns = `t.instance_id, t.seq, t.n, t.state, t.title, t.instructions, t.priority, t.status, t.facts, t.digest,
		t.owners, t.due_at, t.created_at, t.closed_at, t.claimed_by`
	deadlineColumns = `d.instance_id, d.seq, d.n, d.wait, d.rule, d.action, d.event, d.due_at, d.anchor, d.occurrence,
		d.failures, d.deferred`
	pastColumns = `h.instance_id, h.seq, h.kind, h.event, h.from_state, h.to_state, h.wait, h.actor, h.input, h.comment, h.at`
	// effectColumns end with the fence, which only the store needs.
	effectColumns = `e.instance_id, e.seq, e.n, e.name, e.kind, e.wait, e.status, e.result, e.input, e.undoes_seq, e.undoes_n,
		e.attempts, e.link_seq, e.link_n, e.given_up, e.fence`
	queuedColumns = `e.instance_id, e.seq, e.n, e.name, e.kind, e.wait, e.droppable, e.idempotent, e.reversible, e.priority,
		e.request, e.allowed, e.first_ms, e.max_ms, e.input, e.undoes_seq, e.undoes_n, e.link_seq, e.link_n`
)

func instanceFrom(c cells) (v fsm.Instance, err error) {
	v.ID, v.Definition, v.Version, v.Hash = c.id().text, c.text(), c.num(), c.text()
	v.State, v.Wait, v.Revision, v.Status, v.Key = c.text(), c.num(), c.num(), fsm.Status(c.text()), c.text()
	v.Requester, v.StartedBy = c.text(), c.text()
	labels := c.text()
	v.StartedAt, v.EnteredAt, v.LastEventAt, v.FinishedAt = c.when(), c.when(), c.when(), c.maybe()
	v.HeadHash = c.text()
	attention, compensation, parent := c.text(), c.text(), c.text()
	if err := c.failure(); err != nil {
		return v, err
	}
	if v.Labels, err = decodeTexts(labels); err != nil {
		return v, err
	}
	if compensation != "" {
		v.Compensation = &fsm.Compensation{}
	}
	if v.Parent, err = decodeParent(parent); err != nil {
		return v, err
	}
	return v, errors.Join(decodePlain(attention, &v.Attention), decodePlain(compensation, v.Compensation))
}

func assigneeFrom(c cells) (instance ident, v fsm.Assignee, err error) {
	instance, v.Seq, v.N, v.Wait, v.Task = c.id(), c.num(), c.num(), c.num(), c.num()
	v.Kind, v.Ref = fsm.AssigneeKind(c.text()), c.text()
	lines, events := c.text(), c.text()
	v.Nonce, v.Kid, v.JTIHash, v.Digest = c.blob(), c.text(), c.blob(), c.text()
	v.State, v.Consumed, v.Vote, v.Stood = fsm.LinkState(c.text()), c.num(), c.num(), c.flag()
	v.Effect = fsm.EffectID{Seq: c.num(), N: c.num()}
	if err := c.failure(); err != nil {
		return instance, v, err
	}
	if v.Lines, err = decodeList(lines); err != nil {
		return instance, v, err
	}
	v.Events, err = decodeList(events)
	return instance, v, err
}

func taskFrom(c cells) (instance ident, v fsm.Task, err error) {
	instance, v.Seq, v.N, v.State = c.id(), c.num(), c.num(), c.text()
	title, instructions := c.text(), c.text()
	v.Priority, v.Status = c.text(), c.text()
	facts := c.text()
	v.Digest = c.text()
	owners := c.text()
	v.DueAt, v.CreatedAt, v.ClosedAt, v.ClaimedBy = c.maybe(), c.when(), c.maybe(), c.text()
	if err := c.failure(); err != nil {
		return instance, v, err
	}
	if v.Title, err = decodeTexts(title); err != nil {
		return instance, v, err
	}
	if v.Instructions, err = decodeTexts(instructions); err != nil {
		return instance, v, err
	}
	if v.Owners, err = decodeList(owners); err != nil {
		return instance, v, err
	}
	return instance, v, decodeValue(facts, &v.Facts)
}

func deadlineFrom(c cells) (instance ident, v fsm.DeadlineRow, err error) {
	instance, v.Seq, v.N, v.Wait = c.id(), c.num(), c.num(), c.num()
	v.Rule, v.Action, v.Event = c.text(), c.text(), c.text()
	v.DueAt, v.Anchor, v.Occurrence, v.Failures, v.Deferred = c.when(), c.when(), c.num(), c.num(), c.flag()
	return instance, v, c.failure()
}

func pastFrom(c cells) (instance ident, v fsm.Past, err error) {
	instance, v.Seq, v.Kind, v.Event = c.id(), c.num(), fsm.TransitionKind(c.text()), c.text()
	v.From, v.To, v.Wait = c.text(), c.text(), c.num()
	actor, input := c.text(), c.text()
	v.Comment, v.At = c.text(), c.when()
	if err := c.failure(); err != nil {
		return instance, v, err
	}
	if v.Input, err = decodeTree(input); err != nil {
		return instance, v, err
	}
	return instance, v, decodePlain(actor, &v.Actor)
}

func effectFrom(c cells) (instance ident, v fsm.EffectRow, fence int64, err error) {
	instance, v.Seq, v.N, v.Name, v.Kind = c.id(), c.num(), c.num(), c.text(), c.text()
	v.Wait, v.Status = c.num(), fsm.EffectStatus(c.text())
	result, input := c.text(), c.text()
	v.Undoes = fsm.EffectID{Seq: c.num(), N: c.num()}
	v.Attempts, v.Link = c.num(), fsm.EffectID{Seq: c.num(), N: c.num()}
	v.GivenUp, fence = c.flag(), c.long()
	if err := c.failure(); err != nil {
		return instance, v, fence, err
	}
	if v.Result, err = decodeTree(result); err != nil {
		return instance, v, fence, err
	}
	v.Input, err = decodeTree(input)
	return instance, v, fence, err
}

// queuedFrom reads queuedColumns; the input stays text.
func queuedFrom(c cells) (instance ident, v fsm.QueuedEffect, input string) {
	instance, v.Seq, v.N, v.Name, v.Kind, v.Wait = c.id(), c.num(), c.num(), c.text(), c.text(), c.num()
	v.Droppable, v.Idempotent, v.Reversible, v.Priority = c.flag(), c.flag(), c.flag(), c.num()
	v.Request, v.Attempts = []byte(c.text()), c.num()
	v.First, v.Max = time.Duration(c.long())*time.Millisecond, time.Duration(c.long())*time.Millisecond
	input = c.text()
	v.Undoes = fsm.EffectID{Seq: c.num(), N: c.num()}
	v.Link = fsm.EffectID{Seq: c.num(), N: c.num()}
	return instance, v, input
}
