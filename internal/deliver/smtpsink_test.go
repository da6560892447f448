package deliver

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"vobo/internal/testkit"
)

func sinkMailer(t *testing.T, server *testkit.MailServer) *Mailer {
	t.Helper()
	m := newMailer(t, server.URL())
	m.limits = mailLimits{dial: 10 * time.Second, total: 10 * time.Second, idle: time.Minute}
	return m
}

func sendTo(t *testing.T, m *Mailer, n int, idempotent bool, to ...string) Outcome {
	t.Helper()
	msg := testMessage(n)
	msg.To, msg.Cc = to[0], to[1:]
	raw, err := msg.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return m.Send(t.Context(), to, raw, idempotent)
}

// mailWant is what an outcome must be.
type mailWant struct {
	class  Class
	config bool
}

// wantOf is the table of field report B34: what a reply code at a phase means.
func wantOf(at testkit.MailPhase, code int) mailWant {
	switch {
	case at < testkit.AtMail: // nothing is known of the recipient yet
		return mailWant{Retry, code >= 500}
	case code == 530 || code == 535:
		return mailWant{Retry, at == testkit.AtMail || at == testkit.AtRcpt}
	case code < 500:
		return mailWant{Retry, false}
	}
	return mailWant{Permanent, at == testkit.AtMail}
}

// field report B34, guarantee R-19: 4xx at every phase is retried and finally delivered,
// 5xx for the recipient is final with the server's text, and what is wrong with us is
// retried and marked for operators.
func TestAReplyMeansAtEachPhaseWhatItSays(t *testing.T) {
	t.Parallel()
	server := testkit.SMTPWithLogin(t, "vobo", "p@ss/word")
	cases := 0
	for _, at := range []testkit.MailPhase{testkit.AtGreeting, testkit.AtHello, testkit.AtAuth, testkit.AtMail, testkit.AtRcpt, testkit.AtData, testkit.AtContent} {
		for _, code := range []int{421, 450, 451, 452, 454, 500, 530, 535, 550, 552, 553, 554} {
			cases++
			m := sinkMailer(t, server)
			before := len(server.Mails())
			server.Next(testkit.MailRefuse(at, code))
			out := sendTo(t, m, code, false, "ana@example.com")
			want := wantOf(at, code)
			if out.Class != want.class || out.Config != want.config || out.Status != code || !out.Answered || !strings.Contains(out.Detail, "so says the mail server") || !strings.Contains(out.Answer, fmt.Sprint(code)) {
				t.Errorf("%d at phase %d: %+v, want %+v", code, at, out, want)
			}
			if len(server.Mails()) != before {
				t.Errorf("%d at phase %d: the mail was taken", code, at)
			}
			if out := sendTo(t, m, code, false, "ana@example.com"); out.Class != Success || out.Config || len(server.Mails()) != before+1 {
				t.Errorf("%d at phase %d: not delivered afterwards: %+v", code, at, out)
			}
			m.Close()
		}
	}
	t.Logf("%d replies", cases)
}

// guarantee: a cut or a stall before the content is "not sent", after it
// "nobody knows".
func TestACutOrAStallAtEachPhase(t *testing.T) {
	t.Parallel()
	for at := testkit.AtGreeting; at <= testkit.AtContent; at++ {
		if at == testkit.AtStartTLS {
			continue // TestTLSThatCannotBeAgreedIsForOperators
		}
		for name, mode := range map[string]testkit.MailMode{"cut": testkit.MailDrop(at), "stall": testkit.MailStall(at)} {
			for _, idempotent := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s at phase %d, idempotent %v", name, at, idempotent), func(t *testing.T) {
					t.Parallel()
					server := testkit.SMTPWithLogin(t, "vobo", "p@ss/word")
					m := sinkMailer(t, server)
					if name == "stall" {
						m.limits.total = 300 * time.Millisecond
					}
					server.Next(mode)
					out := sendTo(t, m, 1, idempotent, "ana@example.com")
					want := Retry
					if at == testkit.AtContent && !idempotent {
						want = Unknown
					}
					if out.Class != want || out.Answered || out.Config || out.WentOut != (at == testkit.AtContent) {
						t.Errorf("%+v, want %s", out, want)
					}
					m.limits.total = 10 * time.Second
					if out := sendTo(t, m, 1, idempotent, "ana@example.com"); out.Class != Success {
						t.Errorf("afterwards: %+v", out)
					}
				})
			}
		}
	}
}

// field report B34
func TestTLSThatCannotBeAgreedIsForOperators(t *testing.T) {
	t.Parallel()
	server := testkit.SMTPWithStartTLS(t)
	m := sinkMailer(t, server) // it does not trust the certificate
	if out := sendTo(t, m, 1, false, "ana@example.com"); out.Class != Retry || !out.Config || out.WentOut || !strings.Contains(out.Detail, "certificate") {
		t.Errorf("an untrusted certificate: %+v", out)
	}
	for name, c := range map[string]struct {
		mode   testkit.MailMode
		config bool
	}{
		"not now": {testkit.MailRefuse(testkit.AtStartTLS, 454), false}, "never": {testkit.MailRefuse(testkit.AtStartTLS, 554), true}, "cut": {testkit.MailDrop(testkit.AtStartTLS), false},
	} {
		server.Next(c.mode)
		if out := sendTo(t, m, 1, false, "ana@example.com"); out.Class != Retry || out.Config != c.config || out.WentOut {
			t.Errorf("%s: %+v", name, out)
		}
	}
	if len(server.Mails()) != 0 {
		t.Error("a mail went out in the clear")
	}
}

// field report B35: a server that closes idle sessions, limits mails per session, or
// hangs up after it refused a recipient: no attempt is used up, and nothing is doubled.
func TestAServerThatEndsSessionsCostsNoAttemptAndDoublesNothing(t *testing.T) {
	t.Parallel()
	server := testkit.SMTP(t)
	m := sinkMailer(t, server)
	n := 0
	good := func(what string, to ...string) {
		t.Helper()
		n++
		if out := sendTo(t, m, n, false, to...); out.Class != Success {
			t.Errorf("%s: %+v", what, out)
		}
	}
	good("the first", "ana@example.com")
	server.CloseWhenIdle(30 * time.Millisecond)
	good("idle begins", "ana@example.com")
	testkit.WaitFor(t, "the server to close the idle session", func() bool { return server.Open() == 0 })
	for range 5 {
		good("after the idle close", "ana@example.com")
	}
	server.CloseWhenIdle(0)
	for range 5 {
		server.Cut()
		good("after a cut without a word", "ana@example.com")
	}
	server.CloseAfter(3)
	for range 10 {
		good("with three mails a session", "ana@example.com")
	}
	server.CloseAfter(0)
	server.RefuseRecipient("gone@example.com", 550)
	for range 3 {
		good("good", "ana@example.com")
		if out := sendTo(t, m, 900, false, "gone@example.com"); out.Class != Permanent || out.Config {
			t.Errorf("bad: %+v", out)
		}
	}
	for name, mode := range map[string]testkit.MailMode{"cut": testkit.MailDrop(testkit.AtRcpt), "421": testkit.MailRefuse(testkit.AtRcpt, 421)} {
		server.Next(mode)
		good("a refused recipient and then "+name, "gone@example.com", "ana@example.com")
	}
	seen := map[string]int{}
	for _, mail := range server.Mails() {
		seen[mail.MessageID]++
	}
	if len(seen) != n || len(server.Mails()) != n {
		t.Errorf("%d mails with %d ids arrived, %d were sent", len(server.Mails()), len(seen), n)
	}
	if commands := server.Commands(); slices.Contains(commands, "") || server.Sessions() > 25 {
		t.Errorf("%d sessions for %d mails", server.Sessions(), n)
	}
}

// guarantee R-18: 500 mails of which every fifth is taken without an answer. Those that
// may be repeated all arrive, as equal copies, one more for each unknown attempt; of the
// others none is sent twice.
func TestMailsWhoseAnswerIsLostAreNeitherLostNorDoubledUnseen(t *testing.T) {
	t.Parallel()
	for _, idempotent := range []bool{true, false} {
		t.Run(fmt.Sprintf("idempotent %v", idempotent), func(t *testing.T) {
			t.Parallel()
			server := testkit.SMTP(t)
			m := sinkMailer(t, server)
			const mails = 500
			unsure := 0
			for n := range mails {
				if n%5 == 0 {
					server.Next(testkit.MailDropAfterData)
				}
				out := sendTo(t, m, n, idempotent, "ana@example.com")
				if out.WentOut && !out.Answered {
					unsure++
				}
				if out.Class == Retry {
					out = sendTo(t, m, n, idempotent, "ana@example.com")
				}
				if out.Class != Success && (idempotent || out.Class != Unknown) {
					t.Fatalf("mail %d: %+v", n, out)
				}
			}
			copies := map[string][]string{}
			for _, mail := range server.Mails() {
				copies[mail.MessageID] = append(copies[mail.MessageID], string(mail.Raw))
			}
			extra := len(server.Mails()) - len(copies)
			if want := map[bool]int{true: unsure, false: 0}[idempotent]; len(copies) != mails || extra != want || unsure != mails/5 {
				t.Errorf("%d of %d mails, %d extra copies, %d unsure attempts", len(copies), mails, extra, unsure)
			}
			for id, all := range copies {
				if len(slices.Compact(all)) != 1 {
					t.Errorf("the copies of %s differ", id)
				}
			}
			t.Logf("%d distinct mails, %d extra copies, %d unsure attempts", len(copies), extra, unsure)
		})
	}
}

// guarantee R-19: neither a recipient that is refused nor a server that is slow with one
// mail holds up the others.
func TestOneBadOrSlowMailHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	server := testkit.SMTP(t)
	m := sinkMailer(t, server)
	server.Next(testkit.MailHold)
	held := make(chan Outcome, 1)
	raw := rawMessage(t, 1)
	go func() { held <- m.Send(t.Context(), []string{"held@example.com"}, raw, true) }()
	server.WaitMail(t, "held@example.com", 1)
	server.RefuseRecipient("gone@example.com", 550)
	var late atomic.Int64
	for n := 2; n < 30; n++ {
		to := "ana@example.com"
		if n%3 == 0 {
			to = "gone@example.com"
		}
		if out := sendTo(t, m, n, true, to); (out.Class == Success) != (n%3 != 0) {
			t.Errorf("mail %d: %+v", n, out)
			late.Add(1)
		}
	}
	select {
	case out := <-held:
		t.Errorf("the held mail ended: %+v", out)
	default:
	}
	server.Release()
	if out := <-held; out.Class != Success {
		t.Errorf("the held mail: %+v", out)
	}
	if got := len(server.MailsTo("ana@example.com")); got != 19 || late.Load() != 0 {
		t.Errorf("%d mails arrived, want 19", got)
	}
	server.SetMode(testkit.MailSlow(5 * time.Millisecond))
	if out := sendTo(t, m, 99, false, "ana@example.com"); out.Class != Success {
		t.Errorf("a slow server that works: %+v", out)
	}
}

func TestThePasswordIsNotShownEvenIfTheServerRepeatsIt(t *testing.T) {
	t.Parallel()
	m := &Mailer{host: "mail.test", password: "hunter2-hunter2"}
	for _, text := range []string{"535 hunter2-hunter2 is wrong", "no"} {
		if got := m.hidden(text); strings.Contains(got, "hunter2") || text == "no" && got != "no" {
			t.Errorf("%q", got)
		}
	}
}
