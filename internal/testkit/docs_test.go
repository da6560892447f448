package testkit

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
)

// TestDocs follows the links inside the repository's documents.
func TestDocs(t *testing.T) {
	t.Parallel()
	t.Run("links lead to files and headings", linksLeadSomewhere)
	t.Run("the check finds missing files and headings", theCheckFindsBrokenLinks)
}

func linksLeadSomewhere(t *testing.T) {
	t.Parallel()
	for _, sentence := range brokenLinks(t, os.DirFS(root(t)), documents(t, root(t))) {
		t.Error(sentence)
	}
}

func theCheckFindsBrokenLinks(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	for name, content := range map[string]string{
		"README.md": "# Vobo\n[a](docs/a.md) [b](docs/a.md#one--two) [c](#vobo) [d](https://example.com/x) ![p](docs/p.png) [e](docs/)\n" +
			"[gone](docs/gone.md) [noanchor](docs/a.md#three) [here](#gone) ![nopicture](docs/q.png) [outside](../x.md)\n\n```\n[code](nowhere.md)\n```\n",
		"docs/a.md":  "# A\n## One & `two`\n## One & two\n[again](#one--two-1) [up](../README.md) <a id=\"by-hand\"></a> [h](#by-hand)\n",
		"docs/p.png": "",
	} {
		path := filepath.Join(base, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	got := brokenLinks(t, os.DirFS(base), documents(t, base))
	var targets []string
	for _, target := range []string{"docs/gone.md", "docs/a.md#three", "#gone", "docs/q.png", "../x.md"} {
		if found := strings.Contains(strings.Join(got, "\n"), strconv.Quote(target)); !found {
			t.Errorf("the broken link %q is not found", target)
		}
		targets = append(targets, target)
	}
	if len(got) != len(targets) {
		t.Errorf("%d broken links, want %d:\n%s", len(got), len(targets), strings.Join(got, "\n"))
	}
}

// documents are the Markdown files that people are sent to: those of the root
// folder and all under docs, deploy and bench.
func documents(t *testing.T, base string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(base, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"docs", "deploy", "bench", "client"} {
		err := filepath.WalkDir(filepath.Join(base, folder), func(path string, _ fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err == nil && filepath.Ext(path) == ".md" {
				found = append(found, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	var names []string
	for _, path := range found {
		name, err := filepath.Rel(base, path)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, filepath.ToSlash(name))
	}
	if len(names) == 0 {
		t.Fatal("no document was found")
	}
	return names
}

func brokenLinks(t *testing.T, files fs.FS, names []string) []string {
	t.Helper()
	parsed := map[string]document{}
	read := func(name string) (document, error) {
		if d, known := parsed[name]; known {
			return d, nil
		}
		source, err := fs.ReadFile(files, name)
		if err != nil {
			return document{}, err
		}
		parsed[name] = parseDocument(source)
		return parsed[name], nil
	}
	var broken []string
	for _, name := range names {
		d, err := read(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range d.links {
			if reason := follow(files, read, name, link); reason != "" {
				broken = append(broken, fmt.Sprintf("%s: the link to %q: %s", name, link, reason))
			}
		}
	}
	return broken
}

// follow returns what is wrong with a link; links to other hosts are not tried.
func follow(files fs.FS, read func(string) (document, error), from, link string) string {
	u, err := url.Parse(link)
	if err != nil {
		return err.Error()
	}
	if u.Scheme != "" || u.Host != "" {
		return ""
	}
	target := from
	if u.Path != "" {
		target = filepath.ToSlash(filepath.Join(filepath.Dir(from), u.Path))
		if _, err := fs.Stat(files, target); err != nil {
			return "there is no such file in the repository"
		}
	}
	if u.Fragment == "" || filepath.Ext(target) != ".md" {
		return ""
	}
	d, err := read(target)
	if err != nil {
		return err.Error()
	}
	if !d.anchors[u.Fragment] {
		return "there is no such heading in " + target
	}
	return ""
}

type document struct {
	links   []string
	anchors map[string]bool
}

func parseDocument(source []byte) document {
	d := document{anchors: map[string]bool{}}
	tree := goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser().Parse(text.NewReader(source))
	seen := map[string]int{}
	// The visitor never returns an error, so Walk does not either.
	if err := ast.Walk(tree, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := node.(type) {
		case *ast.Link:
			d.links = append(d.links, string(n.Destination))
		case *ast.Image:
			d.links = append(d.links, string(n.Destination))
		case *ast.Heading:
			slug := headingSlug(plainText(n, source))
			anchor := slug
			if seen[slug] > 0 {
				anchor = fmt.Sprintf("%s-%d", slug, seen[slug])
			}
			seen[slug]++
			d.anchors[anchor] = true
		case *ast.RawHTML:
			d.addHandmade(segmentText(n.Segments, source))
		case *ast.HTMLBlock:
			d.addHandmade(segmentText(n.Lines(), source))
		}
		return ast.WalkContinue, nil
	}); err != nil {
		panic(err)
	}
	return d
}

// addHandmade takes the ids and the picture and link addresses of raw HTML.
func (d *document) addHandmade(html string) {
	for attribute, take := range map[string]func(string){
		`id="`:   func(v string) { d.anchors[v] = true },
		`src="`:  func(v string) { d.links = append(d.links, v) },
		`href="`: func(v string) { d.links = append(d.links, v) },
	} {
		for rest := html; ; {
			_, after, found := strings.Cut(rest, " "+attribute)
			if !found {
				break
			}
			v, more, closed := strings.Cut(after, `"`)
			if !closed {
				break
			}
			take(v)
			rest = more
		}
	}
}

func segmentText(segments *text.Segments, source []byte) string {
	var b strings.Builder
	for i := range segments.Len() {
		segment := segments.At(i)
		b.Write(segment.Value(source))
	}
	return b.String()
}

func plainText(node ast.Node, source []byte) string {
	var b strings.Builder
	for child := node.FirstChild(); child != nil; child = child.NextSibling() {
		switch n := child.(type) {
		case *ast.Text:
			b.Write(n.Segment.Value(source))
		case *ast.String:
			b.Write(n.Value)
		default:
			b.WriteString(plainText(child, source))
		}
	}
	return b.String()
}

// headingSlug is how code hosts make an anchor of a heading: lower case, without
// punctuation, a hyphen for each space.
func headingSlug(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}
