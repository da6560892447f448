package definitions

import (
	"strings"
	"testing"

	"vobo/internal/fault"
)

func mustTemplate(t testing.TB, text string) *Template {
	t.Helper()
	tmpl, problems := compileTemplate(text, orderScope(t))
	if hasErrors(problems) {
		t.Fatalf("%s: %+v", text, problems)
	}
	return tmpl
}

func TestATemplateGivesPlainText(t *testing.T) {
	t.Parallel()
	env := orderEnv(t)
	for text, want := range map[string]string{
		"no parts } here }}":                            "no parts } here }}",
		"":                                              "",
		"Hello {{ data.name }}!":                        "Hello Eva!",
		"{{data.name}}{{ data.name }}":                  "EvaEva",
		"{{ data.limit }}":                              "", // an absent field is empty
		"<{{ data.limit }}>":                            "<>",
		"<{{ data.lines[7].id }}>":                      "<>",
		"{{ data.applicant.email }}":                    "",
		"{{ data.big }}":                                "9007199254740993", // field report B48
		"{{ result.n }}":                                "18446744073709551615",
		"{{ data.amount * 1e20 }}":                      "50000000000000000000000",
		"{{ double(data.next) / 3.0 }}":                 "0.3333333333333333",
		"{{ data.yes }} {{ data.maybe }}.":              "true .",
		"{{ {'a': {'b': 1}} }}":                         `{"a":{"b":1}}`,
		"{{ '}}' }}{{ \"}}\" + 'it\\'s' }}":             "}}}}it's",
		"{{ data.tags }}":                               `["a","b"]`,
		"{{ data.amount > 100.0 ? 'high' : 'normal' }}": "high",
		"{{ last.at }}":                                 "2026-12-04T09:00:00.005Z",
		"{{\n data.name\n}}":                            "Eva",
		"7*7 is {{ 7*7 }}":                              "7*7 is 49",
		"{{ '{{ data.name }}' }}":                       "{{ data.name }}", // field report B37: text is not evaluated twice
		"{{ data.lines[data.next].reason }}":            "why",
	} {
		got, err := mustTemplate(t, text).String(env, EscapeNone)
		if err != nil || got != want {
			t.Errorf("%q: %q %v, want %q", text, got, err, want)
		}
	}
	env.Data["amount"] = decodedNumber(t, "1.5e3")
	if got, err := mustTemplate(t, "{{ data.amount }}").String(env, EscapeNone); err != nil || got != "1500" {
		t.Errorf("a number with exponent: %q %v", got, err)
	}
}

// decodedNumber reads a number as it comes from a caller.
func decodedNumber(t *testing.T, text string) any {
	t.Helper()
	v, err := DecodeJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestATemplateThatIsWrongSaysWhere(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		offset int
		detail string
	}{
		"abc {{ data.name":               {4, "A {{ has no }}."},
		"abc {{ 'x }}":                   {4, "A {{ has no }}."},
		"é {{ data.nam }}":               {11, `data has no field "nam".`},
		"{{ }}":                          {3, "The expression is empty."},
		"{{ data.name }} {{ data.x + }}": {27, "The expression ends too early."},
		"a\x00b":                         {1, "The character NUL is not allowed."},
	} {
		_, problems := compileTemplate(text, orderScope(t))
		if len(problems) == 0 || problems[0].Offset != want.offset || problems[0].Detail != want.detail {
			t.Errorf("%q: %+v, want %+v", text, problems, want)
		}
	}
	_, problems := compileTemplate("{{ data.a1 }} {{ data.a2 }}", orderScope(t))
	if len(problems) != 2 {
		t.Errorf("all problems at once: %+v", problems)
	}
}

func TestEachPartIsEscapedForItsPlace(t *testing.T) {
	t.Parallel()
	env := orderEnv(t)
	env.Data["name"] = "a/b ?#%&é"
	for text, want := range map[string]string{
		"{{ env.CORE_URL }}/x/{{ data.name }}":                         "https://core.example/api/x/a%2Fb%20%3F%23%25&%C3%A9",
		"{{ env.CORE_URL }}/x?q={{ data.name }}&n={{ data.next }}":     "https://core.example/api/x?q=a%2Fb+%3F%23%25%26%C3%A9&n=1",
		"https://{{ env.HOST }}/{{ data.big }}":                        "https://h.example/9007199254740993",
		"https://x.example/{{ data.limit }}/y":                         "https://x.example//y",
		"https://x.example/cb?u={{ callback.url }}":                    "https://x.example/cb?u=\x00cb\x00",
		"https://x.example/{{ callback.urls.signed }}/{{ data.name }}": "https://x.example/\x00cb:signed\x00/a%2Fb%20%3F%23%25&%C3%A9",
		"https://x.example/{{ '/' + callback.url + '/' }}":             "https://x.example/%2F\x00cb\x00%2F",
		"https://x.example/{{ env.CORE_URL }}":                         "https://x.example/https:%2F%2Fcore.example%2Fapi",
	} {
		got, err := mustTemplate(t, text).String(env, EscapeURL)
		if err != nil || got != want {
			t.Errorf("%s: %q %v, want %q", text, got, err, want)
		}
	}
	env.Data["name"] = "A\r\nBcc: x@y\n\x00" // field report B36
	got, err := mustTemplate(t, "To {{ data.name }} {{ callback.url }}").String(env, EscapeHeader)
	if want := "To A Bcc: x@y   \x00cb\x00"; err != nil || got != want {
		t.Errorf("%q %v, want %q", got, err, want)
	}
}

// guarantee S-20
func TestDataCannotChooseTheHostOrClimbInThePath(t *testing.T) {
	t.Parallel()
	env := orderEnv(t)
	for _, text := range []string{"{{ data.name }}", "https://{{ data.name }}/x", "https://x.example{{ data.name }}", "{{ env.CORE_URL }}", "{{ 'https://' + data.name }}"} {
		tmpl := mustTemplate(t, text)
		isVar := strings.Contains(text, "env.")
		if p := tmpl.hostProblem(); (p == nil) != isVar {
			t.Errorf("%s: %+v", text, p)
		}
		if _, err := tmpl.String(env, EscapeURL); (err == nil) != isVar {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, name := range []string{".", ".."} {
		env.Data["name"] = name
		if got, err := mustTemplate(t, "https://x.example/a/{{ data.name }}/b").String(env, EscapeURL); fault.CodeOf(err) != fault.GuardRejected {
			t.Errorf("%s: %q %v", name, got, err)
		}
	}
	for _, text := range []string{"{{ env.CORE_URL }}/x/{{ data.name }}", "https://x.example/{{ data.name }}", "https://{{ env.HOST }}/{{ data.name }}"} {
		if p := mustTemplate(t, text).hostProblem(); p != nil {
			t.Errorf("%s: %+v", text, p)
		}
	}
}

func TestAnAbsentFieldWithinALargerExpressionIsAnError(t *testing.T) {
	t.Parallel()
	env := orderEnv(t)
	for text, want := range map[string]string{
		"{{ data.applicant.email + 'x' }}": "data.applicant.email is not set.",
		"{{ env.NOWHERE }}/x":              "env.NOWHERE is not configured.",
	} {
		_, err := mustTemplate(t, text).String(env, EscapeURL)
		if fault.CodeOf(err) != fault.GuardRejected || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestOneWholePartKeepsItsType(t *testing.T) {
	t.Parallel()
	env := orderEnv(t)
	tree, problems := compileTree(mustTree(t, `{"{{ data.name }}":"{{ data.name }}","n":"{{ data.big }}","l":"{{ data.tags }}","o":{"x":["{{ data.yes }}","is {{ data.yes }}",1.50,null]},"gone":"{{ data.limit }}","u":"{{ callback.url }}","r":"{{ result.n }}"}`), orderScope(t))
	if hasErrors(problems) {
		t.Fatal(problems)
	}
	v, err := tree.Eval(env)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"gone":null,"l":["a","b"],"n":9007199254740993,"o":{"x":[true,"is true",1.50,null]},"r":18446744073709551615,"u":"\u0000cb\u0000","{{ data.name }}":"Eva"}`
	if got := string(EncodeJSON(v)); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	v.(map[string]any)["l"].([]any)[0] = "changed"
	if env.Data["tags"].([]any)[0] != "a" {
		t.Error("the tree shares parts with the data")
	}
	_, problems = compileTree(mustTree(t, `{"a":["x","{{ data.nam }}"]}`), orderScope(t))
	if len(problems) != 1 || problems[0].Pointer != "/a/1" || problems[0].Offset != 8 {
		t.Errorf("%+v", problems)
	}
}

func TestATextFallsBackToANearLocale(t *testing.T) {
	t.Parallel()
	text := Text{ByLocale: map[string]*Template{"en": mustTemplate(t, "Hi {{ data.name }}"), "es": mustTemplate(t, "Hola {{ data.name }}"), "zh": mustTemplate(t, "你好")}}
	odd := Text{ByLocale: map[string]*Template{"fr": mustTemplate(t, "F"), "de": mustTemplate(t, "D")}}
	one := Text{ByLocale: map[string]*Template{"": mustTemplate(t, "one")}}
	for _, c := range []struct {
		text         Text
		locale, want string
	}{
		{text, "es-AR", "Hola Eva"},
		{text, "es", "Hola Eva"},
		{text, "ES_ar", "Hola Eva"},
		{text, "zh-Hant-TW", "你好"},
		{text, "pt", "Hi Eva"},
		{text, "", "Hi Eva"},
		{odd, "pt", "D"},
		{odd, "fr-CA", "F"},
		{one, "es", "one"},
		{Text{}, "es", ""},
	} {
		got, err := c.text.In(c.locale, orderEnv(t))
		if err != nil || got != c.want {
			t.Errorf("%q: %q %v, want %q", c.locale, got, err, c.want)
		}
	}
}
