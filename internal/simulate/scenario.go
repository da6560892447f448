package simulate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	yaml "go.yaml.in/yaml/v4"

	"vobo/internal/definitions"
	"vobo/internal/fsm"
)

// scenario is a *.scenario.yaml file: steps at virtual times and what is expected.
type scenario struct {
	Definition string            `yaml:"definition"` // file, relative to the scenario
	Timezone   string            `yaml:"timezone"`   // the server's zone; default UTC
	People     map[string]person `yaml:"people"`     // others who act have the role requester
	Env        map[string]string `yaml:"env"`        // env.NAME; default https://name.example
	Start      startStep         `yaml:"start"`
	Steps      []stepNode        `yaml:"steps"`
}

type person struct {
	Name   string   `yaml:"name"`
	Email  string   `yaml:"email"`
	Groups []string `yaml:"groups"`
	Roles  []string `yaml:"roles"`
	Active *bool    `yaml:"active"`
}

type startStep struct {
	At        string    `yaml:"at"`
	Requester string    `yaml:"requester"`
	Data      yaml.Node `yaml:"data"`
	Refused   string    `yaml:"refused"`
}

// stepNode is one step and the line it stands on.
type stepNode struct {
	step
	line int
}

// step is time passing (`at` or `after` alone), an event, an effect's outcome, a
// cancellation, or what is expected.
type step struct {
	At        string    `yaml:"at"`
	After     string    `yaml:"after"`
	Event     string    `yaml:"event"`
	By        string    `yaml:"by"`
	Input     yaml.Node `yaml:"input"`
	Comment   string    `yaml:"comment"`
	Documents yaml.Node `yaml:"documents"`
	Refused   string    `yaml:"refused"` // the code with which the event must be refused
	Effect    string    `yaml:"effect"`
	Succeeds  yaml.Node `yaml:"succeeds"` // the result
	Fails     string    `yaml:"fails"`    // why; the effect is dead
	Unknown   string    `yaml:"unknown"`  // why; nobody knows whether it happened
	Cancel    string    `yaml:"cancel"`   // reason
	Expect    *expect   `yaml:"expect"`
}

// expect is compared with how things stand; what is not written is not looked at.
type expect struct {
	State       string    `yaml:"state"`
	Status      string    `yaml:"status"`
	Pending     *pending  `yaml:"pending"`
	Data        yaml.Node `yaml:"data"` // these fields; others may be there too
	Deadlines   *int      `yaml:"deadlines"`
	Tasks       *[]string `yaml:"tasks"`
	Attention   *[]string `yaml:"attention"` // reasons
	Emails      *int      `yaml:"emails"`
	Reminders   *int      `yaml:"reminders"`
	Effects     *[]string `yaml:"effects"`
	EscalatedTo *[]string `yaml:"escalated_to"`
}

type pending struct {
	Have int `yaml:"have"`
	Need int `yaml:"need"`
}

// UnmarshalYAML keeps the line; unknown keys are refused.
func (s *stepNode) UnmarshalYAML(n *yaml.Node) error {
	s.line = n.Line
	text, err := yaml.Marshal(n)
	if err != nil {
		return err
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&s.step); err != nil {
		return fmt.Errorf("line %d: %w", n.Line, err)
	}
	return nil
}

func readScenario(file string) (*scenario, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var s scenario
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&s); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if s.Definition == "" || s.Start.At == "" || s.Start.Requester == "" {
		return nil, fmt.Errorf("%s: a scenario needs definition, start.at and start.requester", file)
	}
	return &s, nil
}

var envName = regexp.MustCompile(`\benv\.([A-Z][A-Z0-9_]*)`)

// world makes the scenario's world: definition, people, environment. Keys of the
// definition that are not supported yet are refused by name.
func (s *scenario) world(file string) (*World, error) {
	path := filepath.Join(filepath.Dir(file), s.Definition)
	src, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	def, problems := definitions.Parse(path, src)
	var refused []string
	for _, p := range problems {
		if p.Severity != definitions.Warning {
			refused = append(refused, p.String())
		}
	}
	if len(refused) > 0 {
		return nil, fmt.Errorf("%s cannot be simulated:\n%s", s.Definition, strings.Join(refused, "\n"))
	}
	w := &World{Definition: def, Zone: time.UTC, Vars: map[string]string{}}
	if s.Timezone != "" {
		if w.Zone, err = time.LoadLocation(s.Timezone); err != nil {
			return nil, fmt.Errorf("%s: timezone: %w", file, err)
		}
	}
	for _, m := range envName.FindAllSubmatch(src, -1) {
		name := string(m[1])
		w.Vars[name] = "https://" + strings.ToLower(strings.ReplaceAll(name, "_", "-")) + ".example"
	}
	for name, value := range s.Env {
		w.Vars[name] = value
	}
	w.Directory = fsm.NewDirectory(1, s.people())
	return w, nil
}

// people are those listed, and as requesters all others who act.
func (s *scenario) people() []fsm.Person {
	var all []fsm.Person
	for id, p := range s.People {
		f := fsm.Person{ID: id, Name: p.Name, Email: p.Email, Groups: p.Groups, Roles: p.Roles, Active: p.Active == nil || *p.Active}
		if id == s.Start.Requester && len(f.Roles) == 0 {
			f.Roles = []string{"requester"}
		}
		all = append(all, f)
	}
	actors := []string{s.Start.Requester}
	for _, st := range s.Steps {
		actors = append(actors, st.By)
	}
	slices.Sort(actors)
	for _, id := range slices.Compact(actors) {
		if _, listed := s.People[id]; !listed && id != "" && !strings.Contains(id, ":") {
			all = append(all, fsm.Person{ID: id, Roles: []string{"requester"}, Active: true})
		}
	}
	for i := range all {
		if all[i].Email == "" && !strings.Contains(all[i].ID, "@") {
			all[i].Email = all[i].ID + "@example.com"
		}
	}
	return all
}

// tree turns a YAML node into a JSON tree; dates stay text. An absent node is nil.
func tree(n *yaml.Node) (any, error) {
	switch n.Kind {
	case yaml.MappingNode:
		m := make(map[string]any, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			v, err := tree(n.Content[i+1])
			if err != nil {
				return nil, err
			}
			m[n.Content[i].Value] = v
		}
		return m, nil
	case yaml.SequenceNode:
		list := make([]any, 0, len(n.Content))
		for _, c := range n.Content {
			v, err := tree(c)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	case yaml.ScalarNode:
		return scalar(n)
	}
	return nil, nil
}

func scalar(n *yaml.Node) (any, error) {
	switch n.ShortTag() {
	case "!!null":
		return nil, nil
	case "!!bool":
		var b bool
		err := n.Decode(&b)
		return b, err
	case "!!int", "!!float":
		v, err := definitions.DecodeJSON([]byte(n.Value))
		if number, ok := v.(json.Number); ok && err == nil {
			return number, nil
		}
		return nil, fmt.Errorf("line %d: write %s as a JSON number", n.Line, n.Value)
	}
	return n.Value, nil
}

func object(n *yaml.Node, what string) (map[string]any, error) {
	v, err := tree(n)
	if err != nil || v == nil {
		return nil, err
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("line %d: %s must be a mapping", n.Line, what)
	}
	return m, nil
}
