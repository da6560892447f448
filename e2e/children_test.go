package e2e_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vobo/internal/testkit"
)

// reports are the definitions of a report and of its parts; a report of these tests may
// have more regions.
func reports(t testing.TB) []string {
	t.Helper()
	var texts []string
	for _, name := range []string{"report-part.v1.yaml", "report.v1.yaml"} {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, strings.ReplaceAll(string(text), "maxItems: 200", "maxItems: 1000"))
	}
	return texts
}

const figures = `{"sales":[1.10,20]}`

// onEachReports is onEach for services that write reports.
func onEachReports(t *testing.T, test func(t *testing.T, w *writer)) {
	t.Helper()
	data := testkit.Webhook(t)
	data.Answer(testkit.AnswerJSON(http.StatusOK, figures))
	onEach(t, func(t *testing.T, s *service) {
		test(t, &writer{service: s, own: s.makeKey("writer", "viewer"), data: data})
	}, setup{definitions: reports(t), env: map[string]string{"VOBO_ENV_DATA_URL": data.URL}})
}

// writer is the system that writes parts, with a key of its own.
type writer struct {
	*service
	own  string
	data *testkit.WebhookReceiver
}

type child struct {
	Index  int    `json:"index"`
	ID     string `json:"id"`
	Effect string `json:"effect"`
	Status string `json:"status"`
	Detail string `json:"detail"`
}

func (s *service) children(id string) []child {
	s.t.Helper()
	return each[child](s, "/v1/instances/"+id+"/children?")
}

// report starts a report over so many regions and waits for its parts.
func (w *writer) report(t *testing.T, regions int) (parent string, parts []child) {
	t.Helper()
	parent = w.start(rosa, "report", map[string]any{"month": "2026-11", "regions": regionsOf(regions)}).ID
	return parent, w.parts(t, parent, regions)
}

func (w *writer) parts(t *testing.T, parent string, n int) (parts []child) {
	t.Helper()
	testkit.WaitForWithin(t, leaseOver, fmt.Sprintf("%d parts", n), func() bool {
		parts = w.children(parent)
		return len(parts) == n
	})
	return parts
}

func regionsOf(n int) []string {
	var regions []string
	for i := range n {
		regions = append(regions, fmt.Sprintf("region %03d", i))
	}
	return regions
}

// write raises an event of a part as the writing system.
func (w *writer) write(part, event string, input map[string]any) (answer, error) {
	body := map[string]any{"event": event}
	if input != nil {
		body["input"] = input
	}
	return w.try(w.at, noOne, http.MethodPost, "/v1/instances/"+part+"/events", body, "Authorization", "Bearer "+w.own)
}

// writeAll writes every part, the last one first.
func (w *writer) writeAll(t *testing.T, parts []child) {
	t.Helper()
	var count tally
	together(8, func(n int) {
		for i := len(parts) - 1 - n; i >= 0; i -= 8 {
			count.add(w.write(parts[i].ID, "written", map[string]any{"text": fmt.Sprintf("text %03d", parts[i].Index)}))
		}
	})
	for _, got := range count.answers(t) {
		got.want(t, http.StatusOK)
	}
}

// assertParts checks that a report got its parts, once, in order of its regions.
func (w *writer) assertParts(t *testing.T, parent string, n int) {
	t.Helper()
	now := w.waitState(parent, "reviewing")
	parts, _ := now.Data["parts"].([]any)
	if len(parts) != n {
		t.Fatalf("the report has %d parts, want %d", len(parts), n)
	}
	for i, part := range parts {
		p, _ := part.(map[string]any)
		data, _ := p["data"].(map[string]any)
		if p["state"] != "done" || data["region"] != fmt.Sprintf("region %03d", i) || data["text"] != fmt.Sprintf("text %03d", i) {
			t.Fatalf("in the place %d is %v", i, part)
		}
	}
	told := 0
	for _, row := range w.history(parent) {
		if row.Event == "written" {
			told++
		}
	}
	if told != 1 {
		t.Errorf("the report was told %d times that its parts are written", told)
	}
}

// A report fetches its figures, has its parts written by another system, and is published
// by a person. The parts come back in order, whatever the order in which they were written.
func TestAReportIsWrittenInParts(t *testing.T) {
	t.Parallel()
	onEachReports(t, func(t *testing.T, w *writer) {
		parent, parts := w.report(t, 5)
		for i, part := range parts {
			if part.Index != i || part.Status != "running" {
				t.Errorf("the part %d is %+v", i, part)
			}
			if one := w.read(part.ID); one.State != "working" || one.Data["region"] != fmt.Sprintf("region %03d", i) || one.Data["month"] != "2026-11" {
				t.Errorf("the part %d has %v in %s", i, one.Data, one.State)
			}
		}
		w.writeAll(t, parts[1:])
		if now := w.read(parent); now.State != "writing" {
			t.Fatalf("with a part open the report is in %s", now.State)
		}
		w.writeAll(t, parts[:1])
		w.assertParts(t, parent, 5)
		if got := text(t, w.read(parent).Data["figures"]); got != `{"sales":[1.1,20]}` {
			t.Errorf("the figures are %s", got)
		}
		w.raise(marta, parent, map[string]any{"event": "publish"})
		if done := w.read(parent); done.State != "published" || done.Status != "finished" {
			t.Errorf("a published report is %+v", done)
		}
		assertPath(t, w.history(parent), "fetching", "writing", "reviewing", "published")
	})
}

// One part that fails is enough: the report fails at once, and the parts that are still
// being written are cancelled.
func TestAReportFailsWithAPart(t *testing.T) {
	t.Parallel()
	onEachReports(t, func(t *testing.T, w *writer) {
		parent, parts := w.report(t, 4)
		w.writeAll(t, parts[:1])
		got, err := w.write(parts[2].ID, "fail", nil)
		if err != nil {
			t.Fatal(err)
		}
		got.want(t, http.StatusOK)
		if now := w.waitState(parent, "failed"); now.Status != "finished" {
			t.Errorf("a failed report is %s", now.Status)
		}
		want := []string{"ended", "cancelled", "failed", "cancelled"}
		testkit.WaitFor(t, "the end of the other parts", func() bool { return statusesOf(w.children(parent)) == strings.Join(want, " ") })
		for i, part := range parts {
			if now := w.read(part.ID); (want[i] == "cancelled") != (now.Status == "cancelled") {
				t.Errorf("the part %d is %s, as a child %s", i, now.Status, want[i])
			}
		}
		assertPath(t, w.history(parent), "fetching", "writing", "failed")
	})
}

func statusesOf(all []child) string {
	var words []string
	for _, c := range all {
		words = append(words, c.Status)
	}
	return strings.Join(words, " ")
}

// Who cancels a report cancels the parts that live; those that have ended stay as they are.
func TestACancelledReportCancelsItsParts(t *testing.T) {
	t.Parallel()
	onEachReports(t, func(t *testing.T, w *writer) {
		parent, parts := w.report(t, 70) // more than are started, or cancelled, at once
		w.writeAll(t, parts[:1])
		w.api(desk, http.MethodDelete, "/v1/instances/"+parent, map[string]any{"reason": "Not needed."}).want(t, http.StatusAccepted)
		testkit.WaitFor(t, "the end of all parts", func() bool {
			return statusesOf(w.children(parent)) == "ended"+strings.Repeat(" cancelled", 69)
		})
		if now := w.read(parent); now.Status != "cancelled" || now.State != "writing" {
			t.Errorf("a cancelled report is %s in %s", now.Status, now.State)
		}
		if done := w.read(parts[0].ID); done.State != "done" || done.Status != "finished" {
			t.Errorf("a part that was written is %s in %s", done.Status, done.State)
		}
		got, err := w.write(parts[69].ID, "written", map[string]any{"text": "too late"})
		if err != nil {
			t.Fatal(err)
		}
		got.wantProblem(t, http.StatusConflict, "event-not-allowed-here")
	})
}

// A power cut in the middle of starting three hundred parts: in the end there are three
// hundred, each once, and the report is told once.
func TestAKillWhileChildrenStartStartsEachOnce(t *testing.T) {
	t.Parallel()
	onEachReports(t, func(t *testing.T, w *writer) {
		const n, tries = 300, 5
		for try := 1; ; try++ {
			parent := w.start(rosa, "report", map[string]any{"month": "2026-11", "regions": regionsOf(n)}).ID
			testkit.WaitFor(t, "the first parts", func() bool { return len(w.children(parent)) > 0 })
			for _, p := range w.replicas {
				p.Kill()
			}
			for _, p := range w.replicas {
				p.Start()
			}
			begun := len(w.children(parent))
			parts := w.parts(t, parent, n)
			if begun >= n && try < tries {
				continue // the power went too late
			}
			if begun >= n {
				t.Fatalf("%d times all parts had been started before the power went", tries)
			}
			if w.assertEachOnce(t, parent, parts); t.Failed() {
				return
			}
			t.Logf("%d of %d parts were started when the power went; all in the end, each once", begun, n)
			return
		}
	})
}

func (w *writer) assertEachOnce(t *testing.T, parent string, parts []child) {
	t.Helper()
	ids := map[string]bool{}
	for i, part := range parts {
		if ids[part.ID] || part.Index != i || part.Status != "running" {
			t.Errorf("in the place %d is %+v", i, part)
		}
		ids[part.ID] = true
	}
	regions := map[any]int{}
	for _, one := range each[record](w.service, "/v1/instances?definition=report-part&") {
		if ids[one.ID] {
			regions[w.read(one.ID).Data["region"]]++
		} else if w.read(one.ID).parentIs(parent) {
			t.Errorf("%s is a part that the report does not know", one.ID)
		}
	}
	if len(regions) != len(parts) {
		t.Errorf("there are parts for %d regions, want %d", len(regions), len(parts))
	}
	w.writeAll(t, parts)
	w.assertParts(t, parent, len(parts))
}

func (i instance) parentIs(id string) bool { return i.Parent == id }
