package approval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/url"
	"strings"
	"time"

	"vobo/internal/definitions"
	"vobo/internal/deliver"
	"vobo/internal/fsm"
	"vobo/internal/markdown"
	"vobo/internal/store"
)

// attempt makes one attempt.
type attempt func(context.Context) deliver.Outcome

// thaw reads a frozen request.
func thaw(request json.RawMessage) (*fsm.Frozen, error) {
	var f fsm.Frozen
	d := json.NewDecoder(strings.NewReader(string(request)))
	d.UseNumber()
	if err := d.Decode(&f); err != nil {
		return nil, fmt.Errorf("the request of this effect cannot be read: %w", err)
	}
	return &f, nil
}

// build makes the attempt of a claimed effect. An error means that it can never be
// sent: it is dead at once, and the text says why.
func (s *Service) build(e *store.ClaimedEffect) (attempt, error) {
	f, err := thaw(e.Request)
	if err != nil {
		return nil, err
	}
	if e.Link != nil && e.Link.Nonce != nil && s.mint(e.Instance, &e.Link.Assignee) == "" {
		return waitForKey, nil
	}
	switch {
	case f.Webhook != nil:
		return s.buildWebhook(e, f)
	case f.Email != nil, f.TaskMail != nil:
		return s.buildMail(e, f)
	}
	return nil, errors.New("this effect has nothing to send")
}

// waitForKey is the attempt of what carries a link that this process cannot sign: its
// ring is older than the link, or the key was destroyed.
func waitForKey(context.Context) deliver.Outcome {
	return deliver.Outcome{Class: deliver.Retry, Detail: "The key that signs its link is not in this server's key ring."}
}

func (s *Service) buildWebhook(e *store.ClaimedEffect, f *fsm.Frozen) (attempt, error) {
	req := deliver.WebhookRequest{
		ID: e.Key, Attempt: e.Attempt, Method: f.Webhook.Method,
		Idempotent: e.Idempotent, Timestamp: s.cfg.Clock(),
	}
	fill := s.marks(e)
	req.URL = fill.inURL(f.Webhook.URL)
	for _, h := range f.Webhook.Headers {
		req.Headers = append(req.Headers, [2]string{h[0], fill.inText(h[1])})
	}
	if f.Webhook.HasBody {
		req.Body = definitions.EncodeJSON(fill.inTree(f.Webhook.Body))
	}
	return func(ctx context.Context) deliver.Outcome { return s.cfg.Webhooks.Send(ctx, req) }, nil
}

func (s *Service) buildMail(e *store.ClaimedEffect, f *fsm.Frozen) (attempt, error) {
	m, err := s.message(e, f)
	if err != nil {
		return nil, err
	}
	raw, err := m.Bytes()
	if err != nil {
		return nil, err
	}
	if s.cfg.Mailer == nil {
		return func(context.Context) deliver.Outcome {
			return deliver.Outcome{Class: deliver.Success, Detail: "kept in the mailbox page", Answered: true}
		}, nil
	}
	to := append([]string{m.To}, m.Cc...)
	return func(ctx context.Context) deliver.Outcome { return s.cfg.Mailer.Send(ctx, to, raw, e.Idempotent) }, nil
}

// message composes a mail; the same effect gives the same bytes at every attempt.
func (s *Service) message(e *store.ClaimedEffect, f *fsm.Frozen) (*deliver.Message, error) {
	m := &deliver.Message{ID: e.Key, From: s.cfg.MailFrom, Date: e.QueuedAt, AutoSubmitted: true, References: e.Instance}
	var err error
	if f.Email != nil {
		if f.Email.Problem != "" {
			return nil, errors.New(f.Email.Problem)
		}
		m.To, m.ToName, m.Cc, m.Subject = f.Email.To, f.Email.ToName, f.Email.Cc, f.Email.Subject
		m.FromName = serviceName
		m.Text, m.HTML, err = deliver.RenderPlainMail(serviceName, f.Email.Subject, f.Email.Body)
		return m, err
	}
	t := f.TaskMail
	m.To, m.ToName, m.FromName = t.To, t.ToName, t.Requester+" via "+serviceName
	m.Subject, m.Text, m.HTML, err = deliver.RenderTaskMail(s.taskMail(e, t))
	return m, err
}

const serviceName = "Vobo"

func (s *Service) taskMail(e *store.ClaimedEffect, t *fsm.FrozenTaskMail) deliver.TaskMail {
	zone := s.cfg.Zone
	if t.Timezone != "" {
		if z, err := time.LoadLocation(t.Timezone); err == nil {
			zone = z
		}
	}
	link := ""
	if !t.OnlyInbox && e.Link != nil {
		if token := s.mint(e.Instance, &e.Link.Assignee); token != "" {
			link = s.cfg.BaseURL + "/a/" + token
		}
	}
	m := deliver.TaskMail{
		Kind: t.Kind, Service: serviceName, Requester: t.Requester, Title: t.Title,
		Process: t.Process, Comment: t.Comment, InstructionsText: t.Instructions, InstructionsHTML: markdown.HTML(deliver.CleanText(t.Instructions, t.Locale), html.EscapeString), DueAt: t.DueAt, Zone: zone, Locale: t.Locale,
		Link: link, InboxLink: s.cfg.BaseURL + "/inbox", ReminderK: t.ReminderK, ReminderN: t.ReminderN,
		Why: whyAsked(t.Why), Others: t.Others, PersonName: t.ToName,
	}
	for _, fact := range t.Facts {
		m.Facts = append(m.Facts, [2]string{fact.Label, factText(fact.Value)})
	}
	return m
}

// whyAsked says in words why somebody is asked.
func whyAsked(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	names := make([]string, 0, len(lines))
	for _, l := range lines {
		escalated := strings.HasPrefix(l, "escalation ")
		ref, err := definitions.ParseRef(strings.TrimPrefix(l, "escalation "))
		if err != nil {
			continue
		}
		var words string
		switch ref.Kind {
		case definitions.KindGroup:
			words = "as a member of " + ref.Name
		case definitions.KindRole:
			words = "in the role " + ref.Name
		case definitions.KindRequester:
			words = "because you asked for it"
		default:
			words = "by name"
		}
		if escalated {
			words += ", because nobody has answered yet"
		}
		names = append(names, words)
	}
	if len(names) == 0 {
		return ""
	}
	return "You are asked " + strings.Join(names, " and ") + "."
}

// decodeAnswer is the JSON answer of a webhook; nil where it is none.
func decodeAnswer(body []byte) any {
	if len(body) == 0 {
		return nil
	}
	v, err := definitions.DecodeJSON(body)
	if err != nil {
		return nil
	}
	return v
}

// instanceHears tells whether the end of an attempt is an event of the instance.
func instanceHears(def *definitions.Effect, e *store.ClaimedEffect, status fsm.EffectStatus) bool {
	switch status {
	case fsm.EffectRetrying:
		return false
	case fsm.EffectDead, fsm.EffectUnknown:
		return true
	}
	if e.Undoes != (fsm.EffectID{}) {
		return true
	}
	return def != nil && (def.OnSuccess != nil || def.Reversible || def.Compensate != "")
}

// unanswered tells whether an attempt went out and got no answer.
func unanswered(o deliver.Outcome) bool { return o.WentOut && !o.Answered }

// marks fills the places of a frozen request that are made only at delivery.
type marks struct{ url string }

func (s *Service) marks(e *store.ClaimedEffect) marks {
	if e.Link == nil {
		return marks{}
	}
	token := s.mint(e.Instance, &e.Link.Assignee)
	if token == "" {
		return marks{}
	}
	return marks{s.cfg.BaseURL + "/v1/callbacks/" + token}
}

// inText replaces the markers in plain text.
func (m marks) inText(s string) string { return m.replace(s, func(u string) string { return u }) }

// inURL replaces the markers in a URL, escaped as a query value.
func (m marks) inURL(s string) string { return m.replace(s, url.QueryEscape) }

func (m marks) replace(s string, escape func(string) string) string {
	if !strings.Contains(s, "\x00") {
		return s
	}
	s = strings.ReplaceAll(s, fsm.MarkerCallbackURL, escape(m.url))
	const open, end = "\x00callback.urls.", "\x00"
	for {
		i := strings.Index(s, open)
		if i < 0 {
			return s
		}
		rest := s[i+len(open):]
		j := strings.Index(rest, end)
		if j < 0 {
			return s
		}
		s = s[:i] + escape(m.url+"/"+rest[:j]) + rest[j+len(end):]
	}
}

// inTree replaces the markers in the strings of a JSON tree.
func (m marks) inTree(v any) any {
	switch x := v.(type) {
	case string:
		return m.inText(x)
	case []any:
		out := make([]any, len(x))
		for i := range x {
			out[i] = m.inTree(x[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(x))
		for k := range x {
			out[k] = m.inTree(x[k])
		}
		return out
	}
	return v
}
