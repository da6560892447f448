package web

import (
	"fmt"
	"html/template"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"vobo/internal/fault"
)

// Whatever a person, an agent or a definition wrote reaches a page through userText
// (or plainText where no markup fits). Each piece is isolated by <bdi>, so that it
// cannot turn the text around it; characters that nobody sees are shown by number.

// longestStack is how many combining marks may sit on one character.
const longestStack = 8

// userText escapes and isolates s.
func userText(s string) template.HTML {
	var b strings.Builder
	b.WriteString("<bdi>")
	visible(s, func(text string, marked bool) {
		if marked {
			b.WriteString(`<span class="unseen">`)
		}
		template.HTMLEscape(&b, []byte(text))
		if marked {
			b.WriteString("</span>")
		}
	})
	b.WriteString("</bdi>")
	return template.HTML(b.String())
}

// plainText is userText for attributes and titles: the same characters, no markup.
func plainText(s string) string {
	var b strings.Builder
	visible(s, func(text string, _ bool) { b.WriteString(text) })
	return b.String()
}

// visible cuts s into runs of ordinary text and marks that stand for what is not seen.
func visible(s string, emit func(text string, marked bool)) {
	runes := []rune(strings.ReplaceAll(s, "\r\n", "\n"))
	from, blank := 0, false
	flush := func(to int) {
		if to > from {
			emit(string(runes[from:to]), false)
		}
	}
	for i := 0; i < len(runes); {
		run, mark := 0, ""
		switch {
		case runes[i] == '\n':
			if run = length(runes[i:], func(r rune) bool { return r == '\n' || r == '\r' || r == ' ' || r == '\t' }); run > 6 && lines(runes[i:i+run]) > 3 {
				mark = fmt.Sprintf("⟨%d lines⟩", lines(runes[i:i+run]))
			}
		case unicode.In(runes[i], unicode.Mn, unicode.Me):
			run = length(runes[i:], func(r rune) bool { return unicode.In(r, unicode.Mn, unicode.Me) })
			if run > longestStack {
				flush(i + longestStack)
				emit(fmt.Sprintf("⟨+%d marks⟩", run-longestStack), true)
				from = i + run
			}
		case hidden(runes, i):
			run = length(runes[i:], func(r rune) bool { return r == runes[i] })
			mark = fmt.Sprintf("⟨U+%04X⟩", runes[i])
			if run > 1 {
				mark = fmt.Sprintf("⟨%d × U+%04X⟩", run, runes[i])
			}
		}
		run = max(run, 1)
		if mark != "" {
			flush(i)
			if strings.HasSuffix(mark, "lines⟩") {
				emit("\n", false)
			}
			emit(mark, true)
			if strings.HasSuffix(mark, "lines⟩") {
				emit("\n", false)
			}
			from = i + run
		}
		blank = blank || !unicode.IsSpace(runes[i])
		i += run
	}
	flush(len(runes))
	if !blank && len(runes) > 0 {
		emit("⟨blank⟩", true)
	}
}

func length(runes []rune, of func(rune) bool) int {
	for i, r := range runes {
		if !of(r) {
			return i
		}
	}
	return len(runes)
}

func lines(runes []rune) (n int) {
	for _, r := range runes {
		if r == '\n' {
			n++
		}
	}
	return n
}

// hidden tells whether the rune at i would not be seen, or would rule the direction of others.
func hidden(runes []rune, i int) bool {
	r := runes[i]
	switch {
	case r == '\n' || r == '\t':
		return false
	case r == 0x200C || r == 0x200D: // joiners, where scripts and emoji need them
		return i == 0 || i == len(runes)-1 || !joins(runes[i-1]) || !joins(runes[i+1])
	case r >= 0xFE00 && r <= 0xFE0F: // variation selectors
		return i == 0 || runes[i-1] < 0x80 && !strings.ContainsRune("0123456789#*", runes[i-1])
	case r >= 0xE0020 && r <= 0xE007F: // tags of flags
		return i == 0 || runes[i-1] != 0x1F3F4 && (runes[i-1] < 0xE0020 || runes[i-1] > 0xE007F)
	case r == 0x034F || r == 0x115F || r == 0x1160 || r == 0x17B4 || r == 0x17B5 || r == 0x3164 || r == 0xFFA0 || r == 0x2800:
		return true
	case r == 0x2028 || r == 0x2029 || r == utf8.RuneError:
		return r != utf8.RuneError
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co) || r >= 0xE0000 && r <= 0xE0FFF
}

func joins(r rune) bool {
	return r > 0x2FF && (unicode.IsLetter(r) || unicode.IsMark(r) || unicode.In(r, unicode.So, unicode.Sk))
}

// checkText refuses what no field of ours can keep: NUL and invalid UTF-8.
func checkText(form url.Values) error {
	for name, values := range form {
		for _, value := range append(values, name) {
			if !utf8.ValidString(value) {
				return fault.New(fault.Malformed, "The field %q is not valid UTF-8 text.", strings.ToValidUTF8(name, "�")).With(fault.Field{Pointer: "/" + strings.ToValidUTF8(name, "�"), Detail: "Not valid UTF-8 text."})
			}
			if strings.ContainsRune(value, 0) {
				return fault.New(fault.Malformed, "The field %q holds a NUL character.", plainText(name)).With(fault.Field{Pointer: "/" + plainText(name), Detail: "Holds a NUL character: remove it."})
			}
		}
	}
	return nil
}
