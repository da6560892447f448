package definitions

import (
	"encoding/json"
	"strings"
	"testing"

	"vobo/internal/fault"
)

// nested is a tree of so many levels.
func nested(levels int) any {
	var v any = "x"
	for range levels {
		v = map[string]any{"x": v}
	}
	return v
}

// guarantee S-27
func TestATreeThatWasPutTogetherKeepsTheLimitsOfDecodeJSON(t *testing.T) {
	t.Parallel()
	good := []any{nil, true, "x", json.Number("1e308"), nested(64), []any{}, map[string]any{"a": []any{json.Number("-0.5")}}}
	for i, v := range good {
		if err := CheckJSON(v); err != nil {
			t.Errorf("good tree %d: %v", i, err)
		}
		if _, err := DecodeJSON(EncodeJSON(v)); err != nil {
			t.Errorf("good tree %d cannot be read again: %v", i, err)
		}
	}
	bad := []any{
		nested(65), nested(100_000), "a\x00", "\xff",
		map[string]any{"\x00": true},
		[]any{[]any{"\xff"}},
		json.Number("1e400"), json.Number("1e999999999"), json.Number(strings.Repeat("9", 5000)),
	}
	for i, v := range bad {
		if err := CheckJSON(v); fault.CodeOf(err) != fault.Malformed {
			t.Errorf("bad tree %d: %v", i, err)
		} else if len(err.Error()) > 1000 {
			t.Errorf("bad tree %d: the message has %d bytes", i, len(err.Error()))
		}
	}
}
