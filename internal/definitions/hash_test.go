package definitions

import (
	"strings"
	"testing"
)

func hashOf(t *testing.T, src string) string {
	t.Helper()
	d, problems := Parse("f", []byte(src))
	if d == nil {
		t.Fatal(problems)
	}
	return d.Hash
}

// field report B41
func TestTheHashIsThatOfTheContent(t *testing.T) {
	t.Parallel()
	const want = "v1:"
	first := hashOf(t, small)
	if !strings.HasPrefix(first, want) || len(first) != len(want)+64 {
		t.Fatalf("hash %s", first)
	}
	number := changed(t, "amount: {type: integer}", "amount: {type: integer, minimum: 1, maximum: 9007199254740993}")
	same := map[string][2]string{
		"comments":      {small, "# A comment.\n" + changed(t, "version: 1", "version: 1   # the first")},
		"order of keys": {small, changed(t, "name: demo\nversion: 1\n", "version: 1\nname: demo\n", "{to: done, by: [owner]}", "{by: [owner], to: done}")},
		"quotes":        {small, changed(t, "name: demo", `"name": 'demo'`, "after: P1D", `after: "P1D"`)},
		"block style":   {small, changed(t, goLine, "go:\n        to: done\n        by:\n          - owner")},
		"white space":   {small, changed(t, "states:\n", "\n\nstates:   \n\n")},
		"numbers":       {number, strings.Replace(number, "minimum: 1,", "minimum: 1.0,", 1)},
	}
	for name, pair := range same {
		if a, b := hashOf(t, pair[0]), hashOf(t, pair[1]); a != b {
			t.Errorf("%s: %s and %s", name, a, b)
		}
	}
	others := map[string]string{
		"another version":       changed(t, "version: 1", "version: 2"),
		"another word":          changed(t, "name: demo", "name: demos"),
		"another duration":      changed(t, "P1D", "PT24H"),
		"a default written out": changed(t, goLine, "go: {to: done, by: [owner], comment: optional}"),
		"another order of list": changed(t, "[email, amount]", "[amount, email]"),
		"a digit far behind":    strings.Replace(number, "9007199254740993", "9007199254740992", 1),
		"a number":              number,
	}
	seen := map[string]string{first: "small"}
	for name, src := range others {
		h := hashOf(t, src)
		if other := seen[h]; other != "" {
			t.Errorf("%s has the hash of %s", name, other)
		}
		seen[h] = name
	}
}

// The form is for ever: this value may never change.
func TestTheCanonicalFormStaysAsItIs(t *testing.T) {
	t.Parallel()
	if got := parseFile(t, "onboarding.v1.yaml").Hash; got != "v1:dfdbe7f19251c198e4e1032eb6a835b97dfc4db72da6ea82da041ffa39b430e4" {
		t.Errorf("the hash of onboarding.v1 is now %s", got)
	}
}

func TestMissingSettingsAreNamedAtTheirFirstUse(t *testing.T) {
	t.Parallel()
	d := parseFile(t, "supplier.v1.yaml")
	want := `supplier.v1.yaml:79:16: env.ESIGN_URL is not configured here. (set VOBO_ENV_ESIGN_URL)
supplier.v1.yaml:85:24: env.CORE_URL is not configured here. (set VOBO_ENV_CORE_URL)`
	if got := d.CheckEnv(map[string]string{"OTHER": ""}).String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := d.CheckEnv(map[string]string{"ESIGN_URL": "https://a.example", "CORE_URL": ""}); len(got) != 0 {
		t.Errorf("got %s", got)
	}
}
