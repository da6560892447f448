package definitions

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestOnlyThePlainPartOfYAMLIsRead(t *testing.T) {
	t.Parallel()
	runProblemCases(t, []problemCase{
		{"a duplicate key", []string{"version: 1", "version: 1\nversion: 2"}, `3:1: The key "version" stands here twice; first in line 2.`},
		{"a duplicate key in quotes", []string{"version: 1", "version: 1\n\"version\": 2"}, `3:1: The key "version" stands here twice; first in line 2.`},
		{"an anchor and an alias", []string{"{type: string}\n", "&s {type: string}\n", "note: {type: string}", "note: *s"}, `8:12: The anchor "s" is not allowed. (write the value out)
10:11: The alias "s" is not allowed. (write the value out)`},
		{"a merge key", []string{"{type: string}\n", "{<<: {type: string}}\n"}, `8:13: Merge keys are not allowed. (write the keys out)`},
		{"a tag", []string{"name: demo", "name: !!binary demo"}, `1:7: The tag "!!binary" is not allowed. (leave it out)`},
		{"a local tag", []string{"name: demo", "name: !go demo"}, `1:7: The tag "!go" is not allowed. (leave it out)`},
		{"two documents", []string{end, end + "---\nname: other\n"}, `21:1: A second YAML document begins here. (one file is one definition)`},
		{"a broken second document", []string{end, end + "---\nname: [\n"}, `23:1: This is not YAML: while parsing a flow node: did not find expected node content.`},
		{"a directive", []string{"name: demo", "%YAML 1.1\n---\nname: demo"}, `1:1: YAML directives are not allowed.`},
		{"a tab", []string{"  type: object", "\ttype: object"}, `5:1: A line may not begin with a tab. (use spaces)`},
		{"a broken flow", []string{"{type: integer}", "{type: integer"}, `10:9: This is not YAML: while parsing a flow mapping: did not find expected ',' or '}'.`},
		{"a key that is a list", []string{"name: demo", "? [a]\n: b\nname: demo"}, `1:3: A key must be a text.`},
		{"an empty key", []string{"name: demo", "~: b\nname: demo"}, `1:1: A key is empty.
1:1: The definition has no key "~".`},
		{"an empty value", []string{"owner: [requester]", "owner:"}, `15:11: owner of the state waiting is empty. (write a value or leave the key out)`},
		{"an octal number", []string{"version: 1", "version: 010"}, `2:10: YAML readers disagree on what "010" means. (write it as a plain decimal number or in lower case, or in quotes if it is text)
2:10: version must be a whole number from 1 to 2147483647.`},
		{"other numbers", []string{"amount: {type: integer}", "amount: {type: integer, enum: [0x1F, 1_000, .5, +1, .inf, 1e999, True]}"}, `9:36: YAML readers disagree on what "0x1F" means. (write it as a plain decimal number or in lower case, or in quotes if it is text)
9:42: YAML readers disagree on what "1_000" means. (write it as a plain decimal number or in lower case, or in quotes if it is text)
9:49: YAML readers disagree on what ".5" means. (write it as a plain decimal number or in lower case, or in quotes if it is text)
9:53: YAML readers disagree on what "+1" means. (write it as a plain decimal number or in lower case, or in quotes if it is text)
9:57: YAML readers disagree on what ".inf" means. (write it as a plain decimal number or in lower case, or in quotes if it is text)
9:63: YAML readers disagree on what "1e999" means. (write it as a plain decimal number or in lower case, or in quotes if it is text)
9:70: YAML readers disagree on what "True" means. (write it as a plain decimal number or in lower case, or in quotes if it is text)`},
		{"a control character", []string{"name: demo", "name: \"de\x01mo\""}, `1:10: The character U+0001 is not allowed.`},
		{"a byte order mark inside", []string{"name: demo", "name: de\ufeffmo"}, `1:9: The character U+FEFF is not allowed.`},
		{"no UTF-8", []string{"name: demo", "name: de\xff\xfemo"}, `1:9: This byte is not UTF-8. (save the file as UTF-8)`},
		{"a list for a mapping", []string{"done: {final: true}", "done: [final]"}, `20:9: The state done must be a mapping: {key: value}.`},
		{"several unknown keys in order", []string{"name: demo", "nmae: x\nname: demo", "owner: [requester]", "owner: [requester]\n    dedlines: []", end, end + "effcts: {}\n"}, `1:1: The definition has no key "nmae". (did you mean name?)
17:5: The state waiting has no key "dedlines". (did you mean deadlines?)
23:1: The definition has no key "effcts". (did you mean effects?)`},
	})
}

// field report B43
func TestNamesAreKeptAsWrittenOrRefused(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"on", "off", "yes", "no", `"on"`, `'yes'`, "y"} {
		t.Run("kept "+name, func(t *testing.T) {
			t.Parallel()
			written := strings.Trim(name, `"'`)
			d, problems := Parse("f", []byte(changed(t, "to: done, by: [owner]", "to: "+name+", by: [owner]", "go:", name+":", "to: done, by: [timer]", "to: "+name+", by: [timer]", "  done:", "  "+name+":")))
			if d == nil {
				t.Fatal(problems)
			}
			if d.States[1].Name != written || d.State(written) == nil || d.States[0].Events[0].Name != written || d.States[0].Events[0].Arms[0].To != written {
				t.Errorf("state %q, event %q", d.States[1].Name, d.States[0].Events[0].Name)
			}
		})
	}
	for name, want := range map[string]string{
		"null": "18:7", "~": "18:7", "1.0": "18:7", "010": "18:7", "1e3": "18:7", "2024-01-01": "18:7",
		"NO": "18:7", "true": "18:7", "false": "18:7", `"on:"`: "18:7", "stay": "18:7", `"é"`: "18:7",
		strings.Repeat("a", 64): "18:7",
	} {
		t.Run("refused "+name, func(t *testing.T) {
			t.Parallel()
			d, problems := Parse("f", []byte(changed(t, "go:", name+":")))
			if d != nil || len(problems) == 0 {
				t.Fatal("accepted")
			}
			if p := problems[0]; fmt.Sprintf("%d:%d", p.Line, p.Column) != want || p.Severity != Error {
				t.Errorf("got %s, want it at %s", p, want)
			}
		})
	}
}

func TestAByteOrderMarkAndCarriageReturnsChangeNothing(t *testing.T) {
	t.Parallel()
	plain, problems := Parse("f", []byte(small))
	if plain == nil {
		t.Fatal(problems)
	}
	other, problems := Parse("f", []byte("\ufeff"+strings.ReplaceAll(small, "\n", "\r\n")))
	if other == nil {
		t.Fatal(problems)
	}
	if plain.Hash != other.Hash {
		t.Errorf("%s and %s", plain.Hash, other.Hash)
	}
	_, problems = Parse("f", []byte("\ufeff"+strings.Replace(small, "name: demo", "nam: demo", 1)))
	if len(problems) == 0 || problems[0].Line != 1 || problems[0].Column != 1 {
		t.Errorf("the mark moves places: %s", problems)
	}
}

func TestPlacesInTextsAreExact(t *testing.T) {
	t.Parallel()
	title := func(text string) []string {
		return []string{"    events:", "    task: {title: " + text + "}\n    events:"}
	}
	runProblemCases(t, []problemCase{
		{"plain", []string{goLine, "go: {when: 'data.amount > 1 && data.x > 1', to: done, by: [owner]}"}, `18:43: data has no field "x".`},
		{"after letters of several bytes", title(`"ñandú 请 {{ data.x }}"`), `17:36: data has no field "x".`},
		{"after escapes", title(`"a\n\u00e9\"{{ data.x }}"`), `17:39: data has no field "x".`},
		{"after doubled quotes", title(`'it''s {{ data.x }}'`), `17:34: data has no field "x".`},
		{"in a literal block", []string{"    events:", "    task:\n      instructions: |\n        First line.\n        Then {{ data.x }}.\n    events:"}, `20:22: data has no field "x".`},
		{"in a folded block", []string{"    events:", "    task:\n      instructions: >\n        First line.\n        Then {{ data.x }}.\n    events:"}, `18:21: data has no field "x".`},
		{"in a quoted text over two lines", []string{"    events:", "    task:\n      title: \"First\n        {{ data.x }}\"\n    events:"}, `18:14: data has no field "x".`},
	})
}

// guarantee S-25
func TestBombsAreRefusedFast(t *testing.T) {
	t.Parallel()
	repeat := strings.Repeat
	many := func(n int, f func(i int) string) string {
		var w strings.Builder
		for i := range n {
			w.WriteString(f(i))
		}
		return w.String()
	}
	laughs := "a0: &a0 [x, x]\n" + many(9, func(i int) string {
		return fmt.Sprintf("a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(repeat(fmt.Sprintf("*a%d, ", i), 9), ", "))
	})
	bombs := map[string]string{
		"aliases":             laughs,
		"an alias of itself":  "a: &a [*a]\n",
		"a scalar of 1 MB":    "name: " + repeat("a", 1<<20),
		"brackets":            "a: " + repeat("[", 10_000),
		"closed brackets":     "a: " + repeat("[", 10_000) + repeat("]", 10_000),
		"braces":              "a: " + repeat("{a: ", 5_000) + "1" + repeat("}", 5_000),
		"indents":             many(300, func(i int) string { return repeat(" ", i) + "a:\n" }),
		"question marks":      repeat("? ", 10_000),
		"dashes":              repeat("- ", 50_000),
		"100,000 states":      "states:\n" + many(100_000, func(i int) string { return fmt.Sprintf("  s%d: {}\n", i) }),
		"10,000 states":       "states:\n" + many(10_000, func(i int) string { return fmt.Sprintf("  s%d: {final: true}\n", i) }),
		"10,000 transitions":  strings.Replace(small, "      go:", many(7_000, func(i int) string { return fmt.Sprintf("      e%d: {to: x, by: [a]}\n", i) })+"      go:", 1),
		"10,000 unknown keys": many(10_000, func(i int) string { return fmt.Sprintf("k%d: 1\n", i) }),
		"10,000 equal keys":   repeat("key: 1\n", 10_000),
		"40,000 scalars":      "a: [" + repeat("1,", 60_000) + "]",
		"a template loop":     strings.Replace(small, "demo", "demo\ntitle: \""+repeat("{{", 1000)+repeat("}}", 1000)+"\"", 1),
		"tags":                "a: !!binary x\nb: !!go x\nc: !!python/object:os.system x\n",
		"merge keys":          "a: &a {b: 1}\nc: {<<: *a}\n",
	}
	for name, text := range bombs {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			d, problems := Parse("f", []byte(text))
			// 50 ms on an idle machine; the tests of the whole house run beside this one.
			if took := time.Since(began); took > time.Second {
				t.Errorf("took %v", took)
			}
			if d != nil || !problems.HasErrors() {
				t.Error("accepted")
			}
			if len(problems) > maxProblems+1 {
				t.Errorf("%d problems", len(problems))
			}
		})
	}
}

func FuzzDefinition(f *testing.F) {
	f.Add([]byte(small))
	for _, src := range Bundled() {
		f.Add(src)
	}
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		f.Fatalf("found %v: %v", files, err)
	}
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(src)
	}
	for _, s := range []string{"", "a", "a: &a [*a]", "? [", "states: {a: {choose: [{to: a}]}}", "name: !!x y", "events: {a: []}", "a: \"\\", "states: []\ndata: {type: object, properties: []}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		d, problems := Parse("f", src)
		if (d == nil) != problems.HasErrors() {
			t.Fatalf("definition %v with problems %s", d != nil, problems)
		}
		for i, p := range problems {
			if p.Line < 1 || p.Column < 1 || p.Detail == "" || p.Code == "" {
				t.Errorf("problem without place or words: %+v", p)
			}
			if i > 0 && (p.Line < problems[i-1].Line || p.Line == problems[i-1].Line && p.Column < problems[i-1].Column) {
				t.Errorf("problems out of order: %s after %s", p, problems[i-1])
			}
		}
		if d == nil {
			return
		}
		if again, _ := Parse("f", src); again == nil || again.Hash != d.Hash {
			t.Error("the same text has two hashes")
		}
		if d.Mermaid() == "" || len(d.SVG(DiagramOptions{Current: d.Initial})) == 0 {
			t.Error("no diagram")
		}
	})
}
