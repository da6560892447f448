package store

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"gorm.io/gorm"
)

const (
	feedOverscan = 4 // due rows looked at for each that is wanted
	feedPasses   = 8 // looks at what is due, while all it finds are rows behind others
)

// dueFeed reads due rows of a sink with the seq that goes first of their instance: by two
// ranges of one index and the primary key.
const dueFeed = `SELECT due.instance_id, due.seq, (SELECT min(h.seq) FROM feed h
		WHERE h.instance_id = due.instance_id AND h.sink = ? AND h.seq <= due.seq AND h.status <> 'dead') FROM (
	SELECT * FROM (SELECT instance_id, seq, next_at FROM feed WHERE sink = ? AND status = 'waiting' AND next_at <= ? ORDER BY next_at LIMIT ?) w
	UNION ALL
	SELECT * FROM (SELECT instance_id, seq, next_at FROM feed WHERE sink = ? AND status = 'sending' AND next_at <= ? ORDER BY next_at LIMIT ?) s
	) due ORDER BY due.next_at, due.instance_id, due.seq LIMIT ?`

// dueFeedRow is a due row; it goes first itself where head is its seq.
type dueFeedRow struct {
	instance  string
	seq, head int
}

// feedClaim is one look at what is due for one sink, in one transaction.
type feedClaim struct {
	s     *Store
	tx    *gorm.DB
	sink  string
	now   time.Time
	until time.Time
}

// ClaimFeed leases due rows of this process's enabled sinks: at most limit in all and perSink under way of one
// sink, at most one per instance and sink and that the lowest seq of those that are not
// delivered. A row that is found behind another one is not looked at again until that
// one is delivered or dead, so that a long queue of one instance costs others nothing.
func (s *Store) ClaimFeed(ctx context.Context, limit, perSink int, lease time.Duration) ([]FeedRow, error) {
	if len(s.impl.cfg.Sinks) == 0 || limit <= 0 {
		return nil, nil
	}
	sinks, err := selectRows(s.reader(ctx), readText, "SELECT name FROM sinks WHERE name IN ? AND disabled_at IS NULL ORDER BY name", s.impl.cfg.Sinks)
	if err != nil || len(sinks) == 0 {
		return nil, s.dbError(err)
	}
	now, err := s.Now(ctx)
	if err != nil {
		return nil, err
	}
	var claimed []FeedRow
	for i, sink := range sinks {
		share := (limit - len(claimed) + len(sinks) - i - 1) / (len(sinks) - i)
		rows, err := s.claimSink(ctx, sink, min(share, perSink), perSink, now, lease)
		if err != nil {
			return nil, err
		}
		claimed = append(claimed, rows...)
	}
	return claimed, nil
}

// claimSink leases rows of one sink. An idle sink costs a look beside the writer.
func (s *Store) claimSink(ctx context.Context, sink string, limit, perSink int, now time.Time, lease time.Duration) ([]FeedRow, error) {
	var rows []FeedRow
	for range feedPasses {
		due, err := readDueFeed(s.reader(ctx), sink, now, 1)
		if err != nil || len(due) == 0 {
			return rows, s.dbError(err)
		}
		var taken []FeedRow
		parked := 0
		err = s.inTransaction(ctx, func(tx *gorm.DB) (err error) {
			c := &feedClaim{s, tx, sink, now, now.Add(lease)}
			free, err := c.free(perSink)
			if err != nil {
				return err
			}
			if free = min(free, limit-len(rows)); free <= 0 {
				return nil
			}
			due, err := readDueFeed(tx, sink, now, free*feedOverscan)
			if err != nil {
				return err
			}
			heads, behind := sortFeed(due, free)
			if parked, err = c.park(behind); err != nil {
				return err
			}
			taken, err = c.take(heads)
			if err != nil {
				return err
			}
			return s.failpoint(PointFeedClaim)
		})
		if err != nil {
			return nil, err
		}
		rows = append(rows, taken...)
		if parked == 0 || len(rows) >= limit {
			return rows, nil
		}
	}
	return rows, nil
}

func readDueFeed(db *gorm.DB, sink string, now time.Time, limit int) ([]dueFeedRow, error) {
	return selectRows(db, func(row rowScanner, d *dueFeedRow) error { return row.Scan(&d.instance, &d.seq, &d.head) },
		dueFeed, sink, sink, stamp(now), limit, sink, stamp(now), limit, limit)
}

// sortFeed parts what goes first, at most free, from the instances whose due rows are behind another.
func sortFeed(due []dueFeedRow, free int) (heads, behind []string) {
	for _, d := range due {
		switch {
		case d.head != d.seq:
			behind = append(behind, d.instance)
		case len(heads) < free:
			heads = append(heads, d.instance)
		}
	}
	return heads, behind
}

// free is how many more rows of the sink may be under way.
func (c *feedClaim) free(perSink int) (int, error) {
	busy, _, err := selectOne(c.tx, readCount, "SELECT count(*) FROM feed WHERE sink = ? AND status = 'sending' AND next_at > ?", c.sink, stamp(c.now))
	return perSink - busy, err
}

const (
	firstOfFeed = "NOT EXISTS (SELECT 1 FROM feed b WHERE b.instance_id = h.instance_id AND b.sink = h.sink AND b.seq < h.seq AND b.status <> 'dead')"

	takeFeed = `SELECT h.instance_id, h.sink, h.seq FROM feed h WHERE h.instance_id IN ? AND h.sink = ? AND h.status <> 'dead' AND h.next_at <= ? AND ` + firstOfFeed

	// The row that goes first is locked too: who delivers it finds what was parked behind it.
	behindFeed = `SELECT r.instance_id, r.sink, r.seq FROM feed h
		JOIN feed r ON r.instance_id = h.instance_id AND r.sink = h.sink AND r.seq > h.seq AND r.status <> 'dead' AND r.next_at <= ?
		WHERE h.instance_id IN ? AND h.sink = ? AND h.status <> 'dead' AND ` + firstOfFeed + ` LIMIT ?`

	claimedFeed = `SELECT ` + transitionColumns + `, f.instance_id, i.definition, i.version, i.instance_key FROM feed f
		JOIN transitions h ON h.instance_id = f.instance_id AND h.seq = f.seq JOIN instances i ON i.id = f.instance_id
		WHERE f.instance_id IN ? AND f.sink = ? AND f.status = 'sending'`

	parkedAtOnce = 1000
)

// park takes due rows out of sight until the one before them is delivered or dead.
func (c *feedClaim) park(instances []string) (parked int, err error) {
	if len(instances) == 0 {
		return 0, nil
	}
	n, err := execute(c.tx, `UPDATE feed SET status = 'waiting', next_at = NULL, fence = fence + 1 WHERE (instance_id, sink, seq) IN (`+
		locked(c.tx, behindFeed, "FOR UPDATE OF h, r SKIP LOCKED")+`)`, stamp(c.now), instances, c.sink, parkedAtOnce)
	return int(n), err
}

// take leases the rows that go first of these instances, with their history rows.
func (c *feedClaim) take(instances []string) ([]FeedRow, error) {
	if len(instances) == 0 {
		return nil, nil
	}
	taken, err := selectRows(c.tx, func(row rowScanner, r *FeedRow) error {
		r.Sink, r.LeaseUntil = c.sink, c.until
		return row.Scan(&r.Instance, &r.Transition.Seq, &r.Attempt, &r.Fence, timeColumn{&r.QueuedAt})
	}, `UPDATE feed SET status = 'sending', attempts = attempts + 1, fence = fence + 1, next_at = ? WHERE (instance_id, sink, seq) IN (`+
		locked(c.tx, takeFeed, "FOR UPDATE SKIP LOCKED")+`) RETURNING instance_id, seq, attempts, fence, queued_at`,
		stamp(c.until), instances, c.sink, stamp(c.now))
	if err != nil || len(taken) == 0 {
		return nil, err
	}
	at := make(map[string]*FeedRow, len(taken))
	ids := make([]string, len(taken))
	for i := range taken {
		ids[i], at[taken[i].Instance] = taken[i].Instance, &taken[i]
	}
	_, err = selectRows(c.tx, func(row rowScanner, r *FeedRow) error {
		err := readTransition(widerRow{row, []any{&r.Instance, &r.Definition, &r.Version, &r.Key}}, &r.Transition)
		if ours := at[r.Instance]; err == nil && ours != nil && ours.Transition.Seq == r.Transition.Seq {
			ours.Definition, ours.Version, ours.Key, ours.Transition = r.Definition, r.Version, r.Key, r.Transition
		}
		return err
	}, claimedFeed, ids, c.sink)
	return taken, err
}

// widerRow reads more columns behind those that a reader takes.
type widerRow struct {
	rowScanner
	more []any
}

// Scan implements rowScanner.
func (w widerRow) Scan(into ...any) error { return w.rowScanner.Scan(append(into, w.more...)...) }

var (
	deliverFeed = changeRows("feed", "instance_id uuid, sink text, seq int4, fence int8", "",
		ofFeed+" AND t.fence = u.fence AND t.status = 'sending'", false)
	retryFeed = changeRows("feed", "instance_id uuid, sink text, seq int4, fence int8, status text, next_at timestamptz, detail text",
		"status = u.status, next_at = u.next_at, detail = u.detail", ofFeed+" AND t.fence = u.fence AND t.status = 'sending'", false)
	promoteFeed = changeRows("feed", "instance_id uuid, sink text, at timestamptz", "next_at = u.at",
		`t.instance_id = u.instance_id AND t.sink = u.sink AND t.status = 'waiting' AND t.next_at IS NULL AND t.seq = (
		SELECT min(h.seq) FROM feed h WHERE h.instance_id = u.instance_id AND h.sink = u.sink AND h.status <> 'dead')`, false)
	feedOrder = []*multirow{deliverFeed, retryFeed, promoteFeed}
)

const ofFeed = "t.instance_id = u.instance_id AND t.sink = u.sink AND t.seq = u.seq"

// FeedDelivered deletes delivered rows, fenced, and makes their successors due.
func (s *Store) FeedDelivered(ctx context.Context, rows []FeedRow) error {
	return s.finishFeed(ctx, func(w *writes, now time.Time) {
		for i := range rows {
			r := &rows[i]
			if id, ok := parseIdent(r.Instance); ok {
				w.of(deliverFeed).id(id).text(r.Sink).num(r.Transition.Seq).long(r.Fence)
				w.of(promoteFeed).id(id).text(r.Sink).when(now)
			}
		}
	})
}

// FeedRetry ends a failed attempt, fenced: due again after wait; dead (it no longer holds up its
// successors) where wait is negative.
func (s *Store) FeedRetry(ctx context.Context, r *FeedRow, wait time.Duration, detail string) error {
	return s.finishFeed(ctx, func(w *writes, now time.Time) {
		id, ok := parseIdent(r.Instance)
		if !ok {
			return
		}
		set := w.of(retryFeed).id(id).text(r.Sink).num(r.Transition.Seq).long(r.Fence)
		if wait >= 0 {
			set.text("waiting").when(now.Add(wait)).text(storable(detail))
			return
		}
		set.text("dead").maybe(nil).text(storable(detail))
		w.of(promoteFeed).id(id).text(r.Sink).when(now)
	})
}

func (s *Store) finishFeed(ctx context.Context, write func(w *writes, now time.Time)) error {
	now, err := s.Now(ctx)
	if err != nil {
		return err
	}
	w := newWrites(s.impl.dialect == dialectPostgres)
	write(w, now)
	sets := w.ordered(feedOrder)
	if len(sets) == 0 {
		return nil
	}
	err = s.runSets(ctx, sets, PointFeedFinish)
	if err == nil {
		err = s.failpoint(PointFeedFinishCommit)
	}
	return s.dbError(err)
}

// runSets runs rowsets in a transaction of their own.
func (s *Store) runSets(ctx context.Context, sets []*rowset, point string) error {
	if s.impl.dialect == dialectSQLite {
		return s.inWriter(ctx, func(t *liteTx) (bool, error) {
			for _, set := range sets {
				if err := t.run(set); err != nil {
					return false, err
				}
			}
			return true, s.failpoint(point)
		})
	}
	return s.inPostgres(ctx, func(tx pgx.Tx) (bool, error) {
		q := &pgx.Batch{}
		for _, set := range sets {
			q.Queue(set.of.postgres, set.args()...)
		}
		return true, errors.Join(tx.SendBatch(ctx, q).Close(), s.failpoint(point))
	})
}
