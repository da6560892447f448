package web

import (
	"encoding/json"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"vobo/internal/fault"

	"vobo/internal/approval"
	"vobo/internal/fsm"
)

// field report B64; guarantee S-06
func TestTextThatWouldRuleOrHideIsShown(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"pay \u202E001\u202C to":     "⟨U+202E⟩",
		"a\u2066b":                   "⟨U+2066⟩",
		"Lu\u200Bis":                 "⟨U+200B⟩",
		"\u200B\u200B\u200B":         "⟨3 × U+200B⟩",
		" \u3164 ":                   "⟨U+3164⟩",
		"   ":                        "⟨blank⟩",
		"red \x1b[31m":               "⟨U+001B⟩",
		"a\u00adb":                   "⟨U+00AD⟩",
		"\ufeffx":                    "⟨U+FEFF⟩",
		"a\u2028b":                   "⟨U+2028⟩",
		"z" + rep("\u0301", 200):     "⟨+192 marks⟩",
		"top" + rep("\n", 10000):     "⟨10000 lines⟩",
		"x\u200Dy":                   "⟨U+200D⟩",
		"tag \U000E0041":             "⟨U+E0041⟩",
		"<img src=x onerror=a()>{{7": "&lt;img src=x onerror=a()&gt;{{7",
	} {
		if got := string(userText(text)); !strings.Contains(got, want) || !strings.HasPrefix(got, "<bdi>") || !strings.HasSuffix(got, "</bdi>") {
			t.Errorf("%q is shown as %s, want %s", text, got, want)
		}
		if got := plainText(text); strings.ContainsAny(got, "\u202E\u2066\u200B\u3164\x1b\u00ad\ufeff\u2028") {
			t.Errorf("%q keeps what is not seen in %q", text, got)
		}
	}
}

func TestRealScriptsAndEmojiStayAsTheyAre(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"ÄRGER ärger", "ПРИВЕТ", "مرحبا ١٠٠", "שלום עולם", "👩\u200d👩\u200d👧 family", "❤️", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "می\u200cخواهم", "क्\u200dष", "Nguyễn", "1️⃣", "line\none\n\ntwo\tend", "𠮷野家"} {
		if got := string(userText(text)); got != "<bdi>"+text+"</bdi>" {
			t.Errorf("%q became %s", text, got)
		}
	}
}

func rep(s string, n int) string { return strings.Repeat(s, n) }

// field report B37; guarantee S-18
func TestNothingThatPeopleWriteBecomesMarkupOnAnyPage(t *testing.T) {
	t.Parallel()
	payloads := []string{
		`<svg/onload=alert(1)>`, `"><img src=x onerror=alert(1)>`, `<a href=//evil>x</a> & "Q&A" {{7*7}}`, `</script><script>alert(1)</script>`, `<style>@import "//evil"</style>`, `<noscript><p title="</noscript><img src=x onerror=alert(1)>">`,
		`<base href=//evil>`, `<form action=//evil>`, `<meta http-equiv=refresh content="0;url=//evil">`, `[click](javascript:alert(1)) ![x](//evil/x.png) <b>bold</b>`, `'; alert(1); '`, "` onmouseover=alert(1) x=`",
	}
	for _, payload := range payloads {
		b := newBundle(t, func(_ *Config, f *fakeService) { poison(f, payload) })
		for _, p := range everyPage {
			var opts []func(*http.Request)
			if p.session != "" {
				opts = append(opts, as(p.session))
			}
			w := b.get(p.path, opts...)
			wantNoText(t, w, "<svg/", "<img src=x", "<a href=//evil", "<script>", "<style", "<base", "<form action=//", "<meta http-equiv", `href="javascript:`, `src="//evil`, "<b>bold", `" onmouseover`, `Q&amp;A&#34; 49`)
		}
		w := b.post("/a/open", "", form("event", payload, "comment", payload, "input.limit", payload, "digest", "d1", payload, "x"))
		wantNoText(t, w, "<svg/", "<img src=x", "<script>", `href="javascript:`)
	}
}

// poison puts a payload into every text that somebody else wrote.
func poison(f *fakeService, payload string) {
	quoted, _ := json.Marshal(payload)
	bad := func(task *approval.TaskView) {
		task.Title, task.Requester, task.ProcessTitle, task.Why, task.Instructions = payload, payload, payload, payload, payload
		task.Facts = []fsm.Fact{{Label: payload, Value: payload}, {Label: "o", Value: map[string]any{payload: payload, "l": []any{payload}}}, {Label: "d", Value: map[string]any{"name": payload, "uri": payload}}, {Label: "t", Value: []any{map[string]any{payload: payload}}}}
		events := sampleEvents()
		for i := range events {
			events[i].Title, events[i].Effect = payload, payload
		}
		events[1].Blocked = payload
		task.Events, task.EarlierVotes, task.History = events, f.history, f.history
	}
	for i := range f.history {
		f.history[i].Comment, f.history[i].Reason, f.history[i].To, f.history[i].Event = payload, payload, payload, payload
		f.history[i].Actor = approval.ActorView{ID: payload, Name: payload, For: payload, Via: payload}
		f.history[i].Input = json.RawMessage(`{"x":` + string(quoted) + `}`)
		f.history[i].Changes = []fsm.Change{{Pointer: payload, Before: payload, After: payload}}
	}
	for _, link := range f.links {
		bad(&link.Task)
		link.Person.Name = payload
	}
	for _, task := range f.tasks {
		bad(task)
	}
	f.view.Data = json.RawMessage(`{"x":` + string(quoted) + `}`)
	f.view.Key, f.view.State, f.view.Requester, f.view.StartedBy, f.view.Definition = payload, payload, payload, payload, payload
	f.view.Labels = map[string]string{payload: payload}
	f.view.AttentionReasons = []fsm.Attention{{Reason: payload, Ref: payload, Detail: payload, Since: sampleNow}}
	for i := range f.effects {
		e := &f.effects[i]
		e.Name, e.To, e.Reason, e.CorrelationID, e.Kind = payload, payload, payload, payload, payload
		e.Attempts, e.Result = []approval.AttemptView{{Outcome: payload, Detail: payload, Answer: payload}}, quoted
		e.Request = &approval.RequestView{Method: payload, URL: payload, Headers: [][2]string{{payload, payload}}, Credentials: payload, Body: json.RawMessage(`{"x":` + string(quoted) + `}`), To: []string{payload}, Subject: payload, Text: payload, Definition: payload, Key: payload, Event: payload}
	}
	for i := range f.calls {
		c := &f.calls[i]
		c.Source, c.WebhookID, c.Event, c.Definition, c.Key, c.Detail, c.Input = payload, payload, payload, payload, payload, payload, map[string]any{payload: payload}
	}
	for i := range f.children {
		f.children[i].Detail = payload
	}
	for i := range f.sinks {
		f.sinks[i].Host, f.sinks[i].Reason = payload, payload
	}
	for i := range f.view.Compensation.Items {
		f.view.Compensation.Items[i].Name, f.view.Compensation.Items[i].Undo = payload, payload
	}
	f.view.Compensation.NotUndone = []string{payload}
	f.view.Children[0].Name = payload
	for i := range f.people {
		f.people[i].Name = payload
	}
}

// Every key that a template or the code names has words, and every language has the same keys.
func TestNoWordsAreMissing(t *testing.T) {
	t.Parallel()
	key := regexp.MustCompile(`(?:\.T|\.Text|say\.text|\.text|mustT|\.fail\([^,"]*,) ?\(?"([a-z0-9.-]+[a-z0-9])"`)
	var names []string
	for _, dir := range []string{".", "templates", "templates/base"} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if !e.IsDir() && !strings.HasSuffix(e.Name(), "_test.go") {
				names = append(names, dir+"/"+e.Name())
			}
		}
	}
	found := 0
	for _, name := range names {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range key.FindAllStringSubmatch(string(source), -1) {
			found++
			if _, ok := english[m[1]]; !ok && !strings.HasSuffix(m[0], `+`) && !strings.HasSuffix(m[1], ".") {
				t.Errorf("%s names %q, which has no words", name, m[1])
			}
		}
	}
	if found < 150 {
		t.Errorf("only %d keys were found in the sources", found)
	}
	for locale, words := range catalogue {
		for key := range english {
			if words[key] == "" {
				t.Errorf("%s has no words for %q", locale, key)
			}
		}
		if len(words) != len(english) {
			t.Errorf("%s has %d keys, want %d", locale, len(words), len(english))
		}
	}
	for _, code := range fault.Codes() {
		if _, ok := englishProblems[code]; !ok {
			t.Errorf("the problem %s is not explained", code)
		}
	}
}
