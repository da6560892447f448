package web

import (
	"net"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"vobo/internal/approval"
	"vobo/internal/fault"
	"vobo/internal/store"
)

// The mailbox page shows the mails as they would be sent, where no SMTP server is set.

type mailList struct {
	Rows []approval.MailView
	Next string
}

type mailPage struct {
	*approval.MailView
	Plain bool   // the text part is open
	Path  string // of the mail's own pages
	Lines []mailLine
}

// mailLine is one line of the text part; Href is its decision link, if it is nothing else.
type mailLine struct{ Text, Href string }

// mailFrame is the policy of a mail's HTML: nothing runs and nothing is loaded; a link opens in the window.
const mailFrame = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox allow-top-navigation-by-user-activation; " +
	"frame-ancestors 'self'; object-src 'none'; base-uri 'none'; form-action 'none'"

// mailbox lets in who may read everybody's mail; to others the pages do not exist.
func (s *site) mailbox(h handler) echo.HandlerFunc {
	return func(c echo.Context) error {
		v, err := s.visitorOf(c)
		if err != nil {
			return err
		}
		switch s.cfg.Mailbox {
		case MailboxLoopback:
			if ip := net.ParseIP(c.RealIP()); ip != nil && ip.IsLoopback() {
				return h(c, v)
			}
		case MailboxAdmins:
			if v == nil {
				return s.redirect(c, "/login?next=/dev/mail")
			}
			if v.HasRole("admin") {
				return h(c, v)
			}
		}
		return fault.New(fault.NotFound, "There is no page at this address.")
	}
}

// mailView makes the view of a page for a visitor who may be nobody.
func (s *site) mailView(c echo.Context, v *visitor, body any) *view {
	if v != nil {
		return s.page(v, "mail", "", body)
	}
	view := s.public(c, "", body)
	view.Nav, view.Quiet = "mail", false
	return view
}

func (s *site) listMail(c echo.Context, v *visitor) error {
	mails, err := s.svc.Mailbox(c.Request().Context(), store.Paging{Cursor: c.QueryParam("cursor")})
	if err != nil {
		return err
	}
	view := s.mailView(c, v, &mailList{Rows: mails.Items, Next: mails.Next})
	view.Title = view.Text("mail.title")
	return s.render(c, http.StatusOK, "mail_list", view)
}

func (s *site) showMail(c echo.Context, v *visitor) error {
	mail, err := s.svc.Mail(c.Request().Context(), c.Param("id"))
	if err != nil {
		return err
	}
	p := &mailPage{MailView: mail, Plain: c.QueryParam("part") == "text" || mail.HTML == "", Path: "/dev/mail/" + c.Param("id")}
	for _, line := range strings.Split(strings.ReplaceAll(mail.Text, "\r\n", "\n"), "\n") {
		l := mailLine{Text: line}
		if address := strings.TrimSpace(line); strings.HasPrefix(address, s.cfg.BaseURL+"/") && !strings.ContainsAny(address, " \t") {
			l.Href = address
		}
		p.Lines = append(p.Lines, l)
	}
	return s.render(c, http.StatusOK, "mail", s.mailViewTitled(c, v, plainText(mail.Subject), p))
}

func (s *site) mailViewTitled(c echo.Context, v *visitor, title string, body any) *view {
	view := s.mailView(c, v, body)
	view.Title = title
	return view
}

// showMailHTML serves the HTML part alone, for the frame. A <base> without address makes its
// links open in the window, since no page of ours may be framed.
func (s *site) showMailHTML(c echo.Context, _ *visitor) error {
	mail, err := s.svc.Mail(c.Request().Context(), c.Param("id"))
	if err != nil {
		return err
	}
	h := c.Response().Header()
	h.Set("Content-Security-Policy", mailFrame)
	h.Set("X-Frame-Options", "SAMEORIGIN")
	h.Set("Referrer-Policy", "no-referrer")
	body, target := mail.HTML, `<base target="_top">`
	if at := strings.Index(strings.ToLower(body), "<head>"); at >= 0 {
		body = body[:at+len("<head>")] + target + body[at+len("<head>"):]
	} else {
		body = target + body
	}
	return c.HTML(http.StatusOK, body)
}
