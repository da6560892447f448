package callbacks

import (
	"sync/atomic"
)

// Holder holds the ring in use and swaps it whole. Safe for concurrent use.
type Holder struct{ ring atomic.Pointer[Ring] }

// NewHolder returns a holder of r.
func NewHolder(r *Ring) *Holder {
	h := &Holder{}
	h.ring.Store(r)
	return h
}

// Ring returns the ring in use. Take it once per request and do not keep it: a key
// destroyed meanwhile must not live on in a copy.
func (h *Holder) Ring() *Ring { return h.ring.Load() }

// Reload reads the ring again from a path (or an inline ring) and puts it in use.
// Where that fails the ring in use stays, and the error says why (as LoadKeyRing).
func (h *Holder) Reload(pathOrInline string) error {
	r, err := LoadKeyRing(pathOrInline)
	if err != nil {
		return err
	}
	h.ring.Store(r)
	return nil
}
