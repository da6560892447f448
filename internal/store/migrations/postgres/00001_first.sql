-- Everything of one instance has instance_id first in its primary key and is written
-- under the lock of its instances row, hence no foreign keys. JSON is kept as text:
-- it comes back with the very digits that were written (1.0, 1e2, -0), as on SQLite.
-- An empty text stands for "none". Times are UTC, in milliseconds.

-- +goose Up

CREATE TABLE definitions (
    name         text           NOT NULL,
    version      integer        NOT NULL,
    hash         text           NOT NULL,
    title        text           NOT NULL,
    source       bytea          NOT NULL,
    published_at timestamptz(3) NOT NULL,
    published_by text           NOT NULL,
    PRIMARY KEY (name, version)
);

CREATE TABLE instances (
    id                uuid           NOT NULL PRIMARY KEY,
    definition        text           NOT NULL,
    version           integer        NOT NULL,
    hash              text           NOT NULL,
    state             text           NOT NULL,
    wait              integer        NOT NULL,
    revision          integer        NOT NULL,
    status            text           NOT NULL,
    instance_key      text           NOT NULL,
    requester         text           NOT NULL,
    started_by        text           NOT NULL,
    labels            text           NOT NULL,
    started_at        timestamptz(3) NOT NULL,
    entered_at        timestamptz(3) NOT NULL,
    last_event_at     timestamptz(3) NOT NULL,
    finished_at       timestamptz(3),
    head_hash         text           NOT NULL,
    attention         boolean        NOT NULL,
    attention_reasons text           NOT NULL,
    compensation      text           NOT NULL
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
    instance_id uuid NOT NULL PRIMARY KEY,
    data        text NOT NULL,
    search      text NOT NULL
);

CREATE TABLE instance_labels (
    instance_id uuid NOT NULL,
    name        text NOT NULL,
    value       text NOT NULL,
    PRIMARY KEY (instance_id, name)
);
CREATE INDEX instance_labels_value ON instance_labels (name, value);

CREATE TABLE transitions (
    instance_id         uuid           NOT NULL,
    seq                 integer        NOT NULL,
    event_id            uuid           NOT NULL,
    kind                text           NOT NULL,
    event               text           NOT NULL,
    from_state          text           NOT NULL,
    to_state            text           NOT NULL,
    via                 text           NOT NULL,
    wait                integer        NOT NULL,
    actor_kind          text           NOT NULL,
    actor_id            text           NOT NULL,
    actor               text           NOT NULL,
    assurance           text           NOT NULL,
    comment             text           NOT NULL,
    input               text           NOT NULL,
    documents           text           NOT NULL,
    changes             text           NOT NULL,
    digest              text           NOT NULL,
    pending_have        integer        NOT NULL,
    pending_need        integer        NOT NULL,
    token_seq           integer        NOT NULL,
    token_n             integer        NOT NULL,
    reason              text           NOT NULL,
    deadlines_cancelled text           NOT NULL,
    at                  timestamptz(3) NOT NULL,
    definition_version  integer        NOT NULL,
    salt                bytea          NOT NULL,
    hash                text           NOT NULL,
    previous_hash       text           NOT NULL,
    PRIMARY KEY (instance_id, seq)
);
CREATE UNIQUE INDEX transitions_event ON transitions (event_id);
CREATE INDEX transitions_actor ON transitions (actor_id, instance_id) WHERE actor_kind = 'person';

-- seq is the wait. search is folded: titles, instance id and business key.
CREATE TABLE tasks (
    instance_id  uuid           NOT NULL,
    seq          integer        NOT NULL,
    n            integer        NOT NULL,
    state        text           NOT NULL,
    title        text           NOT NULL,
    instructions text           NOT NULL,
    priority     text           NOT NULL,
    status       text           NOT NULL,
    facts        text           NOT NULL,
    digest       text           NOT NULL,
    owners       text           NOT NULL,
    due_at       timestamptz(3),
    created_at   timestamptz(3) NOT NULL,
    closed_at    timestamptz(3),
    claimed_by   text           NOT NULL,
    search       text           NOT NULL,
    PRIMARY KEY (instance_id, seq, n)
);
CREATE INDEX tasks_open_due ON tasks (due_at, instance_id) WHERE status = 'open';

-- Whom a task is before: owners by their lines (owner), and who was asked (named).
-- Rows stay when the task closes; open is cleared.
CREATE TABLE task_owners (
    instance_id uuid    NOT NULL,
    seq         integer NOT NULL,
    n           integer NOT NULL,
    ref         text    NOT NULL,
    owner       boolean NOT NULL,
    named       boolean NOT NULL,
    open        boolean NOT NULL,
    PRIMARY KEY (instance_id, seq, n, ref)
);
CREATE INDEX task_owners_ref ON task_owners (ref, open, instance_id);

-- vote is the seq of the standing vote, consumed that of the act that used the link up; 0: none.
CREATE TABLE assignees (
    instance_id      uuid    NOT NULL,
    seq              integer NOT NULL,
    n                integer NOT NULL,
    wait             integer NOT NULL,
    task             integer NOT NULL,
    kind             text    NOT NULL,
    ref              text    NOT NULL,
    lines            text    NOT NULL,
    events           text    NOT NULL,
    nonce            bytea,
    kid              text    NOT NULL,
    jti_hash         bytea,
    digest           text    NOT NULL,
    state            text    NOT NULL,
    consumed         integer NOT NULL,
    vote             integer NOT NULL,
    stood            boolean NOT NULL,
    effect_seq       integer NOT NULL,
    effect_n         integer NOT NULL,
    fetched_at       timestamptz(3),
    last_fetched_at  timestamptz(3),
    fetch_count      integer NOT NULL DEFAULT 0,
    PRIMARY KEY (instance_id, seq, n)
);
CREATE UNIQUE INDEX assignees_jti ON assignees (jti_hash) WHERE jti_hash IS NOT NULL;
CREATE UNIQUE INDEX assignees_vote ON assignees (instance_id, wait, ref) WHERE vote > 0;

-- Live deadlines only. next_at is when the sweeper looks: due_at, later after a
-- failure, NULL while deferred.
CREATE TABLE deadlines (
    instance_id uuid           NOT NULL,
    seq         integer        NOT NULL,
    n           integer        NOT NULL,
    wait        integer        NOT NULL,
    rule        text           NOT NULL,
    action      text           NOT NULL,
    event       text           NOT NULL,
    due_at      timestamptz(3) NOT NULL,
    anchor      timestamptz(3) NOT NULL,
    occurrence  integer        NOT NULL,
    failures    integer        NOT NULL,
    deferred    boolean        NOT NULL,
    next_at     timestamptz(3),
    PRIMARY KEY (instance_id, seq, n)
);
CREATE INDEX deadlines_next ON deadlines (next_at) WHERE next_at IS NOT NULL;

-- The primary key is the effect's key, unique for ever. next_at is when the outbox
-- looks at the row: when it is due, or when its lease ends; NULL: never again by itself.
-- fence rises with every lease; started tells that the lease's attempt is committed as started.
CREATE TABLE effects (
    instance_id  uuid           NOT NULL,
    seq          integer        NOT NULL,
    n            integer        NOT NULL,
    name         text           NOT NULL,
    kind         text           NOT NULL,
    wait         integer        NOT NULL,
    droppable    boolean        NOT NULL,
    idempotent   boolean        NOT NULL,
    reversible   boolean        NOT NULL,
    priority     integer        NOT NULL,
    host         text           NOT NULL,
    request      text           NOT NULL,
    allowed      integer        NOT NULL,
    first_ms     bigint         NOT NULL,
    max_ms       bigint         NOT NULL,
    input        text           NOT NULL,
    undoes_seq   integer        NOT NULL,
    undoes_n     integer        NOT NULL,
    link_seq     integer        NOT NULL,
    link_n       integer        NOT NULL,
    status       text           NOT NULL,
    result       text           NOT NULL,
    attempts     integer        NOT NULL,
    fence        bigint         NOT NULL,
    started      boolean        NOT NULL,
    lease_until  timestamptz(3),
    next_at      timestamptz(3),
    queued_at    timestamptz(3) NOT NULL,
    done_at      timestamptz(3),
    PRIMARY KEY (instance_id, seq, n)
);
CREATE INDEX effects_due ON effects (priority, next_at) WHERE next_at IS NOT NULL;
CREATE INDEX effects_leased ON effects (lease_until, host) WHERE lease_until IS NOT NULL;
CREATE INDEX effects_queued ON effects (queued_at, instance_id, seq, n);
CREATE INDEX effects_open ON effects (status, queued_at) WHERE status NOT IN ('succeeded', 'cancelled');

-- attempt is the number told to people, from 1; it starts anew after an operator's retry.
CREATE TABLE attempts (
    instance_id uuid           NOT NULL,
    seq         integer        NOT NULL,
    n           integer        NOT NULL,
    fence       bigint         NOT NULL,
    attempt     integer        NOT NULL,
    at          timestamptz(3) NOT NULL,
    finished_at timestamptz(3),
    outcome     text           NOT NULL,
    detail      text           NOT NULL,
    http        integer        NOT NULL,
    PRIMARY KEY (instance_id, seq, n, fence)
);

-- kind: 1 idempotency key, 2 business key, 3 webhook id. key_hash covers scope and key.
CREATE TABLE claims (
    kind        smallint       NOT NULL,
    key_hash    bytea          NOT NULL,
    instance_id uuid           NOT NULL,
    seq         integer        NOT NULL,
    body_hash   bytea,
    answer      bytea,
    created_at  timestamptz(3) NOT NULL,
    expires_at  timestamptz(3),
    PRIMARY KEY (kind, key_hash)
);
CREATE INDEX claims_expiring ON claims (expires_at) WHERE expires_at IS NOT NULL;

-- deactivated_at is set by a command and outlives every sync.
CREATE TABLE people (
    id             text    NOT NULL PRIMARY KEY,
    name           text    NOT NULL,
    email          text    NOT NULL,
    locale         text    NOT NULL,
    timezone       text    NOT NULL,
    active         boolean NOT NULL,
    deactivated_at timestamptz(3)
);

CREATE TABLE people_groups (
    person text NOT NULL,
    name   text NOT NULL,
    PRIMARY KEY (person, name)
);
CREATE INDEX people_groups_name ON people_groups (name);

CREATE TABLE people_roles (
    person text NOT NULL,
    name   text NOT NULL,
    PRIMARY KEY (person, name)
);
CREATE INDEX people_roles_name ON people_roles (name);

CREATE TABLE api_keys (
    id           bigint         GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name         text           NOT NULL,
    hash         bytea          NOT NULL UNIQUE,
    roles        text           NOT NULL,
    created_at   timestamptz(3) NOT NULL,
    expires_at   timestamptz(3),
    revoked_at   timestamptz(3),
    last_used_at timestamptz(3)
);
CREATE UNIQUE INDEX api_keys_live ON api_keys (name) WHERE revoked_at IS NULL;

CREATE TABLE sessions (
    hash       bytea          NOT NULL PRIMARY KEY,
    person     text           NOT NULL,
    created_at timestamptz(3) NOT NULL,
    seen_at    timestamptz(3) NOT NULL,
    expires_at timestamptz(3) NOT NULL,
    assurance  text           NOT NULL,
    csrf       text           NOT NULL
);
CREATE INDEX sessions_person ON sessions (person);
CREATE INDEX sessions_expiring ON sessions (expires_at);

CREATE TABLE login_links (
    hash       bytea          NOT NULL PRIMARY KEY,
    person     text           NOT NULL,
    next       text           NOT NULL,
    expires_at timestamptz(3) NOT NULL,
    used_at    timestamptz(3)
);
CREATE INDEX login_links_expiring ON login_links (expires_at);

CREATE TABLE audit (
    id          bigint         GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at          timestamptz(3) NOT NULL,
    actor       text           NOT NULL,
    action      text           NOT NULL,
    instance_id text           NOT NULL,
    token       bytea,
    detail      text           NOT NULL
);
CREATE INDEX audit_instance ON audit (instance_id, id) WHERE instance_id <> '';

-- Refusals per token and hour: those beyond the cap are only counted.
CREATE TABLE audit_refusals (
    token bytea          NOT NULL,
    hour  timestamptz(3) NOT NULL,
    n     integer        NOT NULL,
    PRIMARY KEY (token, hour)
);

CREATE TABLE key_ring (
    kid    text  NOT NULL PRIMARY KEY,
    status text  NOT NULL,
    sha256 bytea NOT NULL
);

-- One row. directory_version rises with every change of people, groups and roles.
CREATE TABLE meta (
    id                integer NOT NULL PRIMARY KEY CHECK (id = 1),
    incarnation       bigint  NOT NULL,
    directory_version bigint  NOT NULL
);
INSERT INTO meta (id, incarnation, directory_version) VALUES (1, 1, 1);

-- A multi-row statement that did not find all its rows ends the whole batch.
-- +goose StatementBegin
CREATE FUNCTION vobo_expect(n bigint, wanted bigint, what text) RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
    IF n IS DISTINCT FROM wanted THEN
        RAISE EXCEPTION 'found % of % %', n, wanted, what USING ERRCODE = 'VB001';
    END IF;
    RETURN n;
END $$;
-- +goose StatementEnd
