package deliver

import (
	"fmt"
	"mime"
	"net/mail"
	"slices"
	"strings"
	"testing"
	"time"

	"vobo/internal/fault"
	"vobo/internal/testkit"
)

// mailPayloads are S-22's texts: whatever might end a line, a header, an address, a part
// or a message, in a name, a subject, a body or a file name.
func mailPayloads() []string {
	breaks := []string{"\r\n", "\n", "\r", "\n\r", "\r\r\n", "\u2028", "\u2029", "\u0085", "\v", "\f", "\x00", "\x1b", "\x1c", "\x1d", "\x1e", "%0d%0a", "%0A", "\\r\\n", "&#13;&#10;", "=0D=0A", "\u560d\u560a", "\x7f"}
	texts := []string{"", " ", ".", "..", "\r\n", "\n\n", "\t"}
	for _, br := range breaks {
		texts = append(texts,
			"A"+br+"Bcc: evil@example.org", "A"+br+br+"<script>x</script>", "A"+br+" folded: evil", "A"+br+"."+br+"MAIL FROM:<evil@example.org>"+br+"RCPT TO:<evil@example.org>"+br+"DATA"+br,
			br+"RSET"+br+"QUIT"+br,
		)
	}
	return append(texts,
		"\n.\n", "\r\n.\r\n", "\r\n.\n", "\n.\r\n", "\r.\r", "\r\n.\r", "a\n.\nQUIT\n", "a\r\n..\r\nb", "\r\n.\r\n.\r\n", ".a", "\n.a\n..b", "a\n.\n.\n", strings.Repeat(".\n", 50),
		"=?utf-8?q?=0d=0aBcc:_evil@example.org?=", "=?utf-8?b?DQpCY2M6IGV2aWxAZXhhbXBsZS5vcmc=?=", "=?x?q?a?= =?x?q?b?=", "=?utf-8?q?\r\n?=", "=?", "?=", "=?utf-8?q?"+strings.Repeat("a", 100)+"?=",
		`"`, `\`, `\"`, `"<evil@example.org>`, `" <evil@example.org>, "`, `<evil@example.org>`, "Doe, Jane", "a,b@example.org", "a;b", "group: a@example.org;", "(comment)", "a(b", "@", "a@b@c", "[127.0.0.1]", "José Núñez", "审批", "🙂🙂", "\u202egnp.exe", "\u200bzero\ufeffwidth", "e\u0301\u0301\u0301", "\xff\xfe", "bad \xc3 utf8", "\xed\xa0\x80",
		"Content-Type: text/html", "--=_boundary", "--=_\r\nContent-Type: text/html\r\n\r\n<b>x</b>", "boundary=x", "; filename=evil.exe", `"; filename="evil.exe`, "filename*=utf-8''evil.exe", "a\"; name=\"b", "../../etc/passwd", `..\..\windows\system32\x`, "C:\\evil.exe", "/etc/passwd", "con", "con."+strings.Repeat("b", 200), "NUL.txt", "a.pdf\x00.exe", "a.pdf\r\n.exe", strings.Repeat("../", 50)+"x", "%2e%2e%2fx", "\u2025/\u2025/x", "a\u2215b", " .hidden", "x. ", "~/x", "$(rm -rf)", "`x`", "|x", "-rf",
		strings.Repeat("x", 998), strings.Repeat("x", 1000), strings.Repeat("é", 999), strings.Repeat("a ", 2000), strings.Repeat("\r\n", 2000), strings.Repeat("x", 10<<10), "{{7*7}}", "${7*7}", "<%= 7*7 %>", `<img src=x onerror=alert(1)>`, "javascript:alert(1)", "' OR 1=1--",
	)
}

// hostileAddresses makes addresses of the payloads, in both parts.
func hostileAddresses() []string {
	var all []string
	for _, p := range mailPayloads() {
		all = append(all, p, "ana@example.com"+p, p+"@example.com", "ana@"+p+".example.com", `"`+p+`"@example.com`, "Ana <ana@example.com"+p+">")
	}
	return append(all, strings.Repeat("a", 10<<10)+"@example.com", "a@"+strings.Repeat("b.", 5000)+"com", "ana@example.com> SIZE=1", "ana@example.com>\r\nDATA", "<ana@example.com>", "ana@[127.0.0.1]", "ana@[IPv6:::1]")
}

// guarantee S-22: a recipient that is not exactly an address never reaches the wire.
func TestAHostileAddressNeverReachesTheServer(t *testing.T) {
	t.Parallel()
	server := testkit.SMTP(t)
	m := sinkMailer(t, server)
	refused, taken := 0, 0
	for _, address := range hostileAddresses() {
		if CheckAddress(address) == nil {
			taken++ // some payloads are lawful in a local part: - | ~ and the like
			if strings.ContainsFunc(address, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`<>()[]\,;:"`, r) }) {
				t.Errorf("%q passes for an address", address)
			}
			continue
		}
		refused++
		for field, change := range map[string]func(*Message){"to": func(m *Message) { m.To = address }, "cc": func(m *Message) { m.Cc = []string{"luis@example.com", address} }, "from": func(m *Message) { m.From = address }} {
			msg := testMessage(1)
			change(&msg)
			if _, err := msg.Bytes(); fault.CodeOf(err) != fault.InvalidInput {
				t.Errorf("%s %.60q: %v", field, address, err)
			}
		}
		if out := m.Send(t.Context(), []string{address}, rawMessage(t, 1), true); out.Class != Permanent || out.WentOut || strings.ContainsAny(out.Detail, "\r\n\x00") {
			t.Errorf("%.60q: %+v", address, out)
		}
	}
	if server.Sessions() != 0 || refused < 120 {
		t.Errorf("%d sessions by %d refused addresses", server.Sessions(), refused)
	}
	t.Logf("%d addresses refused, %d lawful ones", refused, taken)
}

// guarantee S-22, field report B36: each payload in each field, through a server that
// takes the laxest line ends: the commands, the headers and the parts are exactly those
// of a harmless mail, names and subjects read as given, and one mail arrives.
func TestNoTextOfAMailReachesACommandAHeaderOrAnotherMail(t *testing.T) {
	t.Parallel()
	payloads := mailPayloads()
	if len(payloads) < 120 {
		t.Fatalf("only %d payloads", len(payloads))
	}
	fields := map[string]func(*Message, string){
		"to name":   func(m *Message, s string) { m.ToName = s },
		"from name": func(m *Message, s string) { m.FromName = s },
		"subject":   func(m *Message, s string) { m.Subject = s },
		"text":      func(m *Message, s string) { m.Text = s },
		"html":      func(m *Message, s string) { m.HTML = s },
		"file name": func(m *Message, s string) { m.Attachments[0].Name = s },
		"file":      func(m *Message, s string) { m.Attachments[0].Data = []byte(s) },
		"key":       func(m *Message, s string) { m.ID = "k" + s[:min(len(s), 15)] },
	}
	for field, change := range fields {
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			server := testkit.SMTP(t)
			m := sinkMailer(t, server)
			for n, payload := range payloads {
				msg := testMessage(n)
				msg.HTML, msg.AutoSubmitted, msg.References, msg.Cc = "<p>Hi</p>", true, "01981f2e", []string{"luis@example.com"}
				msg.Attachments = []Attachment{{Name: "a.pdf", MediaType: "application/pdf", Data: []byte("PDF")}}
				if change(&msg, payload); msg.HTML == "" {
					msg.HTML = " " // without HTML the mail has other parts
				}
				before := len(server.Commands())
				if out := m.Send(t.Context(), []string{msg.To, msg.Cc[0]}, write(t, msg), true); out.Class != Success {
					t.Fatalf("%.60q: %+v", payload, out)
				}
				commands := server.Commands()[before:]
				if last := len(commands) - 1; commands[last] == "QUIT" { // the mailer's own limit of a session
					commands = commands[:last]
				}
				if i := slices.IndexFunc(commands, func(c string) bool { return strings.HasPrefix(c, "MAIL") }); i < 0 || !slices.Equal(commands[i:], mailCommands) {
					t.Fatalf("%.60q: commands %q", payload, commands)
				}
				mails := server.Mails()
				if len(mails) != n+1 {
					t.Fatalf("%.60q: %d mails, want %d", payload, len(mails), n+1)
				}
				checkHarmless(t, payload, &msg, &mails[n])
			}
			t.Logf("%d payloads", len(payloads))
		})
	}
}

var mailCommands = []string{"MAIL FROM:<vobo@mail.example> BODY=8BITMIME", "RCPT TO:<ana@example.com>", "RCPT TO:<luis@example.com>", "DATA"}

// checkHarmless compares what arrived with what was asked for.
func checkHarmless(t *testing.T, payload string, msg *Message, got *testkit.Mail) {
	t.Helper()
	var names []string
	for name, values := range got.Header {
		names = append(names, name)
		if len(values) != 1 {
			t.Errorf("%.60q: %d times %s", payload, len(values), name)
		}
	}
	slices.Sort(names)
	if want := []string{"Auto-Submitted", "Cc", "Content-Type", "Date", "From", "In-Reply-To", "Message-Id", "Mime-Version", "References", "Subject", "To", "X-Auto-Response-Suppress"}; !slices.Equal(names, want) {
		t.Errorf("%.60q: headers %v", payload, names)
	}
	if got.Subject != oneLine(msg.Subject) {
		t.Errorf("%.60q: subject %.60q", payload, got.Subject)
	}
	for header, name := range map[string]string{"From": msg.FromName, "To": msg.ToName} {
		list, err := got.Header.AddressList(header)
		if err != nil || len(list) != 1 || list[0].Name != oneLine(name) {
			t.Errorf("%.60q: %s reads %v (%v)", payload, header, list, err)
		}
	}
	if len(got.Attachments) != 1 || got.Attachments[0].Name != FileName(msg.Attachments[0].Name) || string(got.Attachments[0].Data) != string(msg.Attachments[0].Data) || got.Attachments[0].MediaType != "application/pdf" {
		t.Errorf("%.60q: attachments %q", payload, got.Attachments)
	}
	for part, want := range map[string]string{got.Text: msg.Text, got.HTML: msg.HTML} {
		if strings.TrimSuffix(part, "\n") != strings.TrimSuffix(cleanBody(want), "\n") {
			t.Errorf("%.60q: a part reads %.80q, want %.80q", payload, part, want)
		}
	}
	if _, err := mail.ParseAddress(got.MessageID); err != nil {
		t.Errorf("%.60q: Message-ID %s: %v", payload, got.MessageID, err)
	}
}

// field report B36: the mails of the report, as a reader finds them at the server.
func TestNamesAndTitlesOfPeopleArriveAsTheyAre(t *testing.T) {
	t.Parallel()
	server := testkit.SMTP(t)
	m := sinkMailer(t, server)
	for i, c := range [][2]string{
		{"A\r\nBcc: x@y", "A Bcc: x@y"},
		{"A\nSubject: z", "A Subject: z"},
		{"Doe, Jane", "Doe, Jane"},
		{`The "Boss" <boss@corp.example>`, `The "Boss" <boss@corp.example>`},
		{"José Núñez", "José Núñez"},
		{"🙂 party", "🙂 party"},
		{strings.Repeat("x", 500), strings.Repeat("x", 500)},
		{strings.Repeat("Ñandú ", 84)[:500], strings.TrimSpace(strings.ToValidUTF8(strings.Repeat("Ñandú ", 84)[:500], "\ufffd"))},
	} {
		subject, text, html, err := RenderTaskMail(TaskMail{Kind: kindTask, Requester: c[0], Title: c[0], Link: "https://vobo.example/a/TOKEN", PersonName: c[0]})
		if err != nil {
			t.Fatal(err)
		}
		msg := testMessage(i)
		msg.Subject, msg.Text, msg.HTML, msg.FromName, msg.ToName = subject, text, html, c[0]+" via Vobo", c[0]
		if out := m.Send(t.Context(), []string{msg.To}, write(t, msg), true); out.Class != Success {
			t.Fatalf("%q: %+v", c[0], out)
		}
		got := server.Mails()[i]
		from, err := got.Header.AddressList("From")
		if err != nil || len(from) != 1 || from[0].Name != oneLine(c[0]+" via Vobo") || from[0].Address != "vobo@mail.example" {
			t.Errorf("%q: from %v (%v)", c[0], from, err)
		}
		to, err := got.Header.AddressList("To")
		if err != nil || len(to) != 1 || to[0].Name != c[1] || !slices.Equal(got.To, []string{"ana@example.com"}) || got.Header.Get("Bcc") != "" {
			t.Errorf("%q: to %v (%v), envelope %q", c[0], to, err, got.To)
		}
		if want := clip(c[1], 300); got.Subject != want {
			t.Errorf("subject %q, want %q", got.Subject, want)
		}
	}
}

func FuzzFileName(f *testing.F) {
	for _, p := range mailPayloads() {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, name string) {
		safe := FileName(name)
		if safe == "" || len([]rune(safe)) > maxFileName || strings.ContainsAny(safe, "/\\\r\n\x00:\"<>|?*") || strings.HasPrefix(safe, ".") || strings.HasSuffix(safe, ".") || strings.HasSuffix(safe, " ") {
			t.Fatalf("%q becomes %q", name, safe)
		}
		if again := FileName(safe); again != safe {
			t.Fatalf("%q becomes %q, then %q", name, safe, again)
		}
		text := "attachment" + fileNameParameter(safe)
		for line := range strings.SplitSeq(text, "\r\n") {
			if len(line) > 76 {
				t.Fatalf("a line of %d bytes: %q", len(line), line)
			}
		}
		_, params, err := mime.ParseMediaType(strings.ReplaceAll(text, "\r\n", ""))
		if err != nil || params["filename"] != safe {
			t.Fatalf("%q reads %q (%v)", safe, params["filename"], err)
		}
	})
}

// readThreads puts mails into threads as RFC 5256 (REFERENCES) and the algorithm that
// Thunderbird and Apple Mail use do: by every id that a mail names, whether a mail of
// that id is there or not.
func readThreads(mails []testkit.Mail) map[string][]string {
	root := map[string]string{}
	var find func(string) string
	find = func(id string) string {
		if parent := root[id]; parent != "" && parent != id {
			return find(parent)
		}
		return id
	}
	for _, m := range mails {
		for _, id := range append(strings.Fields(m.Header.Get("References")), strings.Fields(m.Header.Get("In-Reply-To"))...) {
			root[find(m.MessageID)] = find(id)
		}
	}
	threads := map[string][]string{}
	for _, m := range mails {
		thread := find(m.MessageID)
		threads[thread] = append(threads[thread], m.MessageID)
	}
	return threads
}

func TestTheMailsOfAnInstanceAreOneThreadAndNoListOrLetter(t *testing.T) {
	t.Parallel()
	server := testkit.SMTP(t)
	m := sinkMailer(t, server)
	instances := []string{"01981f2e-aaaa-7000-8000-000000000001", "01981f2e-aaaa-7000-8000-000000000002"}
	for i, instance := range instances {
		for n, subject := range []string{"Approve Acme", "Reminder 1 of 2: Approve Acme", "Escalated to you: Approve Acme"} {
			msg := testMessage(n)
			msg.ID, msg.References, msg.AutoSubmitted, msg.Subject = fmt.Sprintf("%s/%d/1", instance, n+1), instance, true, subject
			msg.Date = attemptTime.Add(time.Duration(n+i) * time.Hour)
			if out := m.Send(t.Context(), []string{msg.To}, write(t, msg), true); out.Class != Success {
				t.Fatalf("%+v", out)
			}
		}
	}
	threads := readThreads(server.Mails())
	if len(threads) != 2 {
		t.Errorf("threads %q", threads)
	}
	for _, instance := range instances {
		if got := threads["<"+instance+"@mail.example>"]; len(got) != 3 {
			t.Errorf("the thread of %s has %q", instance, got)
		}
	}
	for _, mail := range server.Mails() {
		if mail.Header.Get("Auto-Submitted") != "auto-generated" || mail.Header.Get("In-Reply-To") != mail.Header.Get("References") {
			t.Errorf("header %v", mail.Header)
		}
		for name := range mail.Header {
			if strings.HasPrefix(name, "List-") || name == "Precedence" || name == "Reply-To" || name == "Bcc" {
				t.Errorf("a header %s", name)
			}
		}
	}
}
