package definitions

import (
	"cmp"
	"slices"
	"strings"

	yaml "go.yaml.in/yaml/v4"
)

// secretKind tells what a name stands for in the file of secrets.
type secretKind int

const (
	credentialSecret secretKind = iota // of webhooks that go out
	sourceSecret                       // of callbacks that come in
)

// secretUse is a place that names something of the file of secrets.
type secretUse struct {
	kind         secretKind
	name         string
	line, column int
}

func (b *builder) needSecret(n *yaml.Node, kind secretKind, name string) {
	b.secretUses = append(b.secretUses, secretUse{kind, name, n.Line, n.Column})
}

// Credentials lists the names under which webhooks look for credentials, sorted and once each.
func (d *Definition) Credentials() []string { return d.secretNames(credentialSecret) }

// Sources lists the webhook sources whose signatures callbacks ask for, sorted and once each.
func (d *Definition) Sources() []string { return d.secretNames(sourceSecret) }

func (d *Definition) secretNames(kind secretKind) []string {
	var names []string
	for _, use := range d.secrets {
		if use.kind == kind {
			names = append(names, use.name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// CheckSecrets names the credentials and webhook sources that the definition uses and
// that are not among those given: an error for each at the place of its first use.
func (d *Definition) CheckSecrets(credentials, sources []string) Problems {
	var problems Problems
	seen := map[secretUse]bool{}
	for _, use := range d.secrets {
		once := secretUse{kind: use.kind, name: use.name}
		p := Problem{
			File: d.File, Line: use.line, Column: use.column, Severity: Error,
			Hint: "add it to the file of VOBO_WEBHOOK_SECRETS",
		}
		known := credentials
		if use.kind == sourceSecret {
			known = sources
			p.Code, p.Detail = "source-missing", "The webhook source "+use.name+" is not configured here."
		} else {
			p.Code, p.Detail = "credentials-missing", "The credentials "+use.name+" are not configured here."
		}
		if !seen[once] && !slices.Contains(known, use.name) {
			problems = append(problems, p)
		}
		seen[once] = true
	}
	return problems
}

// CorrelationShape is one way in which calls for an event are told apart.
type CorrelationShape struct {
	Event string
	Paths []string // input paths, sorted, as Correlation.Input.Text: without "input."
}

// Correlations lists the shapes of all events that correlate, by event and paths, once each.
func (d *Definition) Correlations() []CorrelationShape {
	var shapes []CorrelationShape
	for _, s := range d.States {
		for _, e := range s.Events {
			if len(e.Correlate) == 0 {
				continue
			}
			shape := CorrelationShape{Event: e.Name}
			for _, c := range e.Correlate {
				shape.Paths = append(shape.Paths, c.Input.Text)
			}
			slices.Sort(shape.Paths)
			shapes = append(shapes, shape)
		}
	}
	order := func(x, y CorrelationShape) int {
		return cmp.Or(strings.Compare(x.Event, y.Event), slices.Compare(x.Paths, y.Paths))
	}
	slices.SortFunc(shapes, order)
	return slices.CompactFunc(shapes, func(x, y CorrelationShape) bool { return order(x, y) == 0 })
}

// uses fills in what a state's waits ask of the rest of the product.
func (b *builder) uses(g *graph) {
	for _, s := range b.def.States {
		if s.Kind != Wait {
			continue
		}
		for name := range g.queued[s.Name] {
			e := b.def.effects[name]
			s.StartsChildren = s.StartsChildren || e != nil && e.Start != nil && !e.Start.Detach
		}
		s.TakesCalls = slices.ContainsFunc(s.Events, (*Event).openToSystems)
	}
}

// openToSystems tells whether an arm may be taken by a system.
func (e *Event) openToSystems() bool {
	return e.openTo(KindSystem) || e.openTo(KindDynamic)
}
