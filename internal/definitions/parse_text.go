package definitions

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	yaml "go.yaml.in/yaml/v4"
)

// where says in which place of the language a text stands.
type where struct {
	sc *scope
	// past: `last` and `visits` are read here after the present event's own step,
	// so that Plan needs earlier history rows.
	past bool
}

// scope gives data with further names. A scope is dear to make and shared.
func (b *builder) scope(further string) *scope {
	sc := b.wider[further]
	if sc == nil {
		sc = b.data.with(strings.Fields(further)...)
		b.wider[further] = sc
	}
	return sc
}

// expr compiles an expression; nil with a problem reported or nothing written.
func (b *builder) expr(n *yaml.Node, what string, want exprType, w where) *Expr {
	text, ok := b.text(n, what)
	if !ok {
		return nil
	}
	if strings.Contains(text, "{{") {
		b.errorAt(n, "expression", "leave the {{ }} out", "%s is an expression by itself.", what)
		return nil
	}
	e, problems := compileExpr(text, want, w.sc)
	b.found(n, "", problems)
	if e == nil || hasErrors(problems) {
		return nil
	}
	b.note(n, e.refs(), text, w)
	return e
}

// template compiles a text with {{ }} parts.
func (b *builder) template(n *yaml.Node, what string, w where) *Template {
	text, ok := b.text(n, what)
	if !ok {
		return nil
	}
	return b.templateText(n, text, w)
}

func (b *builder) templateText(n *yaml.Node, text string, w where) *Template {
	t, problems := compileTemplate(text, w.sc)
	b.found(n, "", problems)
	if t == nil || hasErrors(problems) {
		return nil
	}
	if strings.Contains(text, "{{") {
		b.note(n, t.refs(), text, w)
	}
	return t
}

var localeName = regexp.MustCompile(`^[a-z]{2,3}(-[A-Za-z0-9]{2,8})*$`)

// words reads any text for people: one text, or one by locale.
func (b *builder) words(n *yaml.Node, what string, w where) Text {
	if n == nil {
		return Text{}
	}
	byLocale := map[string]*Template{}
	if n.Kind != yaml.MappingNode {
		if t := b.template(n, what, w); t != nil {
			byLocale[""] = t
		}
		return Text{ByLocale: byLocale}
	}
	m := b.mapping(n, what)
	if len(m.keys) == 0 {
		b.errorAt(n, "empty", "", "%s is empty.", what)
	}
	for _, key := range m.keys {
		if !localeName.MatchString(key.Value) {
			b.errorAt(key, "locale", "such as en or es-AR", "%s has a text for %s, which is no locale.", what, clip(key.Value))
		}
		if t := b.template(m.get(key.Value), what, w); t != nil {
			byLocale[key.Value] = t
		}
	}
	return Text{ByLocale: byLocale}
}

// title reads words that are shown where no instance is at hand.
func (b *builder) title(n *yaml.Node, what string) Text {
	t := b.words(n, what, where{sc: b.data})
	for _, template := range t.ByLocale {
		if strings.Contains(template.Text, "{{") {
			b.errorAt(n, "title", "put changing words into the task's title", "%s may not have {{ }}.", what)
			return Text{}
		}
	}
	return t
}

// path compiles a path that is written with the prefix "data." or "input.".
func (b *builder) path(n *yaml.Node, what, prefix string, w where) (Path, bool) {
	text, ok := b.text(n, what)
	if !ok {
		return Path{}, false
	}
	rest, found := strings.CutPrefix(text, prefix)
	if !found {
		b.errorAt(n, "path", "write "+prefix+strings.TrimPrefix(text, "data."), "%s must begin with %q.", what, prefix)
		return Path{}, false
	}
	return b.compilePath(n, rest, len(prefix), w)
}

// setPath compiles a path of `set`, `unset` and `edit`, which stands without a prefix.
func (b *builder) setPath(n *yaml.Node, what string, w where) (Path, bool) {
	text, ok := b.text(n, what)
	if !ok {
		return Path{}, false
	}
	if rest, found := strings.CutPrefix(text, "data."); found && !b.declared("data") {
		b.errorAt(n, "path", "write "+rest, "%s is a path in data: leave out data.", what)
		return Path{}, false
	}
	return b.compilePath(n, text, 0, w)
}

func (b *builder) compilePath(n *yaml.Node, text string, shift int, w where) (Path, bool) {
	p, problems := compilePath(text, w.sc)
	for i := range problems {
		problems[i].Offset += shift
	}
	b.found(n, "", problems)
	return p, !hasErrors(problems)
}

// declared tells whether the data schema has a top-level property of that name.
func (b *builder) declared(field string) bool {
	schema, _ := b.tree["data"].(map[string]any)
	properties, _ := schema["properties"].(map[string]any)
	_, ok := properties[field]
	return ok
}

// body compiles a JSON body with templates in its strings.
func (b *builder) body(n *yaml.Node, w where) *Tree {
	if n == nil {
		return nil
	}
	t, problems := compileTree(tree(n), w.sc)
	b.found(n, "", problems)
	if t == nil || hasErrors(problems) {
		return nil
	}
	b.note(n, t.refs(), "", w)
	return t
}

// eachText calls f for every scalar below n that is a value.
func eachText(n *yaml.Node, f func(*yaml.Node)) {
	switch n.Kind {
	case yaml.ScalarNode:
		f(n)
	case yaml.SequenceNode:
		for _, c := range n.Content {
			eachText(c, f)
		}
	case yaml.MappingNode:
		for i := 1; i < len(n.Content); i += 2 {
			eachText(n.Content[i], f)
		}
	}
}

func hasErrors(problems []exprProblem) bool {
	return slices.ContainsFunc(problems, func(p exprProblem) bool { return p.Severity == Error || p.Severity == "" })
}

// found reports the problems of a compiled text at their places in the file.
func (b *builder) found(n *yaml.Node, what string, problems []exprProblem) {
	for _, p := range problems {
		at := n
		if p.Pointer != "" {
			at = nodeAt(n, p.Pointer)
		}
		line, column := b.position(at, p.Offset)
		severity := p.Severity
		if severity == "" {
			severity = Error
		}
		b.report(line, column, severity, p.Code, p.Hint, "%s%s", what, p.Detail)
	}
}

// note remembers what a text reads.
func (b *builder) note(n *yaml.Node, refs exprRefs, text string, w where) {
	for _, name := range refs.Env {
		line, column := b.position(n, max(strings.Index(text, "env."+name), 0))
		b.envUses = append(b.envUses, envUse{name, line, column})
	}
	if refs.Visits || refs.Last && w.past {
		b.def.NeedsPast = true
	}
}

// nodeAt follows an RFC 6901 pointer as far as it leads; a property's value.
func nodeAt(n *yaml.Node, pointer string) *yaml.Node {
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	for _, part := range strings.Split(strings.TrimPrefix(pointer, "/"), "/") {
		next := child(n, unescape.Replace(part))
		if next == nil {
			return n
		}
		n = next
	}
	return n
}

func child(n *yaml.Node, key string) *yaml.Node {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == key {
				return n.Content[i+1]
			}
		}
	case yaml.SequenceNode:
		i := 0
		for _, c := range key {
			if c < '0' || c > '9' || i > len(n.Content) {
				return nil
			}
			i = i*10 + int(c-'0')
		}
		if key != "" && i < len(n.Content) {
			return n.Content[i]
		}
	}
	return nil
}

// position gives the line and column of a byte offset in a scalar's value: exact
// in one-line scalars and literal blocks, else the place where the scalar begins.
func (b *builder) position(n *yaml.Node, offset int) (line, column int) {
	if n.Kind != yaml.ScalarNode || offset <= 0 || offset > len(n.Value) {
		return n.Line, n.Column
	}
	before := n.Value[:offset]
	if n.Style&yaml.LiteralStyle != 0 {
		row := strings.Count(before, "\n")
		source := b.line(n.Line + 1 + row)
		indent := len(source) - len(strings.TrimLeft(source, " "))
		return n.Line + 1 + row, indent + 1 + utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:])
	}
	source := []rune(b.line(n.Line))
	if n.Column > len(source) || n.Style&yaml.FoldedStyle != 0 {
		return n.Line, n.Column
	}
	rest, skip := source[n.Column-1:], 0
	quote := rune(0)
	if n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 {
		quote, skip = rest[0], 1
	}
	for _, r := range before {
		if skip >= len(rest) {
			return n.Line, n.Column
		}
		switch c := rest[skip]; {
		case quote == '\'' && c == '\'':
			skip += 2
		case quote == '"' && c == '\\':
			if skip += escapeLength(rest[skip:]); skip > len(rest) {
				return n.Line, n.Column
			}
		case c != r: // folded over lines
			return n.Line, n.Column
		default:
			skip++
		}
	}
	return n.Line, n.Column + skip
}

func escapeLength(rest []rune) int {
	if len(rest) < 2 {
		return 1
	}
	switch rest[1] {
	case 'x':
		return 4
	case 'u':
		return 6
	case 'U':
		return 10
	}
	return 2
}

func (b *builder) line(number int) string {
	if b.lines == nil {
		b.lines = strings.Split(strings.TrimPrefix(string(b.src), byteOrderMark), "\n")
	}
	if number < 1 || number > len(b.lines) {
		return ""
	}
	return strings.TrimSuffix(b.lines[number-1], "\r")
}
