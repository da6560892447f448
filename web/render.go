package web

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"vobo/internal/approval"
	"vobo/internal/fsm"
)

//go:embed templates
var templateFiles embed.FS

// pages are the templates: the shared ones, and one set per page that is parsed when
// the page is first asked for, so that a start does not wait for them.
type pages struct {
	base *template.Template
	mu   sync.Mutex
	sets map[string]*template.Template
}

func loadPages() (*pages, error) {
	base, err := template.New("base").Funcs(template.FuncMap{
		"u": func(v any) template.HTML { return userText(fmt.Sprint(v)) }, "plain": func(v any) string { return plainText(fmt.Sprint(v)) },
		"words": func(v any) string { return inWords(fmt.Sprint(v)) }, "md": instructions, "icon": icon, "bind": bind,
		"logo": func() template.HTML { return logo },
	}).ParseFS(templateFiles, "templates/base/*.html")
	if err != nil {
		return nil, err
	}
	return &pages{base: base, sets: map[string]*template.Template{}}, nil
}

// set is a page's templates.
func (p *pages) set(name string) (*template.Template, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if set, ok := p.sets[name]; ok {
		return set, nil
	}
	set, err := p.base.Clone()
	if err != nil {
		return nil, err
	}
	if set, err = set.ParseFS(templateFiles, "templates/"+name+".html"); err != nil {
		return nil, err
	}
	p.sets[name] = set
	return set, nil
}

// view is what every page knows; Body is the page's own.
type view struct {
	Title   string
	Nav     string // the section that is marked as the present one
	Section string // of the console: the page that is marked as the present one
	Trouble count  // what waits for an operator, for those who oversee
	Visitor *visitor
	Quiet   bool // a token's page: no way but its own
	Wide    bool
	Body    any
	titles  map[string]string // of events, by name
	givenUp []string          // names of effects that a person has given up
	late    []string          // ids of effects whose result came after their wait
	clock   clock
	site    *site
}

// viewer lets templates hand themselves on: see bind.
type viewer interface{ self() *view }

func (v *view) self() *view { return v }

// bound is a part of a page with the view around it, so that parts can write times
// and words for the same reader.
type bound struct {
	*view
	D any
}

func bind(v viewer, d any) bound { return bound{view: v.self(), D: d} }

// T says words in the reader's language. Strings among args are user text.
func (v *view) T(key string, args ...any) (template.HTML, error) {
	return v.clock.say.html(key, args...)
}

// Text is T without markup, for attributes.
func (v *view) Text(key string, args ...any) string { return v.clock.say.text(key, args...) }

// Link is a path of ours under the base URL's prefix.
func (v *view) Link(parts ...string) string { return v.site.link(strings.Join(parts, "")) }

// Asset is the path of a static file.
func (v *view) Asset(name string) string { return v.site.link("/static/" + v.site.assets.public[name]) }

// Stamp, Until and Ago write times for the reader.
func (v *view) Stamp(t any) template.HTML { return v.clock.stamp(timeOf(t)) }

// Until names the zone and the time that is left.
func (v *view) Until(t any) template.HTML { return v.clock.stampFull(timeOf(t)) }

// Ago says how far a time is.
func (v *view) Ago(t any) template.HTML { return v.clock.stampRelative(timeOf(t)) }

// Urgency of a deadline: over, soon, later.
func (v *view) Urgency(t any) string { return v.clock.urgency(timeOf(t)) }

// Mailbox tells whether the mailbox page is offered in the navigation.
func (v *view) Mailbox() bool {
	switch v.site.cfg.Mailbox {
	case MailboxLoopback:
		return true
	case MailboxAdmins:
		return v.Visitor != nil && v.Visitor.HasRole("admin")
	}
	return false
}

// Demo tells that anybody may be anyone here.
func (v *view) Demo() bool { return v.site.cfg.Demo }

// CSRF is the token for the visitor's forms.
func (v *view) CSRF() string {
	if v.Visitor == nil {
		return ""
	}
	return v.Visitor.csrf
}

// Operator tells whether the visitor sees the repair actions.
func (v *view) Operator() bool {
	return v.Visitor != nil && v.Visitor.HasRole("operator", "admin")
}

// Event is an event's title where the page knows it, else its name in words.
func (v *view) Event(name string) string {
	if title := v.titles[name]; title != "" {
		return title
	}
	return inWords(name)
}

// Overseer tells whether the visitor reads every request and the console.
func (v *view) Overseer() bool {
	return v.Visitor != nil && v.Visitor.HasRole("operator", "admin", "auditor", "viewer")
}

// Console is the console's own navigation.
func (v *view) Console() []consoleLink { return consoleLinks }

// titled lets the page call events by their titles.
func (v *view) titled(events []approval.OfferedEvent) {
	if v.titles == nil {
		v.titles = map[string]string{}
	}
	for _, e := range events {
		v.titles[e.Name] = e.Title
	}
}

// Attention says why an operator should look.
func (v *view) Attention(reason string) template.HTML {
	text, err := v.T("attention." + reason)
	if err != nil {
		return v.mustT("attention.other")
	}
	return text
}

// Late tells whether a history row is a result that came after its wait.
func (v *view) Late(reason string) bool { return strings.HasPrefix(reason, "late:") }

// gaveUp lets history rows tell what a person gave up from what they resolved.
func (v *view) gaveUp(effects []approval.EffectView) {
	for _, e := range effects {
		if e.GivenUp {
			v.givenUp = append(v.givenUp, e.Name)
		}
	}
}

// IsLate tells whether an effect's result came when the wait that asked for it was over.
func (v *view) IsLate(effect string) bool { return slices.Contains(v.late, effect) }

// OutcomeOf is the outcome of an effect's nth attempt, from 0.
func (v *view) OutcomeOf(e approval.EffectView, n int) string { return outcomeOf(&e, n) }

// Ended is the key of the words for a history row by which a person tried an effect
// again, gave it up or said what became of it; "" for every other row.
func (v *view) Ended(t approval.TransitionView) string {
	switch {
	case t.Kind == fsm.TOperator && t.Event != "":
		return "timeline.again"
	case t.Kind != fsm.TEffect && t.Kind != fsm.TCompensation, t.Event == "", t.Actor.ID == "", t.Assurance == fsm.ByEngine, strings.HasPrefix(t.Actor.ID, "effect:"):
		return ""
	case len(t.Input) == 0 && slices.Contains(v.givenUp, t.Event):
		return "timeline.givenup"
	}
	return "timeline.resolved"
}

// Took writes how long something lasted: in milliseconds below a second, else in seconds
// with one digit.
func (v *view) Took(from, to any) template.HTML {
	d := max(timeOf(to).Sub(timeOf(from)), 0)
	if d < time.Second {
		return v.mustT("effect.took.ms", fmt.Sprint(d.Milliseconds()))
	}
	return v.mustT("effect.took", fmt.Sprintf("%.1f", d.Seconds()))
}

func timeOf(t any) time.Time {
	switch t := t.(type) {
	case time.Time:
		return t
	case *time.Time:
		if t != nil {
			return *t
		}
	case interface{ UTC() time.Time }:
		return t.UTC()
	}
	return time.Time{}
}

// clockFor is the clock of one reader.
func (s *site) clockFor(locale string, zone *time.Location) clock {
	if zone == nil {
		zone = s.cfg.Zone
	}
	return clock{now: s.cfg.Now(), zone: zone, say: languageOf(locale)}
}

// page makes the view of a logged-in person's page.
func (s *site) page(v *visitor, nav, title string, body any) *view {
	return &view{Title: title, Nav: nav, Visitor: v, Body: body, clock: s.clockFor(v.Locale, v.Zone), site: s}
}

// public makes the view of a page that knows nobody.
func (s *site) public(c echo.Context, title string, body any) *view {
	return &view{Title: title, Quiet: true, Body: body, clock: s.clockFor(localeOf(c.Request()), nil), site: s}
}

// render writes a page; nothing is written where its template fails.
func (s *site) render(c echo.Context, status int, name string, v *view) error {
	set, err := s.pages.set(name)
	if err != nil {
		return err
	}
	if !v.Quiet && v.Overseer() {
		if v.Trouble, err = s.trouble(c.Request().Context(), v.Visitor); err != nil {
			s.cfg.Log.Error("count what waits for operators", "error", err) // the page is worth more than its number
		}
	}
	var b bytes.Buffer
	if err := set.ExecuteTemplate(&b, "layout", v); err != nil {
		return fmt.Errorf("template %s: %w", name, err)
	}
	return c.HTMLBlob(status, b.Bytes())
}
