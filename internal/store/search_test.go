package store

import (
	"strings"
	"testing"
)

func TestFoldedTextIsAlikeForEveryCaseAndWidthOfALetter(t *testing.T) {
	t.Parallel()
	for _, same := range [][]string{
		{"ÄRGER", "ärger", "A\u0308rger"},
		{"ПРИВЕТ", "привет", "Привет"},
		{"STRASSE", "straße", "STRAẞE"},
		{"50% off", "50％ OFF", "  50% Off "},
		{"ΣΊΣΥΦΟΣ", "σίσυφος", "σίσυφοσ"},
		{"ﬁnal", "FINAL"},
	} {
		for _, other := range same[1:] {
			if foldText(same[0]) != foldText(other) {
				t.Errorf("%q folds to %q but %q to %q", same[0], foldText(same[0]), other, foldText(other))
			}
		}
	}
}

func TestFoldedTextKeepsAccentsApart(t *testing.T) {
	t.Parallel()
	if foldText("Müller") == foldText("Muller") {
		t.Error("Müller and Muller are found by each other")
	}
}

func TestSearchTextHasOnePartPerLineAndNoBlankOnes(t *testing.T) {
	t.Parallel()
	if got := foldSearch("Ana", "", "  ", "B"); got != "ana\nb" {
		t.Errorf("got %q", got)
	}
}

func TestSearchPatternsAreLiteral(t *testing.T) {
	t.Parallel()
	for q, want := range map[string]string{
		"":           "",
		"  ":         "",
		"%":          "%!%%",
		"a_b!":       "%a!_b!!%",
		`back\slash`: `%back\slash%`,
	} {
		if got := likePattern(q); got != want {
			t.Errorf("%q: got %q, want %q", q, got, want)
		}
	}
}

func FuzzFoldingTwiceIsFoldingOnce(f *testing.F) {
	for _, text := range []string{"", "Straße", "ΐ", "ǰ", "\u0345", "İ", "％", "ﬃ"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.ToValidUTF8(text, "")
		if once := foldText(text); foldText(once) != once {
			t.Errorf("%q folds to %q, and that to %q", text, once, foldText(once))
		}
	})
}
