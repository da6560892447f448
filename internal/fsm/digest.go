package fsm

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	"vobo/internal/definitions"
)

// shown is what one task puts before its reviewers.
type shown struct {
	title        map[string]string
	instructions map[string]string
	priority     string
	facts        []Fact
	digest       string
}

// render makes the open task's texts and facts from the present data, and the digest
// over them.
func (p *planner) render() (*shown, error) {
	if p.shown != nil {
		return p.shown, nil
	}
	task, env := p.task(), p.entered()
	s := &shown{priority: "normal"}
	var err error
	if s.title, err = p.titleOf(task, env); err != nil {
		return nil, err
	}
	if s.instructions, err = byLocale(task.Instructions, env); err != nil {
		return nil, err
	}
	if task.Priority != nil {
		priority, err := task.Priority.String(env, definitions.EscapeNone)
		if err != nil {
			return nil, err
		}
		if slices.Contains([]string{"low", "normal", "high", "urgent"}, priority) {
			s.priority = priority
		}
	}
	s.facts = p.facts(task, env)
	s.digest = p.digest(task, s)
	p.shown = s
	return s, nil
}

// task is what the present wait puts before people; never nil.
func (p *planner) task() *definitions.Task {
	if len(p.state.Tasks) > 0 {
		return p.state.Tasks[0]
	}
	return &definitions.Task{}
}

func (p *planner) titleOf(task *definitions.Task, env *definitions.Env) (map[string]string, error) {
	if !task.Title.IsZero() {
		return byLocale(task.Title, env)
	}
	locales := []string{""}
	for _, text := range []definitions.Text{p.def.Title, p.state.Title} {
		for locale := range text.ByLocale {
			if !slices.Contains(locales, locale) {
				locales = append(locales, locale)
			}
		}
	}
	titles := make(map[string]string, len(locales))
	for _, locale := range locales {
		title, err := p.def.Title.In(locale, env)
		if err != nil {
			return nil, err
		}
		if title == "" {
			title = p.def.Name
		}
		titles[locale] = title + ": " + p.state.Label(locale)
	}
	return titles, nil
}

func byLocale(text definitions.Text, env *definitions.Env) (map[string]string, error) {
	if text.IsZero() {
		return nil, nil
	}
	all := make(map[string]string, len(text.ByLocale))
	for locale, template := range text.ByLocale {
		s, err := template.String(env, definitions.EscapeNone)
		if err != nil {
			return nil, err
		}
		all[locale] = s
	}
	return all, nil
}

// inLocale picks a text: the locale, its language, "", English, any in fixed order.
func inLocale(texts map[string]string, locale string) string {
	base, _, _ := strings.Cut(locale, "-")
	for _, l := range []string{locale, base, "", "en"} {
		if s, ok := texts[l]; ok {
			return s
		}
	}
	first := ""
	for l := range texts {
		if first == "" || l < first {
			first = l
		}
	}
	return texts[first]
}

// facts gives the shown data paths that are there.
func (p *planner) facts(task *definitions.Task, env *definitions.Env) []Fact {
	if task.Show != nil {
		facts := make([]Fact, 0, len(task.Show))
		for _, path := range task.Show {
			if v, ok := path.Get(p.inst.Data, env); ok {
				text := strings.TrimPrefix(path.Text, "data.")
				facts = append(facts, Fact{Path: text, Label: labelOf(text), Value: v})
			}
		}
		return facts
	}
	facts := make([]Fact, 0, len(p.inst.Data))
	for _, name := range p.fieldOrder() {
		if v, ok := p.inst.Data[name]; ok {
			facts = append(facts, Fact{Path: name, Label: labelOf(name), Value: v})
		}
	}
	return facts
}

// fieldOrder gives the top-level fields as the schema wrote them, then others by name.
func (p *planner) fieldOrder() []string {
	names := make([]string, 0, len(p.inst.Data))
	if p.def.Data != nil {
		for _, f := range p.def.Data.Fields() {
			names = append(names, f.Name)
		}
	}
	for _, name := range sortedKeys(p.inst.Data) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

var spaced = strings.NewReplacer("_", " ", ".", " ", "-", " ")

// labelOf puts a path into words: "applicant.tax_id" becomes "Applicant tax id".
func labelOf(path string) string {
	words := spaced.Replace(path)
	if words == "" {
		return path
	}
	return strings.ToUpper(words[:1]) + words[1:]
}

// digest is "v1:" and the hexadecimal SHA-256 over definition hash, wait, title,
// instructions, shown facts, documents, and the events offered (whose forms and
// comment rules the definition's hash covers).
func (p *planner) digest(task *definitions.Task, s *shown) string {
	b := make([]byte, 0, 1024)
	b = append(b, `{"definition":`...)
	b = appendJSON(b, p.def.Hash)
	documents := map[string]any{}
	b = append(b, `,"events":[`...)
	first := true
	for _, e := range p.state.Events {
		if !forHumans(e) || task.Events != nil && !slices.Contains(task.Events, e.Name) {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = appendJSON(b, e.Name)
		for _, rule := range e.Documents {
			if v, ok := p.inst.Data[rule.Name]; ok {
				documents[rule.Name] = v
			}
		}
	}
	b = append(b, `],"documents":`...)
	if len(documents) > 0 {
		b = append(b, definitions.CanonicalJSON(documents)...)
	}
	b = append(b, `,"facts":[`...)
	for _, f := range s.facts {
		b = append(b, '[')
		b = appendJSON(b, f.Path)
		b = append(b, ',')
		b = append(b, definitions.CanonicalJSON(f.Value)...)
		b = append(b, ']')
	}
	b = append(b, `],"instructions":`...)
	b = appendTexts(b, s.instructions)
	b = append(b, `,"title":`...)
	b = appendTexts(b, s.title)
	b = append(b, `,"wait":`...)
	b = strconv.AppendInt(b, int64(p.inst.Wait), 10)
	sum := sha256.Sum256(append(b, '}'))
	return "v1:" + hex.EncodeToString(sum[:])
}

func appendTexts(b []byte, texts map[string]string) []byte {
	locales := make([]string, 0, len(texts))
	for l := range texts {
		locales = append(locales, l)
	}
	slices.Sort(locales)
	b = append(b, '[')
	for _, l := range locales {
		b = appendJSON(b, l)
		b = append(b, ':')
		b = appendJSON(b, texts[l])
	}
	return append(b, ']')
}

// forHumans tells whether people or systems may raise the event at all.
func forHumans(e *definitions.Event) bool {
	for _, arm := range e.Arms {
		for _, by := range arm.By {
			if by.Kind != definitions.KindTimer && by.Kind != definitions.KindEffect {
				return true
			}
		}
	}
	return false
}

// Digest gives the digest of what the present wait shows now; "" where the instance
// does not wait.
func Digest(snap *Snapshot) (string, error) {
	p := newPlanner(snap, &Event{Kind: KindRaise}, snap.Instance.LastEventAt)
	if p.state == nil || p.state.Kind != definitions.Wait {
		return "", nil
	}
	s, err := p.render()
	if err != nil {
		return "", err
	}
	return s.digest, nil
}
