package definitions

import (
	"strings"
	"testing"

	"vobo/internal/fault"
)

func mustPath(t testing.TB, text string) Path {
	t.Helper()
	p, problems := compilePath(text, orderScope(t))
	if len(problems) > 0 {
		t.Fatalf("%s: %+v", text, problems)
	}
	return p
}

func TestAPathReadsSetsAndRemoves(t *testing.T) {
	t.Parallel()
	env := orderEnv(t)
	for _, c := range []struct{ path, get, pointer string }{
		{"name", `"Eva"`, "/name"},
		{"applicant.name", `"Eva"`, "/applicant/name"},
		{"lines[data.next].id", `"l2"`, "/lines/1/id"},
		{"lines[0]", `{"cents":250,"id":"l1"}`, "/lines/0"},
		{`free["k"][1]`, `2.5`, "/free/k/1"},
		{"any.x.y", `1`, "/any/x/y"},
		{"limit", ``, "/limit"},
		{"lines[9].id", ``, "/lines/9/id"},
		{"lines[data.limit].id", ``, "/lines"},
	} {
		p := mustPath(t, c.path)
		v, there := p.Get(env.Data, env)
		if there != (c.get != "") || there && string(EncodeJSON(v)) != c.get {
			t.Errorf("%s: %v %v, want %s", c.path, v, there, c.get)
		}
		if got := p.Pointer(env); got != c.pointer {
			t.Errorf("%s: pointer %s, want %s", c.path, got, c.pointer)
		}
	}
	before := string(EncodeJSON(env.Data))
	root := map[string]any{}
	for k, v := range env.Data { // a shallow copy is enough for Set and Unset
		root[k] = v
	}
	for path, value := range map[string]any{"limit": "1", "applicant.email": "e", "lines[data.next].reason": "new", "lines[2]": "added", "any.p.q": "deep"} {
		if err := mustPath(t, path).Set(root, value, env); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, path := range []string{"name", "lines[0]", "other.name", "free.none.x", "lines[77]"} {
		mustPath(t, path).Unset(root, env)
	}
	want := `"lines":[{"cents":9,"id":"l2","reason":"new"},"added"],`
	got := string(EncodeJSON(root))
	for _, part := range []string{want, `"limit":"1"`, `"applicant":{"email":"e","name":"Eva"}`, `"any":{"p":{"q":"deep"},"x":{"y":1}}`, `"other":{}`} {
		if !strings.Contains(got, part) {
			t.Errorf("%s lacks %s", got, part)
		}
	}
	if strings.Contains(got, `"name":"Eva","next"`) {
		t.Errorf("name is still there: %s", got)
	}
	if now := string(EncodeJSON(env.Data)); now != before {
		t.Errorf("the data it was copied from changed:\n%s\n%s", now, before)
	}
}

func TestAPathThatCannotBeSetSaysWhy(t *testing.T) {
	t.Parallel()
	env := orderEnv(t)
	env.Data["free"] = "text"
	for path, want := range map[string]string{
		"lines[5].id":          "the list has 2 entries and the index is 5",
		"free.x":               "what holds x is no object",
		"any[0]":               "there is no list",
		"lines[data.limit].id": "data.limit is not set",
	} {
		err := mustPath(t, path).Set(env.Data, "v", env)
		if fault.CodeOf(err) != fault.GuardRejected || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
	if err := (Path{Text: "x"}).Set(map[string]any{}, 1, nil); fault.CodeOf(err) != fault.GuardRejected {
		t.Errorf("a path that was never compiled: %v", err)
	}
}

func TestAPathThatIsNotDeclaredIsRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		offset       int
		detail, hint string
	}{
		"limti":                    {0, `"limti" is not declared in data.`, "did you mean limit?"},
		"applicant.nam":            {10, `"applicant.nam" is not declared in data.`, "did you mean name?"},
		"name.x":                   {5, `"name.x" is not declared in data.`, ""},
		"lines[0].cent":            {9, `"lines[0].cent" is not declared in data.`, "did you mean cents?"},
		"lines[data.nxt].id":       {11, `data has no field "nxt".`, "did you mean next?"},
		"lines.id":                 {6, `"lines.id" is not declared in data.`, ""},
		"lines[":                   {5, "A [ has no ].", ""},
		"":                         {0, `"\"\"" is no path.`, ""},
		"a..b":                     {2, `"\"a..b\"" is no path.`, ""},
		"lines[0]id":               {8, `'i' is not expected here.`, ""},
		"lines[data.yes]":          {10, "This gives true or false where a whole number or a text is needed.", ""},
		strings.Repeat("any.", 20): {67, "The path has more than 16 parts.", ""},
	} {
		_, problems := compilePath(text, orderScope(t))
		if len(problems) != 1 || problems[0].Offset != want.offset || problems[0].Detail != want.detail || want.hint != "" && problems[0].Hint != want.hint {
			t.Errorf("%q: %+v, want %+v", text, problems, want)
		}
	}
	if _, problems := compilePath("anything.at.all", newScope(nil)); len(problems) > 0 {
		t.Errorf("untyped data: %+v", problems)
	}
}

func TestAPrincipalStandsForPeople(t *testing.T) {
	t.Parallel()
	env := orderEnv(t)
	env.Data["tags"] = []any{"group:owners-a", "ana@example.com", "user:luis", "", "user:luis"}
	for _, c := range []struct {
		kind PrincipalKind
		name string
		want string
	}{
		{KindRequester, "", "requester"},
		{KindOwner, "", "owner"},
		{KindTimer, "", "timer"},
		{KindEffect, "", "effect"},
		{KindGroup, "risk", "group:risk"},
		{KindGroup, "cc-{{ data.next }}", "group:cc-1"},
		{KindDid, "approve", "did:approve"},
		{KindUser, "{{ data.name }}", "user:Eva"},
		{KindUser, "{{ data.applicant.email }}", ""},
		{KindSystem, "esign", "system:esign"},
		{KindDynamic, "{{ data.tags }}", "group:owners-a email:ana@example.com user:luis"},
		{KindDynamic, "{{ data.tags.filter(x, x.startsWith('group')) }}", "group:owners-a"},
		{KindDynamic, "{{ data.limit }}", ""},
		{KindDynamic, "{{ 'requester' }}", "requester"},
		{KindUser, "{{ ['a', 'b'] }}", "user:a user:b"},
		{KindEmail, "{{ 'x@y.example' }}", "email:x@y.example"},
		{KindUser, "{{ data.big }}", "user:9007199254740993"},
	} {
		p := Principal{Kind: c.kind, Text: c.name}
		if c.name != "" {
			p.Name = mustTemplate(t, c.name)
		}
		refs, err := p.Resolve(env)
		var got []string
		for _, r := range refs {
			got = append(got, r.String())
		}
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%s %s: %v %v, want %s", c.kind, c.name, got, err, c.want)
		}
	}
	for _, name := range []string{"{{ 'nobody' }}", "{{ 'timer' }}", "{{ 'effect' }}", "{{ 'did:x' }}", "{{ 'user:' }}", "{{ 'user: x' }}", "{{ ['user:a\\nb'] }}", "{{ data.lines }}", "{{ data.applicant.email + 'x' }}"} {
		refs, err := Principal{Kind: KindDynamic, Text: name, Name: mustTemplate(t, name)}.Resolve(env)
		if fault.CodeOf(err) != fault.GuardRejected {
			t.Errorf("%s: %v %v", name, refs, err)
		}
	}
}

func TestARefIsReadAsItIsWritten(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"group:risk", "requester", "owner", "timer", "effect", "user:ana@example.com", "did:pending.approve", "system:esign", "role:operator", "email:a@b.example"} {
		if r, err := ParseRef(s); err != nil || r.String() != s {
			t.Errorf("%s: %v %v", s, r, err)
		}
	}
	if r, err := ParseRef("ana@example.com"); err != nil || r != (Ref{KindEmail, "ana@example.com"}) {
		t.Errorf("%v %v", r, err)
	}
	for _, s := range []string{"", "nobody", "group:", "boss:x", "group: x", "user:" + strings.Repeat("x", 255), "requester:x"} {
		if r, err := ParseRef(s); fault.CodeOf(err) != fault.GuardRejected {
			t.Errorf("%q: %v %v", s, r, err)
		}
	}
}
