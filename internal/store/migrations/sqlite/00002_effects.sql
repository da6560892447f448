-- Children, calls that came early, the event feed, and what a person needs to see of an attempt.

-- +goose Up

-- parent is "INSTANCE SEQ N INDEX DEPTH"; an empty text: nobody's child.
ALTER TABLE instances ADD COLUMN parent TEXT NOT NULL DEFAULT '';

-- answer is the beginning of what the other side said.
ALTER TABLE attempts ADD COLUMN answer TEXT NOT NULL DEFAULT '';

-- given_up: dead, and a person said that it stays so.
ALTER TABLE effects ADD COLUMN given_up BOOLEAN NOT NULL DEFAULT FALSE;

-- A row per child, written in the child's own transactions and never in its parent's.
-- instance_id, seq and n are the start effect. noted: the parent's side has looked at
-- this completion; mark rises when it shall look again, so that who noted an older mark
-- notes nothing.
CREATE TABLE children (
    instance_id TEXT    NOT NULL,
    seq         INTEGER NOT NULL,
    n           INTEGER NOT NULL,
    idx         INTEGER NOT NULL,
    child       TEXT,
    status      TEXT    NOT NULL,
    detail      TEXT    NOT NULL,
    done_at     INTEGER,
    noted       BOOLEAN NOT NULL,
    mark        INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (instance_id, seq, n, idx)
) WITHOUT ROWID;
CREATE INDEX children_status ON children (instance_id, seq, n, status, idx);
CREATE INDEX children_unnoted ON children (done_at) WHERE done_at IS NOT NULL AND NOT noted;

-- What open waits are found by. hash covers the event, the input's paths and the values.
CREATE TABLE correlations (
    instance_id TEXT    NOT NULL,
    event       TEXT    NOT NULL,
    hash        BLOB    NOT NULL,
    PRIMARY KEY (instance_id, event)
) WITHOUT ROWID;
CREATE INDEX correlations_hash ON correlations (hash);

-- The input paths by which a published definition correlates an event.
CREATE TABLE correlation_shapes (
    event TEXT    NOT NULL,
    paths TEXT    NOT NULL,
    PRIMARY KEY (event, paths)
) WITHOUT ROWID;

-- Every call of a webhook source: the replay store, and what waits for its wait.
CREATE TABLE callbacks_early (
    id           TEXT    NOT NULL PRIMARY KEY,
    source       TEXT    NOT NULL,
    webhook_id   TEXT    NOT NULL,
    body_hash    BLOB    NOT NULL,
    event        TEXT    NOT NULL,
    input        TEXT    NOT NULL,
    comment      TEXT    NOT NULL,
    documents    TEXT    NOT NULL,
    definition   TEXT    NOT NULL,
    instance_key TEXT    NOT NULL,
    status       TEXT    NOT NULL,
    detail       TEXT    NOT NULL,
    taken_by     TEXT,
    taken_seq    INTEGER NOT NULL,
    received_at  INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL,
    look_at      INTEGER,
    looks        INTEGER NOT NULL
);
CREATE UNIQUE INDEX callbacks_early_call ON callbacks_early (source, webhook_id);
CREATE INDEX callbacks_early_look ON callbacks_early (look_at) WHERE look_at IS NOT NULL;
CREATE INDEX callbacks_early_list ON callbacks_early (received_at, id);
CREATE INDEX callbacks_early_taken ON callbacks_early (taken_by, received_at, id) WHERE taken_by IS NOT NULL;
CREATE INDEX callbacks_early_waiting ON callbacks_early (expires_at) WHERE status = 'waiting';
-- For lists of what is found seldom among the many that were taken.
CREATE INDEX callbacks_early_untaken ON callbacks_early (status, received_at, id) WHERE status <> 'taken';
CREATE INDEX callbacks_early_source ON callbacks_early (source, received_at, id);
CREATE INDEX callbacks_early_event ON callbacks_early (event, received_at, id);

-- Under which hashes a waiting call is found, in the order in which calls came; gone once
-- it is taken or over.
CREATE TABLE callbacks_matches (
    hash        BLOB    NOT NULL,
    received_at INTEGER NOT NULL,
    id          TEXT    NOT NULL,
    PRIMARY KEY (hash, received_at, id)
) WITHOUT ROWID;
CREATE INDEX callbacks_matches_id ON callbacks_matches (id);

-- Endpoints of the event feed. removed_at: since when some process has not had it in its
-- configuration, while no other has had it since.
CREATE TABLE sinks (
    name        TEXT    NOT NULL PRIMARY KEY,
    disabled_at INTEGER,
    reason      TEXT    NOT NULL,
    removed_at  INTEGER
) WITHOUT ROWID;

-- Undelivered history rows per sink: waiting, sending or dead; delivered ones are
-- deleted. The lowest seq of an instance that is not dead goes first. next_at is when a
-- row is due, or when its lease ends; NULL: it waits for a lower seq (or is dead).
CREATE TABLE feed (
    instance_id TEXT    NOT NULL,
    sink        TEXT    NOT NULL,
    seq         INTEGER NOT NULL,
    status      TEXT    NOT NULL,
    attempts    INTEGER NOT NULL,
    fence       INTEGER NOT NULL,
    detail      TEXT    NOT NULL,
    next_at     INTEGER,
    queued_at   INTEGER NOT NULL,
    PRIMARY KEY (instance_id, sink, seq)
) WITHOUT ROWID;
CREATE INDEX feed_due ON feed (sink, status, next_at, queued_at);
CREATE INDEX feed_dead ON feed (queued_at) WHERE status = 'dead';

-- What operators were told, so that replicas do not tell it twice.
CREATE TABLE alerts (
    name    TEXT    NOT NULL PRIMARY KEY,
    value   INTEGER NOT NULL,
    told_at INTEGER NOT NULL
) WITHOUT ROWID;

-- A row is in one of these at most, and none of them holds what has ended well: waiting
-- and between attempts, leased, parked for its children, in trouble. host is in the first, so
-- that the rows of hosts to leave out are passed over without being read.
DROP INDEX effects_due;
DROP INDEX effects_leased;
DROP INDEX effects_open;
CREATE INDEX effects_due ON effects (priority, next_at, host) WHERE lease_until IS NULL AND next_at IS NOT NULL;
CREATE INDEX effects_leased ON effects (lease_until, host) WHERE lease_until IS NOT NULL;
CREATE INDEX effects_parked ON effects (queued_at) WHERE status = 'running' AND lease_until IS NULL;
CREATE INDEX effects_stuck ON effects (status, queued_at) WHERE status IN ('dead', 'unknown');
CREATE INDEX effects_stuck_host ON effects (host, queued_at) WHERE status IN ('dead', 'unknown');
