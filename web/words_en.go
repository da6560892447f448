package web

var english = map[string]string{
	"yes": "Yes", "no": "No",
	"title.error": "Error: %s",
	"skip":        "Skip to the content",
	"demo":        "Demo: anybody may be anyone here.",

	"nav.inbox": "Inbox", "nav.instances": "Requests", "nav.start": "Start", "nav.mail": "Mailbox",
	"nav.login": "Log in", "nav.logout": "Log out", "nav.main": "Main",

	"time.now": "now", "time.in.minute": "in 1 minute", "time.in.minutes": "in %d minutes", "time.in.hour": "in 1 hour", "time.in.hours": "in %d hours",
	"time.in.day": "in 1 day", "time.in.days": "in %d days", "time.ago.minute": "1 minute ago", "time.ago.minutes": "%d minutes ago",
	"time.ago.hour": "1 hour ago", "time.ago.hours": "%d hours ago", "time.ago.day": "1 day ago", "time.ago.days": "%d days ago",

	"due.over": "overdue", "due.soon": "due %s", "due.later": "due %s", "due.none": "no deadline",
	"priority.low": "Low priority", "priority.high": "High priority", "priority.urgent": "Urgent",

	"decide.for": "%s asks for your decision", "decide.for.nobody": "Your decision is asked for", "decide.since": "Since", "decide.until": "Until", "decide.process": "Process",
	"decide.facts": "What this is about", "decide.facts.none": "This request shows no details.", "decide.instructions": "Instructions from the process owner",
	"decide.votes": "Answers so far", "decide.votes.need": "%d of %d needed answers are in.", "decide.history": "History (%d)",
	"decide.heading": "Your decision", "decide.jump": "Go to the decision", "decide.button": "Record my decision", "decide.as": "You decide as %s.", "decide.as.outside": "This link was made for %s.",
	"decide.notyou": "Not you?", "decide.notyou.text": "This link was made for %s alone. If you are somebody else, close this page and tell the person who forwarded it to you. Whatever is decided here is recorded in the name of %s.",
	"decide.comment": "Comment", "decide.comment.optional": "Comment (optional)", "decide.comment.all": "Needed. It is kept in the history, where others read it.", "decide.comment.some": "Needed for: %s. It is kept in the history, where others read it.",
	"decide.comment.missing": "Type a comment: “%s” needs one.", "decide.none": "Choose one of the answers. Nothing was chosen for you.", "decide.several": "Choose one answer only.",
	"decide.invalid": "Something is missing or cannot be read. Nothing was recorded.", "decide.summary": "Nothing was recorded yet", "decide.blocked": "Not possible now: %s",
	"decide.leads": "Leads to “%s”.", "decide.voted": "You answered “%s” on %s. You may change it until all needed answers are in.", "decide.needs": "for “%s”",
	"decide.only": "Nothing is recorded until you press the button.", "decide.why": "Why you", "decide.nothing": "You have nothing to decide here.", "decide.offers": "There is nothing that you may decide here now.",

	"act.title": "Take a step", "act.heading": "What do you want to do?", "act.none": "There is nothing that you may do here now.",

	"form.lines": "One entry per line.", "form.json": "A JSON value, for example {\"name\": \"Ana\"}.", "form.zone": "Time of %s.", "form.atmost": "At most %d characters.",
	"form.number": "A number.", "form.number.between": "A number from %s to %s.", "form.number.from": "A number, at least %s.", "form.number.to": "A number, at most %s.",
	"form.integer": "A whole number.", "form.integer.between": "A whole number from %s to %s.", "form.integer.from": "A whole number, at least %s.", "form.integer.to": "A whole number, at most %s.",
	"form.optional": "(optional)", "form.choose": "Choose", "form.row": "Entry %d", "form.add": "Add an entry", "form.remove": "Remove entry %d",
	"form.bad.choice": "Choose one of the answers.", "form.bad.number": "“%s” is not a number. Type digits, for example 1250.50.", "form.bad.comma": "“%s” may mean two numbers. Type it without a thousands separator, for example 1250.50.",
	"form.bad.integer": "“%s” is not a whole number.", "form.bad.time": "Type a date and a time, for example 2026-12-03 18:00.", "form.bad.json": "This is not JSON: %s", "form.required": "Fill in “%s”.",
	"form.unknown": "This form has no field “%s”.", "form.document": "Document: %s", "form.document.explain": "Vobo keeps a reference, not the file. Put the file where the readers can open it and paste its address here.",
	"form.document.name": "Name of the document", "form.document.uri": "Address (https://…)", "form.document.missing": "Name the document “%s” and paste its address.", "form.document.link": "Paste the full address of the document. It begins with https:// or http://.",

	"value.none": "—", "value.all": "Show all %d characters", "value.rest": "Show %d more", "document.at": "opens %s", "document.media_type": "%s", "document.size": "%s bytes", "document.sha256": "SHA-256 %s",

	"done.recorded": "Your decision is recorded", "done.noted": "Your answer is noted", "done.stayed": "Recorded; the request stays open",
	"done.what": "Decision", "done.request": "Request", "done.who": "By", "done.when": "At", "done.comment": "Comment", "done.replayed": "You had recorded this before. Nothing was done twice.",
	"done.next": "What happens next", "done.pending": "%d of %d needed answers are in. The request goes on when the others have answered.", "done.further": "Decide further on this request", "done.further.text": "Your old link is used up. This one replaces it:",
	"done.inbox": "Open my inbox", "done.back": "Back to the list", "done.instance": "See the request", "done.close": "You may close this page.", "done.next.none": "There is nothing more for you to do.",

	"outcome.already-decided": "This is already decided", "outcome.already-decided.way": "Your answer was not needed. The request and its history are in your inbox.", "outcome.already-decided.own": "Your decision stands as it is. The request and its history are in your inbox.",
	"outcome.token-expired": "The time for this decision is over", "outcome.token-expired.way": "If it still matters, ask the person who made the request to make it again.",
	"outcome.token-revoked": "This link does not work any more", "outcome.token-revoked.way": "Look for a newer mail about this request, or open your inbox.",
	"outcome.suspended": "This request is paused", "outcome.suspended.way": "Nothing can be decided until it goes on. The link will work again then; the deadline moves too.",
	"outcome.content-changed": "What you read has changed", "outcome.content-changed.way": "Nothing was recorded. Read the new version, then decide: a fresh link was mailed to you.",
	"outcome.invalid-token": "This link is not valid", "outcome.invalid-token.way": "It may have been cut in two by a mail program, or it is too old. Copy the whole address from the mail, or open your inbox and decide there.",
	"outcome.other": "This was not recorded", "outcome.other.way": "Open your inbox to see how the request stands.",
	"outcome.winner": "%s chose “%s” on %s.", "outcome.winner.timer": "The deadline passed on %s.", "outcome.own": "What you recorded", "outcome.now": "What it says now", "outcome.request": "The request",

	"folder.mine": "Mine", "folder.groups": "My groups", "folder.waiting": "Waiting for others", "folder.done": "Done", "inbox.folders": "Folders", "inbox.search": "Search",
	"inbox.search.hint": "Title, request or key", "inbox.empty.mine": "Nothing waits for you.", "inbox.empty.groups": "Nothing waits for your groups.", "inbox.empty.waiting": "Nothing that you asked for waits for others.",
	"inbox.empty.done": "You have not decided anything yet.", "inbox.empty.search": "Nothing here matches “%s”.", "inbox.clear": "Show all", "inbox.pick": "Choose a request to read it and decide.", "inbox.keys": "Keys: j k move · o open · a r choose approve or reject · / search · ? help",
	"inbox.more": "Next page", "inbox.first": "First page", "inbox.rows": "Requests", "inbox.back": "Back to the list", "inbox.asks": "%s asks", "inbox.status.done": "Decided", "inbox.status.cancelled": "Cancelled", "inbox.status.expired": "Expired", "inbox.status.open": "Open",
	"inbox.closed.done": "This task is decided.", "inbox.closed.cancelled": "This task was called off.", "inbox.closed.expired": "The time for this task is over.", "inbox.instance": "Open the whole request",

	"keys.title": "Keys", "keys.move": "Next, previous request", "keys.open": "Open", "keys.choose": "Choose approve, reject; the button records it", "keys.search": "Search", "keys.help": "This help", "keys.close": "Close",

	"instances.title": "Requests", "instances.search": "Search", "instances.search.hint": "Key, id, label or text", "instances.definition": "Process", "instances.state": "State", "instances.status": "Status", "instances.any": "Any", "instances.attention": "Needs attention", "instances.filter": "Show",
	"instances.none": "There is no request here.", "instances.none.filtered": "No request matches.", "instances.request": "Request", "instances.asked": "Asked by", "instances.started": "Started",
	"status.running": "Running", "status.suspended": "Paused", "status.finished": "Finished", "status.cancelled": "Cancelled",

	"instance.key": "Key", "instance.by": "Asked by", "instance.started": "Started", "instance.startedby": "Started by", "instance.finished": "Ended", "instance.version": "Definition", "instance.id": "Id", "instance.why": "Where it stands", "instance.waits": "Waits for", "instance.voted": "has answered", "instance.rule": "by %s",
	"instance.can": "What you can do", "instance.decide": "Decide: %s", "instance.act": "Take a step", "instance.deadlines": "Deadlines", "instance.events": "What may happen", "instance.event.by": "by %s", "instance.event.not": "but not %s", "instance.event.blocked": "now blocked: %s",
	"instance.diagram": "The path", "instance.diagram.alt": "Diagram of the process. Path so far: %s. It is now in “%s”.", "instance.diagram.open": "Open the diagram alone", "instance.timeline": "Timeline", "instance.timeline.cut": "Older rows are shown; the rest is in the API's history.",
	"instance.data": "Data", "instance.data.none": "There is no data.", "instance.effects": "Effects", "instance.effects.none": "Nothing was to be done outside.", "instance.effect": "Effect", "instance.attempts": "Attempts (%d)", "instance.mails": "Mails that need nobody (%d)", "instance.next": "next attempt %s", "instance.links": "Links", "instance.links.none": "Nobody has a link.",
	"instance.link.state": "Link", "instance.link.opened": "opened %d times, last %s", "instance.link.opened.once": "opened once, %s", "instance.link.unopened": "not opened yet", "instance.link.made": "Made", "instance.link.person": "Person", "instance.link.mail": "mail: %s", "instance.attention": "An operator should look", "instance.since": "since %s",
	"instance.notifications": "Mails and calls of this wait", "instance.cancel": "Cancel this request", "instance.again": "Raise the failed event again", "instance.resolve": "Say what happened", "instance.before": "before", "instance.after": "after", "instance.repair": "Repair", "instance.quorum": "%s: %d of %d needed answers",
	"link.live": "works", "link.used": "used", "link.superseded": "replaced by a reminder", "link.replaced": "replaced after a change", "link.revoked": "withdrawn", "link.over": "the wait is over", "link.none": "told without a link",
	"effect.waiting": "Waiting", "effect.running": "Running", "effect.retrying": "Trying again", "effect.succeeded": "Done", "effect.dead": "Failed", "effect.unknown": "Outcome unknown", "effect.cancelled": "Called off", "effect.irreversible": "cannot be undone",
	"deadline.remind": "Reminder", "deadline.escalate": "Escalation", "deadline.tell": "Notice", "deadline.fire": "Ends with “%s”", "deadline.whole": "of the whole request",
	"attention.dead-effect": "An effect failed for good", "attention.unknown-effect": "Nobody knows whether an effect happened", "attention.no-owner": "Nobody was there to ask", "attention.failed-end": "It ended badly", "attention.quarantine": "An event could not be taken; it is tried again", "attention.manual-compensation": "Something has to be undone by hand",
	"attention.tidying-failed": "Something that tidies up after a cancel could not be queued", "attention.result-refused": "An effect's result does not fit the data", "attention.deadline-failed": "A deadline could not be taken", "attention.quorum-unreachable": "The needed answers cannot be reached any more", "attention.other": "Something needs a look",

	"kind.start": "Started", "kind.transition": "%s", "kind.vote": "Answered: %s", "kind.stay": "%s", "kind.reminder": "Reminder sent", "kind.escalation": "Escalated", "kind.told": "Notice sent", "kind.effect": "Result of an effect", "kind.cancel": "Cancelled", "kind.compensation": "Undone", "kind.quarantine": "Set aside after a failure", "kind.operator": "Operator's step", "kind.other": "%s",
	"timeline.by": "by %s", "timeline.for": "for %s", "timeline.via": "through %s", "timeline.to": "now in “%s”", "timeline.reason": "Reason", "timeline.again": "Tried again: %s", "timeline.givenup": "Given up: %s", "timeline.resolved": "Resolved: %s", "timeline.changes": "Changed data (%d)", "timeline.input": "Input", "timeline.documents": "Documents", "timeline.details": "Proof",
	"timeline.digest": "Digest of what was shown", "timeline.hash": "History hash", "timeline.seq": "Number", "actor.timer": "the deadline", "actor.effect": "an effect",
	"assurance.impersonated": "on behalf, by a system", "assurance.link": "by emailed link", "assurance.code": "by mailed code", "assurance.session": "logged in", "assurance.step-up": "freshly logged in", "assurance.key": "by API key", "assurance.callback": "by a callback", "assurance.engine": "by the service",

	"confirm.cancel": "Cancel this request", "confirm.again": "Raise the failed event again",
	"confirm.cancel.text": "The request stops where it is and stays in the state “%s”. Links and tasks stop working, no deadline fires. What has been done outside is undone where that is possible, newest first. This cannot be taken back.",
	"confirm.again.text":  "The timer or effect event that failed last is raised once more, as if it came now. Do this after the cause is mended.",
	"confirm.reason":      "Reason", "confirm.reason.hint": "It is kept in the history under your name.", "confirm.reason.missing": "Type a reason: those who read the history will need it.", "confirm.undo": "Will be undone, newest first", "confirm.stays": "Cannot be undone", "confirm.nothing": "Nothing has been done outside yet.",
	"confirm.result": "Its result, if there is one (JSON)", "confirm.back": "Leave it as it is", "confirm.effect": "The effect", "confirm.to": "To",

	"start.title": "Start a request", "start.none": "There is nothing that you may start. Ask an operator to add your group or role to the definition's requesters.", "start.version": "version %d", "start.button": "Start the request", "start.taken": "See the request that has this key", "start.empty": "This process needs no details.",

	"login.title": "Log in", "login.email": "Your email address", "login.hint": "We mail you a link that logs you in. There is no password.", "login.button": "Mail me a link", "login.sent": "Look into your mail", "login.sent.text": "If %s is known here, a mail with a link is on its way. It works once, for a short time.", "login.sent.none": "No mail after a few minutes? Look into the spam folder, check the address, or ask an operator whether it is listed.",
	"login.bad": "Type an email address, for example ana@example.com.", "login.pick": "Who do you want to be?", "login.pick.text": "This is a demo. Everybody listed here is made up; choose one and look around as them.", "login.again": "Another address", "login.as": "You are logged in as %s.", "login.on": "Go on to the inbox",
	"login.link.title": "Log in", "login.link.text": "Press the button to log in on this device. Opening the link alone does nothing, so a mail scanner cannot use it up.", "login.link.button": "Log me in", "login.link.dead": "This log-in link does not work any more", "login.link.dead.text": "It was used already or is too old. Ask for a new one.", "login.link.new": "Ask for a new link",

	"mail.title": "Mailbox", "mail.text": "No mail server is set, so mails stay here. This is what would have been sent.", "mail.none": "No mail yet.", "mail.to": "To", "mail.subject": "Subject", "mail.at": "At", "mail.html": "As the reader sees it", "mail.plain": "Text part", "mail.decide": "Open the link in this mail", "mail.frame": "The mail", "mail.status": "Delivery",

	"problems.title": "Problems and ways out", "problems.text": "Every refusal of the API and of these pages has a stable type of the form /problems/NAME.", "problem.status": "HTTP status", "problem.type": "Type", "problem.way": "What to do", "problem.comment": "What you typed was not recorded. Copy it before you go on:", "problem.home": "Go to the start page", "problem.list": "All problems", "problem.internal.message": "The mistake is ours, not yours. Nothing is half done; try again in a moment.",
}

func init() {
	for code, words := range englishProblems {
		english["problem."+string(code)] = words[0]
		english["problem."+string(code)+".what"] = words[1]
		english["problem."+string(code)+".way"] = words[2]
	}
}
