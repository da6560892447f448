package definitions

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"

	"vobo/internal/fault"
)

// toTree turns a value of an expression into a JSON tree: whole numbers with all
// digits, doubles as the shortest plain decimal, times as RFC 3339 in UTC with
// milliseconds, durations as ISO 8601, bytes as base64.
func toTree(v ref.Val) (any, error) {
	switch v := v.(type) {
	case *object:
		return v.m, nil
	case *list:
		return plainToTree(v.l), nil
	case *record:
		return v.tree(), nil
	case types.Bool:
		return bool(v), nil
	case types.String:
		return string(v), nil
	case types.Int:
		return json.Number(strconv.FormatInt(int64(v), 10)), nil
	case types.Uint:
		return json.Number(strconv.FormatUint(uint64(v), 10)), nil
	case types.Double:
		if f := float64(v); !math.IsNaN(f) && !math.IsInf(f, 0) {
			return json.Number(plainFloat(f)), nil
		}
		return nil, fmt.Errorf("the result is not a finite number")
	case types.Null:
		return nil, nil
	case types.Timestamp:
		return timeText(v.Time), nil
	case types.Duration:
		return durationText(v.Duration), nil
	case types.Bytes:
		return base64.StdEncoding.EncodeToString(v), nil
	case *types.Type:
		return v.TypeName(), nil
	case *types.Err:
		return nil, v
	case traits.Mapper:
		return mapToTree(v)
	case traits.Lister:
		l := []any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			e, err := toTree(it.Next())
			if err != nil {
				return nil, err
			}
			l = append(l, e)
		}
		return l, nil
	case nil:
		return nil, nil
	}
	return nil, fmt.Errorf("%s is no value of JSON", typeWords(v.Type().TypeName()))
}

func mapToTree(m traits.Mapper) (any, error) {
	out := map[string]any{}
	for it := m.Iterator(); it.HasNext() == types.True; {
		k := it.Next()
		name, ok := k.(types.String)
		if !ok {
			return nil, fmt.Errorf("a key of an object is %s and not a text", typeWords(k.Type().TypeName()))
		}
		v, err := toTree(m.Get(k))
		if err != nil {
			return nil, err
		}
		out[string(name)] = v
	}
	return out, nil
}

// durationText writes an ISO 8601 duration in seconds.
func durationText(d time.Duration) string {
	sign := ""
	if d < 0 {
		sign = "-"
	}
	seconds := strings.TrimPrefix(plainNumber(strconv.FormatInt(int64(d/time.Second), 10)), "-")
	if rest := (d % time.Second).Abs(); rest != 0 {
		seconds += strings.TrimRight(fmt.Sprintf(".%09d", rest), "0")
	}
	return sign + "PT" + seconds + "S"
}

// plainText gives a value of a tree as text: numbers without exponent, nothing for
// null, JSON for objects and lists.
func plainText(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
	case bool:
		return strconv.FormatBool(v), nil
	case json.Number:
		return plainNumber(string(v)), nil
	case map[string]any, []any:
		return string(EncodeJSON(v)), nil
	}
	return "", fault.New(fault.GuardRejected, "A value cannot be written as text.")
}
