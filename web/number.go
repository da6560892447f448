package web

import (
	"encoding/json"
	"strings"

	"vobo/internal/definitions"
)

// parseNumber reads a number as people write it, keeping its digits exactly:
// "1 234,50", "1,234.50", "1.234.567", "+7", "½" is none. ok is false for what is
// not a number, and for a comma or point that may mean two things ("1,234").
// A single point is always the decimal point, as in every programme.
func parseNumber(typed string) (n json.Number, ok bool) {
	text := asciiDigits(typed)
	text = strings.Map(func(r rune) rune {
		switch r {
		case ' ', '\t', '\u00A0', '\u202F', '\u2009', '\'', '’', '_':
			return -1
		case '−', '－':
			return '-'
		case '，', '٫':
			return ','
		case '．':
			return '.'
		}
		return r
	}, text)
	sign := ""
	switch {
	case strings.HasPrefix(text, "-"):
		sign, text = "-", text[1:]
	case strings.HasPrefix(text, "+"):
		text = text[1:]
	}
	text, exponent, hasExponent := cutExponent(text)
	whole, fraction, ok := splitDecimal(text)
	if !ok || whole+fraction == "" || !onlyDigits(whole) || !onlyDigits(fraction) {
		return "", false
	}
	if hasExponent && !onlyDigits(strings.TrimLeft(exponent, "+-")) {
		return "", false
	}
	if whole = strings.TrimLeft(whole, "0"); whole == "" {
		whole = "0"
	}
	plain := sign + whole
	if fraction != "" {
		plain += "." + fraction
	}
	if hasExponent {
		plain += "e" + exponent
	}
	if _, err := definitions.DecodeJSON([]byte(plain)); err != nil { // out of range
		return "", false
	}
	return json.Number(plain), true
}

func cutExponent(text string) (mantissa, exponent string, has bool) {
	at := strings.IndexAny(text, "eE")
	if at < 0 {
		return text, "", false
	}
	return text[:at], text[at+1:], true
}

// splitDecimal finds which of comma and point is the decimal mark.
func splitDecimal(text string) (whole, fraction string, ok bool) {
	points, commas := strings.Count(text, "."), strings.Count(text, ",")
	switch {
	case points+commas == 0:
		return text, "", true
	case points == 1 && commas == 0:
		whole, fraction, _ = strings.Cut(text, ".")
		return whole, fraction, true
	case commas == 1 && points == 0:
		whole, fraction, _ = strings.Cut(text, ",")
		return whole, fraction, len(fraction) != 3 || len(whole) > 3 || whole == "" || whole == "0"
	case points > 1 && commas > 1:
		return "", "", false
	}
	mark, group := ".", ","
	if strings.LastIndex(text, ",") > strings.LastIndex(text, ".") {
		mark, group = ",", "."
	}
	if strings.Count(text, mark) > 1 { // 1.234.567: only groups
		if strings.Contains(text, group) {
			return "", "", false
		}
		whole, ok = grouped(text, mark)
		return whole, "", ok
	}
	whole, fraction, _ = strings.Cut(text, mark)
	if strings.Contains(fraction, group) {
		return "", "", false
	}
	whole, ok = grouped(whole, group)
	return whole, fraction, ok
}

// grouped joins groups of three; the first may be shorter.
func grouped(text, group string) (string, bool) {
	parts := strings.Split(text, group)
	for i, part := range parts {
		if i > 0 && len(part) != 3 || i == 0 && (part == "" || len(part) > 3) {
			return "", false
		}
	}
	return strings.Join(parts, ""), true
}

func onlyDigits(text string) bool { return strings.Trim(text, "0123456789") == "" }

// asciiDigits turns full-width and Arabic-Indic digits into the plain ones.
func asciiDigits(text string) string {
	return strings.Map(func(r rune) rune {
		for _, zero := range []rune{'０', '٠', '۰'} {
			if r >= zero && r <= zero+9 {
				return '0' + r - zero
			}
		}
		return r
	}, text)
}
