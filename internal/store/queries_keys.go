package store

import (
	"context"
	"crypto/sha256"
	"time"

	"gorm.io/gorm"

	"vobo/internal/fault"
)

// APIKey is a key's row; the key itself is stored as SHA-256 only.
type APIKey struct {
	Name       string
	Hash       []byte
	Roles      []string
	CreatedAt  time.Time // set by CreateKey
	ExpiresAt  *time.Time
	RevokedAt  *time.Time
	LastUsedAt *time.Time // to the minute
}

// useNoted is how coarse LastUsedAt and SeenAt are, so that reading costs no write.
const useNoted = time.Minute

const keyColumns = "name, hash, roles, created_at, expires_at, revoked_at, last_used_at"

func readKey(row rowScanner, k *APIKey) error {
	return row.Scan(&k.Name, &k.Hash, jsonColumn{&k.Roles}, timeColumn{&k.CreatedAt},
		optionalTime{&k.ExpiresAt}, optionalTime{&k.RevokedAt}, optionalTime{&k.LastUsedAt})
}

// checkHash refuses what is no SHA-256, so that nothing is ever found by an empty hash.
func checkHash(hash []byte) error {
	if len(hash) != sha256.Size {
		return fault.New(fault.Internal, "A hash has %d bytes; a SHA-256 has %d.", len(hash), sha256.Size)
	}
	return nil
}

// CreateKey stores a key; conflict where the name is taken by a live one. The name of a
// revoked or expired key may be given again; its old row stays in the list.
func (s *Store) CreateKey(ctx context.Context, k APIKey) error {
	if err := checkHash(k.Hash); err != nil {
		return err
	}
	if k.Name == "" {
		return fault.New(fault.InvalidInput, "The key has no name. Give it one.")
	}
	if err := checkText("The key's name", k.Name); err != nil {
		return err
	}
	roles, err := encodeValue(nameSet(k.Roles))
	if err != nil {
		return err
	}
	now, err := s.Now(ctx)
	if err != nil {
		return err
	}
	return s.inTransaction(ctx, func(tx *gorm.DB) error {
		if _, err := execute(tx, `UPDATE api_keys SET revoked_at = expires_at
			WHERE name = ? AND revoked_at IS NULL AND expires_at <= ?`, k.Name, stamp(now)); err != nil {
			return err
		}
		n, err := execute(tx, `INSERT INTO api_keys (name, hash, roles, created_at, expires_at)
			VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`, k.Name, k.Hash, roles, stamp(now), optionalStamp(k.ExpiresAt))
		if err != nil {
			return err
		}
		if n == 0 {
			return fault.New(fault.Conflict, "There is a key named %q already. Choose another name, or revoke that one first.", k.Name)
		}
		return nil
	})
}

// KeyByHash returns the live key (not revoked, not expired) of that hash, or NotFound.
func (s *Store) KeyByHash(ctx context.Context, hash []byte) (APIKey, error) {
	if err := checkHash(hash); err != nil {
		return APIKey{}, err
	}
	now, err := s.Now(ctx)
	if err != nil {
		return APIKey{}, err
	}
	key, found, err := selectOne(s.reader(ctx), readKey, `SELECT `+keyColumns+` FROM api_keys
		WHERE hash = ? AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?)`, hash, stamp(now))
	switch {
	case err != nil:
		return APIKey{}, s.dbError(err)
	case !found:
		return APIKey{}, fault.New(fault.NotFound, "There is no such key, or it was revoked or has expired.")
	}
	return key, nil
}

// KeyUsed notes the last use, at most once a minute. A key that is not live is left alone.
func (s *Store) KeyUsed(ctx context.Context, name string) error {
	now, err := s.Now(ctx)
	if err != nil {
		return err
	}
	_, err = execute(s.writer(ctx), `UPDATE api_keys SET last_used_at = ?
		WHERE name = ? AND revoked_at IS NULL AND (last_used_at IS NULL OR last_used_at <= ?)`,
		stamp(now), name, stamp(now.Add(-useNoted)))
	return s.dbError(err)
}

// Keys lists all, also revoked ones, by name and then by age.
func (s *Store) Keys(ctx context.Context) ([]APIKey, error) {
	keys, err := selectRows(s.reader(ctx), readKey, `SELECT `+keyColumns+` FROM api_keys ORDER BY name, created_at, hash`)
	return keys, s.dbError(err)
}

// RevokeKey revokes the live key of that name at once. NotFound.
func (s *Store) RevokeKey(ctx context.Context, name string) error {
	now, err := s.Now(ctx)
	if err != nil {
		return err
	}
	n, err := execute(s.writer(ctx), `UPDATE api_keys SET revoked_at = ? WHERE name = ? AND revoked_at IS NULL`, stamp(now), name)
	switch {
	case err != nil:
		return s.dbError(err)
	case n == 0:
		return fault.New(fault.NotFound, "There is no live key named %q. List the keys to see their names.", name)
	}
	return nil
}
