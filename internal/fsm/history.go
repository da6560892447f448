package fsm

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"vobo/internal/definitions"
)

// timeLayout is RFC 3339 in UTC with milliseconds.
const timeLayout = "2006-01-02T15:04:05.000Z"

// HashTransition gives the hash of a history row: "v1:" and the hexadecimal SHA-256
// of a JSON object with sorted keys, exact decimal numbers and times in
// milliseconds. What may hold a person's text (actor, changes, comment, documents,
// input, reason) goes in as SHA-256 over the row's salt, the field's name, a NUL and
// its canonical JSON; so a text can be erased and its digest kept, and the chain
// still verifies. Hash itself is not read; PreviousHash is.
func HashTransition(t *Transition) string {
	b := make([]byte, 0, 1024)
	b = append(b, `{"actor":"`...)
	b = appendSalted(b, t.Salt, "actor", canonicalActor(&t.Actor))
	b = append(b, `","assurance":`...)
	b = appendJSON(b, string(t.Assurance))
	b = append(b, `,"at":"`...)
	b = t.At.UTC().AppendFormat(b, timeLayout)
	b = append(b, `","changes":"`...)
	b = appendSalted(b, t.Salt, "changes", canonicalChanges(t.Changes))
	b = append(b, `","comment":"`...)
	b = appendSalted(b, t.Salt, "comment", appendJSON(nil, t.Comment))
	b = append(b, `","deadlines_cancelled":`...)
	b = appendStrings(b, t.DeadlinesCancelled)
	b = append(b, `,"definition_version":`...)
	b = strconv.AppendInt(b, int64(t.DefinitionVersion), 10)
	b = append(b, `,"digest":`...)
	b = appendJSON(b, t.Digest)
	b = append(b, `,"documents":"`...)
	b = appendSalted(b, t.Salt, "documents", canonical(t.Documents))
	b = append(b, `","event":`...)
	b = appendJSON(b, t.Event)
	b = append(b, `,"event_id":`...)
	b = appendJSON(b, t.EventID)
	b = append(b, `,"from":`...)
	b = appendJSON(b, t.From)
	b = append(b, `,"input":"`...)
	b = appendSalted(b, t.Salt, "input", canonical(t.Input))
	b = append(b, `","kind":`...)
	b = appendJSON(b, string(t.Kind))
	if t.Pending != nil {
		b = fmt.Appendf(b, `,"pending":{"have":%d,"need":%d}`, t.Pending.Have, t.Pending.Need)
	}
	b = append(b, `,"previous_hash":`...)
	b = appendJSON(b, t.PreviousHash)
	b = append(b, `,"reason":"`...)
	b = appendSalted(b, t.Salt, "reason", appendJSON(nil, t.Reason))
	b = append(b, `","seq":`...)
	b = strconv.AppendInt(b, int64(t.Seq), 10)
	b = append(b, `,"to":`...)
	b = appendJSON(b, t.To)
	b = append(b, `,"token":[`...)
	b = strconv.AppendInt(b, int64(t.Token.Seq), 10)
	b = append(b, ',')
	b = strconv.AppendInt(b, int64(t.Token.N), 10)
	b = append(b, `],"via":`...)
	b = appendStrings(b, t.Via)
	b = append(b, `,"wait":`...)
	b = strconv.AppendInt(b, int64(t.Wait), 10)
	b = append(b, '}')
	sum := sha256.Sum256(b)
	return "v1:" + hex.EncodeToString(sum[:])
}

// VerifyChain checks history rows of one instance, ordered by seq from 1: dense
// numbers, links to the row before, and every hash. The error names the first row
// that does not hold.
func VerifyChain(rows []Transition) error {
	previous := ""
	for i := range rows {
		t := &rows[i]
		switch {
		case t.Seq != i+1:
			return fmt.Errorf("row %d has seq %d", i+1, t.Seq)
		case t.PreviousHash != previous:
			return fmt.Errorf("row %d does not link to the row before it", t.Seq)
		case HashTransition(t) != t.Hash:
			return fmt.Errorf("row %d is not what was recorded", t.Seq)
		}
		previous = t.Hash
	}
	return nil
}

// canonical is the canonical JSON of a tree; nothing and an empty map of documents
// are both null.
func canonical(v any) []byte {
	if m, ok := v.(map[string]any); ok && m == nil {
		v = nil
	}
	if v == nil {
		return []byte("null")
	}
	return definitions.CanonicalJSON(v)
}

func canonicalActor(a *Actor) []byte {
	b := make([]byte, 0, 160)
	b = append(b, `{"for":`...)
	b = appendJSON(b, a.For)
	b = append(b, `,"groups":`...)
	b = appendStrings(b, a.Groups)
	b = append(b, `,"id":`...)
	b = appendJSON(b, a.ID)
	b = append(b, `,"kind":`...)
	b = appendJSON(b, string(a.Kind))
	b = append(b, `,"name":`...)
	b = appendJSON(b, a.Name)
	b = append(b, `,"roles":`...)
	b = appendStrings(b, a.Roles)
	b = append(b, `,"via":`...)
	b = appendJSON(b, a.Via)
	return append(b, '}')
}

func canonicalChanges(changes []Change) []byte {
	b := []byte{'['}
	for i, c := range changes {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"after":`...)
		b = append(b, canonical(c.After)...)
		b = append(b, `,"before":`...)
		b = append(b, canonical(c.Before)...)
		b = append(b, `,"pointer":`...)
		b = appendJSON(b, c.Pointer)
		b = append(b, '}')
	}
	return append(b, ']')
}

func appendSalted(b, salt []byte, field string, text []byte) []byte {
	in := make([]byte, 0, len(salt)+len(field)+1+len(text))
	in = append(in, salt...)
	in = append(in, field...)
	in = append(in, 0)
	in = append(in, text...)
	sum := sha256.Sum256(in)
	return hex.AppendEncode(b, sum[:])
}

func appendStrings(b []byte, list []string) []byte {
	b = append(b, '[')
	for i, s := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendJSON(b, s)
	}
	return append(b, ']')
}

// appendJSON appends a string as encoding/json writes it; most need no escapes.
func appendJSON(b []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < 0x20 || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			quoted, err := json.Marshal(s)
			if err != nil {
				return strconv.AppendQuote(b, s)
			}
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

func stamp(t time.Time) string { return t.UTC().Format(timeLayout) }
