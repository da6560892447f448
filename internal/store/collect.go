package store

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"sort"
	"strings"
	"time"

	"vobo/internal/definitions"
	"vobo/internal/fsm"
)

// writes are the rows of a batch, by statement.
type writes struct {
	arrays bool
	sinks  []string // of the event feed
	sets   map[*multirow]*rowset
}

func (w *writes) of(m *multirow) *rowset {
	set := w.sets[m]
	if set == nil {
		set = newRowset(m, w.arrays)
		w.sets[m] = set
	}
	return set.row()
}

func newWrites(arrays bool) *writes {
	return &writes{arrays: arrays, sets: map[*multirow]*rowset{}}
}

// reset forgets the rows and keeps the buffers, for the next batch.
func (w *writes) reset() {
	for _, set := range w.sets {
		set.reset()
	}
}

// ordered are the rowsets that have rows, in the order in which they must run.
func (w *writes) ordered(order []*multirow) []*rowset {
	sets := make([]*rowset, 0, len(w.sets))
	for _, m := range order {
		if set := w.sets[m]; set != nil && set.rows > 0 {
			sets = append(sets, set)
		}
	}
	return sets
}

// step turns a planned step into rows.
func (w *writes) step(e *entry) error {
	step, now := &e.job.Step, e.job.Now
	if step.Transition.Seq == 0 {
		w.result(e.id, step.Result, now)
		return nil
	}
	if err := errors.Join(w.instance(e), w.transition(e.id, &step.Transition), w.tasks(e)); err != nil {
		return err
	}
	w.assignees(e.id, step)
	w.owners(e)
	for _, gone := range step.DeadlinesGone {
		w.of(deleteDeadlines).id(e.id).num(gone.Seq).num(gone.N)
	}
	for i := range step.DeadlinesSet {
		w.deadline(insertDeadlines, e.id, &step.DeadlinesSet[i])
	}
	for i := range step.DeadlineChanges {
		w.deadline(changeDeadlines, e.id, &step.DeadlineChanges[i])
	}
	if step.DropWait > 0 {
		w.of(dropEffects).id(e.id).num(step.DropWait).when(now)
	}
	for i := range step.EffectChanges {
		w.effectChange(e.id, &step.EffectChanges[i], now)
	}
	if step.Result != nil {
		w.result(e.id, step.Result, now)
	}
	for i := range step.Effects {
		if err := w.effect(e.id, &step.Effects[i], now); err != nil {
			return err
		}
	}
	return w.across(e)
}

func (w *writes) instance(e *entry) error {
	step := &e.job.Step
	v := &step.Instance
	attention, compensation := "", ""
	var err error
	if len(v.Attention) > 0 {
		if attention, err = encodeValue(v.Attention); err != nil {
			return err
		}
	}
	if v.Compensation != nil {
		if compensation, err = encodeValue(v.Compensation); err != nil {
			return err
		}
	}
	if e.start() {
		w.of(insertInstances).id(e.id).text(v.Definition).num(v.Version).text(v.Hash).text(v.State).num(v.Wait).
			num(v.Revision).text(string(v.Status)).text(v.Key).text(v.Requester).text(v.StartedBy).text(encodeTexts(v.Labels)).
			when(v.StartedAt).when(v.EnteredAt).when(v.LastEventAt).maybe(v.FinishedAt).
			text(v.HeadHash).flag(attention != "").text(attention).text(compensation).text(encodeParent(v.Parent))
		w.of(insertData).id(e.id).text(encodeData(v.Data)).text(searchOf(e.definition(), v))
		for name, value := range v.Labels {
			w.of(insertLabels).id(e.id).text(name).text(value)
		}
		return nil
	}
	w.of(updateInstances).id(e.id).num(e.revision).text(v.Definition).num(v.Version).text(v.Hash).text(v.State).num(v.Wait).
		num(v.Revision).text(string(v.Status)).when(v.EnteredAt).when(v.LastEventAt).maybe(v.FinishedAt).
		text(v.HeadHash).flag(attention != "").text(attention).text(compensation)
	if step.DataChanged {
		w.of(updateData).id(e.id).text(encodeData(v.Data)).text(searchOf(e.definition(), v))
	}
	return nil
}

func encodeData(data map[string]any) string {
	if data == nil {
		return "{}"
	}
	return encodeTree(data)
}

// searchOf is what `q` looks in: key, id, label values and the data that the definition lists.
func searchOf(d *definitions.Definition, v *fsm.Instance) string {
	parts := []string{v.Key, v.ID}
	names := make([]string, 0, len(v.Labels))
	for name := range v.Labels {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		parts = append(parts, v.Labels[name])
	}
	if d != nil {
		for _, path := range d.Search {
			if found, ok := path.Get(v.Data, &definitions.Env{Data: v.Data}); ok {
				parts = append(parts, searchText(found))
			}
		}
	}
	return foldSearch(parts...)
}

func searchText(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	return encodeTree(v)
}

func (w *writes) transition(id ident, t *fsm.Transition) error {
	event, ok := parseIdent(t.EventID)
	if !ok {
		return fmt.Errorf("the event id %q is no UUID", t.EventID)
	}
	actor, err := encodeValue(t.Actor)
	if err != nil {
		return err
	}
	changes := ""
	if len(t.Changes) > 0 {
		if changes, err = encodeValue(t.Changes); err != nil {
			return err
		}
	}
	documents := ""
	if len(t.Documents) > 0 {
		documents = encodeTree(t.Documents)
	}
	var have, need int
	if t.Pending != nil {
		have, need = t.Pending.Have, t.Pending.Need
	}
	salt := t.Salt
	if salt == nil {
		salt = []byte{}
	}
	w.of(insertTransitions).id(id).num(t.Seq).id(event).text(string(t.Kind)).text(t.Event).
		text(t.From).text(t.To).text(encodeList(t.Via)).num(t.Wait).text(string(t.Actor.Kind)).text(t.Actor.ID).text(actor).
		text(string(t.Assurance)).text(t.Comment).text(encodeTree(t.Input)).text(documents).text(changes).text(t.Digest).
		num(have).num(need).num(t.Token.Seq).num(t.Token.N).text(t.Reason).text(encodeList(t.DeadlinesCancelled)).
		when(t.At).num(t.DefinitionVersion).blob(salt).text(t.Hash).text(t.PreviousHash)
	return nil
}

func (w *writes) tasks(e *entry) error {
	step := &e.job.Step
	for i := range step.TasksOpened {
		v := &step.TasksOpened[i]
		facts, err := encodeFacts(v.Facts)
		if err != nil {
			return err
		}
		w.of(insertTasks).id(e.id).num(v.Seq).num(v.N).text(v.State).text(encodeTexts(v.Title)).text(encodeTexts(v.Instructions)).
			text(v.Priority).text(v.Status).text(facts).text(v.Digest).text(encodeList(v.Owners)).maybe(v.DueAt).when(v.CreatedAt).
			maybe(v.ClosedAt).text(v.ClaimedBy).text(taskSearch(v.Title, &step.Instance))
	}
	for i := range step.TaskChanges {
		v := &step.TaskChanges[i]
		facts, err := encodeFacts(v.Facts)
		if err != nil {
			return err
		}
		shown := v.Title != nil
		w.of(changeTasks).id(e.id).num(v.Seq).num(v.N).textOrNull(v.Status, v.Status != "").maybe(v.ClosedAt).
			textOrNull(encodeList(v.Owners), v.Owners != nil).textOrNull(encodeTexts(v.Title), shown).
			textOrNull(encodeTexts(v.Instructions), shown).textOrNull(facts, shown).textOrNull(v.Digest, shown).
			textOrNull(taskSearch(v.Title, &step.Instance), shown).maybe(v.DueAt)
	}
	return nil
}

func encodeFacts(facts []fsm.Fact) (string, error) {
	if len(facts) == 0 {
		return "", nil
	}
	return encodeValue(facts)
}

// taskSearch is what `q` looks in for a task: its titles, the instance's id and key.
func taskSearch(title map[string]string, v *fsm.Instance) string {
	locales := make([]string, 0, len(title))
	for locale := range title {
		locales = append(locales, locale)
	}
	sort.Strings(locales)
	parts := make([]string, 0, len(title)+2)
	for _, locale := range locales {
		parts = append(parts, title[locale])
	}
	return foldSearch(append(parts, v.ID, v.Key)...)
}

func (w *writes) assignees(id ident, step *fsm.Step) {
	for _, c := range step.AssigneeChanges {
		if c.Vote < 0 {
			w.of(clearVotes).id(id).num(c.Seq).num(c.N)
		}
		if c.State != "" || c.Consumed != 0 || c.Vote > 0 {
			w.of(changeAssignees).id(id).num(c.Seq).num(c.N).text(string(c.State)).num(c.Consumed).num(max(c.Vote, 0))
		}
	}
	for i := range step.Assignees {
		v := &step.Assignees[i]
		w.of(insertAssignees).id(id).num(v.Seq).num(v.N).num(v.Wait).num(v.Task).text(string(v.Kind)).text(v.Ref).
			text(encodeList(v.Lines)).text(encodeList(v.Events)).blob(v.Nonce).text(v.Kid).blob(v.JTIHash).text(v.Digest).
			text(string(v.State)).num(v.Consumed).num(v.Vote).flag(v.Stood).num(v.Effect.Seq).num(v.Effect.N)
	}
}

func (w *writes) deadline(m *multirow, id ident, d *fsm.DeadlineRow) {
	next := &d.DueAt
	if d.Deferred {
		next = nil
	}
	w.of(m).id(id).num(d.Seq).num(d.N).num(d.Wait).text(d.Rule).text(d.Action).text(d.Event).when(d.DueAt).when(d.Anchor).
		num(d.Occurrence).num(d.Failures).flag(d.Deferred).maybe(next)
}

// outlook says when the outbox looks at an effect again, or when it was done with.
func outlook(status fsm.EffectStatus, retryAt *time.Time, now time.Time) (next, done *time.Time) {
	switch status {
	case fsm.EffectWaiting:
		return &now, nil
	case fsm.EffectRetrying:
		if retryAt == nil {
			return &now, nil
		}
		return retryAt, nil
	}
	return nil, &now
}

func (w *writes) effectChange(id ident, c *fsm.EffectChange, now time.Time) {
	status := c.Status
	if c.Retry {
		status = fsm.EffectWaiting
	}
	next, done := outlook(status, nil, now)
	w.of(changeEffects).id(id).num(c.Seq).num(c.N).text(string(status)).flag(c.Retry).maybe(next).maybe(done)
}

func (w *writes) result(id ident, r *fsm.ResultEvent, now time.Time) {
	next, done := outlook(r.Status, r.NextAt, now)
	w.of(finishEffects).id(id).num(r.Effect.Seq).num(r.Effect.N).long(r.Fence).flag(r.Resolved).text(string(r.Status)).
		text(encodeTree(r.Result)).maybe(next).maybe(done)
	if !r.Resolved {
		w.of(finishAttempts).id(id).num(r.Effect.Seq).num(r.Effect.N).long(r.Fence).when(now).text(r.Outcome).text(storable(r.Detail)).num(r.HTTP).text(storable(r.Answer))
	}
}

func (w *writes) effect(id ident, v *fsm.QueuedEffect, now time.Time) error {
	host, err := hostOf(v)
	if err != nil {
		return err
	}
	status := cmp.Or(v.Status, fsm.EffectWaiting)
	next, done := outlook(status, nil, now)
	w.of(insertEffects).id(id).num(v.Seq).num(v.N).text(v.Name).text(v.Kind).num(v.Wait).flag(v.Droppable).
		flag(v.Idempotent).flag(v.Reversible).num(v.Priority).text(host).text(string(v.Request)).num(v.Attempts).
		long(v.First.Milliseconds()).long(v.Max.Milliseconds()).text(encodeTree(v.Input)).num(v.Undoes.Seq).num(v.Undoes.N).
		num(v.Link.Seq).num(v.Link.N).text(string(status)).text("").num(0).long(0).flag(false).maybe(nil).
		maybe(next).when(now).maybe(done)
	return nil
}

// hostOf is what an effect is sent to, for the bulkhead: a webhook's host, or MailHost; ""
// for what stays in the house.
func hostOf(v *fsm.QueuedEffect) (string, error) {
	switch v.Kind {
	case "email", "task-mail", "notice-mail":
		return MailHost, nil
	}
	if v.Kind != string(definitions.EffectWebhook) || len(v.Request) == 0 {
		return "", nil
	}
	var request struct {
		Webhook *struct {
			URL string `json:"url"`
		} `json:"webhook"`
	}
	if err := json.Unmarshal(v.Request, &request); err != nil {
		return "", fmt.Errorf("the request of effect %s: %w", v.Name, err)
	}
	if request.Webhook == nil {
		return "", nil
	}
	u, err := url.Parse(request.Webhook.URL)
	if err != nil {
		return "", nil // deliver says what is wrong with it; it reaches no host
	}
	return strings.ToLower(u.Host), nil
}
