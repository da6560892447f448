package definitions

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func parseFile(t *testing.T, name string) *Definition {
	t.Helper()
	src, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	d, problems := Parse(name, src)
	if d == nil {
		t.Fatalf("refused:\n%s", problems)
	}
	return d
}

// found counts the problems by severity and code.
func found(problems Problems) map[string]int {
	counts := map[string]int{}
	for _, p := range problems {
		counts[string(p.Severity)+" "+p.Code]++
	}
	return counts
}

func TestExamplesAndProcessesLintWithoutError(t *testing.T) {
	t.Parallel()
	const unsupported, owner, failing = "not-supported not-supported", "warning owner-by-requester", "warning not-compensated"
	want := map[string]map[string]int{
		"01-purchase-order.yaml":      {unsupported: 11},
		"02-leave-request.yaml":       {unsupported: 14, owner: 1},
		"03-employee-onboarding.yaml": {unsupported: 4, owner: 1},
		"04-kyc.yaml":                 {unsupported: 4, owner: 1},
		"05-change-request.yaml":      {unsupported: 14, owner: 1, failing: 2},
		"06-access-request.yaml":      {unsupported: 5, owner: 3, failing: 1},
		"07-contract-signature.yaml":  {unsupported: 2, owner: 3},
		"08-expense-claim.yaml":       {unsupported: 3, owner: 1},
		"09-agent-mailing.yaml":       {unsupported: 3},
		"10-postmortem-action.yaml":   {unsupported: 9, owner: 3},
		"agent-action.v1.yaml":        {},
		"onboarding.v1.yaml":          {},
		"onboarding.v2.yaml":          {unsupported: 4, "warning set-under-quorum": 1},
		"reference.yaml":              {unsupported: 7, "warning set-under-quorum": 1, "warning promise-missing": 2}, // every key of the language
		"report-part.v1.yaml":         {},
		"report.v1.yaml":              {},
		"supplier.v1.yaml":            {"warning set-under-quorum": 1},
		"trusted-effects.yaml":        {}, // every key about effects that undo, tidy up, start and call
	}
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) != len(want) {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := parseFile(t, name)
			if got := found(d.Warnings); !maps.Equal(got, want[name]) {
				t.Errorf("got %v, want %v:\n%s", got, want[name], d.Warnings)
			}
		})
	}
}

func TestTheBundledDefinitionsCanBePublished(t *testing.T) {
	t.Parallel()
	files := Bundled()
	names := slices.Sorted(maps.Keys(files))
	if got := strings.Join(names, " "); got != "agent-action.v1.yaml onboarding.v1.yaml report-part.v1.yaml supplier.v1.yaml" {
		t.Errorf("bundled: %s", got)
	}
	for _, name := range names {
		if d, problems := Parse(name, files[name]); d == nil || problems.Refuses() {
			t.Errorf("%s: %s", name, problems)
		}
	}
}

// Keys whose meaning comes later are checked, named once for each place, and refused
// at publish; a lint only warns.
func TestKeysThatAreNotSupportedYetAreNamed(t *testing.T) {
	t.Parallel()
	group := []string{"owner: [requester]", `owner: ["group:risk"]`}
	event := func(more string) []string {
		return append([]string{goLine, "go: {to: done, by: [owner]" + more + "}"}, group...)
	}
	runProblemCases(t, []problemCase{
		{"assurance", event(", assurance: session"), `18:35: warning: assurance: session is not supported yet.`},
		{"assurance: link", event(", assurance: link"), ""},
		{"edit", event(", edit: [note]"), `18:35: warning: edit is not supported yet.`},
		{"quorum: all", event(", quorum: all"), `18:43: warning: quorum: all is not supported yet.`},
		{"a percentage", event(`, quorum: "60%"`), `18:43: warning: A quorum by percentage is not supported yet.`},
		{"unreachable", event(", quorum: 2, unreachable: expire"), `18:46: warning: unreachable is not supported yet.`},
		{"somebody outside", []string{"owner: [requester]", `owner: ["email:ana@example.com"]`}, `15:13: warning: A person outside (email:ana@example.com) in owner is not supported yet.`},
		{"a list of tasks", []string{"    events:", "    task: [{for: requester, title: A, events: [go]}]\n    events:"}, `17:5: warning: A list of tasks is not supported yet.`},
		{"working time in an expression", []string{
			goLine, `go: {when: "workdays(date(data.due), now, 'office') > 1 && isopen(add(now, 'P1D', 'office'), 'office')", to: done, by: [owner]}`,
			"states:", "calendars: {office: {timezone: Europe/Madrid, days: [mon], hours: \"09:00-18:00\"}}\nstates:",
		}, `19:27: warning: Working time (workdays) is not supported yet.
19:72: warning: Working time (isopen) is not supported yet.
19:76: warning: Working time (add) is not supported yet.`},
		{"add without a calendar", []string{goLine, `go: {when: "add(now, 'P1D') > now", to: done, by: [owner]}`}, ""},
		{"readers", []string{"states:", "readers: [requester, \"group:audit\"]\nstates:"}, `13:1: warning: A list of readers other than [requester] is not supported yet.`},
		{"the default readers", []string{"states:", "readers: [requester]\nstates:"}, ""},
		{"a deadline over states", []string{"states:", "deadlines: [{in: [waiting], after: P9D, fire: expire}]\nstates:"}, `13:14: warning: in of a deadline is not supported yet.`},
		{"reserved keys", []string{"note: {type: string}", "note: {type: string, visible_to: [owner]}", "done: {final: true}", "done: {final: true, shown_as: over}"}, `10:26: warning: visible_to is not supported yet.
20:23: warning: shown_as is not supported yet.`},
		{"migrate", []string{"version: 1", "version: 2", end, end + "migrate: [{from: 1, states: {old: waiting}, set: {note: data.text}, unset: [text], tests: [{given: {state: old, data: {text: a}}, want: {state: waiting, data: {note: a}}}]}]\n"}, `21:1: warning: migrate is not supported yet.`},
		{"a wrong migrate", []string{end, end + "migrate: [{from: 1, states: {old: waitng}, set: {notes: data.text}, tests: [{given: {state: old}, want: {state: gone, data: {}}}]}]\n"}, `21:1: warning: migrate is not supported yet.
21:18: from must be an older version than 1.
21:35: migrate names the state "waitng", which does not exist. (did you mean waiting?)
21:50: "notes" is not declared in data. (did you mean note?)
21:85: given needs data.
21:113: A test wants the state "gone", which does not exist. (did you mean done?)`},
	})
}
