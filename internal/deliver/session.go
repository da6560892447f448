package deliver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/textproto"
	"strings"
	"time"

	"github.com/wneessen/go-mail/smtp"
)

// session is one SMTP connection, used by one goroutine at a time.
type session struct {
	conn   net.Conn // the TCP connection, beneath TLS: closing it ends every read
	client *smtp.Client
	mails  int
	expiry *time.Timer
}

// bind closes the connection when ctx ends, which is the only way to end a read of the
// client; the function it returns ends the binding.
func (s *session) bind(ctx context.Context) (stop func()) {
	cancel := context.AfterFunc(ctx, s.drop)
	return func() { cancel() }
}

// drop closes the connection. The session is given up: an error changes nothing.
func (s *session) drop() { _ = s.conn.Close() }

// quit takes leave politely, within the time given.
func (s *session) quit(within time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	defer s.bind(ctx)()
	_ = s.client.Quit() // a server that is gone already is as good
	s.drop()
}

// deliver hands over one mail. stale tells that the session was over before the mail
// was begun.
func (s *session) deliver(ctx context.Context, from string, to []string, raw []byte, idempotent bool) (out Outcome, stale bool) {
	defer s.bind(ctx)()
	s.mails++
	if err := s.client.Mail("<" + from + ">"); err != nil {
		var reply *textproto.Error
		stale = ctx.Err() == nil && (!errors.As(err, &reply) || reply.Code == 421)
		return refusal("The mail server did not take the sender", err), stale
	}
	refused, now := s.recipients(to)
	if now != nil {
		return *now, false
	}
	if len(refused) == len(to) {
		return Outcome{Class: Permanent, Status: refused[0].code, Answered: true, Detail: "The mail server refused " + join(refused) + "."}, false
	}
	out = s.data(raw, idempotent)
	if len(refused) > 0 {
		out.Detail += " Refused: " + join(refused) + "."
	}
	return out, false
}

// rejection is a recipient refused for good.
type rejection struct {
	address, text string
	code          int
}

func join(all []rejection) string {
	parts := make([]string, len(all))
	for i, r := range all {
		parts[i] = r.address + " (" + r.text + ")"
	}
	return strings.Join(parts, ", ")
}

// recipients names the recipients. now is the outcome if nothing may be sent yet.
func (s *session) recipients(to []string) (refused []rejection, now *Outcome) {
	for _, a := range to {
		err := s.client.Rcpt("<" + a + ">")
		if err == nil {
			continue
		}
		var reply *textproto.Error
		if errors.As(err, &reply) && permanent(reply.Code) {
			refused = append(refused, rejection{a, replyText(reply), reply.Code})
			continue
		}
		out := refusal("The mail server did not take "+a, err)
		return nil, &out
	}
	return refused, nil
}

// data sends the text. Until the line with the final dot has gone out the server
// cannot have taken the mail; after it only its answer tells.
func (s *session) data(raw []byte, idempotent bool) Outcome {
	w, err := s.client.Data()
	if err != nil {
		return refusal("The mail server did not want the text", err)
	}
	if _, err := w.Write(raw); err != nil {
		return refusal("The connection broke while the text was sent", err)
	}
	err = w.Close()
	var reply *textproto.Error
	switch {
	case err == nil:
		return Outcome{Class: Success, Status: 250, Answered: true, WentOut: true, Detail: "The mail server took the mail."}
	case errors.As(err, &reply):
		out := refusal("The mail server did not take the text", err)
		out.WentOut = true
		return out
	}
	return noAnswer(fmt.Sprintf("The mail went out and the server did not say whether it took it: %s.", reason(err)), idempotent)
}

// refusal classifies an answer, or its absence, before the mail was taken.
func refusal(what string, err error) Outcome {
	var reply *textproto.Error
	if !errors.As(err, &reply) {
		return Outcome{Class: Retry, Detail: fmt.Sprintf("%s: %s.", what, reason(err))}
	}
	out := Outcome{Class: Retry, Status: reply.Code, Answered: true, Detail: fmt.Sprintf("%s: %s.", what, replyText(reply))}
	if permanent(reply.Code) {
		out.Class = Permanent
	}
	return out
}

// permanent tells the replies that no repetition changes. Those about logging in
// (RFC 4954: 530, 534, 535, 538) are about us, not about the mail.
func permanent(code int) bool {
	switch code {
	case 530, 534, 535, 538:
		return false
	}
	return code >= 500 && code < 600
}

func replyText(e *textproto.Error) string {
	return strings.TrimRight(fmt.Sprintf("%d %s", e.Code, printable(strings.TrimSpace(e.Msg), 300)), " .")
}
