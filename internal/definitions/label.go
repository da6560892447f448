package definitions

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Label is the state's title, else its name in words ("pending_approval" → "Pending approval").
func (s *State) Label(locale string) string { return label(s.Title, s.Name, locale) }

// Label is the event's title, else its name in words.
func (e *Event) Label(locale string) string { return label(e.Title, e.Name, locale) }

// Label is the definition's title, else its name in words.
func (d *Definition) Label(locale string) string { return label(d.Title, d.Name, locale) }

func label(title Text, name, locale string) string {
	if !title.IsZero() {
		// Titles hold no {{ }} (checked by Parse), so nothing of an instance is needed.
		if text, err := title.In(locale, &Env{}); err == nil && text != "" {
			return text
		}
	}
	words := strings.NewReplacer("_", " ", "-", " ").Replace(name)
	first, size := utf8.DecodeRuneInString(words)
	if size == 0 {
		return ""
	}
	return string(unicode.ToUpper(first)) + words[size:]
}
