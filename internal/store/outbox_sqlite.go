package store

import (
	"context"
	"strings"
	"time"

	"vobo/internal/fsm"
)

var (
	liteDueEffects = timed(`SELECT `+dueEffectColumns+` FROM effects e WHERE `+waitingEffects+` AND e.host NOT IN (SELECT value FROM json_each(?2))
		UNION ALL SELECT `+dueEffectColumns+` FROM effects e WHERE `+expiredEffects+` AND e.host NOT IN (SELECT value FROM json_each(?2))
		ORDER BY 5, 6 LIMIT ?3`, "?1", "", "")
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

func (c *claim) sqlite(ctx context.Context, lease time.Duration) (claimed []ClaimedEffect, err error) {
	if err := c.lookSQLite(ctx); err != nil || len(c.chosen) == 0 {
		return nil, err
	}
	err = c.s.inWriter(ctx, func(t *liteTx) (bool, error) {
		now := c.s.processNow()
		attempts := newRowset(insertAttempts, false)
		links := map[linkKey]linkRow{}
		for _, d := range c.chosen {
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
			if e.Fence > 1 {
				if _, err := t.exec(liteLeftOver, d.instance.text, int64(d.id.Seq), int64(d.id.N), attemptUnknown, now.UnixMilli()); err != nil {
					return false, err
				}
			}
			if e.Started {
				attempts.row().id(d.instance).num(e.Seq).num(e.N).long(e.Fence).num(e.Attempt).when(now).maybe(nil).text(attemptStarted).text("").num(0)
			}
			if link := e.QueuedEffect.Link; link != (fsm.EffectID{}) {
				if err := t.each(readLink(links), liteLinks, d.instance.text, int64(link.Seq), int64(link.N)); err != nil {
					return false, err
				}
			}
		}
		attach(claimed, links)
		return len(claimed) > 0, t.run(attempts)
	})
	return claimed, err
}

// lookSQLite looks for due effects beside the writer, which an idle outbox never troubles.
func (c *claim) lookSQLite(ctx context.Context) error {
	now := c.s.processNow().UnixMilli()
	return c.s.inReader(ctx, func(t *liteTx) error {
		if err := t.each(c.readBusy, liteBusyHosts, now); err != nil {
			return err
		}
		return c.look(func(avoid []string) error {
			list, err := encodeValue(append([]string{}, avoid...))
			if err != nil {
				return err
			}
			return t.each(c.readDue, liteDueEffects, now, list, int64(c.scan))
		})
	})
}
