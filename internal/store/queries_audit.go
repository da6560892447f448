package store

import (
	"context"
	"time"

	"gorm.io/gorm"
)

// AuditLine is about what is not one instance's history: refusals of authentic callers,
// log-ins, keys, publishing.
type AuditLine struct {
	At       time.Time // set by Audit
	Actor    string
	Action   string // kebab case: "decision-refused", "key-created", …
	Instance string
	Token    []byte // SHA-256 of the refused token's jti, for the cap of 20 per token and hour; nil: not capped
	Detail   map[string]any
}

// refusalsWritten is how many lines one token gets in one hour (of UTC); more are counted only.
const refusalsWritten = 20

var auditOrder = listOrder{name: "audit", columns: []sortColumn{{name: "id", kind: bigValue}}}

// Audit writes a line; refusals beyond 20 per token and hour are only counted.
func (s *Store) Audit(ctx context.Context, l AuditLine) error {
	if l.Detail == nil {
		l.Detail = map[string]any{}
	}
	detail, err := encodeValue(l.Detail)
	if err != nil {
		return err
	}
	now, err := s.Now(ctx)
	if err != nil {
		return err
	}
	return s.inTransaction(ctx, func(tx *gorm.DB) error {
		if len(l.Token) > 0 {
			n, _, err := selectOne(tx, readCount, `INSERT INTO audit_refusals (token, hour, n) VALUES (?, ?, 1)
				ON CONFLICT (token, hour) DO UPDATE SET n = audit_refusals.n + 1 RETURNING n`,
				l.Token, stamp(now.Truncate(time.Hour)))
			if err != nil || n > refusalsWritten {
				return err
			}
		}
		_, err := execute(tx, `INSERT INTO audit (at, actor, action, instance_id, token, detail) VALUES (?, ?, ?, ?, ?, ?)`,
			stamp(now), l.Actor, l.Action, l.Instance, l.Token, detail)
		return err
	})
}

// auditRow is a line and its place in the list.
type auditRow struct {
	id int64
	AuditLine
}

func readAudit(row rowScanner, l *auditRow) error {
	return row.Scan(&l.id, timeColumn{&l.At}, &l.Actor, &l.Action, &l.Instance, &l.Token, jsonColumn{&l.Detail})
}

// AuditLines lists, oldest first; instance "" lists all.
func (s *Store) AuditLines(ctx context.Context, instance string, p Paging) (Page[AuditLine], error) {
	var query statement
	if instance != "" {
		query.and("instance_id = ?", instance)
	}
	tail, limit, err := query.paged(auditOrder, p)
	if err != nil {
		return Page[AuditLine]{}, err
	}
	rows, err := selectRows(s.reader(ctx), readAudit,
		"SELECT id, at, actor, action, instance_id, token, detail FROM audit"+tail, query.args...)
	if err != nil {
		return Page[AuditLine]{}, s.dbError(err)
	}
	return pageOf(auditOrder, limit, rows,
		func(row auditRow) []any { return []any{row.id} },
		func(row auditRow) AuditLine { return row.AuditLine })
}
