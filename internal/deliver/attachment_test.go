package deliver

import (
	"bytes"
	"crypto/sha256"
	"io"
	"strings"
	"testing"

	gomail "github.com/wneessen/go-mail"

	"vobo/internal/fault"
	"vobo/internal/testkit"
)

func withFiles(files ...Attachment) Message {
	m := testMessage(1)
	m.HTML, m.Attachments = "<p>Hello</p>", files
	return m
}

func TestAttachmentsArriveByteForByteForTwoParsers(t *testing.T) {
	t.Parallel()
	server := testkit.SMTP(t)
	m := sinkMailer(t, server)
	every := make([]byte, 256*40)
	for i := range every {
		every[i] = byte(i * 7)
	}
	files := []Attachment{
		{Name: "offer.pdf", MediaType: "application/pdf", Data: every},
		{Name: "Übersicht März 2026 – endgültig.xlsx", MediaType: "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", Data: []byte("PK")},
		{Name: "note.txt", MediaType: "text/plain; charset=utf-8", Data: []byte("a\n.\nb\r\n--=_x\n")},
		{Name: "empty.bin", Data: nil},
		{Name: "mail.eml", MediaType: "message/rfc822", Data: []byte("From: x\r\n\r\ny")},
	}
	for _, html := range []string{"<p>Hello</p>", ""} {
		msg := withFiles(files...)
		msg.HTML = html
		raw := write(t, msg)
		if again := write(t, msg); !bytes.Equal(raw, again) { // guarantee D3
			t.Error("two writings differ")
		}
		if out := m.Send(t.Context(), []string{"ana@example.com"}, raw, false); out.Class != Success {
			t.Fatalf("%+v", out)
		}
		mails := server.Mails()
		got := mails[len(mails)-1]
		if !strings.HasPrefix(got.Text, "Hello") || strings.TrimSpace(got.HTML) != html || len(got.Attachments) != len(files) {
			t.Fatalf("text %q, HTML %q, %d attachments", got.Text, got.HTML, len(got.Attachments))
		}
		kinds := []string{"application/pdf", files[1].MediaType, "text/plain", "application/octet-stream", "application/octet-stream"}
		for i, a := range got.Attachments {
			if a.Name != files[i].Name || a.MediaType != kinds[i] || !bytes.Equal(a.Data, files[i].Data) {
				t.Errorf("attachment %d: %q, %s, %d bytes", i, a.Name, a.MediaType, len(a.Data))
			}
		}
		theirs, err := gomail.EMLToMsgFromReader(bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		second := theirs.GetAttachments()
		if len(second) != len(files) {
			t.Fatalf("the second parser finds %d attachments", len(second))
		}
		for i, a := range second {
			var b bytes.Buffer
			if _, err := a.Writer(&b); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(b.Bytes(), files[i].Data) || i == 0 && a.Name != "offer.pdf" {
				t.Errorf("the second parser reads %q with %d bytes", a.Name, b.Len())
			}
		}
	}
}

func TestAttachmentsOf25MiBPassAndOneByteMoreDoesNot(t *testing.T) {
	t.Parallel()
	server := testkit.SMTP(t)
	m := sinkMailer(t, server)
	half := bytes.Repeat([]byte("0123456789abcdef"), MaxAttachments/32)
	if _, err := withFiles(Attachment{Name: "a", Data: half}, Attachment{Name: "b", Data: half}).Bytes(); err != nil {
		t.Fatal(err)
	}
	large := half[:4<<20]
	raw, err := withFiles(Attachment{Name: "a", Data: large}, Attachment{Name: "b", Data: []byte("small")}).Bytes()
	if err != nil {
		t.Fatal(err)
	}
	if out := m.Send(t.Context(), []string{"ana@example.com"}, raw, false); out.Class != Success {
		t.Fatalf("%+v", out)
	}
	got := server.Mails()[0].Attachments
	if len(got) != 2 || sha256.Sum256(got[0].Data) != sha256.Sum256(large) {
		t.Errorf("%d attachments arrived", len(got))
	}
	for name, m := range map[string]Message{
		"one byte more": withFiles(Attachment{Name: "a", Data: half}, Attachment{Name: "b", Data: half}, Attachment{Name: "c", Data: []byte{0}}),
		"too many":      withFiles(make([]Attachment, maxFiles+1)...),
	} {
		if _, err := m.Bytes(); fault.CodeOf(err) != fault.InvalidInput {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAMediaTypeThatIsNoneIsRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": anyContent, "application/pdf": "application/pdf", "Application/PDF": "application/pdf", "text/plain; charset=UTF-8": "text/plain;\r\n charset=\"UTF-8\"", "image/svg+xml": "image/svg+xml",
		"text/plain; charset=\"a\\\"b\"": "text/plain", "text/html; name=evil.exe": "text/html", "multipart/mixed; boundary=x": anyContent, "message/rfc822": anyContent, "message/partial": anyContent,
		"pdf": "", "a/b/c": "", "text/": "", "/plain": "", "text/plain\r\nX: y": "", "text/plain\r\n\r\n<b>": "", "text /plain": "", "te\x00xt/plain": "", "tëxt/plain": "", "text/plain; charset": "", "text/plain; a=\r\nX: y": "", strings.Repeat("a", 80) + "/b": "", "*/*": "",
	} {
		a := Attachment{Name: "x", MediaType: text}
		got, err := a.contentType()
		if got != want || want == "" && fault.CodeOf(err) != fault.InvalidInput || strings.ContainsAny(strings.ReplaceAll(got, "\r\n ", ""), "\r\n\x00") {
			t.Errorf("%q is %q (%v), want %q", text, got, err, want)
		}
		if _, err := withFiles(a).Bytes(); (err == nil) != (want != "") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestAFileNameIsSafeToSaveAnywhere(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"offer.pdf": "offer.pdf", "Ángel Nº 3.pdf": "Ángel Nº 3.pdf", "../../etc/passwd": "passwd", `..\..\boot.ini`: "boot.ini", "/abs/x.txt": "x.txt", `C:\dir\x.txt`: "x.txt", "C:x.txt": "C_x.txt", "a/../b": "b", "": "attachment", ".": "attachment", "..": "attachment", "...": "attachment", "/": "attachment", "   ": "attachment",
		".bashrc": "bashrc", "x.": "x", "x ": "x", "x.txt . .": "x.txt", "con": "_con", "CON.txt": "_CON.txt", "nul": "_nul", "com1.log": "_com1.log", "lpt9": "_lpt9", "console.txt": "console.txt", "a\x00b.exe": "a_b.exe", "a\r\nb.txt": "a__b.txt", "a\tb": "a_b", "a\u202egpj.exe": "agpj.exe", "a\u200b\ufeffb.txt": "ab.txt", "a\u2028b": "a_b", "a\u00a0b": "a b",
		`q"uote<>|?*:.txt`: "q_uote______.txt", "%2e%2e%2fx": "%2e%2e%2fx", "a;b=c.txt": "a;b=c.txt", "=?utf-8?q?x?=.pdf": "=_utf-8_q_x_=.pdf", "\xff\xfe.pdf": "_.pdf", "\r\n": "attachment", "-rf": "-rf", "日本語.pdf": "日本語.pdf",
		strings.Repeat("a", 5000) + ".pdf": strings.Repeat("a", 96) + ".pdf", "x." + strings.Repeat("b", 200): "x." + strings.Repeat("b", 98), strings.Repeat("é", 300): strings.Repeat("é", 100),
	} {
		if got := FileName(name); got != want {
			t.Errorf("%.40q becomes %q, want %q", name, got, want)
		}
	}
}

func BenchmarkMailWithAttachment(b *testing.B) {
	m := withFiles(Attachment{Name: "offer.pdf", MediaType: "application/pdf", Data: make([]byte, 1<<20)})
	b.SetBytes(1 << 20)
	for b.Loop() {
		raw, err := m.Bytes()
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Discard.Write(raw); err != nil {
			b.Fatal(err)
		}
	}
}
