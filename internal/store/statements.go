package store

// Every write of a batch, in the order in which the statements run: what frees a unique
// place (a vote cleared, a claim given back) runs before what takes it.
var (
	forgetClaims = changeRows("claims", "kind int4, key_hash bytea, instance_id uuid", "",
		"t.kind = u.kind AND t.key_hash = u.key_hash AND t.instance_id = u.instance_id", false)
	settleClaims = changeRows("claims", "kind int4, key_hash bytea, seq int4, answer bytea",
		"seq = u.seq, answer = u.answer", "t.kind = u.kind AND t.key_hash = u.key_hash", true)

	insertInstances = insertRows("instances", `id uuid, definition text, version int4, hash text, state text, wait int4,
		revision int4, status text, instance_key text, requester text, started_by text, labels text,
		started_at timestamptz, entered_at timestamptz, last_event_at timestamptz, finished_at timestamptz,
		head_hash text, attention bool, attention_reasons text, compensation text, parent text`, "")
	updateInstances = changeRows("instances", `id uuid, was int4, definition text, version int4, hash text, state text, wait int4,
		revision int4, status text, entered_at timestamptz, last_event_at timestamptz, finished_at timestamptz,
		head_hash text, attention bool, attention_reasons text, compensation text`,
		`definition = u.definition, version = u.version, hash = u.hash, state = u.state, wait = u.wait,
		revision = u.revision, status = u.status, entered_at = u.entered_at, last_event_at = u.last_event_at,
		finished_at = u.finished_at, head_hash = u.head_hash, attention = u.attention,
		attention_reasons = u.attention_reasons, compensation = u.compensation`,
		"t.id = u.id AND t.revision = u.was", true)
	insertData   = insertRows("instance_data", "instance_id uuid, data text, search text", "")
	updateData   = changeRows("instance_data", "instance_id uuid, data text, search text", "data = u.data, search = u.search", "t.instance_id = u.instance_id", true)
	insertLabels = insertRows("instance_labels", "instance_id uuid, name text, value text", "")

	insertTransitions = insertRows("transitions", `instance_id uuid, seq int4, event_id uuid, kind text, event text,
		from_state text, to_state text, via text, wait int4, actor_kind text, actor_id text, actor text, assurance text,
		comment text, input text, documents text, changes text, digest text, pending_have int4, pending_need int4,
		token_seq int4, token_n int4, reason text, deadlines_cancelled text, at timestamptz, definition_version int4,
		salt bytea, hash text, previous_hash text`, "")

	clearVotes = changeRows("assignees", "instance_id uuid, seq int4, n int4", "vote = 0",
		"t.instance_id = u.instance_id AND t.seq = u.seq AND t.n = u.n", true)
	insertAssignees = insertRows("assignees", `instance_id uuid, seq int4, n int4, wait int4, task int4, kind text, ref text,
		lines text, events text, nonce bytea, kid text, jti_hash bytea, digest text, state text, consumed int4, vote int4,
		stood bool, effect_seq int4, effect_n int4`, "")
	changeAssignees = changeRows("assignees", "instance_id uuid, seq int4, n int4, state text, consumed int4, vote int4",
		`state = CASE WHEN u.state = '' THEN t.state ELSE u.state END,
		consumed = CASE WHEN u.consumed = 0 THEN t.consumed ELSE u.consumed END,
		vote = CASE WHEN u.vote = 0 THEN t.vote ELSE u.vote END`,
		"t.instance_id = u.instance_id AND t.seq = u.seq AND t.n = u.n", true)

	insertTasks = insertRows("tasks", `instance_id uuid, seq int4, n int4, state text, title text, instructions text,
		priority text, status text, facts text, digest text, owners text, due_at timestamptz, created_at timestamptz,
		closed_at timestamptz, claimed_by text, search text`, "")
	changeTasks = changeRows("tasks", `instance_id uuid, seq int4, n int4, status text, closed_at timestamptz, owners text,
		title text, instructions text, facts text, digest text, search text, due_at timestamptz`,
		`status = COALESCE(u.status, t.status), closed_at = COALESCE(u.closed_at, t.closed_at),
		owners = COALESCE(u.owners, t.owners), title = COALESCE(u.title, t.title),
		instructions = COALESCE(u.instructions, t.instructions), facts = COALESCE(u.facts, t.facts),
		digest = COALESCE(u.digest, t.digest), search = COALESCE(u.search, t.search), due_at = COALESCE(u.due_at, t.due_at)`,
		"t.instance_id = u.instance_id AND t.seq = u.seq AND t.n = u.n", true)
	insertOwners = insertRows("task_owners", "instance_id uuid, seq int4, n int4, ref text, owner bool, named bool, open bool",
		`ON CONFLICT (instance_id, seq, n, ref) DO UPDATE SET
		owner = task_owners.owner OR excluded.owner, named = task_owners.named OR excluded.named, open = excluded.open`)
	closeOwners = changeRows("task_owners", "instance_id uuid, seq int4, n int4", "open = false",
		"t.instance_id = u.instance_id AND t.seq = u.seq AND t.n = u.n", false)

	deleteDeadlines = changeRows("deadlines", "instance_id uuid, seq int4, n int4", "",
		"t.instance_id = u.instance_id AND t.seq = u.seq AND t.n = u.n", false)
	insertDeadlines = insertRows("deadlines", `instance_id uuid, seq int4, n int4, wait int4, rule text, action text,
		event text, due_at timestamptz, anchor timestamptz, occurrence int4, failures int4, deferred bool,
		next_at timestamptz`, "")
	changeDeadlines = changeRows("deadlines", `instance_id uuid, seq int4, n int4, wait int4, rule text, action text,
		event text, due_at timestamptz, anchor timestamptz, occurrence int4, failures int4, deferred bool,
		next_at timestamptz`,
		`wait = u.wait, rule = u.rule, action = u.action, event = u.event, due_at = u.due_at, anchor = u.anchor,
		occurrence = u.occurrence, failures = u.failures, deferred = u.deferred, next_at = u.next_at`,
		"t.instance_id = u.instance_id AND t.seq = u.seq AND t.n = u.n", true)

	// dropEffects cancels what was never sent: waiting, between two attempts, or leased
	// but not started (then the lease is lost with the fence); and what only waits for its
	// children.
	dropEffects = changeRows("effects", "instance_id uuid, wait int4, at timestamptz",
		`status = 'cancelled', next_at = NULL, lease_until = NULL, fence = fence + 1, done_at = u.at`,
		`t.instance_id = u.instance_id AND t.wait = u.wait AND t.droppable
		AND (t.status IN ('waiting', 'retrying') OR t.status = 'running' AND (NOT t.started OR t.lease_until IS NULL))`, false)
	changeEffects = changeRows("effects", "instance_id uuid, seq int4, n int4, status text, afresh bool, next_at timestamptz, done_at timestamptz",
		`status = u.status, attempts = CASE WHEN u.afresh THEN 0 ELSE t.attempts END,
		next_at = u.next_at, done_at = u.done_at, lease_until = NULL, started = false, given_up = false`,
		"t.instance_id = u.instance_id AND t.seq = u.seq AND t.n = u.n", true)
	finishEffects = changeRows("effects", `instance_id uuid, seq int4, n int4, fence int8, resolved bool, status text, result text,
		next_at timestamptz, done_at timestamptz`,
		`status = u.status, result = u.result, next_at = u.next_at, done_at = u.done_at, lease_until = NULL, started = false,
		given_up = u.resolved AND u.status = 'dead'`,
		`t.instance_id = u.instance_id AND t.seq = u.seq AND t.n = u.n AND (u.resolved OR t.fence = u.fence)`, true)
	finishAttempts = changeRows("attempts", `instance_id uuid, seq int4, n int4, fence int8, at timestamptz, outcome text, detail text, http int4,
		answer text`, "finished_at = u.at, outcome = u.outcome, detail = u.detail, http = u.http, answer = u.answer",
		"t.instance_id = u.instance_id AND t.seq = u.seq AND t.n = u.n AND t.fence = u.fence AND t.finished_at IS NULL", false)
	insertEffects = insertRows("effects", `instance_id uuid, seq int4, n int4, name text, kind text, wait int4, droppable bool,
		idempotent bool, reversible bool, priority int4, host text, request text, allowed int4, first_ms int8, max_ms int8,
		input text, undoes_seq int4, undoes_n int4, link_seq int4, link_n int4, status text, result text, attempts int4,
		fence int8, started bool, lease_until timestamptz, next_at timestamptz, queued_at timestamptz, done_at timestamptz`, "")
	insertAttempts = insertRows("attempts", `instance_id uuid, seq int4, n int4, fence int8, attempt int4, at timestamptz,
		finished_at timestamptz, outcome text, detail text, http int4`, "")
)

// batchOrder is the order of a batch's statements. A result is written before what leaves
// its wait drops the rest.
var batchOrder = []*multirow{
	forgetClaims, settleClaims,
	insertInstances, updateInstances, insertData, updateData, insertLabels,
	insertTransitions,
	clearVotes, insertAssignees, changeAssignees,
	insertTasks, changeTasks, insertOwners, closeOwners,
	deleteDeadlines, insertDeadlines, changeDeadlines,
	finishEffects, finishAttempts, dropEffects, changeEffects, insertEffects,
	insertChildren, endChildren, forgetCorrelations, insertCorrelations, takeCalls, forgetMatches, insertFeed,
}
