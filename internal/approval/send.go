package approval

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/url"
	"slices"
	"strings"
	"time"

	"vobo/internal/definitions"
	"vobo/internal/deliver"
	"vobo/internal/fault"
	"vobo/internal/fsm"
	"vobo/internal/markdown"
	"vobo/internal/store"
)

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

// build makes the attempt of a leased effect. An error means that it can never be
// done: it is dead at once, and the text says why.
func (s *Service) build(f *flight) (attempt, error) {
	if f.broken != nil {
		return nil, f.broken
	}
	if f.Link != nil && f.Link.Nonce != nil && s.mint(f.Instance, &f.Link.Assignee) == "" {
		return later("The key that signs its link is not in this server's key ring."), nil
	}
	switch r := f.frozen; {
	case r.Webhook != nil:
		return s.buildWebhook(&f.ClaimedEffect, r), nil
	case r.Email != nil, r.TaskMail != nil:
		return s.buildMail(&f.ClaimedEffect, r)
	case r.Start != nil:
		return func(ctx context.Context) report { return s.startChildren(ctx, f) }, nil
	case r.Raise != nil:
		return func(ctx context.Context) report { return s.raiseElsewhere(ctx, f) }, nil
	case r.Stop != nil:
		return func(ctx context.Context) report { return s.stopChildren(ctx, f) }, nil
	}
	return nil, errors.New("this effect has nothing to send")
}

// later is the attempt of what cannot be made now through no fault of the receiver.
func later(why string) attempt {
	return func(context.Context) report {
		return report{Outcome: deliver.Outcome{Class: deliver.Retry, Detail: why}, apart: true}
	}
}

func reportOf(o deliver.Outcome) report { return report{Outcome: o} }

func (s *Service) buildWebhook(e *store.ClaimedEffect, f *fsm.Frozen) attempt {
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
	if missing := s.prove(&req, f.Webhook.Credentials); missing != "" {
		return later(missing)
	}
	return func(ctx context.Context) report { return reportOf(s.cfg.Webhooks.Send(ctx, req)) }
}

// prove adds what proves to the receiver who calls: the credentials of that name ("" :
// none) and the signature over the bytes of this attempt. It says in words what is missing.
func (s *Service) prove(req *deliver.WebhookRequest, credentials string) (missing string) {
	secrets := s.cfg.Secrets.Secrets()
	if credentials != "" {
		c := secrets.Credential(credentials)
		if c == nil {
			return fmt.Sprintf("Not sent: the secrets file has no credentials %q. Add them there; the file is read again within seconds.", credentials)
		}
		if c.Header[0] != "" {
			req.Headers = withHeader(req.Headers, c.Header[0], c.Header[1])
			req.Secret = append(req.Secret, c.Header[0])
		}
		if c.ID != "" {
			req.Client = &deliver.ClientTLS{Certificate: c.Certificate, RootCAs: c.RootCAs, ID: c.ID}
		}
	}
	if signature := secrets.Sign(credentials, req.ID, req.Timestamp.Unix(), req.Body); signature != "" {
		req.Headers = withHeader(req.Headers, "webhook-signature", signature)
	}
	return ""
}

// withHeader sets a header once, whatever a definition says.
func withHeader(all [][2]string, name, value string) [][2]string {
	all = slices.DeleteFunc(all, func(h [2]string) bool { return strings.EqualFold(h[0], name) })
	return append(all, [2]string{name, value})
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
		return func(context.Context) report {
			return reportOf(deliver.Outcome{Class: deliver.Success, Detail: "kept in the mailbox page", Answered: true})
		}, nil
	}
	to := append([]string{m.To}, m.Cc...)
	if f.Email == nil || len(f.Email.Attachments) == 0 {
		return func(ctx context.Context) report { return reportOf(s.cfg.Mailer.Send(ctx, to, raw, e.Idempotent)) }, nil
	}
	return func(ctx context.Context) report {
		if problem := s.attach(ctx, m, f.Email.Attachments); problem != nil {
			return report{Outcome: *problem, apart: true}
		}
		raw, err := m.Bytes()
		if err != nil {
			return reportOf(deliver.Outcome{Class: deliver.Permanent, Detail: fault.As(err).Message})
		}
		return reportOf(s.cfg.Mailer.Send(ctx, to, raw, e.Idempotent))
	}, nil
}

// fetchWithin bounds the fetching of all attachments, so that the mail still has its own time.
const fetchWithin = 8 * time.Second

// maxAttached is how many documents go with one mail.
const maxAttached = 100

// unfit says why documents cannot go with a mail, by their references alone; "" where they may.
func unfit(docs []fsm.FrozenAttachment) string {
	if len(docs) > maxAttached {
		return fmt.Sprintf("%d documents cannot be attached: at most %d may go with one mail.", len(docs), maxAttached)
	}
	left := int64(deliver.MaxAttachments)
	for _, d := range docs {
		if d.Size < 0 {
			return fmt.Sprintf("The document %q cannot be attached: its size is %d.", d.Name, d.Size)
		}
		if d.Size > left {
			return fmt.Sprintf("The documents cannot be attached: they are larger than %d MiB together.", deliver.MaxAttachments>>20)
		}
		left -= d.Size
	}
	return ""
}

// attach fetches the documents that go with a mail. Only what is byte for byte what the
// reference says goes out. nil: all are there.
func (s *Service) attach(ctx context.Context, m *deliver.Message, docs []fsm.FrozenAttachment) *deliver.Outcome {
	ctx, cancel := context.WithTimeout(ctx, fetchWithin)
	defer cancel()
	refuse := func(format string, args ...any) *deliver.Outcome {
		return &deliver.Outcome{Class: deliver.Permanent, Detail: fmt.Sprintf(format, args...)}
	}
	if why := unfit(docs); why != "" {
		return refuse("%s", why)
	}
	for _, d := range docs {
		if scheme, _, _ := strings.Cut(strings.ToLower(d.URI), ":"); scheme != "https" && scheme != "http" {
			return refuse("The document %q cannot be attached: only documents at http and https addresses can be fetched, and its address begins with %q.", d.Name, scheme+":")
		}
		data, out := s.cfg.Webhooks.Fetch(ctx, d.URI, d.Size)
		if out.Class != deliver.Success {
			out.Detail = fmt.Sprintf("The document %q could not be fetched: %s", d.Name, out.Detail)
			out.Answered, out.WentOut = false, false // of the mail nothing has gone out
			return &out
		}
		sum := sha256.Sum256(data)
		if int64(len(data)) != d.Size || !strings.EqualFold(hex.EncodeToString(sum[:]), d.SHA256) {
			return refuse("The document %q is not what was referred to: its size or SHA-256 differs. Nothing was sent.", d.Name)
		}
		m.Attachments = append(m.Attachments, deliver.Attachment{Name: d.Name, MediaType: d.MediaType, Data: data})
	}
	return nil
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
	return def != nil && (def.OnSuccess != nil || def.Reversible || def.Compensate != "" || def.Undoes != "")
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
