package testkit

import "time"

// MailPhase is a place in an SMTP dialogue where a MailMode acts.
type MailPhase int

// The phases of a dialogue, in order.
const (
	atNone     MailPhase = iota
	AtGreeting           // the server's first line
	AtHello              // EHLO
	AtStartTLS           // STARTTLS
	AtAuth               // AUTH
	AtMail               // MAIL FROM
	AtRcpt               // RCPT TO, each
	AtData               // DATA: before any content
	AtContent            // the final dot: after all content
)

type mailAct int

const (
	actAnswer mailAct = iota // as a healthy server
	actRefuse
	actDrop
	actStall
	actSlow
)

// MailMode is what a mail server does with a message or a session.
type MailMode struct {
	at   MailPhase
	act  mailAct
	code int
	each time.Duration
}

// The usual modes of a MailServer; MailRefuse, MailDrop, MailStall and MailSlow make any other.
var (
	MailAccept         = MailMode{}                 // 250
	MailDefer          = MailRefuse(AtContent, 451) // after the content: try again later
	MailReject         = MailRefuse(AtContent, 554) // after the content: never
	MailDeferRcpt      = MailRefuse(AtRcpt, 450)    // to every recipient
	MailRejectRcpt     = MailRefuse(AtRcpt, 550)    // to every recipient
	MailDropBeforeData = MailDrop(AtRcpt)           // the connection is cut before any content
	MailDropAfterData  = MailDrop(AtContent)        // the message is kept and the connection cut before the answer
	MailHold           = MailStall(AtContent)       // the message is kept and the answer held back until Release
)

// MailRefuse answers a reply code of 400 to 599 at a phase and keeps no message. After
// 421 the server closes the connection (RFC 5321, section 3.8).
func MailRefuse(at MailPhase, code int) MailMode {
	return MailMode{at: at, act: actRefuse, code: code}
}

// MailDrop cuts the connection instead of an answer. At AtContent the message is kept:
// the server took it and nobody was told.
func MailDrop(at MailPhase) MailMode { return MailMode{at: at, act: actDrop} }

// MailStall holds an answer back until Release, then goes on as a healthy server. At
// AtContent the message is kept before.
func MailStall(at MailPhase) MailMode { return MailMode{at: at, act: actStall} }

// MailSlow waits before every answer to a message's commands: a slow server that works.
func MailSlow(each time.Duration) MailMode { return MailMode{at: AtMail, act: actSlow, each: each} }
