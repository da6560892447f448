package definitions

import (
	yaml "go.yaml.in/yaml/v4"
)

// migrations checks the form of `migrate`; what it does comes with versions.
func (b *builder) migrations(n, key *yaml.Node) {
	if n == nil {
		return
	}
	b.unsupported(key, "migrate")
	for _, c := range b.list(n, "migrate") {
		m := b.mapping(c, "a migration")
		if m == nil {
			continue
		}
		if from := m.need("from"); from != nil && b.integer(from, "from", 1, 1<<31-1) >= b.def.Version && b.def.Version > 0 {
			b.errorAt(from, "migrate", "", "from must be an older version than %d.", b.def.Version)
		}
		eachKey(m.get("states"), func(_ string, to *yaml.Node) {
			if _, ok := b.names.kinds[to.Value]; !ok {
				b.errorAt(to, "unknown-state", b.suggest(to.Value, b.names.states), "migrate names the state %s, which does not exist.", clip(to.Value))
			}
		})
		if set := m.get("set"); set != nil {
			old := where{sc: newScope(nil).with("instance", "env", "now").withCalendars(b.names.calendars)}
			b.assigns(set, "migrate.set", old, b.data)
		}
		for _, p := range b.list(m.get("unset"), "unset") {
			b.text(p, "unset")
		}
		b.migrationTests(m.get("tests"))
		m.done()
	}
}

func (b *builder) migrationTests(n *yaml.Node) {
	for _, c := range b.list(n, "tests") {
		m := b.mapping(c, "a migration test")
		if m == nil {
			continue
		}
		for _, side := range []string{"given", "want"} {
			s := b.mapping(m.need(side), side)
			if s == nil {
				continue
			}
			state := s.need("state")
			if data := s.need("data"); data != nil {
				b.mapping(data, "data")
			}
			if side == "want" && state != nil {
				if _, ok := b.names.kinds[state.Value]; !ok {
					b.errorAt(state, "unknown-state", b.suggest(state.Value, b.names.states), "A test wants the state %s, which does not exist.", clip(state.Value))
				}
			}
			s.done()
		}
		m.done()
	}
}
