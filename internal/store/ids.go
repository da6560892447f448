package store

import "github.com/google/uuid"

// ident is an instance's or event's id in both its forms.
type ident struct {
	text string // canonical: 36 characters, lower case
	raw  [16]byte
}

// parseIdent reads an id; ok is false for what is no UUID in its usual form, which
// therefore names nothing that is stored.
func parseIdent(s string) (id ident, ok bool) {
	if len(s) != 36 {
		return ident{}, false
	}
	u, err := uuid.Parse(s)
	if err != nil {
		return ident{}, false
	}
	return ident{u.String(), u}, true
}

// identOf is the id of stored bytes.
func identOf(raw [16]byte) ident { return ident{uuid.UUID(raw).String(), raw} }
