package approval

import (
	"context"
	"fmt"
	"sync"
	"time"

	"vobo/internal/deliver"
	"vobo/internal/fault"
	"vobo/internal/fsm"
	"vobo/internal/store"
)

// loginMails keeps the newest login mails for the mailbox page where no SMTP is set up.
type loginMails struct {
	mu   sync.Mutex
	sent int
	kept []MailView
}

const loginMailsKept = 50

func (l *loginMails) add(m MailView) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent++
	m.ID = fmt.Sprintf("login-%d", l.sent)
	l.kept = append([]MailView{m}, l.kept...)
	if len(l.kept) > loginMailsKept {
		l.kept = l.kept[:loginMailsKept]
	}
}

func (l *loginMails) all() []MailView {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]MailView(nil), l.kept...)
}

// sendLogin mails a login link in the background; one that does not arrive is asked
// for again.
func (s *Service) sendLogin(_ context.Context, p *fsm.Person, token string, now time.Time) error {
	link := s.cfg.BaseURL + "/login/" + token
	subject, text, html, err := deliver.RenderLoginMail(deliver.LoginMail{
		Service: serviceName, PersonName: p.Name,
		Link: link, Minutes: int(loginLinkFor / time.Minute), Locale: p.Locale,
	})
	if err != nil {
		return err
	}
	if s.cfg.Mailer == nil {
		s.logins.add(MailView{To: p.Email, Subject: subject, Text: text, HTML: html, At: now, Status: fsm.EffectSucceeded, Link: link})
		return nil
	}
	m := deliver.Message{
		ID: "login-" + token[:16], From: s.cfg.MailFrom, FromName: serviceName, To: p.Email,
		ToName: p.Name, Subject: subject, Text: text, HTML: html, Date: now, AutoSubmitted: true,
	}
	raw, err := m.Bytes()
	if err != nil {
		return err
	}
	s.outbox.work.Go(func() {
		ctx, cancel := context.WithTimeout(s.outbox.ctx, lease)
		defer cancel()
		if out := s.cfg.Mailer.Send(ctx, []string{p.Email}, raw, true); out.Class != deliver.Success {
			s.log.Warn("a login mail was not sent", "person", p.ID, "outcome", string(out.Class), "detail", out.Detail)
		}
	})
	return nil
}

// Mailbox lists mails as they were or would be sent, newest first; bodies are left out.
func (s *Service) Mailbox(ctx context.Context, p store.Paging) (store.Page[MailView], error) {
	rows, err := s.store.Mailbox(ctx, p)
	if err != nil {
		return store.Page[MailView]{}, err
	}
	page := store.Page[MailView]{Next: rows.Next}
	if p.Cursor == "" {
		page.Items = s.logins.all()
	}
	for _, e := range rows.Items {
		if e.LeftOut {
			page.Items = append(page.Items, MailView{
				ID: EffectID(e.Instance, e.EffectID), At: e.QueuedAt, Status: e.Status, Instance: e.Instance,
				Subject: "(too long for a list; open it to read it)",
			})
			continue
		}
		m, err := s.mailView(ctx, &e)
		if err != nil {
			return page, err
		}
		page.Items = append(page.Items, *m)
	}
	return page, nil
}

// Mail returns one mail. Not-found.
func (s *Service) Mail(ctx context.Context, id string) (*MailView, error) {
	for _, m := range s.logins.all() {
		if m.ID == id {
			return &m, nil
		}
	}
	e, err := s.effect(ctx, id)
	if err != nil {
		return nil, err
	}
	if f, err := thaw(e.Request); err == nil && f.Email == nil && f.TaskMail == nil {
		return nil, fault.New(fault.NotFound, "There is no such mail.")
	}
	return s.mailView(ctx, e)
}

func (s *Service) mailView(ctx context.Context, e *store.EffectInfo) (*MailView, error) {
	v := &MailView{ID: EffectID(e.Instance, e.EffectID), At: e.QueuedAt, Status: e.Status, Instance: e.Instance}
	f, err := thaw(e.Request)
	if err != nil {
		return nil, err
	}
	claimed := &store.ClaimedEffect{Instance: e.Instance, QueuedEffect: e.QueuedEffect, Key: effectKey(e.Instance, e.EffectID), QueuedAt: e.QueuedAt}
	if e.Link != (fsm.EffectID{}) {
		infos, err := s.store.Assignees(ctx, e.Instance)
		if err != nil {
			return nil, err
		}
		for i := range infos {
			if infos[i].Seq == e.Link.Seq && infos[i].N == e.Link.N {
				claimed.Link = &infos[i]
			}
		}
	}
	if f.TaskMail != nil && claimed.Link != nil {
		if token := s.mint(e.Instance, &claimed.Link.Assignee); token != "" {
			v.Link = s.cfg.BaseURL + "/a/" + token
		}
	}
	m, err := s.message(claimed, f)
	if err != nil {
		v.To, v.Subject, v.Text = addressOf(f), "(cannot be sent)", err.Error()
		return v, nil
	}
	v.To, v.Subject, v.Text, v.HTML = m.To, m.Subject, m.Text, m.HTML
	return v, nil
}

func addressOf(f *fsm.Frozen) string {
	switch {
	case f.Email != nil:
		return f.Email.To
	case f.TaskMail != nil:
		return f.TaskMail.To
	}
	return ""
}
