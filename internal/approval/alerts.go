package approval

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"vobo/internal/deliver"
	"vobo/internal/fault"
	"vobo/internal/fsm"
)

const (
	alertEffects   = "effects" // name in the database: dead and unknown effects
	alertEvery     = 15 * time.Minute
	alertOwedFor   = 24 * time.Hour // what is older says nothing any more
	alertsWidth    = 4
	alertRole      = "operator"
	setupLogsEvery = time.Minute
)

// alerts is what this process owes operators.
type alerts struct {
	mu    sync.Mutex
	owed  []alertMail // those that failed while others of the same alert went out
	setup time.Time   // when a mail server's set-up was last complained of in the log
}

// alertMail is one mail to one operator.
type alertMail struct {
	id, to, name, subject, text, html string
	at                                time.Time
}

// AlertOnce mails operators when the number of dead and unknown effects has grown, at
// most once within a quarter of an hour. What could not be sent is tried again by the
// next call.
func (s *Service) AlertOnce(ctx context.Context) error {
	now, err := s.store.Now(ctx)
	if err != nil {
		return err
	}
	owed := s.alerts.take(now)
	_, left := s.sendAlerts(ctx, owed)
	s.alerts.owe(left)
	counts, err := s.store.Counts(ctx)
	if err != nil {
		return err
	}
	dead, unknown := counts.EffectsByStatus[string(fsm.EffectDead)], counts.EffectsByStatus[string(fsm.EffectUnknown)]
	tell, before, err := s.store.Alert(ctx, alertEffects, int64(dead+unknown), alertEvery)
	if err != nil || !tell {
		return errors.Join(err, unsentAlerts(left))
	}
	mails, err := s.effectAlert(ctx, now, dead, unknown, before)
	if err != nil {
		return errors.Join(err, s.store.ForgetAlert(ctx, alertEffects, before))
	}
	if len(mails) == 0 {
		s.log.Warn("effects are dead or unknown, and nobody with the role operator has a mail address", "dead", dead, "unknown", unknown)
		return unsentAlerts(left)
	}
	sent, failed := s.sendAlerts(ctx, mails)
	if sent == 0 && len(failed) > 0 { // nobody knows: any replica may tell at its next look
		return errors.Join(unsentAlerts(append(left, failed...)), s.store.ForgetAlert(ctx, alertEffects, before))
	}
	s.alerts.owe(failed)
	return unsentAlerts(append(left, failed...))
}

func unsentAlerts(mails []alertMail) error {
	if len(mails) == 0 {
		return nil
	}
	return fmt.Errorf("%d mails to operators could not be sent; they are tried again", len(mails))
}

// take is what is owed and not too old to be of use.
func (a *alerts) take(now time.Time) []alertMail {
	a.mu.Lock()
	defer a.mu.Unlock()
	owed := slices.DeleteFunc(a.owed, func(m alertMail) bool { return now.Sub(m.at) > alertOwedFor })
	a.owed = nil
	return owed
}

// owe keeps mails to be sent later: of those to one address the newest, which says it all.
func (a *alerts) owe(mails []alertMail) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, m := range mails {
		i := slices.IndexFunc(a.owed, func(o alertMail) bool { return o.to == m.to })
		switch {
		case i < 0:
			a.owed = append(a.owed, m)
		case !m.at.Before(a.owed[i].at):
			a.owed[i] = m
		}
	}
}

// effectAlert writes a mail to each operator.
func (s *Service) effectAlert(ctx context.Context, now time.Time, dead, unknown int, before int64) ([]alertMail, error) {
	dir, err := s.directory(ctx)
	if err != nil {
		return nil, err
	}
	subject, body := effectAlertText(dead, unknown, before, s.cfg.BaseURL+"/attention")
	text, html, err := deliver.RenderPlainMail(serviceName, subject, body)
	if err != nil {
		return nil, err
	}
	var mails []alertMail
	for _, p := range dir.Role(alertRole) {
		if !p.Active || p.Email == "" {
			continue
		}
		mails = append(mails, alertMail{
			id: fmt.Sprintf("alert-%d-%d", now.UnixMilli(), len(mails)+1),
			to: p.Email, name: p.Name, subject: subject, text: text, html: html, at: now,
		})
	}
	return mails, nil
}

func effectAlertText(dead, unknown int, before int64, where string) (subject, body string) {
	total := dead + unknown
	subject = fmt.Sprintf("%d effects need a person", total)
	if total == 1 {
		subject = "1 effect needs a person"
	}
	var b strings.Builder
	if dead > 0 {
		fmt.Fprintf(&b, "Failed: %d. Nothing tries them again by itself.\n\n", dead)
	}
	if unknown > 0 {
		fmt.Fprintf(&b, "Not known: %d. They may have happened: somebody must find out and say so, or undo something by hand.\n\n", unknown)
	}
	if before > 0 && int64(total) > before {
		fmt.Fprintf(&b, "That is %d more than when this was last looked at.\n\n", int64(total)-before)
	}
	fmt.Fprintf(&b, "See each one's reason, and try it again or say what became of it: %s", where)
	return subject, b.String()
}

// sendAlerts sends mails; it tells how many went out and which failed. What was refused
// for good is neither: it would be refused again.
func (s *Service) sendAlerts(ctx context.Context, mails []alertMail) (sent int, failed []alertMail) {
	outcomes := make([]deliver.Class, len(mails))
	inParallel(alertsWidth, len(mails), func(i int) {
		out := s.sendAlert(ctx, &mails[i])
		if outcomes[i] = out.Class; out.Class != deliver.Success {
			s.log.Warn("an operator could not be mailed", "outcome", string(out.Class), "detail", out.Detail)
		}
	})
	for i, class := range outcomes {
		switch class {
		case deliver.Success:
			sent++
		case deliver.Permanent:
		default:
			failed = append(failed, mails[i])
		}
	}
	return sent, failed
}

func (s *Service) sendAlert(ctx context.Context, a *alertMail) deliver.Outcome {
	if s.cfg.Mailer == nil {
		s.logins.add(MailView{To: a.to, Subject: a.subject, Text: a.text, HTML: a.html, At: a.at, Status: fsm.EffectSucceeded})
		return deliver.Outcome{Class: deliver.Success}
	}
	m := deliver.Message{
		ID: a.id, From: s.cfg.MailFrom, FromName: serviceName, To: a.to, ToName: a.name,
		Subject: a.subject, Text: a.text, HTML: a.html, Date: a.at, AutoSubmitted: true,
	}
	raw, err := m.Bytes()
	if err != nil {
		return deliver.Outcome{Class: deliver.Permanent, Detail: fault.As(err).Message}
	}
	ctx, cancel := context.WithTimeout(ctx, lease)
	defer cancel()
	out := s.cfg.Mailer.Send(ctx, []string{a.to}, raw, true)
	s.metrics.outcome("alert-mail", out)
	return out
}

// outcome counts an attempt. A mail that failed because of how this server reaches its
// mail server (AUTH, TLS) is no recipient's fault and holds up every mail: the log says
// so, at most once a minute.
func (m *metrics) outcome(kind string, out deliver.Outcome) {
	m.attempt(kind, string(out.Class))
	if !out.Config {
		return
	}
	m.mailSetup.Inc()
	if m.s.alerts.complain(m.s.mono()) {
		m.s.log.Error("no mail can be sent: the mail server does not take this server's set-up. Check VOBO_SMTP_URL.", "detail", out.Detail)
	}
}

// complain tells whether the log shall say again that the mail server's set-up fails.
func (a *alerts) complain(now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.setup.IsZero() && now.Sub(a.setup) < setupLogsEvery {
		return false
	}
	a.setup = now
	return true
}
