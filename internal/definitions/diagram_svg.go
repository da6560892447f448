package definitions

import (
	"bytes"
	"fmt"
	"html"
	"strings"
)

// DiagramCSS is the style of SVG, for pages that put the drawing into their text and
// whose policy forbids style elements. All classes begin with "vobo-".
const DiagramCSS = `.vobo-diagram{--vobo-ink:#1f2933;--vobo-quiet:#5b6875;--vobo-line:#9aa5b1;--vobo-card:#fff;--vobo-paper:#f7f8fa;--vobo-good:#157347;--vobo-bad:#b42318;--vobo-here:#1d4ed8;font:13px system-ui,sans-serif}
@media (prefers-color-scheme:dark){.vobo-diagram{--vobo-ink:#e6eaee;--vobo-quiet:#a8b3be;--vobo-line:#66727e;--vobo-card:#1c232b;--vobo-paper:#12171c;--vobo-good:#4cc38a;--vobo-bad:#ff8a80;--vobo-here:#8ab4ff}}
.vobo-paper{fill:var(--vobo-paper)}
.vobo-state{fill:var(--vobo-card);stroke:var(--vobo-line);stroke-width:1.5}
.vobo-final{stroke:var(--vobo-good)}
.vobo-failed{stroke:var(--vobo-bad)}
.vobo-start{fill:var(--vobo-ink);stroke:none}
.vobo-name{fill:var(--vobo-ink);stroke:none;font-weight:600}
.vobo-loop,.vobo-label{fill:var(--vobo-quiet);stroke:none}
.vobo-label{stroke:var(--vobo-paper);stroke-width:4px;paint-order:stroke;stroke-linejoin:round}
.vobo-edge{fill:none;stroke:var(--vobo-line);stroke-width:1.5}
.vobo-head{fill:var(--vobo-line);stroke:none}
.vobo-taken .vobo-state{stroke:var(--vobo-here)}
.vobo-edge.vobo-taken{stroke:var(--vobo-here);stroke-width:2.5}
.vobo-head.vobo-taken{fill:var(--vobo-here)}
.vobo-current .vobo-state{stroke:var(--vobo-here);stroke-width:4}
.vobo-current .vobo-name{fill:var(--vobo-here)}
`

// SVG draws the definition in layers from the start downwards, with light and dark
// colours by prefers-color-scheme. It holds no script and refers to nothing outside;
// every text in it is escaped.
func (d *Definition) SVG(o DiagramOptions) []byte {
	l := d.layout(o.Locale)
	taken := d.takenPairs(o.Taken)
	var w bytes.Buffer
	title := d.Label(o.Locale)
	if s := d.State(o.Current); s != nil {
		title += ": " + s.Label(o.Locale)
	}
	fmt.Fprintf(&w, `<svg xmlns="http://www.w3.org/2000/svg" class="vobo-diagram" role="img" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" fill="none" stroke="currentColor" aria-label="%s">`,
		l.width, l.height, l.width, l.height, escape(title))
	fmt.Fprintf(&w, "\n<title>%s</title>\n<style>%s</style>\n", escape(title), DiagramCSS)
	fmt.Fprintf(&w, `<rect class="vobo-paper" width="%.0f" height="%.0f" rx="8" stroke="none"/>`+"\n", l.width, l.height)
	for _, onPath := range []bool{false, true} { // the path taken lies above the rest
		for _, r := range l.routes {
			if taken[[2]string{r.edge.from, r.edge.to}] == onPath {
				drawRoute(&w, r, onPath)
			}
		}
	}
	visited := map[string]bool{}
	for pair := range taken {
		visited[pair[0]], visited[pair[1]] = true, true
	}
	for _, layer := range l.layers {
		for _, b := range layer {
			drawBox(&w, b, o.Current, visited)
		}
	}
	for _, r := range l.routes {
		if r.text != nil {
			drawLines(&w, r.text, "vobo-label", "vobo-label")
		}
	}
	w.WriteString("</svg>\n")
	return w.Bytes()
}

// escape makes text safe in XML text and attributes. Titles hold no control
// characters (refused by Parse) but for line ends.
func escape(s string) string {
	return html.EscapeString(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0xfffe || r == 0xffff {
			return ' '
		}
		return r
	}, s))
}

// drawRoute draws an edge as a smooth line through its bends, and its head.
func drawRoute(w *bytes.Buffer, r *route, taken bool) {
	class := ""
	if taken {
		class = " vobo-taken"
	}
	type point struct{ x, y float64 }
	var points []point
	last := len(r.via) - 1
	for i, b := range r.via {
		p := point{b.x, b.y}
		down := r.via[last].y > r.via[0].y
		switch half := b.height / 2; {
		case i == 0 && down, i == last && !down:
			p.y += half
		case i == 0 || i == last:
			p.y -= half
		}
		points = append(points, p)
	}
	const head = 7.0
	end := points[last]
	direction := 1.0
	if points[last-1].y > end.y {
		direction = -1
	}
	points[last].y -= direction * head
	fmt.Fprintf(w, `<path class="vobo-edge%s" d="M%.1f %.1f`, class, points[0].x, points[0].y)
	for i := 1; i <= last; i++ {
		from, to := points[i-1], points[i]
		middle := (from.y + to.y) / 2
		fmt.Fprintf(w, "C%.1f %.1f %.1f %.1f %.1f %.1f", from.x, middle, to.x, middle, to.x, to.y)
	}
	fmt.Fprintf(w, `"/><path class="vobo-head%s" d="M%.1f %.1fl-4.5 %.1fh9z"/>`+"\n", class, end.x, end.y, -direction*head)
}

func drawBox(w *bytes.Buffer, b *box, current string, visited map[string]bool) {
	if b.start {
		fmt.Fprintf(w, `<circle class="vobo-start" cx="%.1f" cy="%.1f" r="%.1f"/>`+"\n", b.x, b.y, startWidth/2)
		return
	}
	if b.state == nil {
		return
	}
	group, shape := "vobo-node", "vobo-state"
	if visited[b.state.Name] {
		group += " vobo-taken"
	}
	if b.state.Name == current {
		group += " vobo-current"
	}
	if b.state.Kind == Final {
		shape += " vobo-final"
		if b.state.Failed {
			shape += " vobo-failed"
		}
	}
	fmt.Fprintf(w, `<g class="%s">`, group)
	switch b.state.Kind {
	case Choice:
		half := choiceWidth / 2
		fmt.Fprintf(w, `<path class="%s" d="M%.1f %.1fl%.1f %.1fl%.1f %.1fl%.1f %.1fz"/>`, shape, b.x, b.y-half, half, half, -half, half, -half, -half)
		fmt.Fprintf(w, `<text class="vobo-label" x="%.1f" y="%.1f">%s</text>`, b.x+half+4, b.y+4, escape(b.lines[0]))
	case Wait, Final:
		radius := 8.0
		if b.state.Kind == Final {
			radius = min(b.height/2, 18)
		}
		fmt.Fprintf(w, `<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="%.1f"/>`, shape, b.x-b.width/2, b.y-b.height/2, b.width, b.height, radius)
		drawLines(w, b, "vobo-name", "vobo-loop")
	}
	w.WriteString("</g>\n")
}

// drawLines writes the lines of a box one below the other around its middle.
func drawLines(w *bytes.Buffer, b *box, first, rest string) {
	top := b.y - float64(len(b.lines))*lineHeight/2
	for i, line := range b.lines {
		class := rest
		if i == 0 {
			class = first
		}
		fmt.Fprintf(w, `<text class="%s" text-anchor="middle" x="%.1f" y="%.1f">%s</text>`, class, b.x, top+float64(i)*lineHeight+12, escape(line))
	}
}
