package definitions

import "testing"

// withEffects puts effects into small: called by the wait, or by what is said.
func withEffects(effects string, more ...string) []string {
	return append([]string{end, end + "effects:\n" + effects}, more...)
}

// calls gives lines of an effect: a webhook that keeps the promises said.
func calls(name, promises string) string {
	return "  " + name + ": {webhook: {url: \"https://a.example/\"}, idempotent: true, " + promises + "}\n"
}

func enters(effects string) []string {
	return []string{"    owner: [requester]\n", "    owner: [requester]\n    enter: [" + effects + "]\n"}
}

func TestWhatUndoesAndTidiesIsChecked(t *testing.T) {
	t.Parallel()
	undoable := calls("a", "reversible: true, compensate: manual")
	runProblemCases(t, []problemCase{
		{"undoes and manual", withEffects(undoable+calls("b", "reversible: false, undoes: a"), enters("a, b")...), ""},
		{"undoes nothing known", withEffects(calls("b", "reversible: false, undoes: aa"), enters("b")...), `23:90: undoes names the effect "aa", which does not exist.`},
		{"undoes itself", withEffects(calls("a", "reversible: true, undoes: a"), enters("a")...), `23:89: An effect cannot undo itself.`},
		{"undoes in a circle", withEffects(calls("a", "reversible: true, undoes: b")+calls("b", "reversible: true, undoes: a"), enters("a, b")...), `23:89: The effects undo each other in a circle: a → b → a.`},
		{"undoes what cannot be undone", withEffects(calls("a", "reversible: false")+calls("b", "reversible: false, undoes: a"), enters("a, b")...), `24:90: undoes names a, which is not reversible. (write reversible: true at a)`},
		{"an effect called manual", withEffects(calls("manual", "reversible: false"), enters("manual")...), `23:3: An effect may not be called manual: in compensate the word asks a person. (take another name)`},

		{"on_cancel of the definition", withEffects(calls("a", "reversible: false"), "initial: waiting", "initial: waiting\non_cancel: [a]"), ""},
		{"on_cancel of an effect", withEffects(calls("a", "reversible: false, on_cancel: [b]")+calls("b", "reversible: false"), enters("a")...), ""},
		{"on_cancel names nothing", withEffects(calls("ring", "reversible: false"), append(enters("ring"), "initial: waiting", "initial: waiting\non_cancel: [rung]")...), `4:13: on_cancel names the effect "rung", which does not exist. (did you mean ring?)`},
		{"on_cancel is no list", withEffects(calls("a", "reversible: false, on_cancel: a"), enters("a")...), `23:93: on_cancel must be a list. (write it in brackets: [ … ])`},
		{"on_cancel names itself", withEffects(calls("a", "reversible: false, on_cancel: [a]"), enters("a")...), `23:93: on_cancel of a names itself.`},
		{"on_cancel of what on_cancel queues", withEffects(calls("a", "reversible: false, on_cancel: [b]")+calls("b", "reversible: false, on_cancel: [c]")+calls("c", "reversible: false"), enters("a")...), `24:93: b is queued by on_cancel itself, after which nothing is cancelled. (name it in the on_cancel of the definition)`},
		{"on_cancel with a callback", withEffects(calls("a", `reversible: false, callback: {events: [go], as: "system:x"}`), "initial: waiting", "initial: waiting\non_cancel: [a]", goLine, `go: {to: done, by: [owner, "system:x"]}`), `23:101: a is queued by on_cancel, after which nothing waits for a callback. (give it an effect of its own)`},
		{"on_cancel that fires", withEffects(calls("a", "reversible: false, on_success: {fire: go}, on_failure: {fire: go}"), append(enters("a"), goLine, "go: {to: done, by: [owner, effect]}", "initial: waiting", "initial: waiting\non_cancel: [a]")...), `24:101: a is queued by on_cancel, after which on_success can raise nothing. (give it an effect of its own)
24:125: a is queued by on_cancel, after which on_failure can raise nothing. (give it an effect of its own)`},
		{"on_cancel that sets", withEffects(calls("a", "reversible: false, on_success: {set: {note: string(result.id)}}"), "initial: waiting", "initial: waiting\non_cancel: [a]"), ""},
		{"on_cancel with on_undeliverable", withEffects("  a: {email: {to: requester, subject: a, body: b}, on_undeliverable: go}\n", append(enters("a"), goLine, "go: {to: done, by: [owner, effect]}", "initial: waiting", "initial: waiting\non_cancel: [a]")...), `24:70: a is queued by on_cancel, after which on_undeliverable can raise nothing. (give it an effect of its own)`},
		{"on_cancel that undoes", withEffects(undoable+calls("b", "reversible: false, undoes: a"), append(enters("a"), "initial: waiting", "initial: waiting\non_cancel: [b]")...), `25:90: b is queued by on_cancel, which undoes nothing. (write compensate: b at a)`},
	})
}

func TestMailThatCannotBeDeliveredAsksSomebodyWhoIsThere(t *testing.T) {
	t.Parallel()
	mail := func(value string) string {
		return "  tell: {email: {to: requester, subject: a, body: b}, on_undeliverable: " + value + "}\n"
	}
	open := []string{goLine, "go: {to: done, by: [owner, effect]}"}
	escalate := []string{"[{after", `[{after: PT1H, escalate: ["role:operator"]}, {after`}
	task := func(value string) []string {
		return []string{"    events:", "    task: {on_undeliverable: " + value + "}\n    events:"}
	}
	also := func(lists ...[]string) []string {
		var all []string
		for _, l := range lists {
			all = append(all, l...)
		}
		return all
	}
	runProblemCases(t, []problemCase{
		{"an event", withEffects(mail("go"), also(enters("tell"), open)...), ""},
		{"an event for effects alone", withEffects(mail("go"), also(enters("tell"), []string{goLine, "go: {to: done, by: [effect]}"})...), ""},
		{"an event that is not there", withEffects(mail("goo"), enters("tell")...), `23:73: on_undeliverable names the event "goo", which does not exist. (did you mean go?)`},
		{"an event that effects may not raise", withEffects(mail("go"), enters("tell")...), `23:73: on_undeliverable fires go, which no effect may raise in the state waiting. (add effect to its by)`},
		{"an event of another wait", withEffects("  tell: {email: {to: requester, subject: a, body: b}, on_undeliverable: shut}\n", also(enters("tell"), []string{"to: done, by: [owner]", "to: other, by: [owner]", end, end + "  other: {owner: [requester], deadlines: [{after: P1D, fire: shut}], events: {shut: {to: done, by: [timer]}}}\n"})...), `24:73: on_undeliverable fires shut, which the state waiting does not have; it queues the effect tell.`},
		{"escalate", withEffects(mail("escalate"), also(enters("tell"), escalate)...), ""},
		{"escalate to nobody", withEffects(mail("escalate"), enters("tell")...), `23:73: on_undeliverable escalates, but the state waiting, which queues the effect tell, escalates to nobody. (add a deadline with escalate)`},
		{"escalate from a final state", []string{end, "  done: {final: true, enter: [tell]}\neffects:\n" + mail("escalate")}, `22:73: on_undeliverable escalates, but the effect tell is queued only by final states.`},
		{"an event from a final state", []string{end, "  done: {final: true, enter: [tell]}\neffects:\n" + mail("go")}, `22:73: on_undeliverable fires go, but the effect tell is queued only by final states.`},
		{"of a webhook", withEffects(calls("a", "reversible: false, on_undeliverable: go"), also(enters("a"), open)...), `23:82: on_undeliverable goes with an email only.`},
		{"a task: an event for effects alone", append(task("go"), goLine, "go: {to: done, by: [effect]}"), ""},
		{"a task: an event that is not there", task("goo"), `17:30: on_undeliverable names the event "goo", which does not exist. (did you mean go?)`},
		{"a task: an event that effects may not raise", task("go"), `17:30: on_undeliverable fires go, which no effect may raise in the state waiting. (add effect to its by)`},
		{"a task: an event of another wait", append(task("shut"), "to: done, by: [owner]", "to: other, by: [owner]", end, end+"  other: {owner: [requester], deadlines: [{after: P1D, fire: shut}], events: {shut: {to: done, by: [timer]}}}\n"), `17:30: on_undeliverable fires shut, which the state waiting does not have.`},
		{"a task: escalate", append(task("escalate"), escalate...), ""},
		{"a task: escalate to nobody", task("escalate"), `17:30: on_undeliverable escalates, but the state waiting escalates to nobody. (add a deadline with escalate)`},
		{"an event called escalate is not what escalate means", append(task("escalate"), also(escalate, []string{goLine, "escalate: {to: done, by: [effect]}"})...), `19:7: No effect that the state waiting queues fires escalate. (add on_success or on_failure with fire: escalate to an effect of this wait)`},
	})
}

func TestAttachmentsAndSecretsAreChecked(t *testing.T) {
	t.Parallel()
	mail := func(attachments string) []string {
		return withEffects("  tell: {email: {to: requester, subject: a, body: b, attachments: "+attachments+"}}\n", append(enters("tell"), "    note:", "    files: {type: array, items: {type: object}}\n    words: {type: array, items: {type: string}}\n    note:")...)
	}
	hook := func(more string) []string {
		return withEffects("  a: {webhook: {url: \"https://a.example/\", "+more+"}, idempotent: true, reversible: false}\n", enters("a")...)
	}
	verified := func(source string) []string {
		return withEffects(calls("a", `reversible: false, callback: {events: [go], as: "system:x", verify: `+source+`}`), append(enters("a"), goLine, `go: {to: done, by: [owner, "system:x"]}`)...)
	}
	runProblemCases(t, []problemCase{
		{"one", mail("data.file"), ""},
		{"several", mail(`[data.file, data.files, "data.files[0]"]`), ""},
		{"not declared", mail("data.fyle"), `25:72: "fyle" is not declared in data. (did you mean file?)`},
		{"without data", mail("[file]"), `25:68: attachments must begin with "data.". (write data.file)`},
		{"a text", mail("[data.note, data.words]"), `25:68: attachments names "data.note", which holds no document. (declare it as {type: object}, or as a list of them)
25:79: attachments names "data.words", which holds no document. (declare it as {type: object}, or as a list of them)`},
		{"credentials", hook("credentials: core-1"), ""},
		{"credentials of a strange name", hook(`credentials: "the core"`), `23:57: Credentials may not be called "the core". (a letter, then letters, digits, _ and -; at most 63)`},
		{"verify", verified("esign"), ""},
		{"verify of a strange name", verified(`"e/sign"`), `23:131: A webhook source may not be called "e/sign". (a letter, then letters, digits, _ and -; at most 63)`},
		{"a callback on a mail", withEffects("  tell: {email: {to: requester, subject: a, body: b}, callback: {events: [go], as: \"system:x\"}}\n", append(enters("tell"), goLine, `go: {to: done, by: [owner, "system:x"]}`)...), `23:55: callback goes with a webhook only.`},
	})
}

func TestCorrelationsAreChecked(t *testing.T) {
	t.Parallel()
	correlate := func(by, pairs string) []string {
		return []string{goLine, "go: {to: done, by: [" + by + "], correlate: " + pairs + "}"}
	}
	runProblemCases(t, []problemCase{
		{"by a system", correlate(`owner, "system:x"`, "{data.email: input.signer.email, data.amount: input.sum}"), ""},
		{"by an expression", correlate(`"{{ 'system:' + data.note }}"`, "{data.email: input.email}"), ""},
		{"by a later arm", []string{goLine, `go: [{to: done, by: [owner], when: data.amount > 1, correlate: {data.email: input.email}}, {to: done, by: ["system:x"]}]`}, ""},
		{"by nobody who calls", correlate("owner", "{data.email: input.email}"), `18:35: correlate finds calls of systems, and no system may raise go. (such as by: ["system:esign"])`},
		{"inherited, by nobody who calls", []string{"states:", "events: {stop: {to: done, by: [requester], correlate: {data.email: input.email}}}\nstates:"}, `13:44: correlate finds calls of systems, and no system may raise stop. (such as by: ["system:esign"])`},
		{"data that is not declared", correlate(`"system:x"`, "{data.mail: input.email}"), `18:57: "mail" is not declared in data. (did you mean email?)`},
		{"input without its name", correlate(`"system:x"`, "{data.email: email}"), `18:64: correlate must begin with "input.". (write input.email)`},
		{"input by a computed place", correlate(`"system:x"`, `{data.email: "input.list[0]"}`), `18:64: correlate takes names parted by dots from the input, not "input.list[0]". (such as input.order.id)`},
		{"input twice", correlate(`"system:x"`, `{data.email: input.a, data.note: input.a}`), `18:84: correlate names input.a twice.`},
		{"nothing", correlate(`"system:x"`, `{}`), `18:51: correlate is empty. (write {data.order.id: input.order})`},
	})
}
