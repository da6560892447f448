package definitions

import "testing"

func TestEffectsOnOtherInstancesAreChecked(t *testing.T) {
	t.Parallel()
	effect := func(text string) []string { return withEffects("  part: {"+text+"}\n", enters("part")...) }
	start := func(text string) []string { return effect("start: {definition: sub, " + text + "}") }
	raise := func(text string) []string { return effect("event: {" + text + "}") }
	list := `for_each: "[1, 2]", as: item, `
	runProblemCases(t, []problemCase{
		{"start over a list", start(list + `version: 2, wait: 2, data: {number: item, who.name: data.email, ok: true, at: now, from: instance.id}`), ""},
		{"start of one", start("wait: any, data: {}"), ""},
		{"start without a definition", effect("start: {data: {a: 1}}"), `23:17: start needs definition.`},
		{"a strange definition", effect("start: {definition: Sub Part}"), `23:30: A definition may not be called "Sub Part". (a small letter, then small letters, digits and -; at most 63)`},
		{"as without for_each", start("as: item"), `23:35: for_each and as go together. (say over which list: for_each: data.items)`},
		{"for_each that is no list", start("for_each: data.amount, as: item"), `23:49: This gives a whole number where a list is needed.`},
		{"as that hides a name", start(`for_each: "[1]", as: data`), `23:56: as may not be data: the word means something in expressions. (take another name)`},
		{"as that hides another name", start(`for_each: "[1]", as: actor`), `23:56: as may not be actor: the word means something in expressions. (take another name)`},
		{"as that is a word of expressions", start(`for_each: "[1]", as: in`), `23:56: as may not be in: the word means something in expressions. (take another name)`},
		{"as with a capital letter", start(`for_each: "[1]", as: Item`), `23:56: An entry may not be called "Item". (a small letter, then small letters, digits and _; at most 63)`},
		{"the entry outside data", effect(`start: {definition: sub, for_each: "[item]", as: item}`), `23:47: There is no "item". (a text stands in quotes: 'item')`},
		{"data with an unknown field", start("data: {who: data.emial}"), `23:52: data has no field "emial". (did you mean email?)`},
		{"data whose key is no path", start(`data: {"a..b": 1, "data.a": 1}`), `23:45: "\"a..b\"" is no path. (such as applicant.name or signers[data.next])
23:53: start.data is a path in data: leave out data. (write a)`},
		{"data that is a list", start("data: {who: [a]}"), `23:47: start.data.who must be an expression, a number, a boolean or null. (write it as an expression in quotes, such as "[]" or "{'a': 1}")`},
		{"wait for none", start(list + "wait: 0"), `23:71: wait must be a whole number from 1 to 10000.`},
		{"wait for too many", start(list + "wait: 10001"), `23:71: wait must be a whole number from 1 to 10000.`},
		{"wait for a word", start(list + "wait: most"), `23:71: wait must be all, any or a whole number.`},
		{"wait for two of one", start("wait: 2"), `23:41: wait asks for 2 children, but only one is started. (add for_each, or leave wait out)`},
		{"wait for the detached", start("wait: all, detach: true"), `23:35: Nobody waits for detached children.`},
		{"an unknown key", start("watch: all"), `23:35: start has no key "watch".`},
		{"an instance that starts itself", effect("start: {definition: demo, detach: true}"), `23:30: warning: demo starts instances of itself. (children may be 16 deep; start another definition, or add when to the effect)`},
		{"a callback", effect(`start: {definition: sub}, callback: {events: [go], as: "system:x"}`), `23:36: callback goes with a webhook only.
23:55: system:x may not raise go in the state waiting. (add "system:x" to its by)`},
		{"idempotent", effect("start: {definition: sub}, idempotent: true"), `23:36: part happens once however often it is tried; it has no idempotent. (leave it out)`},

		{"event", raise(`definition: sub, key: "{{ data.email }}", event: poke, input: {a: ["{{ data.amount }}"]}`), ""},
		{"event without key and event", raise("definition: sub"), `23:17: event needs key.
23:17: event needs event.`},
		{"event with an unknown field", raise(`definition: sub, key: "{{ data.emial }}", event: poke, input: "{{ data.amuont }}"`), `23:49: data has no field "emial". (did you mean email?)
23:89: data has no field "amuont". (did you mean amount?)`},
		{"event of a strange name", raise(`definition: sub, key: a, event: Poke`), `23:50: An event may not be called "Poke". (a small letter, then small letters, digits and _; at most 63)`},

		{"children at a final state", []string{end, "  done: {final: true, enter: [part]}\neffects: {part: {start: {definition: sub}}}\n"}, `21:11: part starts children in a final state, where nothing waits for them. (write detach: true)`},
		{"detached children at a final state", []string{end, "  done: {final: true, enter: [part]}\neffects: {part: {start: {definition: sub, detach: true}}}\n"}, ""},
		{"children at a cancel", withEffects("  part: {start: {definition: sub}}\n", "initial: waiting", "initial: waiting\non_cancel: [part]"), `23:3: part starts children when an instance is cancelled, where nothing waits for them. (write detach: true)`},
		{"children as compensation", withEffects("  part: {start: {definition: sub}}\n"+calls("a", "reversible: true, compensate: part"), enters("a")...), `23:3: part starts children as compensation, where nothing waits for them. (write detach: true)`},
	})
}

func TestResultsOfThisProductHaveAKnownShape(t *testing.T) {
	t.Parallel()
	outcome := func(effect, set string) []string {
		return withEffects("  part: {"+effect+", on_success: {set: {note: \""+set+"\"}}}\n", enters("part")...)
	}
	children, instance := "start: {definition: sub}", "event: {definition: sub, key: a, event: poke}"
	runProblemCases(t, []problemCase{
		{"children", outcome(children, "result.map(c, c.state + c.key + c.id).join('') + string(result[0].data.text)"), ""},
		{"an unknown field of a child", outcome(children, "result[0].status"), `23:72: result[0] has no field "status". (did you mean state?)`},
		{"children are a list", outcome(children, "result.state"), `23:68: A list has no fields.`},
		{"an instance", outcome(instance, "result.state + result.status + result.definition + string(result.version + result.revision)"), ""},
		{"an unknown field of an instance", outcome(instance, "result.data"), `23:90: result has no field "data".`},
		{"a webhook's answer is anything", outcome(`webhook: {url: "https://a.example/"}, idempotent: true, reversible: false`, "string(result.any.thing)"), ""},
	})
}
