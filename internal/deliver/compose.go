package deliver

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"net/url"
	"strings"
	texttemplate "text/template"
	"time"
	"unicode"
	"unicode/utf8"

	"vobo/internal/fault"
)

// The kinds of task mails.
const (
	kindTask      = "task"
	kindReminder  = "reminder"
	kindEscalated = "escalated"
	kindChanged   = "changed"
	kindTold      = "told"
)

// Limits of what a mail shows; what is longer is shortened visibly.
const (
	MaxLinkLength = 2000 // bytes; a longer link is refused
	maxFacts      = 40
	maxFactRunes  = 1500
	maxFactLines  = 20
	maxTextRunes  = 20_000
	maxOthers     = 10
)

// TaskMail is what a mail about a task says. Everything but InstructionsHTML is text
// and is escaped; it may hold anything.
type TaskMail struct {
	Kind                 string // task | reminder | escalated | changed | told
	Service              string // the service's name, as its logo; "": Vobo
	Process              string // the definition's title, beside the name of the service; "": left out
	Requester            string // display name of who asks
	Title                string // the task's title; also the subject
	Lead                 string // first sentence; "": the usual one of the kind
	Comment              string // what somebody wrote with a change; "": nothing
	Facts                [][2]string
	InstructionsText     string
	InstructionsHTML     string // safe HTML, rendered from Markdown with raw HTML off
	DueAt                *time.Time
	Zone                 *time.Location // of the reader; nil: UTC
	Locale               string         // of the reader, BCP 47
	Link                 string         // the personal link; "": the button leads to InboxLink
	InboxLink            string
	ReminderK, ReminderN int      // this is reminder K of N; N = 0: not known
	Why                  string   // why the reader gets this; "": the usual sentence of the kind
	Others               []string // display names of who else is asked
	PersonName           string   // whom the link is for
}

// LoginMail is what a mail with a login link says.
type LoginMail struct {
	Service    string
	PersonName string
	Link       string
	Minutes    int // how long the link lasts; 0: not said
	Locale     string
}

// page is what the templates see; text in it is clean but not escaped.
type page struct {
	Lang, Service, Process string
	Subject, Preview       string
	Badge, Title, Greeting string
	Lead, Until            string
	FactsTitle             string
	Facts                  []fact
	Instructions           string
	InstructionsHTML       template.HTML
	Paragraphs             []string
	Button, Link, BareLink string
	Notes                  []string
}

type fact struct{ Label, Value string }

//go:embed templates/mail.html.tmpl templates/mail.txt.tmpl
var templateFiles embed.FS

var (
	htmlMail = template.Must(template.ParseFS(templateFiles, "templates/mail.html.tmpl"))
	textMail = texttemplate.Must(texttemplate.New("mail.txt.tmpl").Funcs(texttemplate.FuncMap{
		"isolate": isolate,
		"factRow": factRow,
	}).ParseFS(templateFiles, "templates/mail.txt.tmpl"))
)

// RenderTaskMail writes subject, text part and HTML part of a mail about a task. A link
// that is not http(s) or longer than MaxLinkLength, and an unknown kind, are
// fault.InvalidInput.
func RenderTaskMail(m TaskMail) (subject, text, html string, err error) {
	p := phrasesFor(m.Locale)
	if _, ok := p.lead[m.Kind]; !ok {
		return "", "", "", fault.New(fault.InvalidInput, "A task mail of kind %q is not known.", m.Kind)
	}
	title := clip(m.Title, 300)
	pg := page{
		Lang: p.lang, Service: serviceName(m.Service), Title: title, Badge: m.badge(p),
		Process: clip(m.Process, 120), Lead: m.Lead, FactsTitle: p.facts,
		Instructions: clipText(m.InstructionsText, maxTextRunes, 0, p), InstructionsHTML: template.HTML(m.InstructionsHTML),
	}
	asker := clip(m.Requester, 120)
	if asker == "" {
		asker = p.somebody
	}
	if pg.Lead == "" {
		pg.Lead = fmt.Sprintf(p.lead[m.Kind], asker)
	}
	pg.Lead = clip(pg.Lead, 500)
	if m.DueAt != nil && m.Kind != kindTold {
		pg.Until = fmt.Sprintf(p.until, p.moment(*m.DueAt, m.Zone))
	}
	for _, f := range m.Facts[:min(len(m.Facts), maxFacts)] {
		pg.Facts = append(pg.Facts, fact{clip(f[0], 120), clipText(f[1], maxFactRunes, maxFactLines, p)})
	}
	if left := len(m.Facts) - maxFacts; left > 0 {
		pg.Facts = append(pg.Facts, fact{"…", fmt.Sprintf(p.more, left)})
	}
	if comment := clipText(m.Comment, maxFactRunes, maxFactLines, p); comment != "" {
		pg.Paragraphs = []string{p.comment + "\n" + comment}
	}
	pg.Button, pg.Link, pg.BareLink = p.open, m.InboxLink, p.bareLink
	if m.Link != "" {
		pg.Button, pg.Link = p.decide, m.Link
	}
	pg.Notes = m.notes(p)
	pg.Subject = title
	if pg.Badge != "" {
		pg.Subject = pg.Badge + ": " + title
	}
	pg.Preview = strings.TrimSpace(pg.Lead + " " + pg.Until)
	text, html, err = render(pg)
	return pg.Subject, text, html, err
}

// badge is what sets a mail apart from the first one about the same task.
func (m TaskMail) badge(p *phrases) string {
	switch m.Kind {
	case kindReminder:
		if m.ReminderN > 0 {
			return fmt.Sprintf(p.reminder, m.ReminderK, m.ReminderN)
		}
		return fmt.Sprintf(p.reminderOf, max(m.ReminderK, 1))
	case kindEscalated:
		return p.escalated
	case kindChanged:
		return p.changed
	case kindTold:
		return p.told
	}
	return ""
}

// notes are the small print: whom the link is for, why this mail, who else.
func (m TaskMail) notes(p *phrases) []string {
	var notes []string
	if name := clip(m.PersonName, 120); m.Link != "" && name != "" {
		notes = append(notes, fmt.Sprintf(p.personal, name))
	}
	if why := clip(m.Why, 500); why != "" {
		notes = append(notes, why)
	} else {
		notes = append(notes, p.why[m.Kind])
	}
	if len(m.Others) > 0 {
		names := make([]string, 0, maxOthers+1)
		for _, o := range m.Others[:min(len(m.Others), maxOthers)] {
			names = append(names, clip(o, 120))
		}
		if left := len(m.Others) - maxOthers; left > 0 {
			names = append(names, fmt.Sprintf(p.more, left))
		}
		notes = append(notes, fmt.Sprintf(p.others, strings.Join(names, ", ")))
	}
	return append(notes, fmt.Sprintf(p.sentBy, serviceName(m.Service)))
}

// RenderPlainMail writes the parts of an `email` effect. body is text, whatever it
// looks like: nothing in it becomes markup or a link of ours.
func RenderPlainMail(service, subject, body string) (text, html string, err error) {
	p := phrasesFor("")
	body = clipText(body, maxTextRunes, 0, p)
	pg := page{Lang: p.lang, Service: serviceName(service), Subject: clip(subject, 300), Title: clip(subject, 300)}
	for para := range strings.SplitSeq(body, "\n\n") {
		if para = strings.Trim(para, "\n"); para != "" {
			pg.Paragraphs = append(pg.Paragraphs, para)
		}
	}
	if len(pg.Paragraphs) > 0 {
		pg.Preview = clip(pg.Paragraphs[0], 120)
	}
	pg.Notes = []string{fmt.Sprintf(p.sentBy, pg.Service)}
	return render(pg)
}

// RenderLoginMail writes subject and parts of the mail with a login link, which must be
// one (else fault.InvalidInput).
func RenderLoginMail(m LoginMail) (subject, text, html string, err error) {
	p := phrasesFor(m.Locale)
	service := serviceName(m.Service)
	if err := checkLink(m.Link); err != nil {
		return "", "", "", err
	}
	pg := page{
		Lang: p.lang, Service: service, Subject: fmt.Sprintf(p.loginSubject, service), Title: fmt.Sprintf(p.loginSubject, service),
		Lead: fmt.Sprintf(p.loginLead, service), Button: p.loginButton, Link: m.Link, BareLink: p.bareLink,
		Notes: []string{fmt.Sprintf(p.loginWhy, service)},
	}
	if m.Minutes > 0 {
		pg.Until = fmt.Sprintf(p.loginLasts, p.duration(m.Minutes))
	}
	if name := clip(m.PersonName, 120); name != "" {
		pg.Greeting = fmt.Sprintf(p.greeting, name)
		pg.Notes = append([]string{fmt.Sprintf(p.personal, name)}, pg.Notes...)
	}
	pg.Preview = strings.TrimSpace(pg.Lead + " " + pg.Until)
	text, html, err = render(pg)
	return pg.Subject, text, html, err
}

func render(pg page) (text, html string, err error) {
	if pg.Link != "" {
		if err := checkLink(pg.Link); err != nil {
			return "", "", err
		}
	}
	var t, h bytes.Buffer
	if err := textMail.Execute(&t, pg); err != nil {
		return "", "", fault.Wrap(err, fault.Internal, "The mail's text could not be written.")
	}
	if err := htmlMail.Execute(&h, pg); err != nil {
		return "", "", fault.Wrap(err, fault.Internal, "The mail's HTML could not be written.")
	}
	return strings.Trim(t.String(), "\n") + "\n", h.String(), nil
}

func checkLink(link string) error {
	u, err := url.Parse(link)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || strings.ContainsAny(link, " \t\r\n<>\"") {
		return fault.New(fault.InvalidInput, "The mail's link is no http or https address. Check VOBO_BASE_URL.")
	}
	if len(link) > MaxLinkLength {
		return fault.New(fault.InvalidInput, "The mail's link is longer than %d bytes. Shorten VOBO_BASE_URL.", MaxLinkLength)
	}
	return nil
}

func serviceName(s string) string {
	if s = clip(s, 60); s == "" {
		return "Vobo"
	}
	return s
}

// clip makes one clean line of at most n runes.
func clip(s string, n int) string {
	s = oneLine(s)
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return strings.TrimSpace(string([]rune(s)[:n])) + "…"
}

// clipText makes clean text of several lines: no control or direction characters, no
// more than one empty line in a row, at most n runes and (if not 0) lines.
func clipText(s string, n, lines int, p *phrases) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\t' || r == '\u2028' || r == '\u2029':
			return ' '
		case isDirectionControl(r):
			return -1
		}
		return r
	}, cleanBody(s))
	for strings.Contains(s, "\n\n\n") {
		s = strings.ReplaceAll(s, "\n\n\n", "\n\n")
	}
	s = strings.Trim(s, "\n")
	cut := false
	if lines > 0 {
		if all := strings.SplitN(s, "\n", lines+1); len(all) > lines {
			s, cut = strings.Join(all[:lines], "\n"), true
		}
	}
	if utf8.RuneCountInString(s) > n {
		s, cut = string([]rune(s)[:n]), true
	}
	if cut {
		s = strings.TrimRight(s, " \n") + " " + p.shortened
	}
	return s
}

// CleanText makes text of several lines as a mail shows it: no control or direction
// characters, and no longer than leaves the rest of the mail in sight. What is rendered
// to HTML before it comes here goes through it first.
func CleanText(s, locale string) string { return clipText(s, maxTextRunes, 0, phrasesFor(locale)) }

// isolate keeps right-to-left text from turning what stands around it: a first-strong
// isolate (Unicode UAX #9) where there is such text, else nothing.
func isolate(s string) string {
	for _, r := range s {
		if unicode.In(r, unicode.Arabic, unicode.Hebrew, unicode.Syriac, unicode.Thaana, unicode.Nko) {
			return "\u2068" + s + "\u2069"
		}
	}
	return s
}

// factRow writes one fact of the text part; further lines of a value are set in, so
// that no value can pass for another fact.
func factRow(f fact) string {
	lines := strings.Split(f.Value, "\n")
	for i, l := range lines {
		lines[i] = isolate(l)
	}
	return "  " + isolate(f.Label) + ": " + strings.Join(lines, "\n      ")
}
