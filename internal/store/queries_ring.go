package store

import (
	"bytes"
	"context"

	"gorm.io/gorm"

	"vobo/internal/fault"
)

// RingFingerprint is what the database remembers of one key of the key ring.
type RingFingerprint struct {
	Kid    string
	Status string // active | retired | destroyed
	SHA256 []byte
}

func readFingerprint(row rowScanner, f *RingFingerprint) error {
	return row.Scan(&f.Kid, &f.Status, &f.SHA256)
}

const selectRing = `SELECT kid, status, sha256 FROM key_ring ORDER BY kid`

// Ring returns what is remembered, by kid; empty: no ring is known yet.
func (s *Store) Ring(ctx context.Context) ([]RingFingerprint, error) {
	ring, err := selectRows(s.reader(ctx), readFingerprint, selectRing)
	return ring, s.dbError(err)
}

// SetRing remembers the ring in the place of the one known. It refuses (conflict) where
// some are remembered and none of the new ones is among them, and where a kid that is
// remembered comes with another key. Malformed for a ring without keys.
func (s *Store) SetRing(ctx context.Context, ring []RingFingerprint) error {
	if len(ring) == 0 {
		return fault.New(fault.Malformed, "The key ring has no key.")
	}
	return s.inTransaction(ctx, func(tx *gorm.DB) error {
		if err := lockDirectory(tx); err != nil {
			return err
		}
		known, err := selectRows(tx, readFingerprint, selectRing)
		if err != nil {
			return err
		}
		if err := sameRing(known, ring); err != nil {
			return err
		}
		if _, err := execute(tx, `DELETE FROM key_ring`); err != nil {
			return err
		}
		for _, key := range ring {
			if _, err := execute(tx, `INSERT INTO key_ring (kid, status, sha256) VALUES (?, ?, ?)`, key.Kid, key.Status, key.SHA256); err != nil {
				return err
			}
		}
		return nil
	})
}

// sameRing refuses a ring that is not a later form of the known one.
func sameRing(known, ring []RingFingerprint) error {
	remembered := map[string][]byte{}
	for _, key := range known {
		remembered[key.Kid] = key.SHA256
	}
	common := 0
	for _, key := range ring {
		sum, found := remembered[key.Kid]
		switch {
		case found && !bytes.Equal(sum, key.SHA256):
			return fault.New(fault.Conflict, "Key %q of this key ring is not the one that the database knows by this name. Use the key ring that this database was used with.", key.Kid)
		case found:
			common++
		}
	}
	if len(known) > 0 && common == 0 {
		return fault.New(fault.Conflict, "The database knows another key ring: none of its keys is in this one. Use the key ring that this database was used with.")
	}
	return nil
}
