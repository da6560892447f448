package web

import (
	"bytes"
	"context"
	"encoding/json"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"vobo/internal/approval"
	"vobo/internal/definitions"
	"vobo/internal/fault"
	"vobo/internal/fsm"
)

// What a person may say of an effect that the service cannot end by itself.
const (
	sayHappened = "happened"
	sayAgain    = "again"
	sayGiveUp   = "giveup"
)

// ending is one answer, none of them set beforehand.
type ending struct {
	Name  string
	Title template.HTML
	Does  template.HTML
}

// effectPage is one effect with everything that is known of it.
type effectPage struct {
	*approval.EffectView
	Instance *approval.InstanceView
	Process  string               // the definition's title
	Undone   *approval.EffectView // of a compensation: what it undoes
	Refused  string               // why its result could not be taken; "" where it was
	Options  []ending             // empty: there is nothing to say
	Choice   string
	Reason   string
	Typed    string // the result, as typed
	Once     string
	Errors   map[string]string
	Summary  []mistake
	Notice   string
}

// Manual tells that it is work for a person's hands.
func (p *effectPage) Manual() bool { return p.Kind == "manual" }

// Why says in words why it stands where it stands.
func (p *effectPage) Why() string { return reasonOf(p.EffectView) }

// Since is when it came to stand there.
func (p *effectPage) Since() approval.Time { return sinceOf(p.EffectView) }

// Ask is the key of the question that the options answer.
func (p *effectPage) Ask() string {
	switch {
	case p.Manual():
		return "effect.ask.manual"
	case p.Refused != "":
		return "effect.ask.refused"
	}
	return "effect.ask." + string(p.Status)
}

// Outcome is the key of the words for its nth attempt; n counts from 0.
func (p *effectPage) Outcome(n int) string { return outcomeOf(p.EffectView, n) }

// outcomeOf is an attempt's outcome; the last try of an effect that is dead was the last.
func outcomeOf(e *approval.EffectView, n int) string {
	outcome := e.Attempts[n].Outcome
	if outcome == "retry" && e.Status == fsm.EffectDead && n == len(e.Attempts)-1 {
		return "exhausted"
	}
	return outcome
}

// Path is the page's own.
func (p *effectPage) Path() string { return "/effects/" + url.PathEscape(p.ID) }

// Protocol names what an attempt's status is a number of.
func (p *effectPage) Protocol() string {
	if p.Kind == "webhook" {
		return "HTTP"
	}
	return "SMTP"
}

func (p *effectPage) wrong(field, text string) {
	p.Errors[field] = text
	p.Summary = append(p.Summary, mistake{Target: field, Text: text})
}

// effectOf reads an effect with what its page tells about it.
func (s *site) effectOf(c echo.Context, v *visitor) (*effectPage, error) {
	ctx := c.Request().Context()
	e, err := s.svc.Effect(ctx, v.Caller, c.Param("id"))
	if err != nil {
		return nil, err
	}
	p := &effectPage{EffectView: e, Errors: map[string]string{}}
	if p.Instance, err = s.svc.Instance(ctx, v.Caller, e.InstanceID); err != nil {
		return nil, err
	}
	if e.Undoes != "" {
		p.Undone, err = s.svc.Effect(ctx, v.Caller, e.Undoes)
		if err != nil && fault.CodeOf(err) != fault.NotFound {
			return nil, err
		}
	}
	def, err := s.definitionOf(ctx, v, p.Instance)
	if err != nil {
		return nil, err
	}
	p.Process, p.Refused = processTitle(def, p.Instance, v.Locale), refusedResult(e, p.Instance)
	if (slices.Contains(needPeople, e.Status) || p.Refused != "") && v.HasRole("operator", "admin") {
		p.Options, err = p.options(languageOf(v.Locale), def)
	}
	return p, err
}

// refusedResult says why the result of an effect that succeeded was not taken.
func refusedResult(e *approval.EffectView, in *approval.InstanceView) string {
	if e.Status != fsm.EffectSucceeded {
		return ""
	}
	for _, a := range in.AttentionReasons {
		if a.Reason == "result-refused" && isAbout(a.Ref, e.ID, in.ID) {
			return a.Detail
		}
	}
	return ""
}

// isAbout tells whether an attention's reference names an effect: in full, or within its instance.
func isAbout(ref, effect, instance string) bool {
	return ref != "" && (ref == effect || instance+"-"+ref == effect)
}

// processTitle is what a process is called in the reader's language.
func processTitle(def *definitions.Definition, in *approval.InstanceView, locale string) string {
	if def == nil || def.Title.IsZero() {
		return inWords(in.Definition)
	}
	return def.Label(languageOf(locale).locale)
}

// definitionOf reads the version that an instance runs by; nil where it is gone or not the visitor's to read.
func (s *site) definitionOf(ctx context.Context, v *visitor, in *approval.InstanceView) (*definitions.Definition, error) {
	_, def, err := s.svc.Definition(ctx, v.Caller, in.Definition, in.Version)
	if code := fault.CodeOf(err); err != nil && code != fault.NotFound && code != fault.Forbidden {
		return nil, err
	}
	return def, nil
}

// options are the answers with their consequences.
func (p *effectPage) options(say language, def *definitions.Definition) (all []ending, err error) {
	var fires, fails *definitions.Outcome
	if def != nil {
		if e := def.Effect(p.Name); e != nil {
			fires, fails = e.OnSuccess, e.OnFailure
		}
	}
	for _, name := range p.answers() {
		title, key, args := "effect."+name, "", []any(nil)
		switch name {
		case sayHappened:
			key, args = p.consequence(name, def, fires)
		case sayGiveUp:
			key, args = p.consequence(name, def, fails)
		default:
			key = p.repetition()
		}
		switch {
		case p.Manual():
			title = "effect.manual." + name
		case p.Refused != "":
			title = "effect.refused." + name
		}
		if key == "" {
			continue
		}
		o := ending{Name: name}
		if o.Title, err = say.html(title); err != nil {
			return nil, err
		}
		if o.Does, err = say.html(key, args...); err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	return all, nil
}

// answers are what may be said: of a result that was refused, another one; of what was
// given up, only that it is tried again.
func (p *effectPage) answers() []string {
	switch {
	case p.Refused != "":
		return []string{sayHappened}
	case p.GivenUp:
		return []string{sayAgain}
	}
	return []string{sayHappened, sayAgain, sayGiveUp}
}

// consequence names the sentence that says what follows from an outcome.
func (p *effectPage) consequence(name string, def *definitions.Definition, outcome *definitions.Outcome) (string, []any) {
	switch {
	case p.Undoes != "" || p.Manual():
		return "effect." + name + ".undo", nil
	case p.blocks():
		return "effect." + name + ".blocked", nil
	case outcome == nil || outcome.Fire == "":
		return "effect." + name + ".counts", nil
	}
	title := inWords(outcome.Fire)
	state := def.State(p.Instance.State)
	if state == nil || state.Event(outcome.Fire) == nil || p.Instance.Status != fsm.Running {
		return "effect." + name + ".over", []any{title}
	}
	event := state.Event(outcome.Fire)
	undoes := slices.ContainsFunc(event.Arms, func(a *definitions.Arm) bool { return a.Compensate })
	if title = event.Label("en"); undoes {
		return "effect." + name + ".fires.undoes", []any{title}
	}
	return "effect." + name + ".fires", []any{title}
}

// blocks tells that undoing waits for what became of this effect.
func (p *effectPage) blocks() bool {
	return p.Instance.Compensation != nil && slices.ContainsFunc(p.Instance.Compensation.Items, func(i approval.CompensationItemView) bool {
		return i.Effect == p.ID && i.Status == "blocked"
	})
}

// repetition names the sentence that says what trying again does; "" where it is not to be had.
func (p *effectPage) repetition() string {
	switch {
	case p.Manual():
		return ""
	case p.Kind == "start" || p.Kind == "stop" || p.Kind == "event":
		return "effect.again." + p.Kind
	case p.Kind == "email" || strings.HasSuffix(p.Kind, "-mail"):
		return "effect.again.mail"
	case p.Idempotent:
		return "effect.again.safe"
	}
	return "effect.again.risky"
}

func (s *site) showEffect(c echo.Context, v *visitor) error {
	p, err := s.effectOf(c, v)
	if err != nil {
		return err
	}
	if p.Once, err = s.once(); err != nil {
		return err
	}
	return s.effectView(c, v, p, http.StatusOK)
}

func (s *site) effectView(c echo.Context, v *visitor, p *effectPage, status int) error {
	view := s.page(v, "instances", "", p)
	if view.Overseer() {
		view = s.console(v, "effects", p)
	}
	view.Title = inWords(p.Name)
	if status >= 400 {
		view.Title = view.Text("title.error", view.Title)
	}
	return s.render(c, status, "effect", view)
}

// endEffect records what an operator says of an effect.
func (s *site) endEffect(c echo.Context, v *visitor) error {
	p, err := s.effectOf(c, v)
	if err != nil {
		return err
	}
	form, say := c.Request().PostForm, languageOf(v.Locale)
	p.Choice, p.Reason, p.Typed, p.Once = form.Get("choice"), tidyComment(form.Get("reason")), form.Get("result"), form.Get("once")
	if !slices.ContainsFunc(p.Options, func(o ending) bool { return o.Name == p.Choice }) && len(p.Options) > 0 {
		p.wrong("choice", say.text("effect.choice.missing"))
	}
	if p.Reason == "" {
		p.wrong("reason", say.text("confirm.reason.missing"))
	}
	resolve := approval.ResolveRequest{Outcome: "failed", Reason: p.Reason}
	if text := strings.TrimSpace(p.Typed); text != "" && p.Choice == sayHappened {
		if resolve.Result, err = definitions.DecodeJSON([]byte(text)); err != nil {
			p.wrong("result", say.text("form.bad.json", fault.As(err).Message))
		}
	}
	if len(p.Summary) > 0 {
		return s.effectView(c, v, p, http.StatusUnprocessableEntity)
	}
	ctx, idem := c.Request().Context(), s.idempotency(c, form)
	switch p.Choice {
	case sayHappened:
		resolve.Outcome = "succeeded"
		_, err = s.svc.ResolveEffect(ctx, v.Caller, p.ID, resolve, idem)
	case sayGiveUp:
		_, err = s.svc.ResolveEffect(ctx, v.Caller, p.ID, resolve, idem)
	default:
		_, err = s.svc.RetryEffect(ctx, v.Caller, p.ID, p.Reason, idem)
	}
	if err == nil {
		return s.redirect(c, p.Path())
	}
	return s.notEnded(c, v, p, err)
}

// notEnded shows the form again with why nothing was recorded.
func (s *site) notEnded(c echo.Context, v *visitor, p *effectPage, err error) error {
	f := refusal(err)
	switch f.Code {
	case fault.Internal, fault.Unauthorized, fault.Forbidden, fault.NotFound:
		return err
	}
	for _, e := range f.Fields {
		field, _, _ := strings.Cut(strings.TrimPrefix(e.Pointer, "/"), "/")
		p.wrong(field, e.Detail)
	}
	if len(f.Fields) == 0 {
		p.Notice = f.Message
	}
	retryAfter(c.Response().Header(), f)
	return s.effectView(c, v, p, f.Code.Status())
}

// ByHand is the title of work for a person's hands: the effect's name is "undo NAME".
func (v *view) ByHand(name string) template.HTML {
	return v.mustT("effect.manual.title", inWords(strings.TrimPrefix(name, "undo ")))
}

// Pretty writes JSON text for reading, digits and order as they are.
func (v *view) Pretty(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}

// Outcome says what became of an attempt.
func (v *view) Outcome(outcome string) template.HTML {
	if text, err := v.T("attempt." + outcome); err == nil {
		return text
	}
	return userText(inWords(outcome))
}

// Kind names what an effect is.
func (v *view) Kind(kind string) template.HTML {
	if text, err := v.T("effect.kind." + kind); err == nil {
		return text
	}
	return userText(kind)
}
