package web

import (
	"fmt"
	"html/template"
	"strings"
	"time"
)

// Words live in one table per language; a page names them by key. The tables of
// other languages need the same keys, which a test compares.

// catalogue is every language that the pages speak.
var catalogue = map[string]map[string]string{"en": english}

// dateWords translate the names that time.Format writes in English; nil: English.
var dateWords = map[string]*strings.Replacer{"en": nil}

// language is one reader's words.
type language struct{ locale string }

// languageOf finds the nearest language that the pages speak: "es-AR" is "es", else "en".
func languageOf(locale string) language {
	for locale = strings.ToLower(strings.ReplaceAll(locale, "_", "-")); locale != ""; {
		if _, known := catalogue[locale]; known {
			return language{locale: locale}
		}
		at := strings.LastIndexByte(locale, '-')
		locale = locale[:max(at, 0)]
	}
	return language{locale: "en"}
}

// text is the words of a key with args set in; a key without words shows itself, which
// no page that a test has rendered does.
func (l language) text(key string, args ...any) string {
	words, known := catalogue[l.locale][key]
	if !known {
		return key
	}
	if len(args) == 0 {
		return words
	}
	plain := make([]any, len(args))
	for i, arg := range args {
		if plain[i] = arg; isText(arg) {
			plain[i] = plainText(fmt.Sprint(arg))
		}
	}
	return fmt.Sprintf(words, plain...)
}

// html is text as markup: words are escaped, user text among args is isolated.
func (l language) html(key string, args ...any) (template.HTML, error) {
	words, known := catalogue[l.locale][key]
	if !known {
		return "", fmt.Errorf("no words for %q", key)
	}
	words = template.HTMLEscapeString(words)
	if len(args) == 0 {
		return template.HTML(words), nil
	}
	safe := make([]any, len(args))
	for i, arg := range args {
		switch arg := arg.(type) {
		case template.HTML:
			safe[i] = string(arg)
		case int:
			safe[i] = arg
		default:
			safe[i] = string(userText(fmt.Sprint(arg)))
		}
	}
	return template.HTML(fmt.Sprintf(words, safe...)), nil
}

func isText(arg any) bool {
	switch arg.(type) {
	case int, int64:
		return false
	}
	return true
}

// date writes a time by a layout of package time in this language.
func (l language) date(t time.Time, layout string) string {
	text := t.Format(layout)
	if words := dateWords[l.locale]; words != nil {
		text = words.Replace(text)
	}
	return text
}
