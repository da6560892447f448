package deliver

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"
)

// addressError is the dial guard's refusal.
type addressError struct{}

func (*addressError) Error() string { return "the address is not allowed" }

// guardedDialer connects for one client identity; nil: none.
type guardedDialer struct {
	sender *WebhookSender
	client *ClientTLS
}

func (d *guardedDialer) dialPlain(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := d.sender.dial(ctx, "http", network, address)
	if err != nil {
		return nil, err
	}
	return &countedConn{Conn: c}, nil
}

// dialTLS makes the handshake itself, so that what a request writes is counted apart
// from what TLS writes. It speaks HTTP/1.1 only: a request has a connection to itself.
func (d *guardedDialer) dialTLS(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	c, err := d.sender.dial(ctx, "https", network, address)
	if err != nil {
		return nil, err
	}
	slow := &slowError{shaking, d.sender.limits.handshake}
	ctx, cancel := context.WithTimeoutCause(ctx, slow.limit, slow)
	defer cancel()
	secure := tls.Client(c, d.config(host))
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, context.Cause(ctx), c.Close())
	}
	return &countedConn{Conn: secure}, nil
}

func (d *guardedDialer) config(host string) *tls.Config {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if d.sender.tls != nil {
		cfg = d.sender.tls.Clone()
	}
	cfg.ServerName, cfg.NextProtos = host, []string{"http/1.1"}
	if d.client == nil {
		return cfg
	}
	if d.client.Certificate != nil {
		cfg.Certificates = []tls.Certificate{*d.client.Certificate}
	}
	if d.client.RootCAs != nil {
		cfg.RootCAs = d.client.RootCAs
	}
	return cfg
}

// dial connects, checking every single address right before the connect: after that
// nothing resolves the name again.
func (s *WebhookSender) dial(ctx context.Context, scheme, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	// Asked again here and not handed over: a pooled connection may serve any request
	// of its scheme, host and port.
	how, err := s.judge(scheme, host, port)
	if err != nil {
		return nil, err
	}
	slow := &slowError{connecting, s.limits.dial}
	ctx, cancel := context.WithTimeoutCause(ctx, slow.limit, slow)
	defer cancel()
	d := net.Dialer{
		Resolver: s.resolver,
		Control: func(network, address string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(address)
			if err != nil || network != "tcp4" && network != "tcp6" || !s.allow.reachable(to.Addr(), how) {
				return &addressError{}
			}
			if s.onConnect != nil {
				return s.onConnect(to)
			}
			return nil
		},
	}
	c, err := d.DialContext(ctx, network, address)
	if err != nil && ctx.Err() != nil {
		err = errors.Join(err, context.Cause(ctx))
	}
	return c, err
}

// unreadable is the reason of what nothing better is known of.
const unreadable = "the answer could not be read"

// reason puts an error of the network into a few words, without addresses or paths.
func reason(err error) string {
	var dns *net.DNSError
	var unknownCA x509.UnknownAuthorityError
	var wrongHost x509.HostnameError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	var errno syscall.Errno
	var timeout net.Error
	switch {
	case errors.As(err, &dns):
		if dns.IsNotFound {
			return "the name does not resolve"
		}
		return "the name could not be looked up"
	case errors.As(err, &unknownCA), errors.As(err, &wrongHost), errors.As(err, &invalid):
		return "its TLS certificate is not valid for the name"
	case errors.As(err, &record), errors.As(err, &alert):
		return "TLS could not be agreed"
	case errors.Is(err, context.Canceled):
		return "the service is stopping"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "it took too long"
	case errors.As(err, &errno):
		return errno.Error()
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return "the connection was closed"
	}
	return unreadable
}

// printable makes text of the other side, or of a user, safe for one line of a log or
// a page: no control or direction-changing characters, at most n runes.
func printable(s string, n int) string {
	var b strings.Builder
	count := 0
	for _, r := range strings.ToValidUTF8(s, string(utf8.RuneError)) {
		if count == n {
			b.WriteRune('…')
			break
		}
		if unicode.IsControl(r) || isLineSeparator(r) || isDirectionControl(r) {
			r = ' '
		}
		b.WriteRune(r)
		count++
	}
	return b.String()
}

func isLineSeparator(r rune) bool { return r == '\u2028' || r == '\u2029' }

// isDirectionControl tells the invisible characters that change the direction of the
// text around them (Unicode UAX #9: embeddings, overrides, isolates).
func isDirectionControl(r rune) bool {
	return r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069'
}
