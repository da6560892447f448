package definitions

import "testing"

func TestFailedEndsThatLeaveSomethingDoneAreWarnedOf(t *testing.T) {
	t.Parallel()
	undoable := calls("a", "reversible: true, compensate: manual, on_failure: {fire: lost}")
	bad := end + "  bad: {final: failed}\neffects:\n"
	lost := "go: {to: done, by: [owner]}\n      lost: {to: bad, by: [effect]}"
	plain := calls("a", "reversible: true, compensate: manual")
	runProblemCases(t, []problemCase{
		{"by a failing effect", append(enters("a"), goLine, lost, end, bad+undoable), `20:18: warning: The failed end bad leaves done what could be undone: a. (add compensate: true)`},
		{"by a failing effect, compensated", append(enters("a"), goLine, "go: {to: done, by: [owner]}\n      lost: {to: bad, by: [effect], compensate: true}", end, bad+undoable), ""},
		{"by a deadline", append(enters("a"), "to: done, by: [timer]", "to: bad, by: [timer]", end, bad+plain), `20:20: warning: The failed end bad leaves done what could be undone: a. (add compensate: true)`},
		{"by an event of every wait", append(enters("a"), "states:", "events: {stop: {to: bad, by: [requester]}}\nstates:", end, bad+plain), `13:21: warning: The failed end bad leaves done what could be undone: a. (add compensate: true)`},
		{"by a deadline of the whole instance", append(enters("a"), "      "+expireLine+"\n", "", "states:", "events: {expire: {to: bad, by: [timer]}}\nstates:", end, bad+plain), `13:23: warning: The failed end bad leaves done what could be undone: a. (add compensate: true)`},
		{"over a choice", append(enters("a"), "to: done, by: [owner]", "to: pick, by: [owner]", end, end+"  pick: {choose: [{when: data.amount > 1, to: bad}, {to: done}]}\n  bad: {final: failed}\neffects:\n"+plain), `19:16: warning: The failed end bad leaves done what could be undone: a. (add compensate: true)`},
		{"by a choice inside the wait", append(enters("a"), "    events:", "    choose: [{when: data.amount > 1, to: bad}]\n    events:", end, bad+plain), `18:5: warning: The failed end bad leaves done what could be undone: a. (lead to it by an event with compensate: true)`},
		{"in a later wait", append(enters("a"), "to: done, by: [owner]", "to: other, by: [owner]", end, end+"  other: {owner: [requester], deadlines: [{after: P1D, fire: shut}], events: {shut: {to: bad, by: [timer]}}}\n  bad: {final: failed}\neffects:\n"+plain), `22:90: warning: The failed end bad leaves done what could be undone: a. (add compensate: true)`},
		{"queued by a deadline", []string{"[{after", "[{after: PT1H, remind: owner, effects: [a]}, {after", "to: done, by: [owner]", "to: bad, by: [owner]", end, bad + plain}, `18:16: warning: The failed end bad leaves done what could be undone: a. (add compensate: true)`},
		{"nothing to undo it with", append(enters("a"), "to: done, by: [owner]", "to: bad, by: [owner]", end, bad+calls("a", "reversible: true")), ""},
		{"an end that did not fail", append(enters("a"), end, end+"effects:\n"+plain), ""},
	})
}
