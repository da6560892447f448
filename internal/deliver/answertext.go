package deliver

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
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
	return signedToken.ReplaceAllString(replacer(secrets).Replace(text), masked)
}

func replacer(secrets []string) *strings.Replacer {
	pairs := make([]string, 0, 2*len(secrets))
	for _, s := range secrets {
		pairs = append(pairs, s, masked)
	}
	return strings.NewReplacer(pairs...)
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

// secretsOf lists the texts of a request that people who read an answer must not see,
// the longest first: the values of its headers (credentials, signatures), as a whole and
// word by word, and of its query, in the spellings in which a receiver may send them back.
func secretsOf(r WebhookRequest, t target) []string {
	var all spellings
	for _, h := range r.Headers {
		switch strings.ToLower(h[0]) {
		case "content-type", "accept", "user-agent":
			continue
		}
		all.addHeader(h[1])
	}
	for _, values := range t.url.Query() {
		for _, v := range values {
			all.add(v)
		}
	}
	return all.sorted()
}

// keptNowhere lists what must not even become part of a result, which definitions read
// and people see: the values of the headers that prove who calls, signatures, and the
// one-time tokens that the request carries. Other headers and the query are the
// definition's, and a result may well repeat them.
func keptNowhere(r WebhookRequest, t target) []string {
	var all spellings
	for _, h := range r.Headers {
		if slices.ContainsFunc(r.Secret, func(name string) bool { return strings.EqualFold(name, h[0]) }) || strings.EqualFold(h[0], "webhook-signature") {
			all.addHeader(h[1])
		}
		all.addTokens(h[1])
	}
	all.addTokens(string(r.Body))
	all.addTokens(t.url.String())
	return all.sorted()
}

// spellings are secrets in the forms in which a receiver may send them back.
type spellings []string

func (all *spellings) add(s string) {
	if len(s) < minSecret {
		return
	}
	raw := []byte(s)
	*all = append(*all, s, strings.ReplaceAll(s, "/", `\/`), url.QueryEscape(s), url.PathEscape(s), html.EscapeString(s),
		strings.ToLower(s), strings.ToUpper(s), hex.EncodeToString(raw),
		base64.RawStdEncoding.EncodeToString(raw), base64.RawURLEncoding.EncodeToString(raw))
}

// addHeader adds a header's value, its words, and what a basic credential holds.
func (all *spellings) addHeader(value string) {
	all.add(value)
	for word := range strings.FieldsSeq(value) {
		if strings.EqualFold(word, "bearer") || strings.EqualFold(word, "basic") {
			continue
		}
		all.add(word)
		if pair, err := base64.StdEncoding.DecodeString(word); err == nil && utf8.Valid(pair) {
			_, password, _ := strings.Cut(string(pair), ":")
			all.add(string(pair))
			all.add(password)
		}
	}
}

func (all *spellings) addTokens(text string) {
	for _, token := range signedToken.FindAllString(text, -1) {
		all.add(token)
	}
}

func (all spellings) sorted() []string {
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	return slices.Compact(all)
}
