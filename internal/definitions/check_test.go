package definitions

import "testing"

const (
	goLine     = "go: {to: done, by: [owner]}"
	expireLine = "expire: {to: done, by: [timer]}"
	deadline   = "{after: P1D, fire: expire}"
	end        = "  done: {final: true}\n"
)

func TestStatesAndEventsThatCannotWorkAreNamedWithTheirPlace(t *testing.T) {
	t.Parallel()
	runProblemCases(t, []problemCase{
		{"a misspelt key", []string{"owner: [requester]", "ownr: [requester]"}, `14:3: The state waiting waits and has no owner. (say who is responsible: owner: [requester])
15:5: The state waiting has no key "ownr". (did you mean owner?)`},
		{"a misspelt state", []string{"to: done, by: [owner]", "to: don, by: [owner]"}, `18:16: to names the state "don", which does not exist. (did you mean done?)`},
		{"a misspelt event in a deadline", []string{"fire: expire", "fire: expyre"}, `16:36: fire names the event "expyre", which does not exist. (did you mean expire?)`},
		{"a misspelt effect", []string{goLine, "go: {to: done, by: [owner], effects: [tel]}", end, end + "effects: {tell: {email: {to: requester, subject: a, body: b}}}\n"}, `18:45: effects names the effect "tel", which does not exist. (did you mean tell?)
21:11: warning: Nothing uses the effect tell.`},
		{"an unreachable state", []string{end, end + "  lost: {final: true}\n"}, `21:3: Nothing leads to the state lost.`},
		{"a wait without owner", []string{"    owner: [requester]\n", ""}, `14:3: The state waiting waits and has no owner. (say who is responsible: owner: [requester])`},
		{"an empty owner", []string{"owner: [requester]", "owner: []"}, `14:3: The state waiting waits and has no owner. (say who is responsible: owner: [requester])`},
		{"a wait without end", []string{"    deadlines: [{after: P1D, fire: expire}]\n", "", "      " + expireLine + "\n", ""}, `14:3: The state waiting may wait for ever: no deadline is sure to end it. (add a deadline that fires an event which leaves it)`},
		{"a wait with an uncertain end: when", []string{deadline, "{after: P1D, when: data.amount > 1, fire: expire}"}, `14:3: The state waiting may wait for ever: no deadline is sure to end it. (its deadlines may not come: they have a when, or an at of a field that may be absent)`},
		{"a wait with an uncertain end: absent field", []string{deadline, "{at: data.due, fire: expire}"}, `14:3: The state waiting may wait for ever: no deadline is sure to end it. (its deadlines may not come: they have a when, or an at of a field that may be absent)`},
		{"a wait with a certain end: required field", []string{deadline, "{at: data.due, fire: expire}", "[email, amount]", "[email, amount, due]"}, ""},
		{"a wait with an uncertain end: absent field inside", []string{deadline, "{at: string(timestamp(data.span.from)), fire: expire}", "[email, amount]", "[email, amount, span]", "    note:", "    span: {type: object, properties: {from: {type: string}}}\n    note:"}, `15:3: The state waiting may wait for ever: no deadline is sure to end it. (its deadlines may not come: they have a when, or an at of a field that may be absent)`},
		{"a wait with a certain end: required field inside", []string{deadline, "{at: string(timestamp(data.span.from)), fire: expire}", "[email, amount]", "[email, amount, span]", "    note:", "    span: {type: object, required: [from], properties: {from: {type: string}}}\n    note:"}, ""},
		{"two waits that hand it to each other", []string{"to: done, by: [timer]", "to: other, by: [timer]", end, end + "  other: {owner: [requester], deadlines: [{after: P1D, fire: back}], events: {back: {to: waiting, by: [timer]}}}\n"}, `14:3: Deadlines alone never lead from the state waiting to a final state: waiting → other → waiting.
21:3: Deadlines alone never lead from the state other to a final state: other → waiting → other.`},
		{"a wait that starts itself anew", []string{"to: done, by: [timer]", "to: waiting, by: [timer]"}, `14:3: Deadlines alone never lead from the state waiting to a final state: waiting → waiting.`},
		{"a circle with an end over all of it", []string{"to: done, by: [timer]", "to: waiting, by: [timer]", "states:", "events: {stop: {to: done, by: [timer]}}\ndeadlines: [{after: P30D, fire: stop}]\nstates:"}, ""},
		{"leading to a wait without end", []string{"to: done, by: [timer]", "to: other, by: [timer]", end, end + "  other: {owner: [requester], events: {close: {to: done, by: [owner]}}}\n"}, `14:3: Deadlines alone never lead from the state waiting to a final state: waiting → other, which no deadline is sure to end.
21:3: The state other may wait for ever: no deadline is sure to end it. (add a deadline that fires an event which leaves it)`},
		{"an event nobody may raise", []string{goLine, "go: {to: done, by: [owner], not: [requester]}"}, `18:7: Nobody may raise go in the state waiting. (look at by, not and the owner)`},
		{"an event with an empty by", []string{goLine, "go: {to: done, by: []}"}, `18:26: Nobody may raise go: by is empty.`},
		{"an event without by", []string{goLine, "go: {to: done}"}, `18:7: The event go needs by. (say who may raise it: by: [owner])`},
		{"a timer event without deadline", []string{goLine, "go: {to: done, by: [timer]}"}, `18:7: No deadline of the state waiting fires go. (add a deadline with fire: go)`},
		{"a deadline for an event that is not there", []string{"      " + expireLine + "\n", "", "states:", "events: {expire: {to: done, by: [timer], except: [waiting]}}\nstates:"}, `15:3: The state waiting may wait for ever: no deadline is sure to end it. (add a deadline that fires an event which leaves it)
17:36: fire names the event expire, which the state waiting does not have. (add expire: {to: …, by: [timer]})`},
		{"a deadline for an event that the timer may not raise", []string{"fire: expire", "fire: go"}, `14:3: The state waiting may wait for ever: no deadline is sure to end it. (add a deadline that fires an event which leaves it)
16:36: The event go of the state waiting may not be raised by the timer. (add timer to its by)
19:7: No deadline of the state waiting fires expire. (add a deadline with fire: expire)`},
		{"an effect event without effect", []string{goLine, "go: {to: done, by: [effect]}"}, `18:7: No effect that the state waiting queues fires go. (add on_success or on_failure with fire: go to an effect of this wait)`},
		{"a timer event with a form", []string{expireLine, "expire: {to: done, by: [timer], form: {type: object}, comment: required, documents: {file: required}, quorum: 2, check: [{that: data.amount > 1, say: no}]}"}, `19:39: expire is raised by timer and may not have form: it could be refused. (give people an event of their own)
19:61: expire is raised by timer and may not have comment: it could be refused. (give people an event of their own)
19:80: expire is raised by timer and may not have documents: it could be refused. (give people an event of their own)
19:109: expire is raised by timer and may not have quorum: it could be refused. (give people an event of their own)
19:120: expire is raised by timer and may not have check: it could be refused. (give people an event of their own)`},
		{"a timer event whose last arm has a when", []string{expireLine, "expire: [{when: data.amount > 1, to: done, by: [timer]}]"}, `19:23: expire is raised by timer and its last arm has a when: it could be refused. (add a last arm without when)`},
		{"a timer event that reads input", []string{expireLine, `expire: {to: done, by: [timer, "system:x"], set: {note: string(input.note)}}`}, `19:15: expire is raised by timer, which brings no input.`},
		{"a choice that is not total", []string{"to: done, by: [owner]", "to: pick, by: [owner]", end, end + "  pick: {choose: [{when: data.amount > 1, to: done}]}\n"}, `21:20: The choice pick is not total: its last arm has a when. (leave out when in the last arm)`},
		{"a choice with arms after its end", []string{"to: done, by: [owner]", "to: pick, by: [owner]", end, end + "  pick: {choose: [{to: done}, {when: data.amount > 1, to: waiting}, {to: done}]}\n"}, `21:19: The arms after this one are never taken. (only the last arm may have no when)`},
		{"choices in a circle", []string{"to: done, by: [owner]", "to: pick, by: [owner]", end, end + "  pick: {choose: [{when: data.amount > 1, to: done}, {to: pock}]}\n  pock: {choose: [{to: pick}]}\n"}, `21:3: The choices go in a circle: pick → pock → pick. (put a wait in between)`},
		{"a wait that never waits", []string{"    events:", "    choose: [{to: done}]\n    events:"}, `17:14: The state waiting never waits: this arm always holds. (give the arm a when, or make the state a choice)`},
		{"a quorum of one person", []string{goLine, "go: {to: done, by: [owner], quorum: 2}"}, `18:35: The quorum of go needs 2 people; 1 may raise it in the state waiting.`},
		{"a quorum line nobody fills", []string{goLine, `go: {to: done, by: [owner], quorum: {"group:risk": 1}}`}, `18:35: The quorum of go needs group:risk, who may not raise it in the state waiting. (name an owner, or somebody the wait escalates to)`},
		{"a quorum line filled by escalation", []string{goLine, `go: {to: done, by: [owner], quorum: {"group:risk": 1}}`, "[{after", `[{after: PT1H, escalate: ["group:risk"]}, {after`}, ""},
		{"a quorum line that is excluded", []string{"owner: [requester]", `owner: ["group:risk"]`, goLine, `go: {to: done, by: [owner], not: ["group:risk", requester], quorum: {"group:risk": 1}}`}, `18:7: Nobody may raise go in the state waiting. (look at by, not and the owner)
18:67: The quorum of go needs group:risk, who may not raise it in the state waiting. (name an owner, or somebody the wait escalates to)`},
		{"an event rule in a later arm", []string{goLine, "go: [{when: data.amount > 1, to: done, by: [owner]}, {to: done, comment: required}]"}, `18:71: The event go has no comment: it belongs to the whole event, so write it in the first arm.`},
		{"an owner in a final state", []string{end, "  done: {final: true, owner: [requester]}\n"}, `20:23: The state done has no owner: it is final, nothing waits there.`},
		{"a top-level deadline that some waits do not know", []string{
			"to: done, by: [owner]", "to: other, by: [owner]", "states:", "deadlines: [{after: P9D, fire: expire}]\nstates:",
			end, end + "  other: {owner: [requester], deadlines: [{after: P1D, fire: shut}], events: {shut: {to: done, by: [timer]}}}\n",
		}, `13:32: warning: In the state other there is no expire for the timer: a deadline due there waits for the next state that has it.`},
		{"none for an event that is not inherited", []string{goLine, "go: {to: done, by: [owner]}\n      stop: none"}, `19:7: stop: none takes away an inherited event, and there is none of that name.`},
		{"in and except together", []string{"states:", "events: {stop: {to: done, by: [requester], in: [waiting], except: [done]}}\nstates:"}, `13:59: in and except do not go together.
13:68: except names done, where nothing waits.`},
		{"a guard that always holds", []string{goLine, `go: {when: "true", to: done, by: [owner]}`}, `18:18: warning: This when is always true.`},
	})
}

func TestTextsAreCheckedAgainstTheSchemas(t *testing.T) {
	t.Parallel()
	runProblemCases(t, []problemCase{
		{"an unknown field in a guard", []string{goLine, "go: {when: data.amonut > 1, to: done, by: [owner]}"}, `18:23: data has no field "amonut". (did you mean amount?)`},
		{"a guard that is no boolean", []string{goLine, "go: {when: data.amount + 1, to: done, by: [owner]}"}, `18:30: This gives a whole number where true or false is needed. (compare it with something)`},
		{"an unknown field in a title", []string{"    events:", "    task: {title: \"For {{ data.emial }}\"}\n    events:"}, `17:32: data has no field "emial". (did you mean email?)`},
		{"set of an undeclared field", []string{goLine, "go: {to: done, by: [owner], set: {note2: data.email}}"}, `18:41: "note2" is not declared in data. (did you mean note?)`},
		{"set with the prefix data", []string{goLine, "go: {to: done, by: [owner], set: {data.note: data.email}}"}, `18:41: set is a path in data: leave out data. (write note)`},
		{"set of another type", []string{goLine, "go: {to: done, by: [owner], set: {note: 5, amount: data.email}}"}, `18:47: set.note: 5 does not fit the type string.
18:62: This gives a text where a number is needed.`},
		{"set of a list", []string{goLine, "go: {to: done, by: [owner], set: {note: [a]}}"}, `18:47: set.note must be an expression, a number, a boolean or null. (write it as an expression in quotes, such as "[]" or "{'a': 1}")`},
		{"input without a form", []string{goLine, "go: {to: done, by: [owner], set: {note: input.note}}"}, `18:47: There is no input here.`},
		{"a document that is not declared", []string{goLine, "go: {to: done, by: [owner], documents: {fil: required}}"}, `18:47: The document fil is stored at data.fil, which is not declared. (declare fil: {type: object} under data.properties)`},
		{"votes of an unknown event", []string{goLine, "go: {when: size(votes.gone) > 1, to: done, by: [owner]}"}, `18:29: There is no event "gone" to have votes.`},
		{"the time in a title", []string{"    events:", "    task: {title: \"At {{ now }}\"}\n    events:"}, `17:26: now cannot be used here.`},
		{"braces in an expression", []string{goLine, `go: {when: "{{ data.amount > 1 }}", to: done, by: [owner]}`}, `18:18: when is an expression by itself. (leave the {{ }} out)`},
		{"a number as a text", []string{"initial: waiting", "initial: waiting\ntitle: 2024"}, `4:8: title must be a text, not 2024. (put it in quotes)`},
		{"braces in an event's title", []string{goLine, `go: {title: "Go {{ data.email }}", to: done, by: [owner]}`}, `18:19: The title of an event may not have {{ }}. (put changing words into the task's title)`},
		{"a show that is not there", []string{"    events:", "    task: {show: [data.emial, amount]}\n    events:"}, `17:24: "emial" is not declared in data. (did you mean email?)
17:31: show must begin with "data.". (write data.amount)`},
		{"a priority that is none", []string{"    events:", "    task: {priority: hihg}\n    events:"}, `17:22: priority must be one of: normal, low, high, urgent. (did you mean high?)`},
		{"a bad locale", []string{"initial: waiting", "initial: waiting\ntitle: {english: Demo}"}, `4:9: title has a text for "english", which is no locale. (such as en or es-AR)`},
		{"a search that is not there", []string{"initial: waiting", "initial: waiting\nsearch: [data.mail]"}, `4:15: "mail" is not declared in data. (did you mean email?)`},
	})
}

func TestPeopleAreCheckedByPlace(t *testing.T) {
	t.Parallel()
	runProblemCases(t, []problemCase{
		{"nobody known", []string{"owner: [requester]", "owner: [boss]"}, `15:13: owner names "boss", which is nobody. (one of requester, owner, user:ID, group:NAME, role:NAME, email:ADDRESS, did:EVENT, system:NAME, timer, effect, or one {{ expression }})`},
		{"a misspelt kind", []string{"owner: [requester]", `owner: ["grup:risk"]`}, `15:13: owner names "grup:risk", which is nobody. (did you mean group?)`},
		{"a bare address", []string{"owner: [requester]", "owner: [ana@example.com]"}, `15:13: owner names "ana@example.com", which is nobody. (write user:ana@example.com, or email:ana@example.com for somebody outside)`},
		{"a misspelt role", []string{"owner: [requester]", `owner: ["role:operater"]`}, `15:13: There is no role "operater". (did you mean operator?)`},
		{"a timer as owner", []string{"owner: [requester]", "owner: [timer]"}, `15:13: timer may not stand in owner.`},
		{"the owner as requester", []string{"initial: waiting", "initial: waiting\nrequesters: [owner]"}, `4:14: owner may not stand in requesters.`},
		{"twice the same", []string{"owner: [requester]", "owner: [requester, requester]"}, `15:24: owner names requester twice.`},
		{"did of an unknown event", []string{goLine, `go: {to: done, by: [owner], not: ["did:gone"]}`}, `18:41: did: names the event "gone", which does not exist.`},
		{"did of an event of another state", []string{goLine, `go: {to: done, by: [owner], not: ["did:done.go"]}`}, `18:41: did: names the event "go", which the state done does not have.`},
		{"a template with an unknown field", []string{"owner: [requester]", `owner: ["user:{{ data.boss }}"]`}, `15:27: data has no field "boss".`},
		{"a name with spaces", []string{"owner: [requester]", `owner: ["group:all of us"]`}, `15:13: "all of us" is no name: at most 254 characters without spaces.`},
		{"an empty name", []string{"owner: [requester]", `owner: ["group:"]`}, `15:13: group: needs a name.`},
	})
}

func TestEffectsAreChecked(t *testing.T) {
	t.Parallel()
	enter := "    owner: [requester]\n    enter: [call]\n"
	effect := func(text string) []string {
		return []string{"    owner: [requester]\n", enter, end, end + "effects:\n  call:\n    " + text + "\n"}
	}
	promises := "\n    idempotent: true\n    reversible: false"
	hook := "webhook: {url: \"{{ env.CORE_URL }}/a\"}" + promises
	runProblemCases(t, []problemCase{
		{"two kinds", effect("email: {to: requester, subject: a, body: b}\n    " + hook), `23:3: The effect call does exactly one thing: email, webhook, start or event.`},
		{"no kind", effect("idempotent: true"), `23:3: The effect call does exactly one thing: email, webhook, start or event.`},
		{"no promises", effect("webhook: {url: \"{{ env.CORE_URL }}/a\"}"), `23:3: warning: The webhook call does not say idempotent and reversible. (false is the default)`},
		{"a host from data", effect("webhook: {url: \"https://{{ data.email }}/a\"}" + promises), `24:20: The scheme and host of a url must stand there or come from env. (such as "{{ env.CORE_URL }}/accounts" or "https://example.com/accounts")`},
		{"a host after env that is data", effect("webhook: {url: \"{{ env.CORE_URL }}{{ data.email }}\"}" + promises), `24:20: The scheme and host of a url must stand there or come from env. (such as "{{ env.CORE_URL }}/accounts" or "https://example.com/accounts")`},
		{"a reserved header", effect("webhook: {url: \"https://a.example/\", headers: {Idempotency-Key: x}}" + promises), `24:52: The header "Idempotency-Key" may not be set.`},
		{"a GET with a body", effect("webhook: {url: \"https://a.example/\", method: GET, body: {a: 1}}" + promises), `24:55: A GET has no body. (use method: POST)`},
		{"a body with an unknown field", effect("webhook: {url: \"https://a.example/\", body: {a: {b: [1, \"{{ data.emial }}\"]}}}" + promises), `24:69: data has no field "emial". (did you mean email?)`},
		{"compensate that is not there", effect(hook + "\n    compensate: undo"), `27:5: An effect with compensate is reversible. (write reversible: true)
27:17: compensate names the effect "undo", which does not exist.`},
		{"compensate of itself", effect("webhook: {url: \"https://a.example/\"}\n    idempotent: true\n    reversible: true\n    compensate: call"), `27:17: An effect cannot undo itself.`},
		{"a retry without bound", effect(hook + "\n    retry: {attempts: unlimited}"), `27:23: attempts must be a whole number from 1 to 1000.`},
		{"a retry with nonsense", effect(hook + "\n    retry: {attempts: 0, first: P1M, max: PT1S}"), `27:23: attempts must be a whole number from 1 to 1000.
27:33: first may be P1W at most, without months or years.`},
		{"an outcome for an event that is not there", effect(hook + "\n    on_success: {fire: gone}"), `27:24: on_success fires the event "gone", which does not exist.`},
		{"an outcome for an event that no effect may raise", effect(hook + "\n    on_success: {fire: go}"), `27:24: on_success fires go, which no effect may raise in the state waiting. (add effect to its by)`},
		{"an outcome that does nothing", effect(hook + "\n    on_success: {}"), `27:17: on_success does nothing. (write fire or set)`},
		{"a result in a body", effect("webhook: {url: \"https://a.example/\", body: \"{{ result.id }}\"}" + promises), `24:52: result cannot be used here.`},
		{"undone outside compensation", effect("webhook: {url: \"https://a.example/{{ undone.result.id }}\"}" + promises), `24:42: undone cannot be used here.`},
		{"a callback url without callback", effect("webhook: {url: \"https://a.example/\", body: \"{{ callback.url }}\"}" + promises), `24:52: callback cannot be used here.`},
		{"a callback of an unknown event", effect(hook + "\n    callback: {events: [gone], as: \"system:x\"}"), `27:25: callback names the event "gone", which does not exist.`},
		{"a callback that the system may not raise", effect(hook + "\n    callback: {events: [go], as: \"system:x\"}"), `27:24: system:x may not raise go in the state waiting. (add "system:x" to its by)`},
		{"a callback as a person", effect(hook + "\n    callback: {events: [go], as: \"user:x\"}"), `27:34: as must name a system. (such as "system:esign")`},
		{"a callback url of another event", append(effect("webhook: {url: \"https://a.example/\", body: \"{{ callback.urls.gone }}\"}\n    callback: {events: [go], as: \"system:x\"}"+promises), goLine, `go: {to: done, by: [owner, "system:x"]}`), `24:66: callback.urls.gone: the callback has no event gone.`},
		{"an effect that nothing uses", []string{end, end + "effects:\n  call:\n    " + hook + "\n"}, `22:3: warning: Nothing uses the effect call.`},
		{"a start whose for_each has no name", effect("start: {definition: part, for_each: \"[1]\"}"), `24:31: for_each and as go together. (say what each entry is called: as: item)`},
		{"a failing end after what could be undone", []string{"    owner: [requester]\n", enter, "to: done, by: [owner]", "to: bad, by: [owner]", end, end + "  bad: {final: failed}\neffects:\n  call:\n    webhook: {url: \"https://a.example/\"}\n    idempotent: true\n    reversible: true\n    compensate: undo\n  undo:\n    " + hook + "\n"}, `19:16: warning: The failed end bad leaves done what could be undone: call. (add compensate: true)`},
	})
}

func TestTimesAreChecked(t *testing.T) {
	t.Parallel()
	after := func(text string) []string { return []string{"after: P1D", "after: " + text} }
	runProblemCases(t, []problemCase{
		// field report B19
		{"B19 P35D", after("P35D"), ""},
		{"B19 P400Y", after("P400Y"), `16:25: after: "P400Y" is longer than 100 years.`},
		{"B19 PT9999999999S", after("PT9999999999S"), `16:25: after: "PT9999999999S" is longer than 100 years.`},
		{"B19 PT0S", after("PT0S"), ""},
		{"B19 -PT1H", after("-PT1H"), `16:25: after may not be negative: -PT1H.`},
		{"B19 P", after(`"P"`), `16:25: after: "P" is no ISO 8601 duration; write P1D, PT2H30M or P1Y.`},
		{"B19 PT", after("PT"), `16:25: after: "PT" is no ISO 8601 duration; write P1D, PT2H30M or P1Y.`},
		{"B19 1 day", after("1 day"), `16:25: after: "1 day" is no ISO 8601 duration; write P1D, PT2H30M or P1Y.`},
		{"B19 a cron line", after(`"0 0 30 2 *"`), `16:25: after: "0 0 30 2 *" is no ISO 8601 duration; write P1D, PT2H30M or P1Y.`},
		{"fractions of days", after("P1.5D"), `16:25: after: "P1.5D" is no ISO 8601 duration; write P1D, PT2H30M or P1Y.`},
		{"a small letter", after("p1d"), `16:25: after: "p1d" is no ISO 8601 duration; write P1D, PT2H30M or P1Y.`},
		{"weeks", after("P2W"), ""},
		{"a computed one", after(`"{{ data.amount > 5 ? 'P1D' : 'P2D' }}"`), ""},
		{"an every of nothing", []string{deadline, "{after: P1D, remind: owner, every: PT0S}, " + deadline}, `16:52: every must be longer than nothing.`},
		{"times without every", []string{deadline, "{after: P1D, remind: owner, times: 3}, " + deadline}, `16:45: times goes with every only. (say how often: every: P1D)`},
		{"two actions", []string{deadline, "{after: P1D, remind: owner, fire: expire}"}, `16:17: A deadline does exactly one thing: remind, escalate, tell or fire.`},
		{"both after and at", []string{deadline, "{after: P1D, at: data.due, fire: expire}"}, `14:3: The state waiting may wait for ever: no deadline is sure to end it. (its deadlines may not come: they have a when, or an at of a field that may be absent)
16:17: A deadline has either after or at.`},
		{"offset without at", []string{deadline, "{after: P1D, offset: P1D, fire: expire}"}, `16:30: offset goes with at only.`},
		{"a calendar that is not there", []string{deadline, "{after: P1D, calendar: office, fire: expire}"}, `16:30: warning: Working time (calendar) is not supported yet.
16:40: There is no calendar "office".`},
		{"a bad calendar", []string{"states:", "calendars: {office: {timezone: Europe/Madird, days: [mon, tues], hours: [\"09:00-14:00\", \"13:00-18:00\", \"9-5\"], holidays: {country: Spain, extra: [2026-13-01]}}}\nstates:"}, `13:32: There is no time zone "Europe/Madird". (such as Europe/Madrid)
13:59: "tues" is no day. (mon, tue, wed, thu, fri, sat or sun)
13:73: Two of the hours overlap.
13:104: "9-5" are no hours. (such as "09:00-18:00")
13:132: "Spain" is no country code. (two capital letters, such as ES)
13:147: "2026-13-01" is no date. (such as 2026-12-24)`},
		{"a retention of nothing", []string{"states:", "retention: PT0S\nstates:"}, "13:1: warning: retention is not supported yet.\n" + `13:12: retention must be longer than nothing.`},
		{"limits that are none", []string{"states:", "limits: {transitions: 0, data: 256KB}\nstates:"}, `13:23: transitions must be a whole number from 1 to 100000.
13:32: data must be a size such as 256KiB.`},
	})
}
