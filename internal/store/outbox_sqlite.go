package store

import (
	"context"
	"strings"
	"time"
)

var (
	liteDueEffects = timed(dueEffects, "?1", "", "?2")
	liteBusyHosts  = timed(busyHosts, "?1", "", "")
	liteTakeEffect = timed(`UPDATE effects AS t SET `+takeSet+` WHERE t.instance_id = ?1 AND t.seq = ?2 AND t.n = ?3 AND `+takeWhere, "?4", "?5", "")
	liteClaimed    = `SELECT ` + claimedColumns + ` FROM effects e JOIN instances i ON i.id = e.instance_id
		WHERE e.instance_id = ?1 AND e.seq = ?2 AND e.n = ?3`
	liteLeftOver = `UPDATE attempts SET outcome = ?4, finished_at = ?5 WHERE instance_id = ?1 AND seq = ?2 AND n = ?3 AND finished_at IS NULL`
	liteLinks    = `SELECT ` + infoColumns + ` FROM assignees a WHERE a.instance_id = ?1 AND a.seq = ?2 AND a.n = ?3`
	liteLost     = timed(lostEffects, "?1", "", "?2")
)

// timed fills in a dialect's parameters.
func timed(text, now, lease, limit string) string {
	return strings.NewReplacer("{now}", now, "{lease}", lease, "{limit}", limit).Replace(text)
}

func (s *Store) claimSQLite(ctx context.Context, limit int, lease time.Duration) (claimed []ClaimedEffect, err error) {
	due, err := s.lookSQLite(ctx, limit)
	if err != nil || len(due) == 0 {
		return nil, err
	}
	err = s.inWriter(ctx, func(t *liteTx) (bool, error) {
		now := s.processNow()
		attempts := newRowset(insertAttempts, false)
		links := map[linkKey]*AssigneeInfo{}
		for _, d := range due {
			n, err := t.exec(liteTakeEffect, d.instance.text, int64(d.id.Seq), int64(d.id.N), now.UnixMilli(), now.Add(lease).UnixMilli())
			if err != nil {
				return false, err
			}
			if n == 0 {
				continue
			}
			if err := t.each(readClaimed(&claimed), liteClaimed, d.instance.text, int64(d.id.Seq), int64(d.id.N)); err != nil {
				return false, err
			}
			e := &claimed[len(claimed)-1]
			if _, err := t.exec(liteLeftOver, d.instance.text, int64(d.id.Seq), int64(d.id.N), attemptUnknown, now.UnixMilli()); err != nil {
				return false, err
			}
			if e.Started {
				attempts.row().id(d.instance).num(e.Seq).num(e.N).long(e.Fence).num(e.Attempt).when(now).maybe(nil).text(attemptStarted).text("").num(0)
			}
			link := e.QueuedEffect.Link
			if err := t.each(readLink(links), liteLinks, d.instance.text, int64(link.Seq), int64(link.N)); err != nil {
				return false, err
			}
		}
		attach(claimed, links)
		return len(claimed) > 0, t.run(attempts)
	})
	return claimed, err
}

// lookSQLite looks for due effects beside the writer, which an idle outbox never troubles.
func (s *Store) lookSQLite(ctx context.Context, limit int) (chosen []dueRow, err error) {
	now := s.processNow().UnixMilli()
	var due []dueRow
	busy := map[string]int{}
	err = s.inReader(ctx, func(t *liteTx) error {
		if err := t.each(readBusy(busy), liteBusyHosts, now); err != nil {
			return err
		}
		return t.each(readDue(&due), liteDueEffects, now, int64(limit*overscan))
	})
	return s.choose(due, busy, limit), err
}
