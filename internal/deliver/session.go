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

// handover is what became of one mail on one session.
type handover struct {
	Outcome
	stale   bool        // the session was over before the mail was begun
	cut     bool        // the session ended while recipients were named: nothing was sent
	refused []rejection // recipients refused for good
}

// deliver hands over one mail.
func (s *session) deliver(ctx context.Context, from string, to []string, raw []byte, idempotent bool) handover {
	defer s.bind(ctx)()
	s.mails++
	if err := s.client.Mail("<" + from + ">"); err != nil {
		out := refusal("The mail server did not take the sender", err)
		out.Config = out.Class == Permanent || loginReply(err)
		return handover{Outcome: out, stale: ctx.Err() == nil && ended(err)}
	}
	refused, err := s.recipients(to)
	switch {
	case err != nil:
		out := refusal("The mail server did not take "+err.address, err.cause)
		out.Config = loginReply(err.cause)
		return handover{Outcome: out, cut: ctx.Err() == nil && ended(err.cause), refused: refused}
	case len(refused) == len(to):
		return handover{Outcome: allRefused(refused)}
	}
	out := s.data(raw, idempotent)
	return handover{Outcome: out, refused: refused}
}

// rejection is a recipient refused for good.
type rejection struct {
	address, text string
	code          int
}

func allRefused(refused []rejection) Outcome {
	list := join(refused)
	return Outcome{Class: Permanent, Status: refused[0].code, Answered: true, Detail: "The mail server refused " + list + ".", Answer: clipBytes(readable(list), maxAnswerText)}
}

func join(all []rejection) string {
	parts := make([]string, len(all))
	for i, r := range all {
		parts[i] = r.address + " (" + r.text + ")"
	}
	return strings.Join(parts, ", ")
}

// recipientError is a recipient that could not be named now.
type recipientError struct {
	address string
	cause   error
}

// recipients names the recipients; it stops at the first that is not taken for now.
func (s *session) recipients(to []string) (refused []rejection, _ *recipientError) {
	for _, a := range to {
		err := s.client.Rcpt("<" + a + ">")
		if err == nil {
			continue
		}
		var reply *textproto.Error
		if !errors.As(err, &reply) || !permanent(reply.Code) {
			return refused, &recipientError{a, err}
		}
		refused = append(refused, rejection{a, replyText(reply), reply.Code})
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
		out := Outcome{Class: Success, Status: 250, Answered: true, WentOut: true, Detail: "The mail server took the mail."}
		if d, ok := w.(*smtp.DataCloser); ok {
			out.Answer = clipBytes(readable(strings.TrimSpace("250 "+d.ServerResponse())), maxAnswerText)
		}
		return out
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
	out := Outcome{Class: Retry, Status: reply.Code, Answered: true, Detail: fmt.Sprintf("%s: %s.", what, replyText(reply)), Answer: replyAnswer(reply)}
	if permanent(reply.Code) {
		out.Class = Permanent
	}
	return out
}

// ended tells whether the session is over: the connection broke, or the server said
// that it closes it (421).
func ended(err error) bool {
	var reply *textproto.Error
	return !errors.As(err, &reply) || reply.Code == 421
}

// loginReply tells a reply about logging in, which is about us and not about the mail.
func loginReply(err error) bool {
	var reply *textproto.Error
	return errors.As(err, &reply) && aboutLogin(reply.Code)
}

// aboutLogin tells the replies of RFC 4954, which any command may get.
func aboutLogin(code int) bool { return code == 530 || code == 534 || code == 535 || code == 538 }

// permanent tells the replies that no repetition changes; those about logging in change
// with our settings.
func permanent(code int) bool { return code >= 500 && code < 600 && !aboutLogin(code) }

// replyText is a reply in one short line.
func replyText(e *textproto.Error) string {
	return strings.TrimRight(fmt.Sprintf("%d %s", e.Code, printable(strings.TrimSpace(e.Msg), 300)), " .")
}

// replyAnswer is a reply as it was said, for operators.
func replyAnswer(e *textproto.Error) string {
	return clipBytes(readable(fmt.Sprintf("%d %s", e.Code, strings.ToValidUTF8(e.Msg, "?"))), maxAnswerText)
}
