package definitions

import (
	"regexp"
	"slices"
	"strconv"
	"sync"

	yaml "go.yaml.in/yaml/v4"
)

// maxWaitFor bounds `wait: N`; no more children can be started by one effect.
const maxWaitFor = 10_000

// start reads the effect that starts other instances.
func (b *builder) start(n *yaml.Node, w where) *Start {
	m := b.mapping(n, "start")
	if m == nil {
		return nil
	}
	s := &Start{WaitFor: "all"}
	s.Definition, _ = b.name(m.need("definition"), "A definition", definitionName)
	if v := m.get("version"); v != nil {
		s.Version = b.integer(v, "version", 1, 1<<31-1)
	}
	s.ForEach = b.expr(m.get("for_each"), "for_each", wantList, w)
	if v := m.get("as"); v != nil {
		if s.As = b.localName(v); s.As != "" {
			w.sc = w.sc.withLocal(s.As, nil)
		}
	}
	switch {
	case m.has("for_each") && !m.has("as"):
		b.errorAt(m.key("for_each"), "start", "say what each entry is called: as: item", "for_each and as go together.")
	case m.has("as") && !m.has("for_each"):
		b.errorAt(m.key("as"), "start", "say over which list: for_each: data.items", "for_each and as go together.")
	}
	if v := m.get("data"); v != nil {
		s.Data = b.assigns(v, "start.data", w, nil)
	}
	b.waitFor(s, m)
	if s.Definition != "" && s.Definition == b.def.Name {
		b.warnAt(m.values["definition"], "starts-itself", "children may be 16 deep; start another definition, or add when to the effect",
			"%s starts instances of itself.", s.Definition)
	}
	m.done()
	return s
}

// localName reads the name after `as`, which may not hide another name.
func (b *builder) localName(n *yaml.Node) string {
	name, ok := b.name(n, "An entry", partName)
	if !ok {
		return ""
	}
	if name == "data" || name == "input" || rootNames[name] != nil || slices.Contains(reservedWords, name) {
		b.errorAt(n, "name", "take another name", "as may not be %s: the word means something in expressions.", name)
		return ""
	}
	return name
}

// waitFor reads how many children must end well, and whether anybody waits at all.
func (b *builder) waitFor(s *Start, m *mapping) {
	if v := m.get("wait"); v != nil {
		s.WaitFor = v.Value
		if v.Kind != yaml.ScalarNode || scalarKind(v) != numberScalar {
			if v.Value != "all" && v.Value != "any" {
				b.errorAt(v, "value", b.suggest(v.Value, []string{"all", "any"}), "wait must be all, any or a whole number.")
			}
		} else if need := b.integer(v, "wait", 1, maxWaitFor); need > 1 && !m.has("for_each") {
			b.errorAt(v, "start", "add for_each, or leave wait out", "wait asks for %d children, but only one is started.", need)
		} else {
			s.WaitFor = strconv.Itoa(need)
		}
	}
	if s.Detach = b.boolean(m.get("detach"), "detach"); s.Detach && m.has("wait") {
		b.errorAt(m.key("wait"), "contradiction", "", "Nobody waits for detached children.")
	}
}

// raise reads the effect that raises an event of another instance.
func (b *builder) raise(n *yaml.Node, w where) *Raise {
	m := b.mapping(n, "event")
	if m == nil {
		return nil
	}
	r := &Raise{Key: b.template(m.need("key"), "key", w)}
	if input := m.values["input"]; input != nil {
		m.asked = append(m.asked, "input")
		r.Input = b.body(input, w)
	}
	r.Definition, _ = b.name(m.need("definition"), "A definition", definitionName)
	r.Event, _ = b.name(m.need("event"), "An event", partName)
	m.done()
	return r
}

// resultOf are the schemas of the results that this product itself gives.
var resultOf = sync.OnceValue(func() map[EffectKind]*Schema {
	text := map[string]any{"type": "string"}
	child := map[string]any{"type": "object", "properties": map[string]any{"id": text, "key": text, "state": text, "data": map[string]any{}}}
	told := map[string]any{}
	for _, name := range []string{"id", "definition", "key", "state", "status"} {
		told[name] = text
	}
	for _, name := range []string{"version", "revision"} {
		told[name] = map[string]any{"type": "integer"}
	}
	children, _ := compileSchema(map[string]any{"type": "array", "items": child})
	instance, _ := compileSchema(map[string]any{"type": "object", "properties": told})
	return map[EffectKind]*Schema{EffectStart: children, EffectEvent: instance}
})

// outcomeScope is what `on_success` and `on_failure` may read: a result whose shape is
// known where it comes from this product.
func (b *builder) outcomeScope(kind EffectKind) *scope {
	shape := resultOf()[kind]
	if shape == nil {
		return b.scope("result response now")
	}
	key := "result of " + string(kind)
	if b.wider[key] == nil {
		b.wider[key] = b.scope("result response now").withLocal("result", shape)
	}
	return b.wider[key]
}

// byHand is the `compensate` that makes work for a person.
const byHand = "manual"

// secretName names credentials and webhook sources.
var secretName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,62}$`)

// escalateWord is the `on_undeliverable` that asks those whom the wait escalates to.
const escalateWord = "escalate"

// undeliverable reads what happens when mail cannot be delivered: an event, or escalate.
func (b *builder) undeliverable(of any, m *mapping) string {
	n := m.get("on_undeliverable")
	if n == nil {
		return ""
	}
	b.put(of, "on_undeliverable", n)
	if n.Kind != yaml.ScalarNode || n.Value != escalateWord && !b.names.events[n.Value] {
		hint := b.suggest(n.Value, append([]string{escalateWord}, b.names.eventNames...))
		if hint == "" {
			hint = "write escalate, or the name of an event"
		}
		b.errorAt(n, "unknown-event", hint, "on_undeliverable names the event %s, which does not exist.", clip(n.Value))
		return ""
	}
	return n.Value
}

// attachments reads one path or a list of paths to references of documents.
func (b *builder) attachments(n *yaml.Node, w where) []Path {
	if n == nil {
		return nil
	}
	nodes := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		nodes = n.Content
	}
	var list []Path
	for _, c := range nodes {
		p, ok := b.path(c, "attachments", "data.", w)
		if !ok {
			continue
		}
		if at := b.def.Data.At(p); at != nil && !at.node.holdsDocuments() {
			b.errorAt(c, "no-document", "declare it as {type: object}, or as a list of them", "attachments names %s, which holds no document.", clip("data."+p.Text))
			continue
		}
		list = append(list, p)
	}
	return list
}

// holdsDocuments tells whether a value may be the reference of a document, or a list of them.
func (n *node) holdsDocuments() bool {
	if n.kind == listNode && n.items != nil {
		n = n.items
	}
	return n.kind == anyNode || n.kind == objectNode || n.kind == mapNode || n.kind == listNode
}
