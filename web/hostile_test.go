package web

import (
	"strings"
	"testing"

	"vobo/internal/definitions"
)

// guarantees S-27, S-28
func TestNoFieldThatAStrangerInventsBreaksAForm(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"inputs", "input", "inputX.y", "dataX", "~/", "/", "x", "documents", "input." + strings.Repeat("x.", 50_000) + "y"} {
		b := newBundle(t)
		w := b.post("/a/open", "", form("event", "approve", "input.limit", "12", "digest", "d1", name, "1"))
		wantStatus(t, w, 422)
		wantText(t, w, "This form has no field")
		wantChanges(t, b.svc, "")
	}
	for _, name := range []string{"dataX", "datas.name", "data", "data.", "data..", "data.total.x", "data.applicant.age", "data.applicant.name.x", "input.x", "data.nobody"} {
		b := startBundle(t)
		w := b.post("/start/onboarding", "luis", form("data.total", "1", "data.applicant.name", "Eva", "data.applicant.email", "m@example.com", name, "1"))
		wantStatus(t, w, 422)
		wantText(t, w, "This form has no field")
		wantChanges(t, b.svc, "")
	}
}

func TestTheWayToAFieldsErrorEndsWhereThePointerIsNone(t *testing.T) {
	t.Parallel()
	targets := map[string]string{"/limit": "l"}
	for pointer, want := range map[string]string{"": "", "s": "", "X/limit": "", "/": "", "/limit": "l", "/limit/3/a": "l", "//": "", "/other/limit": ""} {
		if got := nearest(targets, pointer); got != want {
			t.Errorf("nearest(%q) = %q, want %q", pointer, got, want)
		}
	}
}

func TestAFormKnowsItsFieldsByTheirWholePath(t *testing.T) {
	t.Parallel()
	fields := []definitions.FormField{
		{Name: "limit", Type: "integer"},
		{Name: "a.b", Type: "string"},
		{Name: "person", Type: "object", Fields: []definitions.FormField{{Name: "name", Type: "string"}}},
		{Name: "lines", Type: "array", Items: &definitions.FormField{Type: "object", Fields: []definitions.FormField{{Name: "text", Type: "string"}}}},
	}
	for path, want := range map[string]bool{
		"limit": true, "a.b": true, "person": true, "person.name": true, "lines": true, "lines.0.text": true,
		"": false, "limit.x": false, "a": false, "a.b.c": false, "person.age": false, "person.name.x": false, "lines.x.text": false, "lines.0.other": false, "lines.0": false,
	} {
		if got := knows(fields, path); got != want {
			t.Errorf("knows(%q) = %v", path, got)
		}
	}
}

func TestANumberThatNothingCanHoldIsNone(t *testing.T) {
	t.Parallel()
	for _, typed := range []string{"1e400", "1e99999", "1e999999999", strings.Repeat("9", 5000)} {
		if n, ok := parseNumber(typed); ok {
			t.Errorf("%.20s… was read as %.20s…", typed, n)
		}
	}
}
