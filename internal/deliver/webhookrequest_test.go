package deliver

import (
	"io"
	"net"
	"net/http"
	"testing"
)

func TestDefinitionsCannotSmuggleOrReplaceHeaders(t *testing.T) {
	t.Parallel()
	server := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a request went out") })
	s := localSender(t)
	for _, h := range [][2]string{
		{"X", "a\r\nY: b"},
		{"X", "a\nY: b"},
		{"X\r\nY", "b"},
		{"X Y", "b"},
		{"", "b"},
		{"X:", "b"},
		{"Ü", "b"},
		{"X", "\x00"},
		{"X", "a\x7f"},
		{"Host", "internal"},
		{"host", "internal"},
		{"Content-Length", "0"},
		{"Transfer-Encoding", "chunked"},
		{"Connection", "close"},
		{"Webhook-Id", "other"},
		{"webhook-timestamp", "0"},
		{"IDEMPOTENCY-KEY", "other"},
		{"Vobo-Attempt", "1"},
		{"Expect", "100-continue"},
		{"Upgrade", "h2c"},
		{"Accept-Encoding", "gzip"},
	} {
		r := hook(server.URL, false)
		r.Headers = [][2]string{h}
		if out := s.Send(t.Context(), r); out.Class != Permanent || out.WentOut {
			t.Errorf("%q: %+v", h, out)
		}
	}
	for _, method := range []string{"CONNECT", "TRACE", "POST / HTTP/1.1\r\n", "X"} {
		r := hook(server.URL, false)
		r.Method = method
		if out := s.Send(t.Context(), r); out.Class != Permanent {
			t.Errorf("%q: %+v", method, out)
		}
	}
	for _, id := range []string{"", "a\r\nX: y"} {
		r := hook(server.URL, false)
		r.ID = id
		if out := s.Send(t.Context(), r); out.Class != Permanent {
			t.Errorf("id %q: %+v", id, out)
		}
	}
}

// brokenConn is a connection on which a write ends with n bytes written.
type brokenConn struct {
	net.Conn
	n int
}

func (c brokenConn) Write([]byte) (int, error) { return c.n, io.ErrClosedPipe }

func TestOnlyAWriteThatLeftNothingCountsAsNotWritten(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]bool{0: false, 1: true, 3: true} {
		c := &countedConn{Conn: brokenConn{n: n}}
		var trip trace
		trip.conn.Store(c)
		if _, err := c.Write([]byte("POST")); err == nil {
			t.Error("the write did not fail")
		}
		if got := trip.wrote(); got != want {
			t.Errorf("%d bytes written: wrote is %v", n, got)
		}
	}
}
