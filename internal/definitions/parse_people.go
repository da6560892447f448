package definitions

import (
	"slices"
	"strings"

	yaml "go.yaml.in/yaml/v4"
)

// audience is the place where principals stand; it decides which kinds fit.
type audience struct {
	what  string
	kinds []PrincipalKind
	mail  bool // bare addresses, and email: is supported
	one   bool // one principal without a list is fine
}

var (
	deciders = []PrincipalKind{KindRequester, KindOwner, KindUser, KindGroup, KindRole, KindEmail, KindDid, KindSystem, KindDynamic}

	audienceBy         = audience{what: "by", kinds: append([]PrincipalKind{KindTimer, KindEffect}, deciders...)}
	audienceNot        = audience{what: "not", kinds: deciders}
	audienceOwner      = audience{what: "owner", kinds: []PrincipalKind{KindRequester, KindUser, KindGroup, KindRole, KindEmail, KindDid, KindSystem, KindDynamic}}
	audienceEscalate   = audience{what: "escalate", kinds: audienceOwner.kinds}
	audienceTell       = audience{what: "tell", kinds: append([]PrincipalKind{KindOwner}, audienceOwner.kinds...)}
	audienceRequesters = audience{what: "requesters", kinds: []PrincipalKind{KindUser, KindGroup, KindRole, KindSystem, KindDynamic}}
	audienceReaders    = audience{what: "readers", kinds: []PrincipalKind{KindRequester, KindUser, KindGroup, KindRole, KindSystem, KindDynamic}}
	audienceMail       = audience{what: "recipients", kinds: []PrincipalKind{KindRequester, KindOwner, KindUser, KindGroup, KindRole, KindEmail, KindDid, KindDynamic}, mail: true, one: true}
	audienceFor        = audience{what: "for", kinds: audienceOwner.kinds, one: true}
	audienceQuorum     = audience{what: "quorum", kinds: []PrincipalKind{KindRequester, KindOwner, KindUser, KindGroup, KindRole, KindEmail, KindDid, KindDynamic}}
)

var productRoles = []string{"viewer", "requester", "reviewer", "operator", "admin", "auditor", "impersonator"}

// principals reads a list of principals; each stands once.
func (b *builder) principals(n *yaml.Node, a audience, w where) []Principal {
	if n == nil {
		return nil
	}
	nodes := []*yaml.Node{n}
	if !a.one || n.Kind == yaml.SequenceNode {
		nodes = b.list(n, a.what)
	}
	var list []Principal
	for _, c := range nodes {
		p, ok := b.principal(c, a, w)
		if !ok {
			continue
		}
		if slices.ContainsFunc(list, func(q Principal) bool { return q.Text == p.Text }) {
			b.errorAt(c, "duplicate", "", "%s names %s twice.", a.what, p.Text)
			continue
		}
		list = append(list, p)
	}
	return list
}

func (b *builder) principal(n *yaml.Node, a audience, w where) (Principal, bool) {
	text, ok := b.text(n, a.what)
	if !ok {
		return Principal{}, false
	}
	p := Principal{Text: text}
	name, shift := "", 0
	switch prefix, rest, found := strings.Cut(text, ":"); {
	case wholeTemplate(text):
		p.Kind, name = KindDynamic, text
	case found && !strings.Contains(prefix, "{{") && !strings.Contains(prefix, "@"):
		p.Kind, name, shift = PrincipalKind(prefix), rest, len(prefix)+1
	case a.mail && (strings.Contains(text, "@") || strings.Contains(text, "{{")):
		p.Kind, name = KindEmail, text
	default:
		p.Kind = PrincipalKind(text)
	}
	if !b.principalKind(n, p, name, a) {
		return p, false
	}
	if name != "" {
		template, problems := compileTemplate(name, w.sc)
		for i := range problems {
			problems[i].Offset += shift
		}
		b.found(n, "", problems)
		if template == nil || hasErrors(problems) {
			return p, false
		}
		if p.Name = template; strings.Contains(name, "{{") {
			b.note(n, template.refs(), text, w)
		}
	}
	if p.Kind == KindDid {
		b.def.NeedsPast = true
	}
	if p.Kind == KindEmail && !a.mail {
		b.unsupported(n, "A person outside ("+text+") in "+a.what)
	}
	return p, true
}

// wholeTemplate tells whether the text is one {{ expression }} and nothing beside it.
func wholeTemplate(text string) bool {
	return strings.HasPrefix(text, "{{") && strings.HasSuffix(text, "}}") && strings.Count(text, "{{") == 1
}

func (b *builder) principalKind(n *yaml.Node, p Principal, name string, a audience) bool {
	known := []string{"requester", "owner", "user:ID", "group:NAME", "role:NAME", "email:ADDRESS", "did:EVENT", "system:NAME", "timer", "effect"}
	switch p.Kind {
	case KindRequester, KindOwner, KindTimer, KindEffect:
		if name != "" || p.Text != string(p.Kind) {
			b.errorAt(n, "principal", "write "+string(p.Kind), "%s takes no name.", p.Kind)
			return false
		}
	case KindUser, KindGroup, KindRole, KindEmail, KindDid, KindSystem:
		if !b.principalName(n, p, name) {
			return false
		}
	case KindDynamic:
		if p.Text == "" {
			b.errorAt(n, "principal", "", "%s has an empty entry.", a.what)
			return false
		}
	default:
		hint := b.suggest(string(p.Kind), []string{"requester", "owner", "user", "group", "role", "email", "did", "system", "timer", "effect"})
		if strings.Contains(p.Text, "@") && !strings.Contains(p.Text, ":") {
			hint = "write user:" + p.Text + ", or email:" + p.Text + " for somebody outside"
		} else if hint == "" {
			hint = "one of " + strings.Join(known, ", ") + ", or one {{ expression }}"
		}
		b.errorAt(n, "principal", hint, "%s names %s, which is nobody.", a.what, clip(p.Text))
		return false
	}
	if !slices.Contains(a.kinds, p.Kind) {
		b.errorAt(n, "principal", "", "%s may not stand in %s.", p.Text, a.what)
		return false
	}
	return true
}

func (b *builder) principalName(n *yaml.Node, p Principal, name string) bool {
	if name == "" {
		b.errorAt(n, "principal", "", "%s: needs a name.", p.Kind)
		return false
	}
	if p.Kind == KindDid {
		return b.didName(n, name)
	}
	if strings.Contains(name, "{{") {
		return true
	}
	if len(name) > 254 || strings.ContainsAny(name, " \t\n\"<>") {
		b.errorAt(n, "principal", "", "%s is no name: at most 254 characters without spaces.", clip(name))
		return false
	}
	switch {
	case p.Kind == KindRole && !slices.Contains(productRoles, name):
		hint := b.suggest(name, productRoles)
		if hint == "" {
			hint = "the roles are " + strings.Join(productRoles, ", ")
		}
		b.errorAt(n, "principal", hint, "There is no role %s.", clip(name))
		return false
	case p.Kind == KindEmail && !looksLikeAddress(name):
		b.errorAt(n, "principal", "", "%s is no e-mail address.", clip(name))
		return false
	}
	return true
}

func looksLikeAddress(s string) bool {
	local, domain, ok := strings.Cut(s, "@")
	return ok && local != "" && domain != "" && !strings.ContainsAny(domain, "@,;")
}

// didName checks EVENT or STATE.EVENT.
func (b *builder) didName(n *yaml.Node, name string) bool {
	state, event, dotted := strings.Cut(name, ".")
	if !dotted {
		if !b.names.events[name] {
			b.errorAt(n, "unknown-event", b.suggest(name, b.names.eventNames), "did: names the event %s, which does not exist.", clip(name))
			return false
		}
		return true
	}
	if _, ok := b.names.kinds[state]; !ok {
		b.errorAt(n, "unknown-state", b.suggest(state, b.names.states), "did: names the state %s, which does not exist.", clip(state))
		return false
	}
	if !b.names.eventsOf[state][event] && !b.names.topEvents[event] {
		b.errorAt(n, "unknown-event", b.suggest(event, b.names.eventNames), "did: names the event %s, which the state %s does not have.", clip(event), state)
		return false
	}
	return true
}
