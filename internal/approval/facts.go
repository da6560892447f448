package approval

import (
	"encoding/json"
	"slices"
	"strings"

	"vobo/internal/definitions"
)

// factText is a shown value as one line of a mail: numbers plainly, lists and
// objects in words rather than as JSON.
func factText(v any) string {
	switch x := v.(type) {
	case nil:
		return "–"
	case string:
		return x
	case bool:
		if x {
			return "yes"
		}
		return "no"
	case json.Number:
		return x.String()
	case []any:
		parts := make([]string, len(x))
		for i := range x {
			parts[i] = factText(x[i])
		}
		return strings.Join(parts, "; ")
	case map[string]any:
		keys := make([]string, 0, len(x))
		for k := range x {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		parts := make([]string, len(keys))
		for i, k := range keys {
			parts[i] = strings.ReplaceAll(k, "_", " ") + ": " + factText(x[k])
		}
		return strings.Join(parts, ", ")
	}
	return string(definitions.EncodeJSON(v))
}
