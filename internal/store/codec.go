package store

import (
	"encoding/json"
	"fmt"
	"strings"

	"vobo/internal/definitions"
)

// encodeTree writes a JSON tree for a text column, its numbers as they are; nil is "".
func encodeTree(v any) string {
	if v == nil {
		return ""
	}
	return string(definitions.EncodeJSON(v))
}

// decodeTree reads what encodeTree wrote; numbers are json.Number, digit by digit.
func decodeTree(text string) (any, error) {
	if text == "" {
		return nil, nil
	}
	if v, err := definitions.DecodeJSON([]byte(text)); err == nil {
		return v, nil
	}
	// What an effect answered may break rules that callers must keep (NUL, depth).
	var v any
	err := decodeValue(text, &v)
	return v, err
}

// encodeValue writes a Go value as JSON for a text column.
func encodeValue(v any) (string, error) {
	b, err := json.Marshal(v)
	return string(b), err
}

// decodeValue reads a JSON column into a Go value; numbers of trees stay json.Number
// and "" leaves the value as it is.
func decodeValue(text string, into any) error {
	if text == "" {
		return nil
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	return unreadable(decoder.Decode(into))
}

// decodePlain is decodeValue for what holds no trees.
func decodePlain(text string, into any) error {
	if text == "" {
		return nil
	}
	return unreadable(json.Unmarshal([]byte(text), into))
}

func unreadable(err error) error {
	if err != nil {
		return fmt.Errorf("stored JSON cannot be read: %w", err)
	}
	return nil
}

// encodeList writes a list of strings; an empty one is "".
func encodeList(list []string) string {
	if len(list) == 0 {
		return ""
	}
	tree := make([]any, len(list))
	for i, s := range list {
		tree[i] = s
	}
	return string(definitions.EncodeJSON(tree))
}

// encodeTexts writes texts by locale or label; an empty map is "{}".
func encodeTexts(texts map[string]string) string {
	if len(texts) == 0 {
		return "{}"
	}
	tree := make(map[string]any, len(texts))
	for k, v := range texts {
		tree[k] = v
	}
	return string(definitions.EncodeJSON(tree))
}

// decodeList reads what encodeList wrote.
func decodeList(text string) ([]string, error) {
	if text == "" {
		return nil, nil
	}
	var list []string
	err := decodePlain(text, &list)
	return list, err
}

// decodeTexts reads what encodeTexts wrote; an empty map is nil.
func decodeTexts(text string) (map[string]string, error) {
	if text == "" || text == "{}" {
		return nil, nil
	}
	var texts map[string]string
	err := decodePlain(text, &texts)
	return texts, err
}
