-- The same tables as on PostgreSQL. JSON is text, kept digit by digit; ids are text;
-- times are INTEGER, milliseconds since 1970 in UTC; an empty text stands for "none".

-- +goose Up

CREATE TABLE definitions (
    name         TEXT    NOT NULL,
    version      INTEGER NOT NULL,
    hash         TEXT    NOT NULL,
    title        TEXT    NOT NULL,
    source       BLOB    NOT NULL,
    published_at INTEGER NOT NULL,
    published_by TEXT    NOT NULL,
    PRIMARY KEY (name, version)
);

CREATE TABLE instances (
    id                TEXT    NOT NULL PRIMARY KEY,
    definition        TEXT    NOT NULL,
    version           INTEGER NOT NULL,
    hash              TEXT    NOT NULL,
    state             TEXT    NOT NULL,
    wait              INTEGER NOT NULL,
    revision          INTEGER NOT NULL,
    status            TEXT    NOT NULL,
    instance_key      TEXT    NOT NULL,
    requester         TEXT    NOT NULL,
    started_by        TEXT    NOT NULL,
    labels            TEXT    NOT NULL,
    started_at        INTEGER NOT NULL,
    entered_at        INTEGER NOT NULL,
    last_event_at     INTEGER NOT NULL,
    finished_at       INTEGER,
    head_hash         TEXT    NOT NULL,
    attention         BOOLEAN NOT NULL,
    attention_reasons TEXT    NOT NULL,
    compensation      TEXT    NOT NULL
);
CREATE INDEX instances_started ON instances (started_at, id);
CREATE INDEX instances_entered ON instances (entered_at, id);
CREATE INDEX instances_definition ON instances (definition, started_at, id);
CREATE INDEX instances_requester ON instances (requester, started_at, id);
CREATE INDEX instances_key ON instances (instance_key, definition) WHERE instance_key <> '';
CREATE INDEX instances_attention ON instances (started_at, id) WHERE attention;
CREATE INDEX instances_live ON instances (definition, version, status) WHERE status IN ('running', 'suspended');

-- search is folded (NFKC, case): key, id, label values and the searched data.
CREATE TABLE instance_data (
    instance_id TEXT NOT NULL PRIMARY KEY,
    data        TEXT NOT NULL,
    search      TEXT NOT NULL
);

CREATE TABLE instance_labels (
    instance_id TEXT NOT NULL,
    name        TEXT NOT NULL,
    value       TEXT NOT NULL,
    PRIMARY KEY (instance_id, name)
) WITHOUT ROWID;
CREATE INDEX instance_labels_value ON instance_labels (name, value);

CREATE TABLE transitions (
    instance_id         TEXT    NOT NULL,
    seq                 INTEGER NOT NULL,
    event_id            TEXT    NOT NULL,
    kind                TEXT    NOT NULL,
    event               TEXT    NOT NULL,
    from_state          TEXT    NOT NULL,
    to_state            TEXT    NOT NULL,
    via                 TEXT    NOT NULL,
    wait                INTEGER NOT NULL,
    actor_kind          TEXT    NOT NULL,
    actor_id            TEXT    NOT NULL,
    actor               TEXT    NOT NULL,
    assurance           TEXT    NOT NULL,
    comment             TEXT    NOT NULL,
    input               TEXT    NOT NULL,
    documents           TEXT    NOT NULL,
    changes             TEXT    NOT NULL,
    digest              TEXT    NOT NULL,
    pending_have        INTEGER NOT NULL,
    pending_need        INTEGER NOT NULL,
    token_seq           INTEGER NOT NULL,
    token_n             INTEGER NOT NULL,
    reason              TEXT    NOT NULL,
    deadlines_cancelled TEXT    NOT NULL,
    at                  INTEGER NOT NULL,
    definition_version  INTEGER NOT NULL,
    salt                BLOB    NOT NULL,
    hash                TEXT    NOT NULL,
    previous_hash       TEXT    NOT NULL,
    PRIMARY KEY (instance_id, seq)
);
CREATE UNIQUE INDEX transitions_event ON transitions (event_id);
CREATE INDEX transitions_actor ON transitions (actor_id, instance_id) WHERE actor_kind = 'person';

-- seq is the wait. search is folded: titles, instance id and business key.
CREATE TABLE tasks (
    instance_id  TEXT    NOT NULL,
    seq          INTEGER NOT NULL,
    n            INTEGER NOT NULL,
    state        TEXT    NOT NULL,
    title        TEXT    NOT NULL,
    instructions TEXT    NOT NULL,
    priority     TEXT    NOT NULL,
    status       TEXT    NOT NULL,
    facts        TEXT    NOT NULL,
    digest       TEXT    NOT NULL,
    owners       TEXT    NOT NULL,
    due_at       INTEGER,
    created_at   INTEGER NOT NULL,
    closed_at    INTEGER,
    claimed_by   TEXT    NOT NULL,
    search       TEXT    NOT NULL,
    PRIMARY KEY (instance_id, seq, n)
);
CREATE INDEX tasks_open_due ON tasks (due_at, instance_id) WHERE status = 'open';

-- Whom a task is before: owners by their lines (owner), and who was asked (named).
-- Rows stay when the task closes; open is cleared.
CREATE TABLE task_owners (
    instance_id TEXT    NOT NULL,
    seq         INTEGER NOT NULL,
    n           INTEGER NOT NULL,
    ref         TEXT    NOT NULL,
    owner       BOOLEAN NOT NULL,
    named       BOOLEAN NOT NULL,
    open        BOOLEAN NOT NULL,
    PRIMARY KEY (instance_id, seq, n, ref)
) WITHOUT ROWID;
CREATE INDEX task_owners_ref ON task_owners (ref, open, instance_id);

-- vote is the seq of the standing vote, consumed that of the act that used the link up; 0: none.
CREATE TABLE assignees (
    instance_id     TEXT    NOT NULL,
    seq             INTEGER NOT NULL,
    n               INTEGER NOT NULL,
    wait            INTEGER NOT NULL,
    task            INTEGER NOT NULL,
    kind            TEXT    NOT NULL,
    ref             TEXT    NOT NULL,
    lines           TEXT    NOT NULL,
    events          TEXT    NOT NULL,
    nonce           BLOB,
    kid             TEXT    NOT NULL,
    jti_hash        BLOB,
    digest          TEXT    NOT NULL,
    state           TEXT    NOT NULL,
    consumed        INTEGER NOT NULL,
    vote            INTEGER NOT NULL,
    stood           BOOLEAN NOT NULL,
    effect_seq      INTEGER NOT NULL,
    effect_n        INTEGER NOT NULL,
    fetched_at      INTEGER,
    last_fetched_at INTEGER,
    fetch_count     INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (instance_id, seq, n)
);
CREATE UNIQUE INDEX assignees_jti ON assignees (jti_hash) WHERE jti_hash IS NOT NULL;
CREATE UNIQUE INDEX assignees_vote ON assignees (instance_id, wait, ref) WHERE vote > 0;

-- Live deadlines only. next_at is when the sweeper looks: due_at, later after a
-- failure, NULL while deferred.
CREATE TABLE deadlines (
    instance_id TEXT    NOT NULL,
    seq         INTEGER NOT NULL,
    n           INTEGER NOT NULL,
    wait        INTEGER NOT NULL,
    rule        TEXT    NOT NULL,
    action      TEXT    NOT NULL,
    event       TEXT    NOT NULL,
    due_at      INTEGER NOT NULL,
    anchor      INTEGER NOT NULL,
    occurrence  INTEGER NOT NULL,
    failures    INTEGER NOT NULL,
    deferred    BOOLEAN NOT NULL,
    next_at     INTEGER,
    PRIMARY KEY (instance_id, seq, n)
) WITHOUT ROWID;
CREATE INDEX deadlines_next ON deadlines (next_at) WHERE next_at IS NOT NULL;

-- The primary key is the effect's key, unique for ever. next_at is when the outbox
-- looks at the row: when it is due, or when its lease ends; NULL: never again by itself.
-- fence rises with every lease; started tells that the lease's attempt is committed as started.
CREATE TABLE effects (
    instance_id TEXT    NOT NULL,
    seq         INTEGER NOT NULL,
    n           INTEGER NOT NULL,
    name        TEXT    NOT NULL,
    kind        TEXT    NOT NULL,
    wait        INTEGER NOT NULL,
    droppable   BOOLEAN NOT NULL,
    idempotent  BOOLEAN NOT NULL,
    reversible  BOOLEAN NOT NULL,
    priority    INTEGER NOT NULL,
    host        TEXT    NOT NULL,
    request     TEXT    NOT NULL,
    allowed     INTEGER NOT NULL,
    first_ms    INTEGER NOT NULL,
    max_ms      INTEGER NOT NULL,
    input       TEXT    NOT NULL,
    undoes_seq  INTEGER NOT NULL,
    undoes_n    INTEGER NOT NULL,
    link_seq    INTEGER NOT NULL,
    link_n      INTEGER NOT NULL,
    status      TEXT    NOT NULL,
    result      TEXT    NOT NULL,
    attempts    INTEGER NOT NULL,
    fence       INTEGER NOT NULL,
    started     BOOLEAN NOT NULL,
    lease_until INTEGER,
    next_at     INTEGER,
    queued_at   INTEGER NOT NULL,
    done_at     INTEGER,
    PRIMARY KEY (instance_id, seq, n)
);
CREATE INDEX effects_due ON effects (priority, next_at) WHERE next_at IS NOT NULL;
CREATE INDEX effects_leased ON effects (lease_until, host) WHERE lease_until IS NOT NULL;
CREATE INDEX effects_queued ON effects (queued_at, instance_id, seq, n);
CREATE INDEX effects_open ON effects (status, queued_at) WHERE status NOT IN ('succeeded', 'cancelled');

-- attempt is the number told to people, from 1; it starts anew after an operator's retry.
CREATE TABLE attempts (
    instance_id TEXT    NOT NULL,
    seq         INTEGER NOT NULL,
    n           INTEGER NOT NULL,
    fence       INTEGER NOT NULL,
    attempt     INTEGER NOT NULL,
    at          INTEGER NOT NULL,
    finished_at INTEGER,
    outcome     TEXT    NOT NULL,
    detail      TEXT    NOT NULL,
    http        INTEGER NOT NULL,
    PRIMARY KEY (instance_id, seq, n, fence)
) WITHOUT ROWID;

-- kind: 1 idempotency key, 2 business key, 3 webhook id. key_hash covers scope and key.
CREATE TABLE claims (
    kind        INTEGER NOT NULL,
    key_hash    BLOB    NOT NULL,
    instance_id TEXT    NOT NULL,
    seq         INTEGER NOT NULL,
    body_hash   BLOB,
    answer      BLOB,
    created_at  INTEGER NOT NULL,
    expires_at  INTEGER,
    PRIMARY KEY (kind, key_hash)
) WITHOUT ROWID;
CREATE INDEX claims_expiring ON claims (expires_at) WHERE expires_at IS NOT NULL;

-- deactivated_at is set by a command and outlives every sync.
CREATE TABLE people (
    id             TEXT    NOT NULL PRIMARY KEY,
    name           TEXT    NOT NULL,
    email          TEXT    NOT NULL,
    locale         TEXT    NOT NULL,
    timezone       TEXT    NOT NULL,
    active         BOOLEAN NOT NULL,
    deactivated_at INTEGER
);

CREATE TABLE people_groups (
    person TEXT NOT NULL,
    name   TEXT NOT NULL,
    PRIMARY KEY (person, name)
) WITHOUT ROWID;
CREATE INDEX people_groups_name ON people_groups (name);

CREATE TABLE people_roles (
    person TEXT NOT NULL,
    name   TEXT NOT NULL,
    PRIMARY KEY (person, name)
) WITHOUT ROWID;
CREATE INDEX people_roles_name ON people_roles (name);

CREATE TABLE api_keys (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    name         TEXT    NOT NULL,
    hash         BLOB    NOT NULL UNIQUE,
    roles        TEXT    NOT NULL,
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER,
    revoked_at   INTEGER,
    last_used_at INTEGER
);
CREATE UNIQUE INDEX api_keys_live ON api_keys (name) WHERE revoked_at IS NULL;

CREATE TABLE sessions (
    hash       BLOB    NOT NULL PRIMARY KEY,
    person     TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    seen_at    INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    assurance  TEXT    NOT NULL,
    csrf       TEXT    NOT NULL
) WITHOUT ROWID;
CREATE INDEX sessions_person ON sessions (person);
CREATE INDEX sessions_expiring ON sessions (expires_at);

CREATE TABLE login_links (
    hash       BLOB    NOT NULL PRIMARY KEY,
    person     TEXT    NOT NULL,
    next       TEXT    NOT NULL,
    expires_at INTEGER NOT NULL,
    used_at    INTEGER
) WITHOUT ROWID;
CREATE INDEX login_links_expiring ON login_links (expires_at);

CREATE TABLE audit (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    at          INTEGER NOT NULL,
    actor       TEXT    NOT NULL,
    action      TEXT    NOT NULL,
    instance_id TEXT    NOT NULL,
    token       BLOB,
    detail      TEXT    NOT NULL
);
CREATE INDEX audit_instance ON audit (instance_id, id) WHERE instance_id <> '';

-- Refusals per token and hour: those beyond the cap are only counted.
CREATE TABLE audit_refusals (
    token BLOB    NOT NULL,
    hour  INTEGER NOT NULL,
    n     INTEGER NOT NULL,
    PRIMARY KEY (token, hour)
) WITHOUT ROWID;

CREATE TABLE key_ring (
    kid    TEXT NOT NULL PRIMARY KEY,
    status TEXT NOT NULL,
    sha256 BLOB NOT NULL
);

-- One row. directory_version rises with every change of people, groups and roles.
CREATE TABLE meta (
    id                INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    incarnation       INTEGER NOT NULL,
    directory_version INTEGER NOT NULL
);
INSERT INTO meta (id, incarnation, directory_version) VALUES (1, 1, 1);
