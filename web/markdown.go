package web

import (
	"html/template"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
)

// markdown renders instructions: paragraphs, lists, emphasis, code and quotations.
// Values of the request may stand inside, so nothing of it is live: HTML is shown as
// it was written, links and pictures as their text with the address beside it, and
// headings are only bold, so that none looks like one of the page.
func markdown(source string) template.HTML {
	src := []byte(source)
	var b strings.Builder
	renderMarkdown(&b, goldmark.DefaultParser().Parse(text.NewReader(src)), src)
	return template.HTML(b.String())
}

func renderMarkdown(b *strings.Builder, n ast.Node, src []byte) {
	inside := func(open, shut string) {
		b.WriteString(open)
		for child := n.FirstChild(); child != nil; child = child.NextSibling() {
			renderMarkdown(b, child, src)
		}
		b.WriteString(shut)
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
		b.WriteString("<pre>" + string(userText(blockText(n, src))) + "</pre>")
	case *ast.Link:
		inside("", " <code>"+string(userText(string(n.Destination)))+"</code>")
	case *ast.Image:
		inside("", " <code>"+string(userText(string(n.Destination)))+"</code>")
	case *ast.AutoLink:
		b.WriteString("<code>" + string(userText(string(n.Label(src)))) + "</code>")
	case *ast.RawHTML:
		for i := range n.Segments.Len() {
			segment := n.Segments.At(i)
			b.WriteString(string(userText(string(segment.Value(src)))))
		}
	case *ast.ThematicBreak:
		b.WriteString("<hr>")
	case *ast.Text:
		b.WriteString(string(userText(string(n.Segment.Value(src)))))
		if n.HardLineBreak() {
			b.WriteString("<br>")
		} else if n.SoftLineBreak() {
			b.WriteString("\n")
		}
	case *ast.String:
		b.WriteString(string(userText(string(n.Value))))
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
