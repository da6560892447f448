package definitions

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestMermaidShowsStatesEventsAndTimes(t *testing.T) {
	t.Parallel()
	want := `stateDiagram-v2
    state s_triage <<choice>>
    state "Pending approval" as s_pending_approval
    state "Signing" as s_signing
    state "Creating" as s_creating
    state "Active" as s_active
    state "Rejected" as s_rejected
    state "Expired" as s_expired
    state "Cancelled" as s_cancelled
    [*] --> s_triage
    s_triage --> s_signing : data.yearly #60; 1000
    s_triage --> s_pending_approval : else
    s_pending_approval --> s_signing : Approve
    s_pending_approval --> s_rejected : Reject
    s_pending_approval --> s_expired : Expire (7 d)
    s_signing --> s_creating : Signed
    s_signing --> s_rejected : Declined
    s_signing --> s_expired : Expire (10 d)
    s_creating --> s_active : Created
    s_creating --> s_cancelled : Give up (7 d)
    s_pending_approval --> s_pending_approval : Ask
    s_active --> [*]
    s_rejected --> [*]
    s_expired --> [*]
    s_cancelled --> [*]
`
	if got := parseFile(t, "supplier.v1.yaml").Mermaid(); got != want {
		t.Errorf("got\n%s", got)
	}
}

func hostile(t *testing.T) *Definition {
	t.Helper()
	d, problems := Parse("f", []byte(changed(t, "initial: waiting", "initial: waiting\ntitle: \"</title><script>alert(1)</script>\"",
		"    owner: [requester]\n", "    owner: [requester]\n    title: '\"]:::x; click a \"javascript:1\" <img src=x onerror=1> & \\'\n",
		goLine, "go: {title: \"a\\nb: c --> d %% #quot; <b>\", to: done, by: [owner]}")))
	if d == nil {
		t.Fatal(problems)
	}
	return d
}

func TestMermaidEscapesWhatPeopleWrite(t *testing.T) {
	t.Parallel()
	got := hostile(t).Mermaid()
	want := `stateDiagram-v2
    state "#34;#93;#58;#58;#58;x#59; click a #34;javascript#58;1#34; #60;img src…" as s_waiting
    state "Done" as s_done
    [*] --> s_waiting
    s_waiting --> s_done : a b#58; c #45;#45;#62; d #37;#37; #35;quot#59; #60;b#62; / Expire (1 d)
    s_done --> [*]
`
	if got != want {
		t.Errorf("got\n%s", got)
	}
}

// drawn reads the SVG as XML: the texts, and the classes of elements with their count.
func drawn(t *testing.T, svg []byte) (words []string, classes map[string]int) {
	t.Helper()
	classes = map[string]int{}
	decoder := xml.NewDecoder(bytes.NewReader(svg))
	inside := ""
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return words, classes
		}
		if err != nil {
			t.Fatalf("no XML: %v", err)
		}
		switch e := token.(type) {
		case xml.StartElement:
			inside = e.Name.Local
			if !slices.Contains([]string{"svg", "title", "style", "rect", "path", "circle", "g", "text"}, inside) {
				t.Errorf("unexpected element %s", inside)
			}
			for _, a := range e.Attr {
				if strings.HasPrefix(a.Name.Local, "on") || strings.Contains(a.Name.Local, "href") {
					t.Errorf("unexpected attribute %s", a.Name.Local)
				}
				if a.Name.Local == "class" {
					for _, c := range strings.Fields(a.Value) {
						classes[c]++
					}
				}
			}
		case xml.CharData:
			if inside == "text" || inside == "title" {
				words = append(words, string(e))
			}
		case xml.EndElement:
			inside = ""
		}
	}
}

func TestTheDrawingShowsWhereAnInstanceStands(t *testing.T) {
	t.Parallel()
	d := parseFile(t, "supplier.v1.yaml")
	// The way from the start leads over the choice, which history does not name.
	svg := d.SVG(DiagramOptions{Current: "signing", Taken: [][2]string{{"", "pending_approval"}, {"pending_approval", "signing"}}})
	words, classes := drawn(t, svg)
	for _, want := range []string{"New supplier: Signing", "Pending approval", "↻ Ask", "Expire (7 d)", "data.yearly < 1000", "else", "Triage"} {
		if !slices.Contains(words, want) {
			t.Errorf("%q is not drawn: %q", want, words)
		}
	}
	// Three edges and their heads, and four states are on the path; the start has no group.
	if classes["vobo-current"] != 1 || classes["vobo-taken"] != 2*3+3 || classes["vobo-final"] != 4 || classes["vobo-failed"] != 1 || classes["vobo-node"] != 8 {
		t.Errorf("classes %v", classes)
	}
	if !strings.Contains(string(svg), `role="img"`) || !strings.Contains(string(svg), "prefers-color-scheme:dark") || strings.Contains(string(svg), "http://") && strings.Count(string(svg), "http") != 1 {
		t.Error("role, dark colours or foreign addresses")
	}
}

func TestTheDrawingEscapesWhatPeopleWrite(t *testing.T) {
	t.Parallel()
	words, _ := drawn(t, hostile(t).SVG(DiagramOptions{Current: "waiting"}))
	if !slices.Contains(words, "a b: c --> d %% #quot; <b>") || !strings.HasPrefix(words[0], "</title><script>alert(1)</script>: ") {
		t.Errorf("texts %q", words)
	}
}

func TestTheDrawingSpeaksTheReadersLanguage(t *testing.T) {
	t.Parallel()
	d := parseFile(t, "02-leave-request.yaml")
	words, _ := drawn(t, d.SVG(DiagramOptions{Locale: "es-AR"}))
	if words[0] != "Solicitud de vacaciones" {
		t.Errorf("title %q", words[0])
	}
	if got := d.State("asking_substitute").Label("es"); got != "Asking substitute" {
		t.Errorf("label %q", got)
	}
}

// No state and no label covers another, every line leads from layer to layer.
func TestNothingInADrawingLiesOnSomethingElse(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		d := parseFile(t, filepath.Base(file))
		l := d.layout("")
		bottom := 0.0
		for _, layer := range l.layers {
			right, lowest := 0.0, bottom
			for _, b := range layer {
				if b.x-b.width/2 < right || b.y-b.height/2 < bottom || b.x+b.width/2 > l.width || b.y+b.height/2 > l.height {
					t.Errorf("%s: a box in layer %d at %.0f,%.0f lies on another or outside", file, b.layer, b.x, b.y)
				}
				right = b.x + b.width/2
				lowest = max(lowest, b.y+b.height/2)
			}
			bottom = lowest
		}
		if len(l.routes) != len(d.edges("")) {
			t.Errorf("%s: %d of %d edges are drawn", file, len(l.routes), len(d.edges("")))
		}
		for _, r := range l.routes {
			if r.via[0] != l.boxes[r.edge.from] || r.via[len(r.via)-1] != l.boxes[r.edge.to] {
				t.Errorf("%s: the line from %q to %s ends elsewhere", file, r.edge.from, r.edge.to)
			}
		}
	}
}
