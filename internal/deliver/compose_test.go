package deliver

import (
	"fmt"
	"html"
	"regexp"
	"strings"
	"testing"
	"time"

	"vobo/internal/fault"
)

func sampleTask(t *testing.T, kind string) TaskMail {
	t.Helper()
	zone, err := time.LoadLocation("Europe/Madrid")
	if err != nil {
		t.Fatal(err)
	}
	due := time.Date(2026, 12, 3, 17, 0, 0, 0, time.UTC)
	return TaskMail{
		Kind: kind, Service: "Vobo", Process: "Customer onboarding", Comment: "Now with\na contract", Requester: "Rosa", Title: "Approve Acme", Facts: [][2]string{{"Applicant", "Acme"}, {"Amount", "12500.00"}},
		InstructionsText: "Check the list.", InstructionsHTML: "<p>Check the <strong>list</strong>.</p>", DueAt: &due, Zone: zone, Locale: "en-GB",
		Link: "https://vobo.example/a/TOKEN", InboxLink: "https://vobo.example/inbox", ReminderK: 2, ReminderN: 3, Others: []string{"Luis", "Mei"}, PersonName: "Ana",
	}
}

func TestATaskMailSaysWhatIsAskedUntilWhenWhyAndOfWhomElse(t *testing.T) {
	t.Parallel()
	for kind, subject := range map[string]string{
		kindTask: "Approve Acme", kindReminder: "Reminder 2 of 3: Approve Acme", kindEscalated: "Escalated to you: Approve Acme", kindChanged: "The request has changed: Approve Acme",
	} {
		gotSubject, text, page, err := RenderTaskMail(sampleTask(t, kind))
		if err != nil {
			t.Fatal(err)
		}
		if gotSubject != subject {
			t.Errorf("%s: subject %q, want %q", kind, gotSubject, subject)
		}
		for _, part := range []string{text, html.UnescapeString(page)} {
			for _, want := range []string{"Rosa", "Until Thu 3 December 2026, 18:00 (Madrid, UTC+01:00)", "Approve Acme", "Customer onboarding", "They wrote:\nNow with\na contract", "Applicant", "12500.00", "https://vobo.example/a/TOKEN", "Read and decide", "made for Ana alone", english.why[kind], "Also asked: Luis, Mei.", "Sent by Vobo."} {
				if !strings.Contains(part, want) {
					t.Errorf("%s: no %q in\n%s", kind, want, part)
				}
			}
		}
		if !strings.Contains(text, "Check the list.") || !strings.Contains(page, "<strong>list</strong>") {
			t.Errorf("%s: the instructions are missing", kind)
		}
		if facts := strings.Index(text, "12500.00"); facts > strings.Index(text, "TOKEN") || facts > strings.Index(text, "They wrote:") {
			t.Errorf("%s: something comes before the facts", kind)
		}
	}
	if _, _, _, err := RenderTaskMail(sampleTask(t, "invoice")); fault.CodeOf(err) != fault.InvalidInput {
		t.Errorf("an unknown kind: %v", err)
	}
}

func TestWithoutAPersonalLinkTheMailLeadsToTheInbox(t *testing.T) {
	t.Parallel()
	m := sampleTask(t, kindTask)
	m.Link = ""
	_, text, page, err := RenderTaskMail(m)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{text, page} {
		if !strings.Contains(part, "Open your inbox") || !strings.Contains(part, "https://vobo.example/inbox") || strings.Contains(part, "made for") {
			t.Errorf("not about the inbox:\n%s", part)
		}
	}
	m.InboxLink = ""
	if _, text, page, err = RenderTaskMail(m); err != nil || strings.Contains(page, "<a ") || strings.Contains(text, "http") {
		t.Errorf("a link out of nothing (%v)", err)
	}
}

var (
	anyTag  = regexp.MustCompile(`<[a-zA-Z/!][^>]*>`)
	anyHref = regexp.MustCompile(`(?i)\b(href|src|action|background|poster|formaction|on[a-z]+)\s*=`)
)

// hostile are S-18's and S-06's texts for what people type.
func hostile() []string {
	return []string{
		`<a href=//evil>x</a> & "Q&A" {{7*7}}`, `<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `<svg/onload=alert(1)>`, `</title><script>x</script>`, `</style><style>@import "//evil"`, `--></td></table><form action=//evil>`, `javascript:alert(1)`, `https://evil.example/login`,
		`{{.Link}}`, `{{template "x"}}`, `[x](//evil)`, `<base href=//evil>`, `<meta http-equiv=refresh content="0;url=//evil">`, `<noscript><p title="</noscript><img src=x onerror=1>">`, `&lt;b&gt;`, `&amp;`, `'`, "`", `<!--[if mso]><v:x href=//evil><![endif]-->`, "\x1b[31mred\x1b[0m", "a\x00b",
	}
}

// field report B37, guarantee S-18
func TestWhatPeopleTypeIsShownAsTypedAndNeverBecomesMarkupOrALink(t *testing.T) {
	t.Parallel()
	clean := sampleTask(t, kindTask)
	_, _, reference, err := RenderTaskMail(clean)
	if err != nil {
		t.Fatal(err)
	}
	tags, hrefs := len(anyTag.FindAllString(reference, -1)), len(anyHref.FindAllString(anyTagsOf(reference), -1))
	for _, text := range hostile() {
		m := sampleTask(t, kindTask)
		m.Requester, m.Title, m.Service, m.PersonName, m.Others = text, text, text, text, []string{text, text}
		m.Process, m.Comment = text, text
		m.Facts = [][2]string{{text, text}, {text, text}}
		subject, plain, page, err := RenderTaskMail(m)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(anyTag.FindAllString(page, -1)); got != tags {
			t.Errorf("%q: %d tags, want %d", text, got, tags)
		}
		if got := len(anyHref.FindAllString(anyTagsOf(page), -1)); got != hrefs {
			t.Errorf("%q: %d links or handlers, want %d", text, got, hrefs)
		}
		shown := oneLine(text)
		if subject != shown {
			t.Errorf("subject %q, want %q", subject, shown)
		}
		for name, part := range map[string]string{"text": plain, "HTML": html.UnescapeString(anyTag.ReplaceAllString(page, ""))} {
			if strings.Count(part, shown) < 4 {
				t.Errorf("%q is not shown as typed in the %s part:\n%s", shown, name, part)
			}
		}
		plain, page, err = RenderPlainMail(text, text, text+"\n\n"+text)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(anyTagsOf(page), "href") || strings.Contains(page, "<script") || strings.Contains(page, "<img") || !strings.Contains(plain, cleanBody(text)) {
			t.Errorf("%q in a plain mail:\n%s", text, page)
		}
	}
}

// anyTagsOf returns only the tags of a page: what stands between them is text.
func anyTagsOf(page string) string { return strings.Join(anyTag.FindAllString(page, -1), "") }

// guarantee S-06: no value can pass for another fact, push the button away, or turn text.
func TestAFactCannotImitateAnother(t *testing.T) {
	t.Parallel()
	m := sampleTask(t, kindTask)
	m.Facts = [][2]string{
		{"Note", "ok\n  Amount: 1.00\nAmount: 2.00" + strings.Repeat("\n", 10_000) + "end"},
		{"Long", strings.Repeat("x", 100_000)},
		{"Lines", strings.Repeat("y\n", 5_000)},
		{"Turned", "pay \u202e001 \u2066x"},
		{"Hebrew", "שלום 100"},
		{"Amount", "9.00"},
	}
	_, text, page, err := RenderTaskMail(m)
	if err != nil {
		t.Fatal(err)
	}
	facts := 0
	for line := range strings.SplitSeq(text, "\n") {
		if regexp.MustCompile(`^ {0,2}Amount: `).MatchString(line) {
			facts++
		}
	}
	if facts != 1 {
		t.Errorf("%d lines look like the amount:\n%.1000s", facts, text)
	}
	for _, part := range []string{text, page} {
		if len(part) > 20_000 || strings.Contains(part, "\n\n\n\n") {
			t.Errorf("the part has %d bytes or a gap", len(part))
		}
		if strings.ContainsAny(part, "\u202e\u2066") {
			t.Error("a direction control came through")
		}
		if strings.Count(part, "(shortened)") != 2 {
			t.Errorf("%d texts are marked as shortened", strings.Count(part, "(shortened)"))
		}
	}
	if !strings.Contains(text, "\u2068שלום 100\u2069") {
		t.Error("right-to-left text is not isolated")
	}
	many := sampleTask(t, kindTask)
	many.Facts, many.Others = nil, nil
	for n := range 100 {
		many.Facts = append(many.Facts, [2]string{fmt.Sprint("f", n), "v"})
		many.Others = append(many.Others, fmt.Sprint("person", n))
	}
	if _, text, _, err = RenderTaskMail(many); err != nil || !strings.Contains(text, "60 more") || !strings.Contains(text, "90 more") {
		t.Errorf("what is left out is not said (%v)", err)
	}
}

func TestALoginMailSaysHowLongItsLinkLasts(t *testing.T) {
	t.Parallel()
	for minutes, want := range map[int]string{15: "for 15 minutes.", 1440: "for 24 hours.", 60: "for 60 minutes.", 1: "for one minute."} {
		subject, text, page, err := RenderLoginMail(LoginMail{PersonName: "Ana", Link: "https://vobo.example/login/TOKEN", Minutes: minutes})
		if err != nil {
			t.Fatal(err)
		}
		if subject != "Your link to log in to Vobo" || !strings.Contains(text, want) || !strings.Contains(page, want) || !strings.Contains(text, "\nhttps://vobo.example/login/TOKEN\n") {
			t.Errorf("%q:\n%s", subject, text)
		}
	}
	if _, _, _, err := RenderLoginMail(LoginMail{PersonName: "Ana"}); fault.CodeOf(err) != fault.InvalidInput {
		t.Errorf("a login mail without a link: %v", err)
	}
}

func TestAMomentNamesPlaceAndOffset(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 7, 31, 23, 30, 0, 0, time.UTC)
	for zone, want := range map[string]string{
		"UTC": "Fri 31 July 2026, 23:30 (UTC)", "Europe/Madrid": "Sat 1 August 2026, 01:30 (Madrid, UTC+02:00)", "America/New_York": "Fri 31 July 2026, 19:30 (New York, UTC-04:00)",
		"Asia/Kolkata": "Sat 1 August 2026, 05:00 (Kolkata, UTC+05:30)", "America/Argentina/Buenos_Aires": "Fri 31 July 2026, 20:30 (Buenos Aires, UTC-03:00)", "Europe/Lisbon": "Sat 1 August 2026, 00:30 (Lisbon, UTC+01:00)",
	} {
		location, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		if got := english.moment(at, location); got != want {
			t.Errorf("%s: %q, want %q", zone, got, want)
		}
	}
	if got := english.moment(at, nil); got != "Fri 31 July 2026, 23:30 (UTC)" {
		t.Errorf("without a zone: %q", got)
	}
}

func TestAnUnknownLanguageIsAnsweredInEnglish(t *testing.T) {
	t.Parallel()
	for _, locale := range []string{"", "en", "EN_us", "tlh", "not a tag"} {
		if phrasesFor(locale) != &english {
			t.Errorf("%q", locale)
		}
	}
}

func BenchmarkTaskMail(b *testing.B) {
	due := attemptTime
	m := TaskMail{Kind: kindTask, Requester: "Rosa", Title: "Approve Acme", Facts: [][2]string{{"Applicant", "Acme"}, {"Amount", "12500.00"}}, DueAt: &due, Link: "https://vobo.example/a/TOKEN", PersonName: "Ana"}
	b.ReportAllocs()
	for b.Loop() {
		subject, text, page, err := RenderTaskMail(m)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := (Message{ID: "a/1/1", From: "vobo@mail.example", To: "ana@example.com", Subject: subject, Text: text, HTML: page, Date: attemptTime}).Bytes(); err != nil {
			b.Fatal(err)
		}
	}
}
