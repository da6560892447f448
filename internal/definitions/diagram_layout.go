package definitions

import (
	"cmp"
	"slices"
	"unicode"
)

// Measures of the drawing, in pixels.
const (
	charWidth    = 7.4
	lineHeight   = 16.0
	nodeGap      = 26.0
	layerGap     = 22.0
	margin       = 20.0
	minWidth     = 84.0
	maxDummies   = 20_000
	orderSweeps  = 8
	placeSweeps  = 12
	choiceWidth  = 30.0
	startWidth   = 14.0
	dummyWidth   = 10.0
	labelPadding = 8.0
)

// box is a node of the layered drawing: a state, the start, the label of an edge, or
// a bend of a long edge.
type box struct {
	state         *State // nil: the start, a label or a bend
	start         bool
	lines         []string
	width, height float64
	x, y          float64 // centre
	layer, order  int
	up, down      []*box
}

// route is one edge with its bends, from source to target.
type route struct {
	edge *diagramEdge
	via  []*box // source, bends and the label, target
	text *box   // the bend that carries the label; nil without one
}

// layout places boxes in layers: states on the even ones, labels of edges on the odd
// ones, so that no label ever covers a state or another label. (K. Sugiyama et al.,
// Methods for Visual Understanding of Hierarchical System Structures, 1981.)
type layout struct {
	boxes  map[string]*box
	layers [][]*box
	routes []*route
	width  float64
	height float64
}

func (d *Definition) layout(locale string) *layout {
	l := &layout{boxes: map[string]*box{}}
	l.boxes[""] = &box{start: true, width: startWidth, height: startWidth}
	for _, s := range d.States {
		l.boxes[s.Name] = stateBox(d, s, locale)
	}
	edges := d.edges(locale)
	back := backEdges(d, edges)
	l.rank(d, edges, back)
	l.route(edges, back)
	l.order()
	l.place()
	return l
}

func stateBox(d *Definition, s *State, locale string) *box {
	if s.Kind == Choice {
		// The label stands to the right of the diamond, which stays in the middle.
		text := shortLabel(s.Label(locale))
		return &box{state: s, lines: []string{text}, width: choiceWidth + 2*textWidth(text), height: choiceWidth}
	}
	b := &box{state: s, lines: []string{shortLabel(s.Label(locale))}}
	for _, loop := range d.loops(s, locale) {
		b.lines = append(b.lines, "↻ "+loop)
	}
	for _, line := range b.lines {
		b.width = max(b.width, textWidth(line)+28)
	}
	b.width = max(b.width, minWidth)
	b.height = float64(len(b.lines))*lineHeight + 18
	return b
}

// textWidth is an upper estimate; East Asian letters are twice as wide.
func textWidth(s string) float64 {
	width := 0.0
	for _, r := range s {
		if unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul) || r > 0xffff {
			width += 2 * charWidth
		} else {
			width += charWidth
		}
	}
	return width
}

// backEdges finds the edges that close a circle, seen from the start in written order.
func backEdges(d *Definition, edges []*diagramEdge) map[*diagramEdge]bool {
	out := map[string][]*diagramEdge{}
	for _, e := range edges {
		out[e.from] = append(out[e.from], e)
	}
	const visiting, finished = 1, 2
	mark := map[string]int{}
	back := map[*diagramEdge]bool{}
	var visit func(name string)
	visit = func(name string) {
		mark[name] = visiting
		for _, e := range out[name] {
			switch mark[e.to] {
			case 0:
				visit(e.to)
			case visiting:
				back[e] = true
			}
		}
		mark[name] = finished
	}
	visit("")
	for _, s := range d.States {
		if mark[s.Name] == 0 {
			visit(s.Name)
		}
	}
	return back
}

// ends gives the upper and the lower box of an edge.
func (l *layout) ends(e *diagramEdge, back map[*diagramEdge]bool) (upper, lower *box) {
	upper, lower = l.boxes[e.from], l.boxes[e.to]
	if back[e] {
		upper, lower = lower, upper
	}
	return upper, lower
}

// rank gives every state the layer of its longest way from the start.
func (l *layout) rank(d *Definition, edges []*diagramEdge, back map[*diagramEdge]bool) {
	for range len(d.States) + 1 {
		changed := false
		for _, e := range edges {
			if upper, lower := l.ends(e, back); lower.layer < upper.layer+2 {
				lower.layer, changed = upper.layer+2, true
			}
		}
		if !changed {
			break
		}
	}
	l.add(l.boxes[""])
	for _, s := range d.States {
		l.add(l.boxes[s.Name])
	}
}

func (l *layout) add(b *box) {
	for len(l.layers) <= b.layer {
		l.layers = append(l.layers, nil)
	}
	b.order = len(l.layers[b.layer])
	l.layers[b.layer] = append(l.layers[b.layer], b)
}

// route makes the bends of every edge; its label stands next to its source.
func (l *layout) route(edges []*diagramEdge, back map[*diagramEdge]bool) {
	dummies := 0
	for _, e := range edges {
		upper, lower := l.ends(e, back)
		r := &route{edge: e, via: []*box{upper}}
		labelLayer := upper.layer + 1
		if back[e] {
			labelLayer = lower.layer - 1
		}
		last := upper
		for layer := upper.layer + 1; layer < lower.layer; layer++ {
			if layer != labelLayer && dummies > maxDummies {
				continue
			}
			dummies++
			bend := &box{layer: layer, width: dummyWidth, height: 1}
			if layer == labelLayer && len(e.labels) > 0 {
				bend.lines, r.text = e.labels, bend
				for _, line := range e.labels {
					bend.width = max(bend.width, textWidth(line)+labelPadding)
				}
				bend.height = float64(len(e.labels))*lineHeight + labelPadding
			}
			l.add(bend)
			join(last, bend)
			r.via, last = append(r.via, bend), bend
		}
		join(last, lower)
		r.via = append(r.via, lower)
		if back[e] {
			slices.Reverse(r.via)
		}
		l.routes = append(l.routes, r)
	}
}

func join(upper, lower *box) {
	upper.down, lower.up = append(upper.down, lower), append(lower.up, upper)
}

// order sorts each layer by the middle of the neighbours, downwards and upwards.
func (l *layout) order() {
	for sweep := range orderSweeps {
		for i := range l.layers {
			layer, neighbours := l.layers[i], func(b *box) []*box { return b.up }
			if sweep%2 == 1 {
				layer, neighbours = l.layers[len(l.layers)-1-i], func(b *box) []*box { return b.down }
			}
			weight := make(map[*box]float64, len(layer))
			for _, b := range layer {
				weight[b] = mean(neighbours(b), float64(b.order), func(n *box) float64 { return float64(n.order) })
			}
			slices.SortStableFunc(layer, func(x, y *box) int { return cmp.Compare(weight[x], weight[y]) })
			for order, b := range layer {
				b.order = order
			}
		}
	}
}

func mean(list []*box, otherwise float64, value func(*box) float64) float64 {
	if len(list) == 0 {
		return otherwise
	}
	sum := 0.0
	for _, b := range list {
		sum += value(b)
	}
	return sum / float64(len(list))
}

// place gives coordinates: boxes of a layer keep their order and their distance and
// move towards their neighbours.
func (l *layout) place() {
	y := margin
	for _, layer := range l.layers {
		x, tallest := 0.0, 0.0
		for _, b := range layer {
			b.x = x + b.width/2
			x += b.width + nodeGap
			tallest = max(tallest, b.height)
		}
		for _, b := range layer {
			b.x -= x / 2
			b.y = y + tallest/2
		}
		y += tallest + layerGap
	}
	for range placeSweeps {
		for _, layer := range l.layers {
			settle(layer)
		}
	}
	left, right := 0.0, 0.0
	for _, layer := range l.layers {
		for _, b := range layer {
			left, right = min(left, b.x-b.width/2), max(right, b.x+b.width/2)
		}
	}
	for _, layer := range l.layers {
		for _, b := range layer {
			b.x += margin - left
		}
	}
	l.width, l.height = right-left+2*margin, y-layerGap+margin
}

// settle moves the boxes of a layer to the middle of their neighbours as far as the
// others let them: the mean of the leftmost and the rightmost solution.
func settle(layer []*box) {
	n := len(layer)
	wish, low, high := make([]float64, n), make([]float64, n), make([]float64, n)
	for i, b := range layer {
		wish[i] = mean(slices.Concat(b.up, b.down), b.x, func(o *box) float64 { return o.x })
	}
	distance := func(i int) float64 { return (layer[i-1].width+layer[i].width)/2 + nodeGap }
	for i := range n {
		high[i] = wish[i]
		if i > 0 {
			high[i] = max(high[i], high[i-1]+distance(i))
		}
	}
	for i := n - 1; i >= 0; i-- {
		low[i] = wish[i]
		if i < n-1 {
			low[i] = min(low[i], low[i+1]-distance(i+1))
		}
		layer[i].x = (low[i] + high[i]) / 2
	}
}
