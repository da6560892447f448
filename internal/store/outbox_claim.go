package store

import (
	"cmp"
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"vobo/internal/fsm"
)

// MailHost stands for the mail server among the hosts of effects.
const MailHost = "mail:"

// Hosts says how many effects of each host may be leased at once, by all processes.
type Hosts struct {
	Usual int            // of a host that Of does not name; 0: Config.PerHost, for mails no bound
	Of    map[string]int // by host; MailHost: the mail server
	Avoid []string       // nothing of these hosts; of more than 500 the first
}

const (
	// overscan is how many due rows are looked at for each that is wanted, so that the rows
	// of one busy host do not hide those of others; where they do, the hosts that have no
	// room left are left out and claimScan rows are looked at, claimLooks times at most.
	overscan   = 4
	claimScan  = 1000
	claimLooks = 8

	mostAvoided = 500 // hosts that a claim is asked to leave out
)

const (
	// A due row is waiting or between attempts, or its lease ran out; the last comes again
	// only where a second copy does no harm or nothing was sent.
	waitingEffects   = `e.lease_until IS NULL AND e.next_at IS NOT NULL AND e.next_at <= {now}`
	expiredEffects   = `e.lease_until <= {now} AND e.status = 'running' AND (e.idempotent OR NOT e.started)`
	dueEffectColumns = `e.instance_id, e.seq, e.n, e.host, e.priority, e.next_at`

	busyHosts = `SELECT e.host, count(*) FROM effects e WHERE e.lease_until > {now} AND e.host <> '' GROUP BY e.host`

	// takeEffect leases one row if it is still due. An idempotent effect's attempt starts with the lease.
	takeSet = `status = 'running', fence = t.fence + 1, attempts = t.attempts + CASE WHEN t.idempotent THEN 1 ELSE 0 END,
		started = t.idempotent, lease_until = {lease}, next_at = {lease}`
	takeWhere = `t.next_at <= {now} AND (t.status <> 'running' OR t.idempotent OR NOT t.started)`
)

// dueRow names a due effect.
type dueRow struct {
	instance ident
	id       fsm.EffectID
	host     string
}

// claim is one look for due effects in the making.
type claim struct {
	s      *Store
	hosts  Hosts
	limit  int
	now    time.Time
	busy   map[string]int // leased, by host
	due    []dueRow       // of the last look
	scan   int            // how many rows the last look was allowed
	seen   map[linkKey]bool
	chosen []dueRow
}

// ClaimEffects leases up to limit due effects (priority, then age; SKIP LOCKED), each host
// within its share; hosts, of which at most one is given, says how large that is.
// Idempotent ones are committed as started in the same statement. Rows whose lease ran
// out are taken again if idempotent or not started.
func (s *Store) ClaimEffects(ctx context.Context, limit int, lease time.Duration, hosts ...Hosts) (claimed []ClaimedEffect, err error) {
	if limit <= 0 {
		return nil, nil
	}
	if err := s.failpoint(PointClaim); err != nil {
		return nil, s.dbError(err)
	}
	c := &claim{s: s, limit: limit, busy: map[string]int{}, seen: map[linkKey]bool{}}
	if len(hosts) > 0 {
		c.hosts = hosts[0]
	}
	if s.impl.dialect == dialectSQLite {
		claimed, err = c.sqlite(ctx, lease)
	} else {
		claimed, err = c.postgres(ctx, lease)
	}
	if err == nil && len(claimed) > 0 {
		err = s.failpoint(PointClaimCommitted)
	}
	if err != nil {
		return nil, s.dbError(err)
	}
	return claimed, nil
}

// share is how many effects of a host may be leased at once.
func (c *claim) share(host string) int {
	if n, named := c.hosts.Of[host]; named {
		return n
	}
	if host == MailHost && c.hosts.Usual == 0 {
		return c.busy[host] + c.limit
	}
	return cmp.Or(c.hosts.Usual, c.s.impl.cfg.PerHost)
}

// look chooses by as many looks as it takes to fill the limit or to see all that is due.
func (c *claim) look(read func(avoid []string) error) error {
	avoid := c.hosts.Avoid[:min(len(c.hosts.Avoid), mostAvoided)]
	c.scan = c.limit * overscan
	for range claimLooks {
		c.due = c.due[:0]
		if err := read(avoid); err != nil {
			return err
		}
		full := c.choose()
		if len(c.chosen) == c.limit || len(c.due) < c.scan || len(full) == 0 {
			return nil
		}
		avoid = append(append([]string{}, avoid...), full...)
		c.scan = max(c.limit*overscan, claimScan)
	}
	return nil
}

// choose keeps each host within its share and the whole within limit; it returns the
// hosts whose rows were looked at in vain.
func (c *claim) choose() (full []string) {
	met := map[string]bool{}
	for _, d := range c.due {
		key := linkKey{d.instance.raw, d.id}
		if len(c.chosen) == c.limit || c.seen[key] {
			continue
		}
		if d.host != "" {
			if c.busy[d.host] >= c.share(d.host) {
				if !met[d.host] {
					met[d.host] = true
					full = append(full, d.host)
				}
				continue
			}
			c.busy[d.host]++
		}
		c.seen[key] = true
		c.chosen = append(c.chosen, d)
	}
	return full
}

func (c *claim) readDue(cells cells) error {
	c.due = append(c.due, dueRow{instance: cells.id(), id: fsm.EffectID{Seq: cells.num(), N: cells.num()}, host: cells.text()})
	return cells.failure()
}

func (c *claim) readBusy(cells cells) error {
	c.busy[cells.text()] = int(cells.long())
	return cells.failure()
}

const (
	pgStatementNow = `(statement_timestamp() + $1::int8 * interval '1 millisecond')`
	// Each priority is a range of its own, so that what is due later is never walked over. The
	// hosts to leave out are a subquery, which PostgreSQL hashes once; with ALL it would
	// compare each row with each of them.
	pgElsewhere = `e.host NOT IN (SELECT unnest($2::text[]))`
	pgDueNow    = `SELECT d.* FROM (
			SELECT f.* FROM generate_series(0, 9) p CROSS JOIN LATERAL (SELECT ` + dueEffectColumns + ` FROM effects e
				WHERE e.priority = p AND ` + waitingEffects + ` AND ` + pgElsewhere + ` ORDER BY e.next_at LIMIT $3::int8) f
			UNION ALL (SELECT ` + dueEffectColumns + ` FROM effects e
				WHERE ` + expiredEffects + ` AND ` + pgElsewhere + ` ORDER BY e.lease_until LIMIT $3::int8)
		) d ORDER BY d.priority, d.next_at LIMIT $3::int8`
)

var (
	pgDueEffects = timed(pgDueNow, pgStatementNow, "", "")
	pgBusyHosts  = timed(busyHosts, pgStatementNow, "", "")
	// The inner statement takes the locks that are free; who is locked is being taken or
	// decided on elsewhere.
	pgTakeEffects = timed(`WITH mine AS (
			SELECT t.instance_id, t.seq, t.n FROM unnest($1::uuid[], $2::int4[], $3::int4[]) u(instance_id, seq, n)
			JOIN effects t ON t.instance_id = u.instance_id AND t.seq = u.seq AND t.n = u.n
			WHERE `+takeWhere+` FOR UPDATE OF t SKIP LOCKED),
		taken AS (
			UPDATE effects t SET `+takeSet+` FROM mine
			WHERE t.instance_id = mine.instance_id AND t.seq = mine.seq AND t.n = mine.n RETURNING t.*),
		begun AS (
			INSERT INTO attempts (instance_id, seq, n, fence, attempt, at, outcome, detail, http)
			SELECT instance_id, seq, n, fence, attempts, $4::timestamptz, 'started', '', 0 FROM taken WHERE started),
		left_over AS (
			UPDATE attempts b SET outcome = 'unknown', finished_at = $4::timestamptz FROM taken
			WHERE taken.fence > 1 AND b.instance_id = taken.instance_id AND b.seq = taken.seq AND b.n = taken.n AND b.finished_at IS NULL)
		SELECT `+claimedColumns+` FROM taken e JOIN instances i ON i.id = e.instance_id
		ORDER BY e.priority, e.queued_at, e.instance_id, e.seq, e.n`, "$4::timestamptz", "$5::timestamptz", "")
	pgLinks = `SELECT ` + infoColumns + ` FROM unnest($1::uuid[], $2::int4[], $3::int4[]) u(instance_id, seq, n)
		JOIN assignees a ON a.instance_id = u.instance_id AND a.seq = u.seq AND a.n = u.n`
)

// pgOutboxSettings hold for what is sent with them: plans by index, kept while the tables
// grow (see pgBatchSettings).
const pgOutboxSettings = `SELECT set_config('plan_cache_mode', 'force_generic_plan', true), set_config('enable_seqscan', 'off', true),
	set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true), set_config('jit', 'off', true)`

// ask runs queries in one round trip and one transaction.
func (s *Store) ask(ctx context.Context, queries ...func(q *pgx.Batch)) error {
	q := &pgx.Batch{}
	q.Queue(pgOutboxSettings)
	for _, queue := range queries {
		queue(q)
	}
	return s.impl.pool.SendBatch(ctx, q).Close()
}

// reads is a query for ask.
func reads(read func(c cells) error, text string, args ...any) func(q *pgx.Batch) {
	return func(q *pgx.Batch) {
		q.Queue(text, args...).Query(func(rows pgx.Rows) error { return eachRow(rows, read) })
	}
}

func (c *claim) postgres(ctx context.Context, lease time.Duration) (claimed []ClaimedEffect, err error) {
	shift := c.s.impl.cfg.Shift().Milliseconds()
	known := false
	err = c.look(func(avoid []string) error {
		hosts := &packed{element: oidText}
		for _, host := range avoid {
			hosts.text(host)
		}
		due := reads(c.readDue, pgDueEffects, shift, hosts, c.scan)
		if known {
			return c.s.ask(ctx, due)
		}
		known = true
		return c.s.ask(ctx, reads(c.readNow, pgClock), reads(c.readBusy, pgBusyHosts, shift), due)
	})
	if err != nil || len(c.chosen) == 0 {
		return nil, err
	}
	ids, seqs, ns := &packed{element: oidUUID}, &packed{element: oidInt}, &packed{element: oidInt}
	for _, d := range c.chosen {
		ids.bytes(d.instance.raw[:])
		seqs.num(int32(d.id.Seq))
		ns.num(int32(d.id.N))
	}
	if err := c.s.ask(ctx, reads(readClaimed(&claimed), pgTakeEffects, ids, seqs, ns, c.now, c.now.Add(lease))); err != nil {
		return nil, err
	}
	return claimed, c.s.linksPostgres(ctx, claimed)
}

func (c *claim) readNow(cells cells) error {
	c.now = c.s.shifted(cells.when())
	return cells.failure()
}

func (s *Store) linksPostgres(ctx context.Context, claimed []ClaimedEffect) error {
	ids, seqs, ns := &packed{element: oidUUID}, &packed{element: oidInt}, &packed{element: oidInt}
	for i := range claimed {
		link := claimed[i].QueuedEffect.Link
		if id, ok := parseIdent(claimed[i].Instance); ok && link != (fsm.EffectID{}) {
			ids.bytes(id.raw[:])
			seqs.num(int32(link.Seq))
			ns.num(int32(link.N))
		}
	}
	if ids.n == 0 {
		return nil
	}
	links := map[linkKey]linkRow{}
	if err := s.ask(ctx, reads(readLink(links), pgLinks, ids, seqs, ns)); err != nil {
		return err
	}
	attach(claimed, links)
	return nil
}
