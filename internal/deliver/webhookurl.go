package deliver

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"vobo/internal/fault"
)

// MaxURLLength bounds a webhook's URL in bytes.
const MaxURLLength = 4096

// target is a URL that passed the check of its form; where it leads is checked at dial.
type target struct {
	url  *url.URL
	host string // without brackets
	port string
}

// trust says which addresses a dial for a target may reach.
type trust int

const (
	publicOnly  trust = iota // the public internet, and addresses of the allow list
	allowedNets              // addresses of the allow list only: plain http
	anyAddress               // the host is allowed by name
)

// CheckURL tells whether webhooks may be sent to rawURL as far as its form shows. The
// error, fault.InvalidInput, says what is wrong. Names are resolved, and every address
// is checked, when a webhook is sent.
func (s *WebhookSender) CheckURL(rawURL string) error {
	_, err := s.parseTarget(rawURL)
	return err
}

func (s *WebhookSender) parseTarget(raw string) (target, error) {
	if len(raw) > MaxURLLength {
		return target{}, badURL("is longer than %d bytes", MaxURLLength)
	}
	for _, c := range []byte(raw) {
		if c <= ' ' || c >= 0x7f || c == '\\' {
			return target{}, badURL("holds a space, a backslash, a control or a non-ASCII character; encode it (host names in punycode)")
		}
	}
	scheme, rest, ok := strings.Cut(raw, "://")
	scheme = strings.ToLower(scheme)
	if !ok || scheme != "https" && scheme != "http" {
		return target{}, badURL("does not begin with https://")
	}
	u, err := url.Parse(raw)
	if err != nil || u.Opaque != "" {
		return target{}, badURL("is not well-formed")
	}
	authority := rest[:strings.IndexAny(rest+"/", "/?#")]
	switch {
	case u.User != nil || strings.Contains(authority, "@"):
		return target{}, badURL("holds a user name or password; use credentials")
	case strings.Contains(raw, "#"):
		return target{}, badURL("has a fragment (#…), which is never sent")
	case strings.Contains(authority, "%"):
		return target{}, badURL("has a host with % in it")
	case !strings.EqualFold(authority, u.Host):
		return target{}, badURL("has a host that can be read in two ways")
	}
	t := target{url: u, host: u.Hostname(), port: u.Port()}
	if t.port == "" {
		if strings.HasSuffix(u.Host, ":") {
			return target{}, badURL("has a colon without a port")
		}
		t.port = map[string]string{"https": "443", "http": "80"}[scheme]
	}
	_, err = s.judge(scheme, t.host, t.port)
	return t, err
}

// judge checks host (without brackets) and port and says what a dial may reach there.
func (s *WebhookSender) judge(scheme, host, port string) (trust, error) {
	addr, err := netip.ParseAddr(host)
	literal := err == nil
	switch {
	case literal && addr.Zone() != "":
		return publicOnly, badURL("has an address with a zone")
	case !literal && !validHostname(host):
		return publicOnly, badURL("has a host that is neither a name nor a plain address")
	case !validPort(port):
		return publicOnly, badURL("has a port that is not 1 to 65535")
	}
	if s.allow.host(host, port) || literal && s.allow.address(addr) {
		return anyAddress, nil
	}
	if literal && !IsPublic(addr) {
		return publicOnly, badURL("leads to an address that webhooks may not reach; allow it with VOBO_WEBHOOK_ALLOW")
	}
	if scheme == "http" {
		if literal || len(s.allow.nets) == 0 {
			return publicOnly, badURL("is plain http; use https, or allow the host with VOBO_WEBHOOK_ALLOW")
		}
		return allowedNets, nil
	}
	if n, err := strconv.Atoi(port); err != nil || !publicPort(n) {
		return publicOnly, badURL("names port %s, which webhooks may not reach; allow host:port with VOBO_WEBHOOK_ALLOW", port)
	}
	return publicOnly, nil
}

func badURL(format string, args ...any) error {
	return fault.New(fault.InvalidInput, "The webhook's URL "+format+".", args...)
}

// reachable tells whether a dial for a target of this trust may go to a.
func (l allowList) reachable(a netip.Addr, how trust) bool {
	switch how {
	case anyAddress:
		return true
	case allowedNets:
		return l.address(a)
	}
	return IsPublic(a) || l.address(a)
}
