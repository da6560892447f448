package definitions

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	yaml "go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"
)

// Limits of a definition's text. They bound the work that a hostile file causes.
const (
	maxSourceBytes = 256 << 10
	maxDepth       = 32
	maxNodes       = 20_000
)

const byteOrderMark = "\ufeff"

// loadYAML reads exactly one YAML document of the strict subset: no anchors,
// aliases, merge keys, tags, directives or duplicate keys. It reports everything
// wrong at once; the root is nil where going on makes no sense.
func (b *builder) loadYAML() *yaml.Node {
	if len(b.src) > maxSourceBytes {
		b.report(1, 1, Error, "too-large", "", "The file has %d bytes; a definition may have %d.", len(b.src), maxSourceBytes)
		return nil
	}
	text := bytes.TrimPrefix(b.src, []byte(byteOrderMark))
	if !b.checkCharacters(text) {
		return nil
	}
	root := b.loadDocument(text)
	if root == nil {
		return nil
	}
	walk := &strictWalk{b: b}
	walk.node(root, 1)
	if walk.fatal {
		return nil
	}
	return root
}

// checkCharacters refuses what YAML readers treat differently: other encodings,
// control characters, byte order marks inside, lines that begin with a tab.
func (b *builder) checkCharacters(text []byte) bool {
	line, column := 1, 1
	ok := true
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			b.report(line, column, Error, "encoding", "save the file as UTF-8", "This byte is not UTF-8.")
			return false
		case r == '\t' && column == 1:
			b.report(line, column, Error, "tab", "use spaces", "A line may not begin with a tab.")
			ok = false
		case r == '\ufeff', r < ' ' && r != '\t' && r != '\n' && r != '\r', r >= 0x7f && r < 0xa0, r == '\u2028', r == '\u2029':
			b.report(line, column, Error, "control-character", "", "The character U+%04X is not allowed.", r)
			return false
		case r == '%' && column == 1:
			b.report(line, column, Error, "yaml", "", "YAML directives are not allowed.")
			ok = false
		}
		i += size
		column++
		if r == '\n' {
			line, column = line+1, 1
		}
	}
	return ok
}

func (b *builder) loadDocument(text []byte) *yaml.Node {
	loader, err := yaml.NewLoader(bytes.NewReader(text),
		yaml.WithPlugin(loaderlimits.New(loaderlimits.DepthValue(2*maxDepth), loaderlimits.AliasNone())))
	if err != nil {
		b.yamlError(err)
		return nil
	}
	var document yaml.Node
	if err := loader.Load(&document); errors.Is(err, io.EOF) {
		b.report(1, 1, Error, "empty", "", "The file holds no definition.")
		return nil
	} else if err != nil {
		b.yamlError(err)
		return nil
	}
	var second yaml.Node
	switch err := loader.Load(&second); {
	case err == nil:
		b.errorAt(&second, "several-documents", "one file is one definition", "A second YAML document begins here.")
		return nil
	case !errors.Is(err, io.EOF):
		b.yamlError(err)
		return nil
	}
	if document.Kind != yaml.DocumentNode || len(document.Content) != 1 {
		b.report(1, 1, Error, "empty", "", "The file holds no definition.")
		return nil
	}
	return document.Content[0]
}

func (b *builder) yamlError(err error) {
	line, column, text := 1, 1, err.Error()
	var one *yaml.LoadError
	var several *yaml.LoadErrors
	if errors.As(err, &several) && len(several.Errors) > 0 {
		one = several.Errors[0]
	} else if !errors.As(err, &one) {
		one = nil
	}
	if one != nil {
		line, column, text = max(one.Mark.Line, 1), max(one.Mark.Column, 1), one.Message
		if one.ContextMsg != "" {
			text = one.ContextMsg + ": " + text
		}
	}
	b.report(line, column, Error, "yaml", "", "This is not YAML: %s.", strings.TrimPrefix(text, "yaml: "))
}

// strictWalk checks the node tree for everything outside the strict subset.
type strictWalk struct {
	b     *builder
	nodes int
	fatal bool // the tree cannot be understood any further
}

func (w *strictWalk) node(n *yaml.Node, depth int) {
	if w.nodes++; w.nodes > maxNodes || depth > maxDepth {
		if !w.fatal {
			w.fatal = true
			if depth > maxDepth {
				w.b.errorAt(n, "too-deep", "", "Nested more than %d levels deep.", maxDepth)
			} else {
				w.b.errorAt(n, "too-large", "", "The definition has more than %d values.", maxNodes)
			}
		}
		return
	}
	if n.Anchor != "" {
		w.b.errorAt(n, "anchor", "write the value out", "The anchor %s is not allowed.", clip(n.Anchor))
	}
	if n.Style&yaml.TaggedStyle != 0 {
		w.b.errorAt(n, "tag", "leave it out", "The tag %s is not allowed.", clip(n.Tag))
	}
	switch n.Kind {
	case yaml.AliasNode:
		w.b.errorAt(n, "alias", "write the value out", "The alias %s is not allowed.", clip(n.Value))
		w.fatal = true
	case yaml.MappingNode:
		w.mapping(n, depth)
	case yaml.SequenceNode:
		for _, c := range n.Content {
			w.node(c, depth+1)
		}
	case yaml.ScalarNode:
		if scalarKind(n) == oddScalar {
			w.b.errorAt(n, "scalar", "write it as a plain decimal number or in lower case, or in quotes if it is text",
				"YAML readers disagree on what %s means.", clip(n.Value))
		}
	}
}

func (w *strictWalk) mapping(n *yaml.Node, depth int) {
	seen := make(map[string]*yaml.Node, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch {
		case key.Kind == yaml.AliasNode:
			w.node(key, depth+1)
		case key.Kind != yaml.ScalarNode:
			w.b.errorAt(key, "key", "", "A key must be a text.")
			w.fatal = true
		case isPlain(key) && key.Value == "<<":
			w.b.errorAt(key, "merge-key", "write the keys out", "Merge keys are not allowed.")
			w.fatal = true
		case isPlain(key) && (key.Value == "" || key.Value == "~"):
			w.b.errorAt(key, "key", "", "A key is empty.")
		default:
			if key.Anchor != "" || key.Style&yaml.TaggedStyle != 0 {
				w.b.errorAt(key, "anchor", "leave it out", "Anchors and tags are not allowed.")
			}
			if first := seen[key.Value]; first != nil {
				w.b.errorAt(key, "duplicate-key", "", "The key %s stands here twice; first in line %d.", clip(key.Value), first.Line)
			} else {
				seen[key.Value] = key
			}
		}
		w.node(value, depth+1)
	}
}

// kindOfScalar is what a scalar means, by one rule of our own rather than by a
// YAML version: only null, ~, true, false and JSON numbers are not text.
type kindOfScalar int

const (
	textScalar kindOfScalar = iota
	nullScalar
	boolScalar
	numberScalar
	oddScalar // 010, 0x1F, 1_000, .5, True: readers disagree
)

var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)

func isPlain(n *yaml.Node) bool {
	const quoted = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	return n.Kind == yaml.ScalarNode && n.Style&quoted == 0
}

func scalarKind(n *yaml.Node) kindOfScalar {
	if !isPlain(n) {
		return textScalar
	}
	switch n.Value {
	case "", "~", "null":
		return nullScalar
	case "true", "false":
		return boolScalar
	}
	if c := n.Value[0]; (c == '-' || c >= '0' && c <= '9') && jsonNumber.MatchString(n.Value) {
		if f, err := strconv.ParseFloat(n.Value, 64); err != nil || len(n.Value) > 400 || f != f {
			return oddScalar
		}
		return numberScalar
	}
	switch n.Tag {
	case "!!int", "!!float", "!!bool", "!!null":
		return oddScalar
	}
	return textScalar
}

// tree decodes a node as a JSON tree; numbers keep their digits, dates stay text.
func tree(n *yaml.Node) any {
	switch n.Kind {
	case yaml.MappingNode:
		m := make(map[string]any, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			m[n.Content[i].Value] = tree(n.Content[i+1])
		}
		return m
	case yaml.SequenceNode:
		list := make([]any, len(n.Content))
		for i, c := range n.Content {
			list[i] = tree(c)
		}
		return list
	}
	switch scalarKind(n) {
	case nullScalar:
		return nil
	case boolScalar:
		return n.Value == "true"
	case numberScalar:
		return json.Number(n.Value)
	}
	return n.Value
}

// clip shortens what a file says for a message.
func clip(s string) string {
	const limit = 60
	if utf8.RuneCountInString(s) > limit {
		s = string([]rune(s)[:limit]) + "…"
	}
	return strconv.Quote(s)
}
