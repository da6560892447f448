package simulate

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// runText runs a scenario of a definition, both given as text, and gives the timeline.
func runText(t *testing.T, definition, steps string) (string, error) {
	t.Helper()
	file := write(t, "x.scenario.yaml", "definition: d.yaml\nstart: {at: 2026-12-04T10:00:00Z, requester: rosa, data: {}}\nsteps:\n"+steps)
	if err := os.WriteFile(filepath.Join(filepath.Dir(file), "d.yaml"), []byte(definition), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err := Run(file, &out)
	return out.String(), err
}

const trip = `name: trip
version: 1
initial: booking
on_cancel: [tidy]
data: {type: object, properties: {parts: {type: array}, told: {type: string}}}
states:
  booking:
    owner: [requester]
    enter: [hotel, parts, poke, desk]
    deadlines: [{after: P1D, fire: late}]
    events:
      joined: {to: travelling, by: [effect]}
      late: {to: failed, by: [timer, effect, requester], compensate: true}
  travelling:
    owner: [requester]
    deadlines: [{after: P9D, fire: back}]
    events: {back: {to: done, by: [timer, requester]}}
  done: {final: true}
  failed: {final: failed}
effects:
  hotel: {webhook: {url: "https://hotel.example/"}, idempotent: false, reversible: true, compensate: manual}
  parts:
    start: {definition: leg, for_each: "['a', 'b']", as: leg, data: {leg: leg}, wait: all}
    on_success: {fire: joined, set: {parts: "result.map(c, c.state)"}}
    on_failure: {fire: late}
  poke:
    event: {definition: plan, key: main, event: begun}
    on_success: {set: {told: result.state}}
  desk: {email: {to: "desk@example.com", subject: Hello, body: We come}}
  tidy: {webhook: {url: "https://tidy.example/"}, idempotent: true, reversible: false}
`

func TestResultsOfChildrenAndOfEventsElsewhereAreGivenByTheScenario(t *testing.T) {
	t.Parallel()
	out, err := runText(t, trip, `
  - expect: {state: booking, emails: 2, effects: [hotel, parts, poke, desk]}
  - {effect: hotel, succeeds: {id: 7}}
  - {effect: poke, succeeds: {id: x, state: planned}}
  - expect: {state: booking, data: {told: planned}}
  - {effect: parts, succeeds: [{id: "1", state: there, data: {}}, {id: "2", state: seen, data: {}}]}
  - expect: {state: travelling, data: {parts: [there, seen]}}
  - {event: back, by: rosa}
  - expect: {state: done, status: finished}
`)
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestWhatIsUndoneByHandWaitsForThePersonWhoSaysSo(t *testing.T) {
	t.Parallel()
	out, err := runText(t, trip, `
  - {effect: hotel, succeeds: {id: 7}}
  - {effect: parts, fails: "leg a failed"}
  - expect: {state: failed, status: finished, effects: [hotel, parts, poke, desk, undo hotel], attention: [dead-effect, failed-end, manual-compensation]}
  - {effect: undo hotel, unknown: who knows}
`)
	if err == nil || !strings.Contains(err.Error(), "undo hotel is unknown already") {
		t.Errorf("%v\n%s", err, out)
	}
	out, err = runText(t, trip, `
  - {effect: hotel, succeeds: {id: 7}}
  - {event: late, by: rosa}
  - {effect: undo hotel, succeeds: {}}
  - expect: {state: failed, attention: [failed-end]}
`)
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestACancelQueuesWhatTidiesUpAndStopsChildren(t *testing.T) {
	t.Parallel()
	out, err := runText(t, trip, `
  - expect: {state: booking}
  - {cancel: no trip, by: rosa}
  - expect: {status: cancelled, effects: [tidy]}
  - {effect: tidy, succeeds: {}}
  - expect: {status: cancelled, attention: []}
`)
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestAnUnknownOutcomeIsResolvedByAPerson(t *testing.T) {
	t.Parallel()
	out, err := runText(t, trip, `
  - {effect: hotel, unknown: no answer}
  - expect: {attention: [unknown-effect]}
  - {effect: hotel, succeeds: {id: 9}}
  - expect: {attention: []}
  - {effect: poke, unknown: no answer}
  - {effect: poke, fails: it is not there, by: olga}
  - expect: {attention: []}
`)
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestMailThatDoesNotArriveRaisesItsEvent(t *testing.T) {
	t.Parallel()
	const letter = `name: letter
version: 1
initial: told
data: {type: object, properties: {mail: {type: string}}}
states:
  told:
    owner: [requester]
    task: {on_undeliverable: unread}
    enter: [tell]
    deadlines: [{after: P1D, fire: close}]
    events:
      lost: {to: lost, by: [effect]}
      unread: {to: unread, by: [effect]}
      close: {to: done, by: [timer, requester]}
  lost: {final: true}
  unread: {final: true}
  done: {final: true}
effects:
  tell: {email: {to: "TO", subject: Hello, body: We come}, on_undeliverable: lost}
`
	for _, c := range []struct{ name, to, steps string }{
		{"it is said to bounce", "them@example.com", "  - {effect: tell, fails: bounced}\n  - expect: {state: lost, emails: 0}\n"},
		{"its address is none", "{{ 'not an address' }}", "  - expect: {state: lost, attention: [dead-effect], emails: 0}\n"},
		{"it arrives", "them@example.com", "  - expect: {state: told, attention: [], emails: 2}\n"},
		{"nobody asked can be reached", "them@example.com", "  - {effect: task, fails: bounced}\n  - expect: {state: unread}\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			out, err := runText(t, strings.Replace(letter, "TO", c.to, 1), c.steps)
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
