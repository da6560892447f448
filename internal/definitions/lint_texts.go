package definitions

import "slices"

// noteLateTexts: what is queued by a deadline, a cancel or a compensation may read
// `last` of the transition that entered the wait, which is history by then.
func (b *builder) noteLateTexts(effects []string) {
	for _, name := range effects {
		if e := b.def.effects[name]; e != nil && e.readsLast() {
			b.def.NeedsPast = true
		}
	}
}

// readsLast tells whether a text of the effect reads `last`.
func (e *Effect) readsLast() bool {
	last := e.When != nil && e.When.refs().Last
	look := func(t *Template) { last = last || t != nil && hasTemplate(t) && t.refs().Last }
	body := func(t *Tree) { last = last || t != nil && t.refs().Last }
	if e.Email != nil {
		for _, text := range []Text{e.Email.Subject, e.Email.Body} {
			for _, t := range text.ByLocale {
				look(t)
			}
		}
		for _, p := range slices.Concat(e.Email.To, e.Email.Cc) {
			look(p.Name)
		}
	}
	if e.Webhook != nil {
		look(e.Webhook.URL)
		for _, h := range e.Webhook.Headers {
			look(h.Value)
		}
		body(e.Webhook.Body)
	}
	if e.Start != nil {
		last = last || e.Start.ForEach != nil && e.Start.ForEach.refs().Last
		for _, a := range e.Start.Data {
			last = last || a.Value.Expr != nil && a.Value.Expr.refs().Last
		}
	}
	if e.Raise != nil {
		look(e.Raise.Key)
		body(e.Raise.Input)
	}
	return last
}
