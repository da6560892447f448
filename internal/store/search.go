package store

import (
	"strings"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// foldSearch makes the text that a search column holds and that `q` is looked for in:
// each part NFKC-normalised and case-folded (accents stay), one part per line. Both
// databases compare what is made here, so a search has the same hits on both.
func foldSearch(parts ...string) string {
	folded := make([]string, 0, len(parts))
	for _, part := range parts {
		if text := foldText(part); text != "" {
			folded = append(folded, text)
		}
	}
	return strings.Join(folded, "\n")
}

// foldText is NFKC after folding after NFKC (Unicode D146), since folding can leave
// text that is not normalised. White space at both ends goes; NUL, which PostgreSQL
// cannot store, never stands in what it is given.
func foldText(text string) string {
	return strings.TrimSpace(norm.NFKC.String(cases.Fold().String(norm.NFKC.String(text))))
}

// likeEscaper makes % and _ literal under ESCAPE '!'.
var likeEscaper = strings.NewReplacer("!", "!!", "%", "!%", "_", "!_")

// likePattern is the LIKE pattern (ESCAPE '!') that finds q anywhere in a search
// column; "" for a blank q, which filters nothing.
func likePattern(q string) string {
	folded := foldText(q)
	if folded == "" {
		return ""
	}
	return "%" + likeEscaper.Replace(folded) + "%"
}
