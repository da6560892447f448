// Package markdown renders what process owners write for reviewers: paragraphs,
// lists, emphasis, code and quotations (CommonMark, a subset).
package markdown

import (
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
)

// HTML renders source as safe HTML. Values of the request may stand inside, so
// nothing of it is live: HTML is shown as it was written, links and pictures as their
// text with the address beside it, headings are only bold so that none looks like one
// of the page. escape turns every piece of text into HTML.
func HTML(source string, escape func(string) string) string {
	r := &renderer{src: []byte(source), escape: escape}
	r.render(goldmark.DefaultParser().Parse(text.NewReader(r.src)))
	return r.b.String()
}

type renderer struct {
	src    []byte
	escape func(string) string
	b      strings.Builder
}

func (r *renderer) render(n ast.Node) {
	inside := func(open, shut string) {
		r.b.WriteString(open)
		for child := n.FirstChild(); child != nil; child = child.NextSibling() {
			r.render(child)
		}
		r.b.WriteString(shut)
	}
	switch n := n.(type) {
	case *ast.Paragraph:
		inside("<p>", "</p>")
	case *ast.Heading:
		inside("<p><strong>", "</strong></p>")
	case *ast.List:
		if n.IsOrdered() {
			inside("<ol>", "</ol>")
		} else {
			inside("<ul>", "</ul>")
		}
	case *ast.ListItem:
		inside("<li>", "</li>")
	case *ast.Blockquote:
		inside("<blockquote>", "</blockquote>")
	case *ast.Emphasis:
		if n.Level > 1 {
			inside("<strong>", "</strong>")
		} else {
			inside("<em>", "</em>")
		}
	case *ast.CodeSpan:
		inside("<code>", "</code>")
	case *ast.CodeBlock, *ast.FencedCodeBlock, *ast.HTMLBlock:
		r.b.WriteString("<pre>" + r.escape(blockText(n, r.src)) + "</pre>")
	case *ast.Link:
		inside("", " <code>"+r.escape(string(n.Destination))+"</code>")
	case *ast.Image:
		inside("", " <code>"+r.escape(string(n.Destination))+"</code>")
	case *ast.AutoLink:
		r.b.WriteString("<code>" + r.escape(string(n.Label(r.src))) + "</code>")
	case *ast.RawHTML:
		for i := range n.Segments.Len() {
			segment := n.Segments.At(i)
			r.b.WriteString(r.escape(string(segment.Value(r.src))))
		}
	case *ast.ThematicBreak:
		r.b.WriteString("<hr>")
	case *ast.Text:
		r.b.WriteString(r.escape(string(n.Segment.Value(r.src))))
		if n.HardLineBreak() {
			r.b.WriteString("<br>")
		} else if n.SoftLineBreak() {
			r.b.WriteString("\n")
		}
	case *ast.String:
		r.b.WriteString(r.escape(string(n.Value)))
	default:
		inside("", "")
	}
}

func blockText(n ast.Node, src []byte) string {
	var b strings.Builder
	for i := range n.Lines().Len() {
		line := n.Lines().At(i)
		b.Write(line.Value(src))
	}
	if html, ok := n.(*ast.HTMLBlock); ok && html.HasClosure() {
		b.Write(html.ClosureLine.Value(src))
	}
	return strings.TrimRight(b.String(), "\n")
}
