package approval

import (
	"bytes"
	"encoding/json"
	"time"

	"vobo/internal/definitions"
)

const (
	idempotencyKept  = 30 * 24 * time.Hour
	idempotencyRetry = time.Second
)

// marshal writes a shape of this package; none of them can fail.
func marshal(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("approval: a shape that cannot be written: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// Render writes a shape as the edges answer it.
func Render(v any) json.RawMessage { return marshal(v) }

// rawOf writes a JSON tree with its digits as they are; nil for no value.
func rawOf(tree any) json.RawMessage {
	if tree == nil {
		return nil
	}
	return definitions.EncodeJSON(tree)
}
