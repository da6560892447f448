package web

// englishConsole are the words of what operators look after: effects, callbacks, the
// event feed, undoing and children.
var englishConsole = map[string]string{
	"nav.attention": "Attention", "nav.trouble": "Things that wait for a person",
	"console.nav": "Attention", "console.attention": "Overview", "console.effects": "Effects", "console.calls": "Calls in", "console.sinks": "Event feed",

	"attention.calm": "Nothing waits for you", "attention.calm.text": "What goes wrong by itself is tried again by itself. What only a person can end would stand here.",
	"attention.urgent": "%s things wait for a person", "attention.urgent.one": "One thing waits for a person", "attention.urgent.text": "They stay as they are until somebody says what became of them.",
	"concern.unknown": "Effects with an unknown outcome", "concern.unknown.text": "Find out whether they happened, or undo by hand what asks for it; then say so.",
	"concern.dead": "Effects that failed", "concern.dead.text": "Mend the cause, then try again or give up.",
	"concern.sinks": "Endpoints of the event feed that are off", "concern.sinks.text": "Their events are kept until they are enabled.",
	"concern.requests": "Requests that need a look", "concern.requests.text": "Each says why on its page.",
	"concern.retrying": "Effects that are tried again", "concern.retrying.text": "Nothing to do: Vobo goes on by itself.",
	"concern.calls.waiting": "Calls that no request waits for yet", "concern.calls.waiting.text": "They are kept for seven days and taken when a wait for them begins.",
	"concern.calls.refused": "Calls that were refused", "concern.calls.refused.text": "The request they found does not take them; each says why.",

	"effects.tabs": "By status", "effects.tab.dead": "Failed", "effects.tab.unknown": "Unknown", "effects.tab.retrying": "Trying again", "effects.tab.all": "All",
	"effects.narrow": "Narrow down", "effects.kind": "Kind", "effects.host": "Host", "effects.name.hint": "create_account",
	"effects.none.dead": "No effect has failed.", "effects.none.unknown": "The outcome of every effect is known.", "effects.none.retrying": "No effect is being tried again.", "effects.none.all": "There is no effect yet.", "instances.none.filtered.effects": "No effect matches.",
	"effects.attempt": "one attempt", "effects.askedby": "asked by %s", "effects.attempts": "%d attempts",
	"effect.kind.webhook": "Webhook", "effect.kind.email": "Mail", "effect.kind.start": "Children", "effect.kind.event": "Event for another request", "effect.kind.manual": "Work by hand", "effect.kind.stop": "Stopping children", "effect.kind.task-mail": "Mail about a task", "effect.kind.notice-mail": "Notice by mail",

	"effect.manual.title": "Undo by hand: %s", "effect.manual.why": "No effect undoes this. Do it by hand, then say so here; what is left to undo waits until then.",
	"effect.unknown.text": "The request went out and no answer came, or the answer does not tell. Vobo does not repeat it by itself, since it might happen twice. Look at the other side, or ask who runs it.",
	"effect.attempt":      "Attempt %d", "effect.took": "took %s s", "effect.took.ms": "took %s ms", "effect.answer": "What the other side answered", "effect.request": "The request as sent", "effect.request.text": "Every attempt sends these very bytes. Secrets and links are masked.",
	"effect.request.line": "Request", "effect.request.credentials": "Credentials", "effect.request.secret": "their values are not shown anywhere", "effect.result": "Result", "effect.undoes": "What it undoes",
	"effect.queued": "Queued", "effect.repeat": "Repetition", "effect.idempotent": "does no harm", "effect.notidempotent": "may happen twice", "effect.undo": "Undoing", "effect.reversible": "possible", "effect.notreversible": "not possible", "effect.correlation": "Correlation id",
	"effect.ask.dead": "What do you want to do?", "effect.ask.unknown": "What did you find out?", "effect.ask.manual": "What became of it?", "effect.ask.refused": "What did it give?", "effect.refused.happened": "It happened; this is its result", "effect.givenup": "Given up", "effect.givenup.text": "A person gave it up, so it waits for nobody.", "effect.givenup.history": "The history says who, when and why.", "effect.record": "Record it", "effect.choice.missing": "Choose one of the answers. Nothing was chosen for you.", "effect.operators": "An operator must say what became of it. Ask one.",
	"effect.happened": "It happened", "effect.again": "Try again", "effect.giveup": "Give up", "effect.manual.happened": "Done", "effect.manual.giveup": "Cannot be undone",
	"effect.happened.counts": "It counts as done. No event follows from it.", "effect.happened.fires": "It counts as done, and “%s” follows.", "effect.happened.fires.undoes": "It counts as done, and “%s” follows, which undoes what has been done.", "effect.happened.over": "It counts as done. “%s” does not follow any more: the request has gone on.", "effect.happened.blocked": "It counts as done, and then it is undone.", "effect.giveup.blocked": "It counts as not done: there is nothing to undo, and undoing goes on with what is left.", "effect.happened.undo": "It counts as undone, and undoing goes on with what is left.",
	"effect.giveup.counts": "It counts as failed. No event follows from it: the request stays where it is.", "effect.giveup.fires": "It counts as failed, and “%s” follows.", "effect.giveup.fires.undoes": "It counts as failed, and “%s” follows, which undoes what has been done.", "effect.giveup.over": "It counts as failed. “%s” does not follow any more: the request has gone on.", "effect.giveup.undo": "It stays as it is and is listed as not undone; undoing goes on with what is left.",
	"effect.again.safe": "The same request goes out with the same key, with all attempts anew. The receiver knows the key, so it does not happen twice.", "effect.again.risky": "The same request goes out with the same key, with all attempts anew. If it did happen before and the receiver does not know the key, it happens twice.",
	"effect.again.mail": "The same mail goes out, with all attempts anew. If it did arrive before, it arrives twice with the same Message-ID.", "effect.again.start": "Children that are missing are started. Those that run or have ended are left as they are.", "effect.again.stop": "Children that still run are stopped.", "effect.again.event": "The event is raised, unless the other request has taken it already.",
	"attempt.started": "Began and never ended", "attempt.success": "Done", "attempt.retry": "Did not work; worth another try", "attempt.unanswered": "Went out and got no answer; may be repeated", "attempt.exhausted": "Did not work; the attempts are used up", "attempt.unknown": "Nobody knows whether it happened", "attempt.permanent": "Failed for good", "attempt.resolved": "Ended by a person", "attempt.cancelled": "Called off",

	"redrive.offer": "Try all of these again…", "redrive.title": "Try them all again", "redrive.none": "There is nothing to try again any more.", "redrive.plan": "%d effects will be tried again.", "redrive.plan.one": "One effect will be tried again.", "redrive.plan.more": "The first %d effects will be tried again; there are more, which you can do after these.",
	"redrive.only": "Only those of:", "redrive.term.name": "effect %s", "redrive.term.definition": "process %s", "redrive.term.kind": "kind %s", "redrive.term.host": "host %s", "redrive.term.instance": "request %s",
	"redrive.risky": "Nobody knows whether these have happened. Where the receiver does not know the key, trying again may make them happen twice.", "redrive.sample": "These are the newest %d of them.",
	"redrive.text": "Each goes out with the same bytes and the same key, with all attempts anew. What changes meanwhile, or fails after you opened this page, is left out.", "redrive.reason.hint": "It is kept in the history of each under your name.", "redrive.button": "Try %d effects again", "redrive.button.one": "Try one effect again", "redrive.dry": "only a look at how many there are",
	"redrive.done": "%d effects are tried again", "redrive.done.one": "One effect is tried again", "redrive.done.text": "They go out now, a few at a time for each receiver. What fails again comes back to the list.", "redrive.skipped": "Left out: %d", "redrive.more.done": "There are more of them.", "redrive.rest": "Go on with the rest", "redrive.watch": "See what is being tried again",

	"calls.text": "What other systems sent to /v1/hooks, newest first. A call finds its request by its key or by values that the request waits for.", "calls.tabs": "By status", "calls.tab.all": "All", "calls.tab.waiting": "Waiting", "calls.tab.taken": "Taken", "calls.tab.refused": "Refused", "calls.tab.expired": "Expired",
	"calls.source": "Source", "calls.event": "Event", "calls.from": "from %s", "calls.received": "came %s", "calls.expires": "expires %s",
	"calls.status.waiting": "Waiting", "calls.status.taken": "Taken", "calls.status.refused": "Refused", "calls.status.expired": "Expired",
	"calls.why.waiting": "No request waits for it yet.", "calls.why.taken": "A request has taken it.", "calls.why.refused": "The request that it found does not take it.", "calls.why.expired": "No request waited for it in time.",
	"calls.none.all": "No call has come yet.", "calls.none.waiting": "No call waits for its request.", "calls.none.taken": "No call was taken yet.", "calls.none.refused": "No call was refused.", "calls.none.expired": "No call has expired.", "calls.none.filtered": "No call matches.",

	"sinks.text": "Every step of every request is sent to these endpoints, in order for each request.", "sinks.on": "On", "sinks.off": "Off", "sinks.waiting": "Waiting", "sinks.dead": "Given up", "sinks.oldest": "Oldest", "sinks.enable": "Enable", "sinks.name": "Endpoint", "sinks.why": "Why it is off",
	"sinks.none": "No endpoint is configured.", "sinks.none.text": "VOBO_SINKS names the endpoints that hear of every step.",
	"confirm.enable": "Enable this endpoint", "confirm.enable.text": "“%s” gets everything that was kept for it, also what had been given up, in order for each request. If it answers 410 again, it is off again.",

	"confirm.undo.by": "by “%s”", "confirm.undo.manual": "by hand: an operator is asked", "confirm.awaits": "Not known yet; undone once it is known that it happened", "confirm.drops": "Has not gone out and is dropped", "confirm.tidies": "Is done to tidy up", "confirm.stops": "Children", "confirm.stops.one": "One child that still runs is cancelled too, with its own undoing.", "confirm.stops.text": "%d children that still run are cancelled too, each with its own undoing.",
	"undoing.title": "Undoing what was done", "undoing.goes": "It stands at “%s” and goes on by itself, newest first, one after another.", "undoing.manual": "It stands at “%s”: an operator must undo it by hand and say so. What is below waits.", "undoing.failed": "It stands at “%s”: undoing it failed. An operator must try again, say that it is undone, or give up. What is below waits.", "undoing.unknown": "It stands at “%s”: nobody knows whether it is undone. An operator must find out and say so. What is below waits.", "undoing.blocked": "It stands at “%s”: nobody knows yet whether that happened, so nobody knows whether it must be undone. What is below waits.",
	"undoing.over": "Undoing is over. Something was not undone and stays.", "undoing.done": "Everything is undone.", "undoing.nothing": "There was nothing to undo.", "undoing.stays": "Not undone", "undoing.look": "See what is wrong",
	"undo.waiting": "Waits its turn", "undo.blocked": "Not known whether it happened", "undo.running": "Being undone", "undo.succeeded": "Undone", "undo.failed": "Undoing failed", "undo.unknown": "Not known whether it is undone", "undo.skipped": "Given up", "undo.manual": "To be undone by hand", "undo.other": "Under way",

	"instance.parent": "Started by another request", "children.name": "Children", "children.title": "Children of %s", "children.back": "Back to their parent", "children.place": "Child", "children.nth": "Child %d", "children.ended": "Ended", "children.detail": "Detail", "children.none": "No child was started yet.",
	"children.total": "%d in all", "children.running": "%d running", "children.well": "%d ended well", "children.bad": "%d ended badly",
	"children.status.running": "Running", "children.status.ended": "Ended well", "children.status.failed": "Failed", "children.status.cancelled": "Cancelled", "children.status.refused": "Could not be started",
	"awaited.title": "Calls it waits for", "awaited.text": "A call of a webhook source finds this request by these values.", "awaited.absent": "not known yet, so no call matches",
	"timeline.late": "Late: the wait that asked for it was over. The result is kept; no event followed.",
}

func init() {
	for key, words := range englishConsole {
		english[key] = words
	}
}
