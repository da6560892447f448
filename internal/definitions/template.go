package definitions

import (
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"vobo/internal/fault"
)

// Template is text with {{ expression }} parts. It is safe for concurrent use.
type Template struct {
	Text  string
	parts []templatePart
}

// templatePart is literal text, or with expr an expression.
type templatePart struct {
	text   string
	expr   *Expr
	offset int // of the expression in the template's text
}

const maxTemplateText = 64 << 10

// compileTemplate compiles a text; outside of {{ }} everything is literal.
func compileTemplate(text string, sc *scope) (*Template, []exprProblem) {
	t := &Template{Text: text}
	problem := func(at int, hint, detail string) []exprProblem {
		return []exprProblem{{Offset: at, Code: "template", Severity: Error, Hint: hint, Detail: detail}}
	}
	if len(text) > maxTemplateText {
		return nil, problem(0, "", "The text is too long: at most 65536 bytes.")
	}
	if at := strings.IndexByte(text, 0); at >= 0 {
		return nil, problem(at, "", "The character NUL is not allowed.")
	}
	var problems []exprProblem
	for at := 0; at < len(text); {
		open := strings.Index(text[at:], "{{")
		if open < 0 {
			t.parts = append(t.parts, templatePart{text: text[at:]})
			break
		}
		if open > 0 {
			t.parts = append(t.parts, templatePart{text: text[at : at+open]})
		}
		from := at + open + 2
		end := closingBraces(text, from)
		if end < 0 {
			return nil, append(problems, problem(at+open, "write }} behind the expression", "A {{ has no }}.")...)
		}
		inner := text[from:end]
		from += len(inner) - len(strings.TrimLeft(inner, " \t\r\n"))
		e, found := compileExpr(strings.TrimSpace(inner), wantAny, sc)
		for i := range found {
			found[i].Offset += from
		}
		problems = append(problems, found...)
		t.parts = append(t.parts, templatePart{expr: e, offset: from})
		at = end + 2
	}
	if hasErrors(problems) {
		return nil, problems
	}
	return t, problems
}

// closingBraces finds the }} that ends the expression at from, past texts and
// objects within; -1: none.
func closingBraces(text string, from int) int {
	depth := 0
	for i := from; i < len(text); i++ {
		switch text[i] {
		case '\'', '"':
			end := endOfText(text, i)
			if end < 0 {
				return -1
			}
			i = end
		case '{':
			depth++
		case '}':
			if depth > 0 {
				depth--
			} else if strings.HasPrefix(text[i:], "}}") {
				return i
			}
		}
	}
	return -1
}

// Static tells whether there is no {{ }} in it.
func (t *Template) Static() bool {
	return !slices.ContainsFunc(t.parts, func(p templatePart) bool { return p.expr != nil })
}

// whole gives the expression where the text is one {{ … }} and nothing else.
func (t *Template) whole() *Expr {
	if len(t.parts) == 1 {
		return t.parts[0].expr
	}
	return nil
}

func (t *Template) refs() exprRefs {
	var r exprRefs
	for _, p := range t.parts {
		if p.expr != nil {
			r = r.join(p.expr.refs())
		}
	}
	return r
}

// String evaluates to text, each part escaped for its place; numbers plainly, an
// absent field is empty. Errors are of code guard-rejected.
func (t *Template) String(env *Env, escape Escape) (string, error) {
	if t.Static() {
		return t.Text, nil
	}
	w := textWriter{env: env, escape: escape}
	for _, p := range t.parts {
		if p.expr == nil {
			w.literal(p.text)
			continue
		}
		text, err := p.expr.text(env)
		if err != nil {
			return "", err
		}
		if err := w.value(text, p.expr.isVar()); err != nil {
			return "", err
		}
	}
	return w.b.String(), nil
}

// text is the expression's value as text; a path that leads nowhere is empty.
func (e *Expr) text(env *Env) (string, error) {
	v, err := e.valueOrNothing(env)
	if err != nil {
		return "", err
	}
	return plainText(v)
}

// valueOrNothing is eval; nil for a path that leads nowhere.
func (e *Expr) valueOrNothing(env *Env) (any, error) {
	v, err := e.eval(env)
	if _, absent := errors.AsType[absentError](err); absent && e.plain != nil {
		return nil, nil
	}
	if err != nil {
		return nil, e.refusal(err)
	}
	return v, nil
}

// isVar tells whether the expression is env.NAME.
func (e *Expr) isVar() bool { return e.plain != nil && e.plain.root == "env" }

// Value evaluates and keeps the value's type where the whole is one {{ … }}; a path
// that leads nowhere is nil. The tree is the caller's own.
func (t *Template) Value(env *Env) (any, error) {
	e := t.whole()
	if e == nil {
		return t.String(env, EscapeNone)
	}
	v, err := e.valueOrNothing(env)
	return CloneJSON(v), err
}

// textWriter puts a template's parts together.
type textWriter struct {
	b      strings.Builder
	env    *Env
	escape Escape
	query  bool // behind the ? of an address
}

func (w *textWriter) literal(text string) {
	w.b.WriteString(text)
	w.query = w.query || strings.Contains(text, "?")
}

func (w *textWriter) value(text string, isVar bool) error {
	if w.escape == EscapeURL && w.inHost() {
		if !isVar {
			return fault.New(fault.GuardRejected, "The host of an address is written out or comes from env.NAME; %q would change it.", shorten(text, 60))
		}
		w.literal(text)
		return nil
	}
	for text != "" {
		before, marker, after := cutMarker(text, w.env)
		escaped, err := w.escaped(before)
		if err != nil {
			return err
		}
		w.b.WriteString(escaped)
		w.b.WriteString(marker)
		text = after
	}
	return nil
}

// inHost tells whether scheme and host of an address are not complete yet.
func (w *textWriter) inHost() bool {
	_, rest, scheme := strings.Cut(w.b.String(), "://")
	return !scheme || !strings.ContainsAny(rest, "/?#")
}

func (w *textWriter) escaped(text string) (string, error) {
	switch {
	case w.escape == EscapeHeader:
		return headerBreaks.Replace(text), nil
	case w.escape == EscapeURL && w.query:
		return url.QueryEscape(text), nil
	case w.escape == EscapeURL && (text == "." || text == ".."):
		return "", fault.New(fault.GuardRejected, "%q may not stand in the path of an address.", text)
	case w.escape == EscapeURL:
		return url.PathEscape(text), nil
	}
	return text, nil
}

var headerBreaks = strings.NewReplacer("\r\n", " ", "\r", " ", "\n", " ", "\x00", " ")

// cutMarker parts text at its first callback address. Those are markers with NUL
// characters that the delivery replaces; they come through as they are.
func cutMarker(text string, env *Env) (before, marker, after string) {
	at := -1
	consider := func(m string) {
		if !strings.ContainsRune(m, 0) {
			return
		}
		if i := strings.Index(text, m); i >= 0 && (at < 0 || i < at || i == at && len(m) > len(marker)) {
			at, marker = i, m
		}
	}
	if env == nil || !strings.ContainsRune(text, 0) {
		return text, "", ""
	}
	consider(env.Callback.URL)
	for _, m := range env.Callback.URLs {
		consider(m)
	}
	if at < 0 {
		return text, "", ""
	}
	return text[:at], marker, text[at+len(marker):]
}

// hostProblem says where a template of an address would let data choose the host.
func (t *Template) hostProblem() *exprProblem {
	w := textWriter{escape: EscapeURL}
	for i, p := range t.parts {
		switch {
		case p.expr == nil:
			w.literal(p.text)
		case !w.inHost():
			return nil
		case !p.expr.isVar():
			return &exprProblem{
				Offset: p.offset, Code: "url", Severity: Error, Hint: "such as {{ env.CORE_URL }}/accounts",
				Detail: "Scheme and host of an address are written out or come from env.",
			}
		case i == 0:
			w.literal("https://host")
		default:
			w.literal("host")
		}
	}
	return nil
}

// Text is any text for people, perhaps by locale.
type Text struct {
	ByLocale map[string]*Template // "" : for every locale
}

// IsZero tells whether nothing was written.
func (t Text) IsZero() bool { return len(t.ByLocale) == 0 }

// In gives the text for a locale ("es-AR" falls back to "es", then "en", then any, in a fixed order); "" with IsZero.
func (t Text) In(locale string, env *Env) (string, error) {
	if template := t.choose(locale); template != nil {
		return template.String(env, EscapeNone)
	}
	return "", nil
}

func (t Text) choose(locale string) *Template {
	for l := strings.ReplaceAll(locale, "_", "-"); l != ""; {
		for name, template := range t.ByLocale {
			if strings.EqualFold(name, l) {
				return template
			}
		}
		l = l[:max(strings.LastIndexByte(l, '-'), 0)]
	}
	for _, l := range []string{"", "en"} {
		if template := t.ByLocale[l]; template != nil {
			return template
		}
	}
	names := make([]string, 0, len(t.ByLocale))
	for name := range t.ByLocale {
		names = append(names, name)
	}
	if len(names) == 0 {
		return nil
	}
	return t.ByLocale[slices.Min(names)]
}

// Tree is a JSON body with templates in its strings. Keys are literal.
type Tree struct{ root any }

// compileTree compiles the strings of a decoded tree.
func compileTree(v any, sc *scope) (*Tree, []exprProblem) {
	var problems []exprProblem
	root := compileTreeNode(v, "", sc, &problems)
	if hasErrors(problems) {
		return nil, problems
	}
	return &Tree{root: root}, problems
}

// compileTreeNode copies the tree with *Template in place of strings with {{ }}.
func compileTreeNode(v any, pointer string, sc *scope, problems *[]exprProblem) any {
	switch v := v.(type) {
	case string:
		t, found := compileTemplate(v, sc)
		for i := range found {
			found[i].Pointer = pointer
		}
		*problems = append(*problems, found...)
		if t == nil || t.Static() {
			return v
		}
		return t
	case map[string]any:
		m := make(map[string]any, len(v))
		for _, k := range sortedKeys(v) {
			m[k] = compileTreeNode(v[k], pointer+"/"+escapePointer(k), sc, problems)
		}
		return m
	case []any:
		l := make([]any, len(v))
		for i, e := range v {
			l[i] = compileTreeNode(e, pointer+"/"+strconv.Itoa(i), sc, problems)
		}
		return l
	}
	return v
}

// Eval gives the JSON tree. Errors are of code guard-rejected.
func (t *Tree) Eval(env *Env) (any, error) {
	if t == nil {
		return nil, nil
	}
	return evalTreeNode(t.root, env)
}

func evalTreeNode(v any, env *Env) (any, error) {
	var err error
	switch v := v.(type) {
	case *Template:
		return v.Value(env)
	case map[string]any:
		m := make(map[string]any, len(v))
		for _, k := range sortedKeys(v) {
			if m[k], err = evalTreeNode(v[k], env); err != nil {
				return nil, err
			}
		}
		return m, nil
	case []any:
		l := make([]any, len(v))
		for i, e := range v {
			if l[i], err = evalTreeNode(e, env); err != nil {
				return nil, err
			}
		}
		return l, nil
	}
	return v, nil
}

func (t *Tree) refs() exprRefs {
	if t == nil {
		return exprRefs{}
	}
	return treeRefs(t.root)
}

func treeRefs(v any) exprRefs {
	var r exprRefs
	switch v := v.(type) {
	case *Template:
		return v.refs()
	case map[string]any:
		for _, e := range v {
			r = r.join(treeRefs(e))
		}
	case []any:
		for _, e := range v {
			r = r.join(treeRefs(e))
		}
	}
	return r
}
