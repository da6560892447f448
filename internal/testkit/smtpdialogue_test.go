package testkit

import (
	"errors"
	"net/smtp"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

func dialMail(t *testing.T, server *MailServer) *smtp.Client {
	t.Helper()
	u, err := url.Parse(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	client, err := smtp.Dial(u.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() }) // the server may have closed first
	return client
}

// replyCode is the code of a refusal, 0 of success and -1 of a cut.
func replyCode(err error) int {
	if refusal, ok := errors.AsType[*textproto.Error](err); ok {
		return refusal.Code
	}
	if err != nil {
		return -1
	}
	return 0
}

func TestAMailServerRefusesOrCutsAtEveryPhase(t *testing.T) {
	t.Parallel()
	server := SMTP(t)
	for _, at := range []MailPhase{AtGreeting, AtHello, AtMail, AtRcpt, AtData, AtContent} {
		for _, c := range []struct {
			mode MailMode
			code int
		}{{MailRefuse(at, 421), 421}, {MailRefuse(at, 450), 450}, {MailRefuse(at, 554), 554}, {MailDrop(at), -1}} {
			if at == AtHello && c.code > 0 {
				continue // net/smtp goes on with HELO
			}
			server.Next(c.mode)
			if err := sendTo(t, server, "ana@example.com"); replyCode(err) != c.code {
				t.Errorf("mode %v: %v, want %d", c.mode, err, c.code)
			}
			if err := sendTo(t, server, "ana@example.com"); err != nil {
				t.Errorf("after mode %v: %v", c.mode, err)
			}
		}
	}
	kept := 0
	for _, mail := range server.Mails() {
		if !mail.Answered {
			kept++
		}
	}
	if kept != 1 {
		t.Errorf("%d mails were kept without an answer, want 1", kept)
	}
}

func TestAMailServerEndsSessionsAsItIsTold(t *testing.T) {
	t.Parallel()
	server := SMTP(t)
	server.CloseAfter(2)
	server.RefuseRecipient("gone@example.com", 550)
	client := dialMail(t, server)
	send := func(to string) error {
		if err := client.Mail("vobo@example.com"); err != nil {
			return err
		}
		if err := client.Rcpt(to); err != nil {
			return errors.Join(err, client.Reset())
		}
		w, err := client.Data()
		if err != nil {
			return err
		}
		_, err = w.Write([]byte(sampleMail))
		return errors.Join(err, w.Close())
	}
	for i, want := range []int{0, 550, 0, 421, -1} {
		to := "ana@example.com"
		if want == 550 {
			to = "gone@example.com"
		}
		if got := replyCode(send(to)); got != want {
			t.Errorf("mail %d: %d, want %d", i, got, want)
		}
	}
	if n := server.Sessions(); n != 1 {
		t.Errorf("%d sessions", n)
	}
	server.CloseWhenIdle(20 * time.Millisecond)
	idle := dialMail(t, server)
	if code, _, err := idle.Text.ReadResponse(250); code != 421 {
		t.Errorf("an idle session gets %d (%v), want 421", code, err)
	}
	WaitFor(t, "the idle session's end", func() bool { return server.Open() == 0 })
}

func TestAMailServerWithLoginWantsTheRightPassword(t *testing.T) {
	t.Parallel()
	server := SMTPWithLogin(t, "vobo", "p@ss/word")
	for password, want := range map[string]int{"p@ss/word": 0, "nope": 535} {
		client := dialMail(t, server)
		if got := replyCode(client.Auth(smtp.PlainAuth("", "vobo", password, "127.0.0.1"))); got != want {
			t.Errorf("password %q: %d, want %d", password, got, want)
		}
	}
	if got := replyCode(dialMail(t, server).Mail("vobo@example.com")); got != 530 {
		t.Errorf("without a login: %d, want 530", got)
	}
	server.Next(MailRefuse(AtAuth, 454))
	if got := replyCode(dialMail(t, server).Auth(smtp.PlainAuth("", "vobo", "p@ss/word", "127.0.0.1"))); got != 454 {
		t.Errorf("a refusal at AUTH: %d, want 454", got)
	}
}

func TestASmuggledMailArrivesAndIsSeen(t *testing.T) {
	t.Parallel()
	server := SMTP(t)
	client := dialMail(t, server)
	if err := errors.Join(client.Mail("vobo@example.com"), client.Rcpt("ana@example.com")); err != nil {
		t.Fatal(err)
	}
	smuggled := sampleMail + "\n.\nMAIL FROM:<x@evil.example>\nRCPT TO:<y@evil.example>\nDATA\n" + sampleMail + ".\r\n"
	if _, _, err := sendCommand(client, "DATA", 354); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Text.W.WriteString(smuggled); err != nil {
		t.Fatal(err)
	}
	if err := client.Text.W.Flush(); err != nil {
		t.Fatal(err)
	}
	server.WaitMail(t, "y@evil.example", 1)
	if commands := server.Commands(); !slices.Contains(commands, "MAIL FROM:<x@evil.example>") || strings.Contains(strings.Join(commands, "\n"), "Read and decide") {
		t.Errorf("commands %q", commands)
	}
}

func sendCommand(client *smtp.Client, line string, want int) (int, string, error) {
	id, err := client.Text.Cmd("%s", line)
	if err != nil {
		return 0, "", err
	}
	client.Text.StartResponse(id)
	defer client.Text.EndResponse(id)
	return client.Text.ReadResponse(want)
}
