package definitions

import (
	"regexp"
	"slices"
	"strings"
	"time"

	yaml "go.yaml.in/yaml/v4"
)

// Defaults of an effect's attempts: about three days in all.
const (
	defaultAttempts = 24
	defaultFirst    = 5 * time.Second
	defaultMaxDelay = 6 * time.Hour
	maxAttempts     = 1000
	maxDelay        = 7 * 24 * time.Hour
)

func (b *builder) effects(n *yaml.Node) {
	b.def.effects = map[string]*Effect{}
	m := b.mapping(n, "effects")
	if m == nil {
		return
	}
	for _, key := range m.keys {
		if c := child(m.values[key.Value], "compensate"); c != nil {
			b.compensates[c.Value] = true
		}
	}
	for _, key := range m.keys {
		name, ok := b.name(key, "An effect", partName)
		e := b.effect(name, key, m.get(key.Value))
		if ok && e != nil {
			b.def.Effects = append(b.def.Effects, e)
			b.def.effects[name] = e
		}
	}
}

func (b *builder) effect(name string, key, n *yaml.Node) *Effect {
	m := b.mapping(n, "the effect "+key.Value)
	if m == nil {
		return nil
	}
	e := &Effect{Name: name}
	if name == byHand {
		b.errorAt(key, "name", "take another name", "An effect may not be called manual: in compensate the word asks a person.")
	}
	b.put(e, "", key)
	b.put(e, "body", n)
	w := where{sc: b.effectScope(m.has("callback"), b.compensates[name])}
	if when := m.get("when"); when != nil {
		e.When = b.expr(when, "when", wantBool, w)
		b.constantGuard(when, e.When)
	}
	b.effectKind(e, m, w)
	b.effectPromises(e, m)
	b.retry(e, m.get("retry"))
	e.Callback = b.callback(e, m.get("callback"))
	b.onlyWith(m, "callback", "a webhook", e.Kind == EffectWebhook)
	b.onlyWith(m, "on_undeliverable", "an email", e.Kind == EffectEmail)
	outcome := where{sc: b.outcomeScope(e.Kind)}
	e.OnSuccess = b.outcome(e, "on_success", m.get("on_success"), outcome)
	e.OnFailure = b.outcome(e, "on_failure", m.get("on_failure"), outcome)
	e.OnUndeliverable = b.undeliverable(e, m)
	e.OnCancel = b.effectNames(m.get("on_cancel"), "on_cancel", e)
	m.done()
	return e
}

// onlyWith reports a key that makes sense for one kind of effect only.
func (b *builder) onlyWith(m *mapping, key, kind string, fits bool) {
	if m.has(key) && !fits {
		b.errorAt(m.key(key), "misplaced", "", "%s goes with %s only.", key, kind)
	}
}

// effectScope gives what texts of an effect may read. What is the input of the event
// that queues it is not known here.
func (b *builder) effectScope(callback, undone bool) *scope {
	names := "actor last visits now"
	if callback {
		names += " callback"
	}
	if undone {
		names += " undone"
	}
	key := names + " input"
	if b.wider[key] == nil {
		b.wider[key] = b.scope(names).withInput(nil)
	}
	return b.wider[key]
}

func (b *builder) effectKind(e *Effect, m *mapping, w where) {
	kinds := 0
	if n := m.get("email"); n != nil {
		kinds++
		e.Kind, e.Email = EffectEmail, b.email(n, w)
	}
	if n := m.get("webhook"); n != nil {
		kinds++
		e.Kind, e.Webhook = EffectWebhook, b.webhook(n, w)
	}
	if n := m.get("start"); n != nil {
		kinds++
		e.Kind, e.Start = EffectStart, b.start(n, w)
	}
	if n := m.get("event"); n != nil {
		kinds++
		e.Kind, e.Raise = EffectEvent, b.raise(n, w)
	}
	if kinds != 1 {
		b.errorAt(b.place[e], "effect-kind", "", "The effect %s does exactly one thing: email, webhook, start or event.", b.place[e].Value)
	}
}

// effectPromises reads what the author says about repeating and undoing.
func (b *builder) effectPromises(e *Effect, m *mapping) {
	e.Idempotent = e.Kind != EffectWebhook
	if n := m.get("idempotent"); n != nil {
		e.Idempotent = b.boolean(n, "idempotent")
		if e.Start != nil || e.Raise != nil {
			e.Idempotent = true
			b.errorAt(m.key("idempotent"), "misplaced", "leave it out", "%s happens once however often it is tried; it has no idempotent.", b.place[e].Value)
		}
	}
	e.Reversible = b.boolean(m.get("reversible"), "reversible")
	if n := m.get("compensate"); n != nil {
		e.Compensate = n.Value
		switch {
		case n.Value == byHand:
		case n.Kind != yaml.ScalarNode || !b.names.hasEffect[n.Value]:
			b.errorAt(n, "unknown-effect", b.suggest(n.Value, b.names.effects), "compensate names the effect %s, which does not exist.", clip(n.Value))
		case n.Value == e.Name:
			b.errorAt(n, "compensate", "", "An effect cannot undo itself.")
		}
		if !e.Reversible {
			b.errorAt(m.key("compensate"), "contradiction", "write reversible: true", "An effect with compensate is reversible.")
		}
	}
	if n := m.get("undoes"); n != nil {
		b.put(e, "undoes", n)
		if e.Undoes = n.Value; n.Kind != yaml.ScalarNode || !b.names.hasEffect[n.Value] {
			b.errorAt(n, "unknown-effect", b.suggest(n.Value, b.names.effects), "undoes names the effect %s, which does not exist.", clip(n.Value))
		}
	}
	if e.Kind == EffectWebhook && !(m.has("idempotent") && m.has("reversible")) {
		missing := "idempotent"
		if m.has("idempotent") {
			missing = "reversible"
		} else if !m.has("reversible") {
			missing += " and reversible"
		}
		b.warnAt(b.place[e], "promise-missing", "false is the default", "The webhook %s does not say %s.", b.place[e].Value, missing)
	}
}

func (b *builder) retry(e *Effect, n *yaml.Node) {
	e.Retry = Retry{Attempts: defaultAttempts, First: defaultFirst, Max: defaultMaxDelay}
	m := b.mapping(n, "retry")
	if m == nil {
		return
	}
	if v := m.get("attempts"); v != nil {
		e.Retry.Attempts = b.integer(v, "attempts", 1, maxAttempts)
	}
	if most := m.get("max"); most != nil {
		e.Retry.Max = b.span(most, "max", maxDelay, defaultMaxDelay)
		e.Retry.First = min(defaultFirst, e.Retry.Max)
	}
	if first := m.get("first"); first != nil {
		e.Retry.First = b.span(first, "first", maxDelay, e.Retry.First)
		if m.values["max"] == nil {
			e.Retry.Max = max(e.Retry.Max, e.Retry.First)
		}
	}
	if e.Retry.First > e.Retry.Max {
		b.errorAt(n, "retry", "", "first of retry is longer than max.")
	}
	m.done()
}

func (b *builder) callback(e *Effect, n *yaml.Node) *Callback {
	m := b.mapping(n, "callback")
	if m == nil {
		return nil
	}
	c := &Callback{}
	events := m.need("events")
	b.put(e, "callback", events)
	for _, v := range b.list(events, "events") {
		if !b.names.events[v.Value] {
			b.errorAt(v, "unknown-event", b.suggest(v.Value, b.names.eventNames), "callback names the event %s, which does not exist.", clip(v.Value))
			continue
		}
		c.Events = append(c.Events, v.Value)
	}
	if events != nil && events.Kind == yaml.SequenceNode && len(events.Content) == 0 {
		b.errorAt(events, "empty", "", "callback names no events.")
	}
	if as := m.need("as"); as != nil {
		name, ok := strings.CutPrefix(as.Value, "system:")
		if !ok || name == "" || strings.Contains(name, "{{") {
			b.errorAt(as, "principal", `such as "system:esign"`, "as must name a system.")
			c.Events = nil
		}
		c.As = name
	}
	if v := m.get("verify"); v != nil {
		if name, ok := b.name(v, "A webhook source", secretName); ok {
			c.Verify = name
			b.needSecret(v, sourceSecret, name)
		}
	}
	m.done()
	return c
}

func (b *builder) outcome(e *Effect, key string, n *yaml.Node, w where) *Outcome {
	m := b.mapping(n, key)
	if m == nil {
		return nil
	}
	o := &Outcome{}
	if fire := m.get("fire"); fire != nil {
		o.Fire = fire.Value
		b.put(e, key, fire)
		if !b.names.events[fire.Value] {
			b.errorAt(fire, "unknown-event", b.suggest(fire.Value, b.names.eventNames), "%s fires the event %s, which does not exist.", key, clip(fire.Value))
		}
	}
	if set := m.get("set"); set != nil {
		o.Set = b.assigns(set, key+".set", w, w.sc)
	}
	if !m.has("fire") && !m.has("set") {
		b.errorAt(n, "empty", "write fire or set", "%s does nothing.", key)
	}
	m.done()
	return o
}

func (b *builder) email(n *yaml.Node, w where) *Email {
	m := b.mapping(n, "email")
	if m == nil {
		return nil
	}
	e := &Email{To: b.principals(m.need("to"), audienceMail, w), Cc: b.principals(m.get("cc"), audienceMail, w)}
	if to := m.values["to"]; to != nil {
		b.nobody(to, "to")
	}
	e.Subject = b.words(m.need("subject"), "subject", w)
	e.Body = b.words(m.need("body"), "body", w)
	e.Attachments = b.attachments(m.get("attachments"), w)
	m.done()
	return e
}

var (
	headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$")
	// urlStart: a literal scheme and host, or one env.NAME that gives them.
	urlStart       = regexp.MustCompile(`^(https?://[A-Za-z0-9.\[\]:-]+(/|\?|$)|(https?://)?\{\{\s*env\.[A-Za-z_][A-Za-z0-9_]*\s*\}\}([/?]|$))`)
	callbackURL    = regexp.MustCompile(`callback\.urls\.([A-Za-z_][A-Za-z0-9_]*)`)
	reservedHeader = []string{"host", "content-length", "transfer-encoding", "connection", "idempotency-key", "webhook-id", "webhook-timestamp", "webhook-signature"}
)

func (b *builder) webhook(n *yaml.Node, w where) *Webhook {
	m := b.mapping(n, "webhook")
	if m == nil {
		return nil
	}
	h := &Webhook{Method: "POST", URL: b.template(m.need("url"), "url", w)}
	if h.URL != nil && !urlStart.MatchString(h.URL.Text) {
		b.errorAt(m.values["url"], "url", `such as "{{ env.CORE_URL }}/accounts" or "https://example.com/accounts"`,
			"The scheme and host of a url must stand there or come from env.")
	}
	if v := m.get("method"); v != nil {
		h.Method = b.oneOf(v, "method", "POST", "GET", "PUT", "PATCH", "DELETE")
	}
	if headers := b.mapping(m.get("headers"), "headers"); headers != nil {
		for _, key := range headers.keys {
			if !headerName.MatchString(key.Value) || slices.Contains(reservedHeader, strings.ToLower(key.Value)) {
				b.errorAt(key, "header", "", "The header %s may not be set.", clip(key.Value))
			}
			if t := b.template(headers.get(key.Value), "header "+key.Value, w); t != nil {
				h.Headers = append(h.Headers, Header{Name: key.Value, Value: t})
			}
		}
	}
	if body := m.values["body"]; body != nil {
		m.asked = append(m.asked, "body")
		if h.Body = b.body(body, w); h.Method == "GET" {
			b.errorAt(m.key("body"), "contradiction", "use method: POST", "A GET has no body.")
		}
	}
	if v := m.get("credentials"); v != nil {
		if name, ok := b.name(v, "Credentials", secretName); ok {
			h.Credentials = name
			b.needSecret(v, credentialSecret, name)
		}
	}
	m.done()
	return h
}
