package store

import (
	"context"
	"time"

	"gorm.io/gorm"

	"vobo/internal/fault"
	"vobo/internal/fsm"
)

// Session is a web session; ids are stored hashed.
type Session struct {
	Hash      []byte // SHA-256 of the session's id
	Person    string
	CreatedAt time.Time // set by CreateSession, as SeenAt
	SeenAt    time.Time // to the minute
	ExpiresAt time.Time // absolute
	Assurance fsm.Assurance
	CSRF      string
}

// alive is the condition that a row's person is known and active.
const alive = `EXISTS (SELECT 1 FROM people WHERE people.id = person AND people.active AND people.deactivated_at IS NULL)`

const sessionColumns = "hash, person, created_at, seen_at, expires_at, assurance, csrf"

func readSession(row rowScanner, v *Session) error {
	return row.Scan(&v.Hash, &v.Person, timeColumn{&v.CreatedAt}, timeColumn{&v.SeenAt},
		timeColumn{&v.ExpiresAt}, &v.Assurance, &v.CSRF)
}

// CreateSession stores a session. NotFound for a person who is unknown or not active.
func (s *Store) CreateSession(ctx context.Context, v Session) error {
	if err := checkHash(v.Hash); err != nil {
		return err
	}
	now, err := s.Now(ctx)
	if err != nil {
		return err
	}
	return s.inTransaction(ctx, func(tx *gorm.DB) error {
		if err := lockActive(tx, v.Person); err != nil {
			return err
		}
		_, err := execute(tx, `INSERT INTO sessions (hash, person, created_at, seen_at, expires_at, assurance, csrf)
			VALUES (?, ?, ?, ?, ?, ?, ?)`, v.Hash, v.Person, stamp(now), stamp(now), stamp(v.ExpiresAt), string(v.Assurance), v.CSRF)
		return err
	})
}

// SessionByHash returns a live session, or NotFound: not expired, seen within idle (0: no
// idle limit), of a person who is still active.
func (s *Store) SessionByHash(ctx context.Context, hash []byte, idle time.Duration) (Session, error) {
	if err := checkHash(hash); err != nil {
		return Session{}, err
	}
	now, err := s.Now(ctx)
	if err != nil {
		return Session{}, err
	}
	var query statement
	query.and("hash = ? AND expires_at > ? AND "+alive, hash, stamp(now))
	if idle > 0 {
		query.and("seen_at > ?", stamp(now.Add(-idle)))
	}
	session, found, err := selectOne(s.reader(ctx), readSession,
		"SELECT "+sessionColumns+" FROM sessions WHERE "+query.conditions(), query.args...)
	switch {
	case err != nil:
		return Session{}, s.dbError(err)
	case !found:
		return Session{}, fault.New(fault.NotFound, "The session is over. Log in again.")
	}
	return session, nil
}

// TouchSession notes the last use, at most once a minute.
func (s *Store) TouchSession(ctx context.Context, hash []byte) error {
	now, err := s.Now(ctx)
	if err != nil {
		return err
	}
	_, err = execute(s.writer(ctx), `UPDATE sessions SET seen_at = ? WHERE hash = ? AND seen_at <= ?`,
		stamp(now), hash, stamp(now.Add(-useNoted)))
	return s.dbError(err)
}

// DeleteSession logs out. A session that is not there is out already.
func (s *Store) DeleteSession(ctx context.Context, hash []byte) error {
	_, err := execute(s.writer(ctx), `DELETE FROM sessions WHERE hash = ?`, hash)
	return s.dbError(err)
}

// LoginLink is a one-time login link, stored hashed.
type LoginLink struct {
	Hash      []byte // SHA-256 of the link's secret
	Person    string
	Next      string // the path to go on to
	ExpiresAt time.Time
}

const loginLinkColumns = "hash, person, next, expires_at"

func readLoginLink(row rowScanner, l *LoginLink) error {
	return row.Scan(&l.Hash, &l.Person, &l.Next, timeColumn{&l.ExpiresAt})
}

// usable is the condition that a login link would work at the time of its argument.
const usable = "hash = ? AND used_at IS NULL AND expires_at > ? AND " + alive

// CreateLoginLink stores one. NotFound for a person who is unknown or not active.
func (s *Store) CreateLoginLink(ctx context.Context, l LoginLink) error {
	if err := checkHash(l.Hash); err != nil {
		return err
	}
	return s.inTransaction(ctx, func(tx *gorm.DB) error {
		if err := lockActive(tx, l.Person); err != nil {
			return err
		}
		_, err := execute(tx, `INSERT INTO login_links (hash, person, next, expires_at) VALUES (?, ?, ?, ?)`,
			l.Hash, l.Person, l.Next, stamp(l.ExpiresAt))
		return err
	})
}

// UseLoginLink takes a link, once: of any number of callers one gets it. NotFound when it
// is used, expired or unknown, or its person is not active.
func (s *Store) UseLoginLink(ctx context.Context, hash []byte) (LoginLink, error) {
	return s.loginLink(ctx, hash, func(now time.Time) (LoginLink, bool, error) {
		return selectOne(s.writer(ctx), readLoginLink, "UPDATE login_links SET used_at = ? WHERE "+usable+
			" RETURNING "+loginLinkColumns, stamp(now), hash, stamp(now))
	})
}

// PeekLoginLink tells whether a link would work, without using it. NotFound as UseLoginLink.
func (s *Store) PeekLoginLink(ctx context.Context, hash []byte) (LoginLink, error) {
	return s.loginLink(ctx, hash, func(now time.Time) (LoginLink, bool, error) {
		return selectOne(s.reader(ctx), readLoginLink, "SELECT "+loginLinkColumns+" FROM login_links WHERE "+usable, hash, stamp(now))
	})
}

func (s *Store) loginLink(ctx context.Context, hash []byte, find func(now time.Time) (LoginLink, bool, error)) (LoginLink, error) {
	if err := checkHash(hash); err != nil {
		return LoginLink{}, err
	}
	now, err := s.Now(ctx)
	if err != nil {
		return LoginLink{}, err
	}
	link, found, err := find(now)
	switch {
	case err != nil:
		return LoginLink{}, s.dbError(err)
	case !found:
		return LoginLink{}, fault.New(fault.NotFound, "This login link was used, has expired or is not one of ours. Ask for a new one.")
	}
	return link, nil
}
