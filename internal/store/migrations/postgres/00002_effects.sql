-- Children, calls that came early, the event feed, and what a person needs to see of an attempt.

-- +goose Up

-- parent is "INSTANCE SEQ N INDEX DEPTH"; an empty text: nobody's child.
ALTER TABLE instances ADD COLUMN parent text NOT NULL DEFAULT '';

-- answer is the beginning of what the other side said.
ALTER TABLE attempts ADD COLUMN answer text NOT NULL DEFAULT '';

-- given_up: dead, and a person said that it stays so.
ALTER TABLE effects ADD COLUMN given_up boolean NOT NULL DEFAULT FALSE;

-- A row per child, written in the child's own transactions and never in its parent's.
-- instance_id, seq and n are the start effect. noted: the parent's side has looked at
-- this completion; mark rises when it shall look again, so that who noted an older mark
-- notes nothing.
CREATE TABLE children (
    instance_id uuid           NOT NULL,
    seq         integer        NOT NULL,
    n           integer        NOT NULL,
    idx         integer        NOT NULL,
    child       uuid,
    status      text           NOT NULL,
    detail      text           NOT NULL,
    done_at     timestamptz(3),
    noted       boolean        NOT NULL,
    mark        integer        NOT NULL DEFAULT 0,
    PRIMARY KEY (instance_id, seq, n, idx)
);
CREATE INDEX children_status ON children (instance_id, seq, n, status, idx);
CREATE INDEX children_unnoted ON children (done_at) WHERE done_at IS NOT NULL AND NOT noted;

-- What open waits are found by. hash covers the event, the input's paths and the values.
CREATE TABLE correlations (
    instance_id uuid  NOT NULL,
    event       text  NOT NULL,
    hash        bytea NOT NULL,
    PRIMARY KEY (instance_id, event)
);
CREATE INDEX correlations_hash ON correlations (hash);

-- The input paths by which a published definition correlates an event.
CREATE TABLE correlation_shapes (
    event text NOT NULL,
    paths text NOT NULL,
    PRIMARY KEY (event, paths)
);

-- Every call of a webhook source: the replay store, and what waits for its wait.
CREATE TABLE callbacks_early (
    id           uuid           NOT NULL PRIMARY KEY,
    source       text           NOT NULL,
    webhook_id   text           NOT NULL,
    body_hash    bytea          NOT NULL,
    event        text           NOT NULL,
    input        text           NOT NULL,
    comment      text           NOT NULL,
    documents    text           NOT NULL,
    definition   text           NOT NULL,
    instance_key text           NOT NULL,
    status       text           NOT NULL,
    detail       text           NOT NULL,
    taken_by     uuid,
    taken_seq    integer        NOT NULL,
    received_at  timestamptz(3) NOT NULL,
    expires_at   timestamptz(3) NOT NULL,
    look_at      timestamptz(3),
    looks        integer        NOT NULL
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
    hash        bytea          NOT NULL,
    received_at timestamptz(3) NOT NULL,
    id          uuid           NOT NULL,
    PRIMARY KEY (hash, received_at, id)
);
CREATE INDEX callbacks_matches_id ON callbacks_matches (id);

-- Endpoints of the event feed. removed_at: since when some process has not had it in its
-- configuration, while no other has had it since.
CREATE TABLE sinks (
    name        text           NOT NULL PRIMARY KEY,
    disabled_at timestamptz(3),
    reason      text           NOT NULL,
    removed_at  timestamptz(3)
);

-- Undelivered history rows per sink: waiting, sending or dead; delivered ones are
-- deleted. The lowest seq of an instance that is not dead goes first. next_at is when a
-- row is due, or when its lease ends; NULL: it waits for a lower seq (or is dead).
CREATE TABLE feed (
    instance_id uuid           NOT NULL,
    sink        text           NOT NULL,
    seq         integer        NOT NULL,
    status      text           NOT NULL,
    attempts    integer        NOT NULL,
    fence       bigint         NOT NULL,
    detail      text           NOT NULL,
    next_at     timestamptz(3),
    queued_at   timestamptz(3) NOT NULL,
    PRIMARY KEY (instance_id, sink, seq)
);
CREATE INDEX feed_due ON feed (sink, status, next_at, queued_at);
CREATE INDEX feed_dead ON feed (queued_at) WHERE status = 'dead';

-- What operators were told, so that replicas do not tell it twice.
CREATE TABLE alerts (
    name    text           NOT NULL PRIMARY KEY,
    value   bigint         NOT NULL,
    told_at timestamptz(3) NOT NULL
);

-- A row is in one of these at most, and none of them holds what has ended well: waiting
-- and between attempts, leased, parked for its children, in trouble.
DROP INDEX effects_due;
DROP INDEX effects_leased;
DROP INDEX effects_open;
CREATE INDEX effects_due ON effects (priority, next_at) WHERE lease_until IS NULL AND next_at IS NOT NULL;
CREATE INDEX effects_leased ON effects (lease_until, host) WHERE lease_until IS NOT NULL;
CREATE INDEX effects_parked ON effects (queued_at) WHERE status = 'running' AND lease_until IS NULL;
CREATE INDEX effects_stuck ON effects (status, queued_at) WHERE status IN ('dead', 'unknown');
CREATE INDEX effects_stuck_host ON effects (host, queued_at) WHERE status IN ('dead', 'unknown');

-- Room in each page, so that a change of columns that no index has moves no index entry:
-- every attempt is changed once, when it ends.
ALTER TABLE attempts SET (fillfactor = 70);
ALTER TABLE instances SET (fillfactor = 80);
