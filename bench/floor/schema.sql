-- The floor: the rows of one approval (instance, history, deadline, link, effect) written
-- straight in PostgreSQL, one call per transaction, without a service.
DROP SCHEMA IF EXISTS bench_floor CASCADE;
CREATE SCHEMA bench_floor;
CREATE TABLE bench_floor.instances (id uuid PRIMARY KEY, definition text NOT NULL, state text NOT NULL, revision int NOT NULL,
  data jsonb NOT NULL, started_at timestamptz NOT NULL DEFAULT now(), changed_at timestamptz NOT NULL DEFAULT now());
CREATE TABLE bench_floor.history (instance_id uuid NOT NULL, seq int NOT NULL, from_state text, to_state text NOT NULL,
  event text NOT NULL, actor text NOT NULL, input jsonb, at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (instance_id, seq));
CREATE TABLE bench_floor.deadlines (instance_id uuid NOT NULL, name text NOT NULL, due_at timestamptz NOT NULL, PRIMARY KEY (instance_id, name));
CREATE INDEX ON bench_floor.deadlines (due_at);
CREATE TABLE bench_floor.links (hash bytea PRIMARY KEY, instance_id uuid NOT NULL, used_at timestamptz);
CREATE TABLE bench_floor.outbox (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, instance_id uuid NOT NULL, name text NOT NULL,
  request jsonb NOT NULL, queued_at timestamptz NOT NULL DEFAULT now());

CREATE FUNCTION bench_floor.start(i uuid, d jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO bench_floor.instances (id, definition, state, revision, data) VALUES (i, 'purchase', 'waiting', 1, d);
  INSERT INTO bench_floor.history (instance_id, seq, to_state, event, actor) VALUES (i, 1, 'waiting', 'start', 'api');
  INSERT INTO bench_floor.deadlines VALUES (i, 'expire', now() + interval '3 days');
  INSERT INTO bench_floor.links VALUES (sha256(i::text::bytea), i);
END $$;

CREATE FUNCTION bench_floor.decide(h bytea, d jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE i uuid; r int;
BEGIN
  UPDATE bench_floor.links SET used_at = now() WHERE hash = h AND used_at IS NULL RETURNING instance_id INTO STRICT i;
  UPDATE bench_floor.instances SET state = 'approved', revision = revision + 1, changed_at = now()
    WHERE id = i AND state = 'waiting' RETURNING revision INTO STRICT r;
  INSERT INTO bench_floor.history (instance_id, seq, from_state, to_state, event, actor, input) VALUES (i, r, 'waiting', 'approved', 'approve', 'ana', d);
  INSERT INTO bench_floor.outbox (instance_id, name, request) VALUES (i, 'tell', d);
  DELETE FROM bench_floor.deadlines WHERE instance_id = i AND name = 'expire';
END $$;

-- The set-based sweep: one statement moves up to n due instances.
CREATE FUNCTION bench_floor.sweep(n int) RETURNS int LANGUAGE sql AS $$
  WITH due AS (SELECT instance_id, name FROM bench_floor.deadlines WHERE due_at <= now() ORDER BY due_at LIMIT n FOR UPDATE SKIP LOCKED),
  gone AS (DELETE FROM bench_floor.deadlines x USING due WHERE x.instance_id = due.instance_id AND x.name = due.name RETURNING x.instance_id),
  moved AS (UPDATE bench_floor.instances i SET state = 'expired', revision = revision + 1, changed_at = now() FROM gone
    WHERE i.id = gone.instance_id AND i.state = 'waiting' RETURNING i.id, i.revision),
  told AS (INSERT INTO bench_floor.history (instance_id, seq, from_state, to_state, event, actor)
    SELECT id, revision, 'waiting', 'expired', 'expire', 'timer' FROM moved),
  queued AS (INSERT INTO bench_floor.outbox (instance_id, name, request) SELECT id, 'tell', '{"by":"deadline"}'::jsonb FROM moved)
  SELECT count(*)::int FROM moved
$$;
