package deliver

import (
	"bytes"
	"encoding/json"
	"strings"
)

// maskedJSON masks secrets in the names and texts of a JSON answer that is kept as a result: a
// receiver may send back what it was sent. What holds none stays as it came, byte for
// byte; numbers keep their digits in any case.
func maskedJSON(body []byte, secrets []string) []byte {
	if len(secrets) == 0 {
		return body
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var tree any
	if err := d.Decode(&tree); err != nil {
		return body // it was valid before: not reached
	}
	changed, hidden := false, replacer(secrets)
	tree = maskTree(tree, hidden, &changed)
	if !changed {
		return body
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(tree); err != nil {
		return nil // a tree that was just read can be written: not reached
	}
	return bytes.TrimSpace(out.Bytes())
}

func maskTree(v any, hidden *strings.Replacer, changed *bool) any {
	hide := func(s string) string {
		m := hidden.Replace(s)
		*changed = *changed || m != s
		return m
	}
	switch x := v.(type) {
	case string:
		return hide(x)
	case []any:
		for i := range x {
			x[i] = maskTree(x[i], hidden, changed)
		}
	case map[string]any:
		for k, inner := range x {
			inner = maskTree(inner, hidden, changed)
			if shown := hide(k); shown != k {
				delete(x, k)
				x[shown] = inner
				continue
			}
			x[k] = inner
		}
	}
	return v
}
