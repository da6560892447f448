package deliver

import (
	"bytes"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	gomail "github.com/wneessen/go-mail"

	"vobo/internal/fault"
)

// parsed is a mail as a reader sees it.
type parsed struct {
	header     mail.Header
	text, html string
}

func parse(t *testing.T, raw []byte) parsed {
	t.Helper()
	m, err := mail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		t.Fatalf("%v in\n%s", err, raw)
	}
	p := parsed{header: m.Header}
	kind, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	if kind == "text/plain" {
		p.text = decodeBody(t, m.Header.Get("Content-Transfer-Encoding"), m.Body)
		return p
	}
	r := multipart.NewReader(m.Body, params["boundary"])
	var kinds []string
	for {
		part, err := r.NextRawPart()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, part.Header.Get("Content-Type"))
		body := decodeBody(t, part.Header.Get("Content-Transfer-Encoding"), part)
		if len(kinds) == 1 {
			p.text = body
		} else {
			p.html = body
		}
	}
	if want := []string{"text/plain; charset=utf-8", "text/html; charset=utf-8"}; !slices.Equal(kinds, want) {
		t.Errorf("parts %q", kinds)
	}
	return p
}

func decoded(t *testing.T, s string) string {
	t.Helper()
	text, err := new(mime.WordDecoder).DecodeHeader(s)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func write(t *testing.T, m Message) []byte {
	t.Helper()
	raw, err := m.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(string(raw), "\r\n") {
		if len(line) > 78 && !strings.HasPrefix(line, "Content-Type: ") || strings.ContainsAny(line, "\r\n\x00") {
			t.Fatalf("a line of %d bytes, or with a bare line break: %q", len(line), line)
		}
		for _, c := range []byte(line) {
			if c > '~' {
				t.Fatalf("not 7-bit: %q", line)
			}
		}
	}
	return raw
}

// headerInjections are S-22's texts for names and subjects, with what must be read.
func headerInjections() map[string]string {
	long := strings.Repeat("Señor 🙂 ", 71)[:500]
	for !utf8.ValidString(long) {
		long = long[:len(long)-1]
	}
	cases := map[string]string{
		"A\r\nBcc: x@y":                      "A Bcc: x@y",
		"A\nSubject: z":                      "A Subject: z",
		"A\rB":                               "A B",
		"A\r\n\r\nbody":                      "A body",
		"A\r\n B":                            "A B",
		"Doe, Jane":                          "Doe, Jane",
		`The "Boss" <boss@corp.example>`:     `The "Boss" <boss@corp.example>`,
		`back\slash "`:                       `back\slash "`,
		"José Núñez":                         "José Núñez",
		"审批 Ünïcode":                         "审批 Ünïcode",
		"🙂🙂🙂":                                "🙂🙂🙂",
		"Q&A <b>x</b> {{7*7}} &amp;":         "Q&A <b>x</b> {{7*7}} &amp;",
		"A%0d%0aBcc: x":                      "A%0d%0aBcc: x",
		"A\u2028Bcc: x":                      "A Bcc: x",
		"A\u2029B":                           "A B",
		"A\u0085B":                           "A B",
		"A\x00B":                             "A B",
		"A\x0bB\x0cC\x1b[31mD":               "A B C [31mD",
		"=?utf-8?b?Qg==?=":                   "=?utf-8?b?Qg==?=",
		"=?utf-8?q?=0d=0aBcc:_x?= x":         "=?utf-8?q?=0d=0aBcc:_x?= x",
		"a;b,c:d(e)f[g]@h":                   "a;b,c:d(e)f[g]@h",
		"\u202ereversed\u202c":               "reversed",
		"bad \xff utf8":                      "bad \ufffd utf8",
		strings.Repeat("x", 500):             strings.Repeat("x", 500),
		strings.Repeat("word ", 100) + "end": strings.Repeat("word ", 100) + "end",
		long:                                 strings.TrimSpace(long),
		strings.Repeat("é", 5000):            strings.Repeat("é", MaxHeaderRunes) + "…",
		" \r\n ":                             "",
		"":                                   "",
	}
	for c := rune(0); c < 0x20; c++ {
		cases["A"+string(c)+"Bcc: x@y"] = "A Bcc: x@y"
		cases["A"+string(c)+string(c)+"\r\nB: C"] = "A B: C"
	}
	return cases
}

// field report B36, guarantee S-22
func TestNoTextAddsAHeaderAndEveryTextIsReadAsGiven(t *testing.T) {
	t.Parallel()
	want := []string{"Content-Transfer-Encoding", "Content-Type", "Date", "From", "Message-Id", "Mime-Version", "Subject", "To"}
	cases := headerInjections()
	for text, read := range cases {
		m := testMessage(1)
		m.Subject, m.FromName, m.ToName = text, text, text
		p := parse(t, write(t, m))
		var names []string
		for name, values := range p.header {
			names = append(names, name)
			if len(values) != 1 {
				t.Errorf("%.40q: %d times %s", text, len(values), name)
			}
		}
		slices.Sort(names)
		if !slices.Equal(names, want) {
			t.Errorf("%.40q: headers %v", text, names)
		}
		if got := decoded(t, p.header.Get("Subject")); got != read {
			t.Errorf("subject %.80q reads %.80q, want %.80q", text, got, read)
		}
		for header, address := range map[string]string{"From": "vobo@mail.example", "To": "ana@example.com"} {
			list, err := p.header.AddressList(header)
			if err != nil || len(list) != 1 || list[0].Address != address || list[0].Name != read {
				t.Errorf("%s with name %.40q reads %v (%v)", header, text, list, err)
			}
		}
	}
	t.Logf("%d texts in 3 fields", len(cases))
}

// guarantee D3: the same bytes on each retry; another effect has another Message-ID.
func TestTheSameMessageHasTheSameBytesAndItsKeyMakesItsID(t *testing.T) {
	t.Parallel()
	m := testMessage(7)
	m.HTML, m.AutoSubmitted, m.Cc, m.References = "<p>Hello</p>", true, []string{"b@example.com", "c@example.com"}, "01981f2e/4/1"
	a, b := write(t, m), write(t, m)
	if !bytes.Equal(a, b) {
		t.Error("two writings differ")
	}
	p := parse(t, a)
	for name, want := range map[string]string{
		"Message-Id": "<01981f2e.4.7@mail.example>", "In-Reply-To": "<01981f2e.4.1@mail.example>", "References": "<01981f2e.4.1@mail.example>",
		"Date": "Thu, 03 Dec 2026 10:00:00 +0000", "Auto-Submitted": "auto-generated", "Cc": "b@example.com, c@example.com",
	} {
		if got := p.header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	ids := map[string]string{}
	for _, key := range []string{"a/1/2", "a.1.2", "a/1.2", "a_2f1/2", "/a/1/2", "a//1/2", "a/1/2/", "A/1/2", "a/12", "a1/2", "a@b", "<a>", "a b", "ü", "_2f"} {
		id, err := MessageID(key, "vobo@mail.example")
		if err != nil {
			t.Fatal(err)
		}
		if other, taken := ids[id]; taken {
			t.Errorf("%q and %q share %s", key, other, id)
		}
		ids[id] = key
		if _, err := mail.ParseAddress(id); err != nil {
			t.Errorf("%q makes %s: %v", key, id, err)
		}
	}
}

// field report B38
func TestALongLinkSurvivesEveryEncoding(t *testing.T) {
	t.Parallel()
	base := "https://approvals.some-rather-long-company-name.example/flow"
	link := base + "/a/" + strings.Repeat("eyJhbGciOiJIUzI1NiJ9-_", 46)
	if len(link) > MaxLinkLength {
		t.Fatal("the test's link is above the cap")
	}
	_, text, html, err := RenderTaskMail(TaskMail{Kind: kindTask, Title: strings.Repeat("Título ", 28), Link: link, PersonName: "Ana"})
	if err != nil {
		t.Fatal(err)
	}
	m := testMessage(1)
	m.Text, m.HTML = text, html
	raw := write(t, m)

	ours := parse(t, raw)
	theirs, err := gomail.EMLToMsgFromReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	texts, htmls := []string{ours.text}, []string{ours.html}
	for _, part := range theirs.GetParts() {
		content, err := part.GetContent()
		if err != nil {
			t.Fatal(err)
		}
		if part.GetContentType() == gomail.TypeTextHTML {
			htmls = append(htmls, string(content))
		} else {
			texts = append(texts, string(content))
		}
	}
	if len(texts) != 2 || len(htmls) != 2 {
		t.Fatalf("the second parser found %d text and %d HTML parts", len(texts)-1, len(htmls)-1)
	}
	for _, text := range texts {
		if !slices.Contains(strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n"), link) {
			t.Errorf("the link does not stand alone on a line of\n%s", text)
		}
	}
	for _, html := range htmls {
		if n := strings.Count(html, `href="`+link+`"`); n != 2 {
			t.Errorf("%d exact links in the HTML", n)
		}
	}
	for _, bad := range []string{base + "/" + strings.Repeat("a", MaxLinkLength), "javascript:alert(1)", "/a/x", "https://", "https://x.example/a b", "https://x.example/\nx", "ftp://x.example/"} {
		if _, _, _, err := RenderTaskMail(TaskMail{Kind: kindTask, Title: "x", Link: bad}); fault.CodeOf(err) != fault.InvalidInput {
			t.Errorf("%.60q: %v", bad, err)
		}
	}
}

func TestWhatCannotBeAMailIsRefused(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Message){
		"no id":             func(m *Message) { m.ID = "" },
		"long id":           func(m *Message) { m.ID = strings.Repeat("x", 201) },
		"no recipient":      func(m *Message) { m.To = "" },
		"recipient list":    func(m *Message) { m.To = "a@example.com, b@example.com" },
		"bad sender":        func(m *Message) { m.From = "vobo" },
		"bad copy":          func(m *Message) { m.Cc = []string{"a@example.com", "x\r\nBcc: y@example.com"} },
		"no date":           func(m *Message) { m.Date = time.Time{} },
		"too large":         func(m *Message) { m.Text = strings.Repeat("x", MaxMessage+1) },
		"reference of junk": func(m *Message) { m.References = "<a\r\nBcc: x@y>" },
	} {
		m := testMessage(1)
		change(&m)
		if _, err := m.Bytes(); fault.CodeOf(err) != fault.InvalidInput {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// field report B25
func TestOnlyAddressesThatMailCanReachPass(t *testing.T) {
	t.Parallel()
	for _, a := range []string{"ana@example.com", "a.b+c@example.co.uk", "x_y-z@sub.example.com", "o'neil@example.com", "1@1.example", "a@xn--bcher-kva.example", "dev@localhost", strings.Repeat("a", 64) + "@example.com"} {
		if err := CheckAddress(a); err != nil {
			t.Errorf("%s: %v", a, err)
		}
	}
	for _, a := range []string{
		"", "a", "@", "a@", "@b.example", "a@b", "a@b@c.example", "x@y\u200f", "a b@c.example", "a@b c.example", ".a@b.example", "a.@b.example", "a..b@c.example", "a@.example", "a@b..example", "a@b.example.", "a@-b.example", "a@b-.example",
		`"a b"@c.example`, "\"a\r\nb\"@c.example", "a@[127.0.0.1]", "a@127.0.0.1", "Ana <a@b.example>", "<a@b.example>", "a@b.example\r\nBcc: x@y.example", "a@b.example\n", "a@b.example\x00", "a(x)@b.example", "a,b@c.example", "a;b@c.example", "ü@b.example", "a@bücher.example", "a@b_c.example",
		strings.Repeat("a", 65) + "@b.example", strings.Repeat("a", 300), "a@" + strings.Repeat("b.", 130) + "example", strings.Repeat("a", 10<<10) + "@b.example",
	} {
		if err := CheckAddress(a); fault.CodeOf(err) != fault.InvalidInput || len(err.Error()) > 500 {
			t.Errorf("%.60q: %v", a, err)
		}
	}
}

func FuzzMIME(f *testing.F) {
	for text := range headerInjections() {
		f.Add(text, text)
	}
	f.Fuzz(func(t *testing.T, name, body string) {
		m := testMessage(1)
		m.Subject, m.FromName, m.ToName, m.Text, m.HTML = name, name, name, body, body
		if len(body) > 1<<16 || len(name) > 1<<14 {
			return
		}
		p := parse(t, write(t, m))
		want := 7
		if body == "" {
			want = 8 // one part: its encoding stands above
		}
		if len(p.header) != want {
			t.Fatalf("headers %v", p.header)
		}
		if list, err := p.header.AddressList("To"); err != nil || len(list) != 1 || list[0].Address != "ana@example.com" {
			t.Fatalf("to %v (%v)", list, err)
		}
		if want := strings.TrimSuffix(cleanBody(body), "\n"); strings.TrimSuffix(strings.ReplaceAll(p.text, "\r\n", "\n"), "\n") != want {
			t.Fatalf("text %q, want %q", p.text, want)
		}
		if got := decoded(t, p.header.Get("Subject")); got != oneLine(name) {
			t.Fatalf("subject %q, want %q", got, oneLine(name))
		}
	})
}

func ExampleMessage_Bytes() {
	raw, err := Message{ID: "01981f2e/4/1", From: "vobo@mail.example", FromName: "Rosa via Vobo", To: "ana@example.com", Subject: "Approve Acme", Text: "Hello", Date: attemptTime}.Bytes()
	if err != nil {
		panic(err)
	}
	fmt.Print(strings.ReplaceAll(string(raw), "\r\n", "\n"))
	// Output:
	// Date: Thu, 03 Dec 2026 10:00:00 +0000
	// From: "Rosa via Vobo"
	//  <vobo@mail.example>
	// To: ana@example.com
	// Subject: Approve Acme
	// Message-ID: <01981f2e.4.1@mail.example>
	// MIME-Version: 1.0
	// Content-Type: text/plain; charset=utf-8
	// Content-Transfer-Encoding: quoted-printable
	//
	// Hello
}

func decodeBody(t *testing.T, encoding string, r io.Reader) string {
	t.Helper()
	if encoding != "quoted-printable" {
		t.Fatalf("encoding %q", encoding)
	}
	b, err := io.ReadAll(quotedprintable.NewReader(r))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
