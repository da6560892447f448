package fsm

import (
	"encoding/json"

	"vobo/internal/definitions"
	"vobo/internal/fault"
)

// KeyOf computes the business key of a start, after defaults; "" where the
// definition has none. data is not changed; of env only what is not data is read
// (nil: nothing). An absent or empty value is a *fault.Error of code invalid-input.
func KeyOf(def *definitions.Definition, data map[string]any, env *definitions.Env) (string, error) {
	if def.Key == nil {
		return "", nil
	}
	var e definitions.Env
	if env != nil {
		e = *env
	}
	e.Data = WithDefaults(def, data)
	return keyOf(def, &e)
}

// WithDefaults gives a copy of data in which absent fields have their defaults.
func WithDefaults(def *definitions.Definition, data map[string]any) map[string]any {
	c, _ := copyTree(data).(map[string]any)
	if c == nil {
		c = map[string]any{}
	}
	if def.Data != nil {
		def.Data.ApplyDefaults(c)
	}
	return c
}

func keyOf(def *definitions.Definition, env *definitions.Env) (string, error) {
	v, err := def.Key.Eval(env)
	if err != nil {
		return "", invalid("The business key cannot be made: " + fault.As(err).Message)
	}
	key := ""
	switch k := v.(type) {
	case string:
		key = k
	case json.Number:
		key = k.String()
	case bool:
		key = string(definitions.EncodeJSON(k))
	}
	if key == "" || len(key) > 255 {
		return "", invalid("The business key must be a text of 1 to 255 bytes: " + def.Key.Text)
	}
	return key, nil
}
