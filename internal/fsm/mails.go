package fsm

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/mail"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"vobo/internal/definitions"
	"vobo/internal/fault"
)

const (
	maxAddress    = 254  // bytes, RFC 5321
	maxAddressees = 1000 // that one expression may give
)

// freezeEmail queues one mail for each person of `to` and `cc`, in their language; each
// is an effect of its own, so that one who cannot be reached hinders nobody. It returns
// the id of the first that can be sent.
func (p *planner) freezeEmail(effect *definitions.Effect, env *definitions.Env, undoes EffectID) (EffectID, error) {
	to, err := p.recipients(effect.Email.To, env, map[string]bool{})
	if err != nil {
		return EffectID{}, err
	}
	seen := map[string]bool{}
	for _, r := range to {
		seen[strings.ToLower(r.address)] = true
	}
	cc, err := p.recipients(effect.Email.Cc, env, seen)
	if err != nil {
		return EffectID{}, err
	}
	if len(to) == 0 {
		to = []recipient{{problem: "Nobody with a mail address is meant by " + texts(effect.Email.To) + "."}}
	}
	attached, problem := attachments(effect.Email.Attachments, env)
	var first, sound EffectID
	for _, r := range append(to, cc...) {
		mail := FrozenEmail{To: r.address, ToName: r.name, Attachments: attached, Problem: cmp.Or(r.problem, problem)}
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
		first = cmp.Or(first, id)
		if mail.Problem == "" {
			sound = cmp.Or(sound, id)
		}
	}
	return cmp.Or(sound, first), nil
}

func texts(principals []definitions.Principal) string {
	list := make([]string, len(principals))
	for i, principal := range principals {
		list[i] = principal.Text
	}
	return strings.Join(list, ", ")
}

// recipient is one address; problem says why nothing can be sent there.
type recipient struct{ address, name, locale, problem string }

// recipients gives the distinct addresses of those who are meant and are not in seen,
// and an entry with its problem for each name that is no name or address.
func (p *planner) recipients(principals []definitions.Principal, env *definitions.Env, seen map[string]bool) ([]recipient, error) {
	var all []recipient
	for _, principal := range principals {
		list, err := addressees(principal, env)
		if err != nil {
			return nil, err
		}
		for _, a := range list {
			if a.problem != "" {
				all = append(all, recipient{address: a.text, problem: a.problem})
				continue
			}
			for _, n := range p.expand(a.ref) {
				to, ok := address(n.person)
				if key := strings.ToLower(to); ok && !seen[key] {
					seen[key] = true
					all = append(all, recipient{address: to, name: n.person.Name, locale: n.person.Locale, problem: addressProblem(to)})
				}
			}
		}
	}
	return all, nil
}

// addressee is one resolved principal of a mail, or a text that is none.
type addressee struct {
	ref           definitions.Ref
	text, problem string
}

// addressees resolves a principal entry by entry, so that a malformed one stands alone.
// A single absent value means nobody.
func addressees(principal definitions.Principal, env *definitions.Env) ([]addressee, error) {
	if principal.Name == nil || principal.Name.Static() {
		list, err := refs(principal, env)
		all := make([]addressee, len(list))
		for i, ref := range list {
			all[i].ref = ref
		}
		return all, err
	}
	v, err := principal.Name.Value(env)
	if err != nil {
		return nil, err
	}
	entries, isList := v.([]any)
	if !isList {
		entries = []any{v}
	}
	if len(entries) > maxAddressees {
		return nil, fault.New(fault.GuardRejected, "%s gives %d principals; at most %d are allowed.", principal.Text, len(entries), maxAddressees)
	}
	var all []addressee
	for _, entry := range entries {
		if !isList && (entry == nil || entry == "") {
			continue
		}
		all = append(all, addresseeOf(principal.Kind, entry))
	}
	return all, nil
}

func addresseeOf(kind definitions.PrincipalKind, entry any) addressee {
	text, ok := entry.(string)
	if n, isNumber := entry.(json.Number); isNumber {
		text, ok = n.String(), true
	}
	if !ok {
		text = string(definitions.EncodeJSON(entry))
	}
	written := text
	if kind != definitions.KindDynamic {
		written = string(kind) + ":" + text
	}
	ref, err := definitions.ParseRef(written)
	engine := []definitions.PrincipalKind{definitions.KindTimer, definitions.KindEffect, definitions.KindDid}
	if !ok || err != nil || kind == definitions.KindDynamic && slices.Contains(engine, ref.Kind) {
		text = clipped(text)
		return addressee{text: text, problem: strconv.Quote(text) + " is no mail address and names nobody."}
	}
	return addressee{ref: ref}
}

// addressProblem says why an address is none, "" where it may be one (RFC 5322 addr-spec
// without characters that do not show; whether it exists is for the mail server to say).
func addressProblem(to string) string {
	hidden := strings.ContainsFunc(to, func(r rune) bool {
		return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == unicode.ReplacementChar
	})
	parsed, err := mail.ParseAddress(to)
	if err == nil && parsed.Address == to && !hidden && len(to) <= maxAddress {
		return ""
	}
	return strconv.QuoteToASCII(clipped(to)) + " is no mail address."
}

// clipped keeps what is needed to find a malformed name again.
func clipped(text string) string {
	if len(text) <= maxAddress {
		return text
	}
	return strings.ToValidUTF8(text[:maxAddress], "") + "…"
}

// attachments gives the documents that the paths hold, those that are there; problem
// says which is no reference of a document.
func attachments(paths []definitions.Path, env *definitions.Env) (all []FrozenAttachment, problem string) {
	for _, path := range paths {
		v, ok := path.Get(env.Data, env)
		if !ok || v == nil {
			continue
		}
		list, isList := v.([]any)
		if !isList {
			list = []any{v}
		}
		for _, entry := range list {
			if entry == nil {
				continue
			}
			if fields := documentFault("", entry); len(fields) > 0 {
				return nil, fmt.Sprintf("The attachment %s is no document: %s", strings.TrimPrefix(path.Text, "data."), fields[0].Detail)
			}
			all = append(all, attachment(entry))
		}
	}
	return all, ""
}

// attachment reads a reference that documentFault has found well-formed.
func attachment(document any) FrozenAttachment {
	d, _ := document.(map[string]any)
	text := func(key string) string { s, _ := d[key].(string); return s }
	n, _ := d["size"].(json.Number)
	size, err := strconv.ParseInt(n.String(), 10, 64)
	if err != nil {
		size = -1 // never equal to what is fetched
	}
	return FrozenAttachment{Name: text("name"), MediaType: text("media_type"), Size: size, SHA256: text("sha256"), URI: text("uri")}
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
	q := QueuedEffect{Name: kind, Kind: kindTaskMail, Droppable: true, Idempotent: true, Attempts: mailAttempts, First: mailFirst, Max: mailMax}
	if kind == "told" {
		q.Kind, q.Priority = kindNotice, 5
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
