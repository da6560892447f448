package simulate

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const bundled = "../definitions/bundled"

func TestTheBundledScenariosHold(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(bundled, "*.scenario.yaml"))
	if err != nil || len(files) < 3 {
		t.Fatalf("found %v: %v", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			if err := Run(file, &out); err != nil {
				t.Errorf("%v\n%s", err, out.String())
			}
			if !strings.HasSuffix(out.String(), "ok\n") {
				t.Errorf("timeline ends with %q", out.String())
			}
		})
	}
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestAnExpectationThatFailsNamesItsLineAndWhatIsThere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	src, err := os.ReadFile(filepath.Join(bundled, "report-part.v1.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "d.yaml"), src, 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "x.scenario.yaml")
	text := `definition: d.yaml
start: {at: 2026-12-04T10:00:00Z, requester: rosa, data: {region: north, month: "2026-12"}}
steps:
  - expect: {state: done, deadlines: 2, tasks: [ana], emails: 3, reminders: 1, effects: [x], escalated_to: [y], attention: [z], pending: {have: 1, need: 2}, data: {region: south}, status: finished}
  - {event: written, by: "system:writer", input: {text: hello}}
  - expect: {state: done, status: finished, data: {text: hello}}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	err = Run(file, &bytes.Buffer{})
	if err == nil {
		t.Fatal("it passes")
	}
	for _, want := range []string{
		":4:", "state is working, expected done", "deadlines is 1, expected 2", "tasks is [system:writer], expected [ana]",
		"emails is 0, expected 3", "reminders is 0", "effects is [], expected [x]", "escalated_to is []", "attention is []", "pending is none", "data.region", "status is running",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q:\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), ":6:") {
		t.Errorf("the second expectation holds, but: %v", err)
	}
}

func TestScenariosOfNotYetSupportedDefinitionsAreRefusedByName(t *testing.T) {
	t.Parallel()
	src, err := os.ReadFile("../definitions/testdata/onboarding.v2.yaml")
	if err != nil {
		t.Fatal(err)
	}
	file := write(t, "v2.scenario.yaml", "definition: v2.yaml\nstart: {at: 2026-12-04T10:00:00Z, requester: rosa, data: {}}\nsteps: []\n")
	if err := os.WriteFile(filepath.Join(filepath.Dir(file), "v2.yaml"), src, 0o600); err != nil {
		t.Fatal(err)
	}
	err = Run(file, &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), "calendar") || !strings.Contains(err.Error(), "migrate") {
		t.Errorf("refused with %v", err)
	}
}

func TestFaultyScenariosAreRefusedWithTheirPlace(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"unknown key":       {"definition: x\nsurprise: 1\n", "surprise"},
		"unknown step key":  {"definition: x\nstart: {at: 2026-12-04, requester: r}\nsteps: [{evnt: x}]\n", "evnt"},
		"no start":          {"definition: x\n", "start.at"},
		"no such file":      {"definition: nowhere.yaml\nstart: {at: 2026-12-04, requester: r}\n", "nowhere.yaml"},
		"not YAML at all":   {"{", "scenario"},
		"a list at the top": {"- 1\n", "scenario"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := Run(write(t, "a.scenario.yaml", c.text), &bytes.Buffer{})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want something about %q", err, c.want)
			}
		})
	}
}
