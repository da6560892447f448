package deliver

import (
	"encoding/base64"
	"html"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxAnswerText is how much of an answer is kept for people, in bytes.
const maxAnswerText = 4 << 10

// masked stands for a secret in what people read.
const masked = "•••"

// minSecret is the length below which a text is too common to be masked.
const minSecret = 6

// signedToken is the shape of our one-time tokens (and any other compact JWS, RFC 7515):
// a receiver may send back the links that it was given.
var signedToken = regexp.MustCompile(`[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{16,}`)

// answerText makes the beginning of an answer fit to be read by people: text of one or
// more lines without control characters, at most maxAnswerText bytes, secrets masked.
// whole tells that raw is all of it.
func answerText(raw []byte, whole bool, secrets []string) string {
	text := mask(strings.ToValidUTF8(string(raw), string(utf8.RuneError)), secrets)
	if !whole {
		text = withoutCutSecret(text, secrets)
	}
	return clipBytes(readable(text), maxAnswerText)
}

// withoutCutSecret takes the end off a text that was cut somewhere: what may be the
// begin of a secret, or of a token.
func withoutCutSecret(text string, secrets []string) string {
	end := len(text)
	for _, s := range secrets {
		for n := min(len(s), len(text)); n > 0; n-- {
			if strings.HasSuffix(text, s[:n]) {
				end = min(end, len(text)-n)
				break
			}
		}
	}
	return strings.TrimRightFunc(text[:end], func(r rune) bool {
		return r < utf8.RuneSelf && (isLetterOrDigit(byte(r)) || strings.ContainsRune("-_.", r))
	})
}

func mask(text string, secrets []string) string {
	pairs := make([]string, 0, 2*len(secrets))
	for _, s := range secrets {
		pairs = append(pairs, s, masked)
	}
	return signedToken.ReplaceAllString(strings.NewReplacer(pairs...).Replace(text), masked)
}

// readable keeps line feeds and drops or replaces every other character that is not seen.
func readable(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\n':
			return r
		case r == '\r', isDirectionControl(r):
			return -1
		case unicode.IsControl(r), isLineSeparator(r):
			return ' '
		}
		return r
	}, s)
	return strings.TrimSpace(s)
}

// clipBytes shortens s visibly to at most n bytes, between two runes.
func clipBytes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	n -= len("…")
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// secretsOf lists the texts of a request that an answer must not show, the longest
// first: the values of its headers (credentials, signatures), as a whole and word by
// word, and of its query, in the spellings in which a receiver may send them back.
func secretsOf(r WebhookRequest, t target) []string {
	var all []string
	add := func(s string) {
		if len(s) >= minSecret {
			all = append(all, s, strings.ReplaceAll(s, "/", `\/`), url.QueryEscape(s), url.PathEscape(s), html.EscapeString(s))
		}
	}
	for _, h := range r.Headers {
		switch strings.ToLower(h[0]) {
		case "content-type", "accept", "user-agent":
			continue
		}
		add(h[1])
		for word := range strings.FieldsSeq(h[1]) {
			add(word)
			if pair, err := base64.StdEncoding.DecodeString(word); err == nil && utf8.Valid(pair) {
				_, password, _ := strings.Cut(string(pair), ":")
				add(string(pair))
				add(password)
			}
		}
	}
	for _, values := range t.url.Query() {
		for _, v := range values {
			add(v)
		}
	}
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	return slices.Compact(all)
}
