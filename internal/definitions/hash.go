package definitions

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
)

// hashTree gives the identity of a definition's content: "v1:" and the hexadecimal
// SHA-256 of its canonical form.
//
// The canonical form is CanonicalJSON of the tree that the YAML text means: mappings
// become objects with keys sorted by bytes, sequences arrays in their order, text
// strings as written after unquoting and folding; null, true and false literals;
// numbers exact decimals in one form, so that 1, 1.0 and 1e0 are one number. Dates
// are strings. Nothing is added: a key that is left out and the same key written
// with its default are two contents. Comments, the order of keys, quoting, flow or
// block style, white space and a byte order mark therefore do not matter; quotes do
// where they make a text of a number. The form never changes; another one would be
// called v2.
func hashTree(tree map[string]any) string {
	sum := sha256.Sum256(CanonicalJSON(tree))
	return "v1:" + hex.EncodeToString(sum[:])
}

// CheckEnv names the env.NAME that the definition uses and vars lacks: an error for
// each name at the place of its first use.
func (d *Definition) CheckEnv(vars map[string]string) Problems {
	var problems Problems
	var seen []string
	for _, use := range d.envUses {
		if _, ok := vars[use.name]; ok || slices.Contains(seen, use.name) {
			continue
		}
		seen = append(seen, use.name)
		problems = append(problems, Problem{
			File: d.File, Line: use.line, Column: use.column, Severity: Error, Code: "env-missing",
			Detail: "env." + use.name + " is not configured here.", Hint: "set VOBO_ENV_" + use.name,
		})
	}
	return problems
}
