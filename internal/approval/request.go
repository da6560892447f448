package approval

import (
	"net/url"
	"regexp"
	"slices"
	"strings"

	"vobo/internal/deliver"
	"vobo/internal/fsm"
	"vobo/internal/store"
)

const (
	kindManual = "manual"
	kindStart  = "start"

	maskedSecret = "[masked]"
	maskedLink   = "[callback link]"
	startsShown  = 10 // data of so many children
)

// masked puts words where a request carries a link.
var masked = marks{maskedLink}

// requestView is an effect's request as it is sent, with secrets and links masked; nil
// where it cannot be read.
func (s *Service) requestView(e *store.EffectInfo) *RequestView {
	f, err := thaw(e.Request)
	if err != nil {
		return nil
	}
	switch {
	case f.Webhook != nil:
		return webhookView(f.Webhook)
	case f.Email != nil:
		to := append([]string{f.Email.To}, f.Email.Cc...)
		return &RequestView{To: to, Subject: f.Email.Subject, Text: maskText(masked.inText(f.Email.Body))}
	case f.TaskMail != nil:
		return s.taskMailView(e, f.TaskMail)
	case f.Start != nil:
		shown := make([]any, 0, startsShown)
		for _, item := range f.Start.Items[:min(len(f.Start.Items), startsShown)] {
			shown = append(shown, maskTree(item))
		}
		return &RequestView{Definition: f.Start.Definition, Children: len(f.Start.Items), Body: rawOf(shown)}
	case f.Raise != nil:
		return &RequestView{Definition: f.Raise.Definition, Key: f.Raise.Key, Event: f.Raise.Event, Body: rawOf(maskTree(f.Raise.Input))}
	case f.Stop != nil:
		return &RequestView{Text: f.Stop.Reason}
	case f.Manual != nil:
		return &RequestView{Text: "Undo " + f.Manual.Name + " by hand, then resolve this effect."}
	}
	return nil
}

func webhookView(w *fsm.FrozenWebhook) *RequestView {
	v := &RequestView{Method: w.Method, URL: maskURL(masked.inText(w.URL)), Credentials: w.Credentials}
	for _, h := range w.Headers {
		value := maskText(masked.inText(h[1]))
		if secretName(h[0]) {
			value = maskedSecret
		}
		v.Headers = append(v.Headers, [2]string{h[0], value})
	}
	if w.HasBody {
		v.Body = rawOf(maskTree(masked.inTree(w.Body)))
	}
	return v
}

// taskMailView writes the mail without its link.
func (s *Service) taskMailView(e *store.EffectInfo, t *fsm.FrozenTaskMail) *RequestView {
	m := s.taskMail(&store.ClaimedEffect{Instance: e.Instance, QueuedEffect: e.QueuedEffect, QueuedAt: e.QueuedAt}, t)
	if !t.OnlyInbox {
		m.Link = s.cfg.BaseURL + "/a/masked"
	}
	v := &RequestView{To: []string{t.To}}
	subject, text, _, err := deliver.RenderTaskMail(m)
	if err != nil {
		v.Subject, v.Text = t.Title, "This mail cannot be written: "+err.Error()
		return v
	}
	v.Subject, v.Text = subject, maskText(text)
	return v
}

// secretNames are parts of names under which headers, parameters and members carry secrets.
var secretNames = []string{
	"authorization", "cookie", "token", "secret", "password", "passwd", "passphrase", "apikey", "api-key", "api_key",
	"credential", "signature", "private-key", "private_key", "privatekey", "x-auth", "access-key", "access_key", "accesskey", "session",
}

// secretName tells whether what stands under a name may be a secret.
func secretName(name string) bool {
	name = strings.ToLower(name)
	return name == "pin" || name == "auth" || name == "sig" || name == "pwd" ||
		slices.ContainsFunc(secretNames, func(part string) bool { return strings.Contains(name, part) })
}

// tokenForm is a signed token, and bearerForm another credential, wherever it stands.
var (
	tokenForm  = regexp.MustCompile(`eyJ[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*`)
	bearerForm = regexp.MustCompile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}`)
	secretForm = regexp.MustCompile(`\b(whsec|whsk|vobo)_[A-Za-z0-9+/=_-]{8,}`)
)

// maskText masks credentials that stand in a text.
func maskText(text string) string {
	text = tokenForm.ReplaceAllString(text, maskedSecret)
	text = bearerForm.ReplaceAllString(text, "$1 "+maskedSecret)
	return secretForm.ReplaceAllString(text, maskedSecret)
}

// maskURL masks the user information of a URL and parameters that may be secrets.
func maskURL(text string) string {
	text = maskText(text)
	head, query, asked := strings.Cut(text, "?")
	if scheme, rest, ok := strings.Cut(head, "://"); ok {
		host, path, slash := strings.Cut(rest, "/")
		if at := strings.LastIndexByte(host, '@'); at >= 0 {
			host = maskedSecret + host[at:]
		}
		head = scheme + "://" + host
		if slash {
			head += "/" + path
		}
	}
	if !asked {
		return head
	}
	pairs := strings.Split(query, "&")
	for i, pair := range pairs {
		name, _, valued := strings.Cut(pair, "=")
		if plain, err := url.QueryUnescape(name); valued && (err != nil || secretName(plain) || strings.EqualFold(plain, "key")) {
			pairs[i] = name + "=" + maskedSecret
		}
	}
	return head + "?" + strings.Join(pairs, "&")
}

// maskTree masks a JSON tree: members that may be secrets, and credentials in texts.
func maskTree(v any) any {
	switch x := v.(type) {
	case string:
		return maskText(x)
	case []any:
		out := make([]any, len(x))
		for i := range x {
			out[i] = maskTree(x[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(x))
		for k, inner := range x {
			if text, ok := inner.(string); ok && text != "" && secretName(k) && text != maskedLink {
				out[k] = maskedSecret
				continue
			}
			out[k] = maskTree(inner)
		}
		return out
	}
	return v
}
