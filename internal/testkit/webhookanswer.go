package testkit

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// WebhookAnswer is what a receiver does with a call that it has recorded.
type WebhookAnswer func(w http.ResponseWriter, r *http.Request, call WebhookCall)

// AnswerJSON answers with a status and a JSON body.
func AnswerJSON(status int, body string) WebhookAnswer {
	return func(w http.ResponseWriter, _ *http.Request, _ WebhookCall) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		write(w, []byte(body))
	}
}

// AnswerText answers with a status and a body of plain text.
func AnswerText(status int, body string) WebhookAnswer {
	return func(w http.ResponseWriter, _ *http.Request, _ WebhookCall) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(status)
		write(w, []byte(body))
	}
}

// AnswerStatus answers with a status and no body.
func AnswerStatus(status int) WebhookAnswer {
	return func(w http.ResponseWriter, _ *http.Request, _ WebhookCall) { w.WriteHeader(status) }
}

// AnswerRetryAfter answers with a status and a Retry-After in seconds.
func AnswerRetryAfter(status, seconds int) WebhookAnswer {
	return AnswerRetryAfterText(status, strconv.Itoa(seconds))
}

// AnswerRetryAfterText answers with a status and one Retry-After header per value,
// whatever they say. RetryAfterForms lists what receivers are known to say.
func AnswerRetryAfterText(status int, values ...string) WebhookAnswer {
	return func(w http.ResponseWriter, _ *http.Request, _ WebhookCall) {
		w.Header()["Retry-After"] = values
		w.WriteHeader(status)
	}
}

// RetryAfterForm is a Retry-After as a receiver may write it, and what it asks for.
type RetryAfterForm struct {
	Values []string
	Wait   time.Duration // the least wait; 0: it asks for nothing, the normal back-off counts
}

// RetryAfterForms lists the forms of field report B30, seen at now; most caps the wait.
func RetryAfterForms(now time.Time, most time.Duration) []RetryAfterForm {
	date := func(in time.Duration, layout string) string { return now.Add(in).UTC().Format(layout) }
	whole := 2 * time.Minute
	return []RetryAfterForm{
		{[]string{"120"}, whole},
		{[]string{" 120 "}, whole},
		{[]string{"0120"}, whole},
		{[]string{date(whole, http.TimeFormat)}, whole},
		{[]string{date(whole, "Monday, 02-Jan-06 15:04:05 GMT")}, whole}, // RFC 850
		{[]string{date(whole, time.ANSIC)}, whole},
		{[]string{date(-time.Hour, http.TimeFormat)}, 0},
		{[]string{"0"}, 0},
		{[]string{"-3"}, 0},
		{[]string{"+3"}, 0},
		{[]string{"1.5"}, 0},
		{[]string{"1e3"}, 0},
		{[]string{"0x10"}, 0},
		{[]string{"soon"}, 0},
		{[]string{""}, 0},
		{nil, 0},
		{[]string{"120, 5"}, 0},
		{[]string{"30", "120"}, whole},
		{[]string{"soon", "120"}, whole},
		{[]string{"9999999999"}, most},
		{[]string{"99999999999999999999999999999999"}, most},
		{[]string{now.AddDate(317, 0, 0).UTC().Format(http.TimeFormat)}, most},
	}
}

// AnswerRedirect answers 307 to another address.
func AnswerRedirect(to string) WebhookAnswer {
	return AnswerRedirectWith(http.StatusTemporaryRedirect, to)
}

// AnswerRedirectWith answers a status of 300 to 399 to another address, written as it is.
func AnswerRedirectWith(status int, to string) WebhookAnswer {
	return func(w http.ResponseWriter, _ *http.Request, _ WebhookCall) {
		w.Header().Set("Location", to)
		w.WriteHeader(status)
	}
}

// AnswerHuge answers 200 with a body of that many bytes.
func AnswerHuge(size int) WebhookAnswer {
	return func(w http.ResponseWriter, _ *http.Request, _ WebhookCall) {
		chunk := bytes.Repeat([]byte("x"), 32<<10)
		for left := size; left > 0; left -= len(chunk) {
			if !write(w, chunk[:min(left, len(chunk))]) {
				return
			}
		}
	}
}

// AnswerDrip answers 200 and then a byte now and then until the caller leaves.
func AnswerDrip(every time.Duration) WebhookAnswer { return AnswerDripWith(http.StatusOK, every) }

// AnswerDripWith is AnswerDrip with another status.
func AnswerDripWith(status int, every time.Duration) WebhookAnswer {
	return func(w http.ResponseWriter, r *http.Request, _ WebhookCall) {
		w.WriteHeader(status)
		flush := http.NewResponseController(w)
		drip(r, every, func(b []byte) bool { return write(w, b) && flush.Flush() == nil })
	}
}

// AnswerDripHeaders answers 200 and a header that never ends, a byte now and then
// (slowloris), until the caller leaves.
func AnswerDripHeaders(every time.Duration) WebhookAnswer {
	return func(w http.ResponseWriter, r *http.Request, _ WebhookCall) {
		conn := hijack(w)
		defer closeConn(conn)
		if write(conn, []byte("HTTP/1.1 200 OK\r\nX-Slow: ")) {
			drip(r, every, func(b []byte) bool { return write(conn, b) })
		}
	}
}

// drip sends a byte now and then until that fails or the server ends.
func drip(r *http.Request, every time.Duration, send func([]byte) bool) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for send([]byte("x")) {
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		}
	}
}

// AnswerNever holds the call until the caller leaves.
func AnswerNever() WebhookAnswer {
	return func(_ http.ResponseWriter, r *http.Request, _ WebhookCall) { <-r.Context().Done() }
}

// AnswerReset takes the call and resets the connection (RST) without an answer.
func AnswerReset() WebhookAnswer {
	return func(w http.ResponseWriter, _ *http.Request, _ WebhookCall) { resetConn(hijack(w)) }
}

// AnswerClose takes the call and closes the connection without an answer.
func AnswerClose() WebhookAnswer {
	return func(w http.ResponseWriter, _ *http.Request, _ WebhookCall) { closeConn(hijack(w)) }
}

// AnswerCut begins to answer with a status and a body and cuts the connection before
// the body's announced end.
func AnswerCut(status int, begin string) WebhookAnswer {
	return func(w http.ResponseWriter, _ *http.Request, _ WebhookCall) {
		conn := hijack(w)
		defer closeConn(conn)
		write(conn, fmt.Appendf(nil, "HTTP/1.1 %d Cut\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", status, len(begin)+100, begin))
	}
}

// AnswerRaw writes these bytes for an answer and closes the connection.
func AnswerRaw(text string) WebhookAnswer {
	return func(w http.ResponseWriter, _ *http.Request, _ WebhookCall) {
		conn := hijack(w)
		defer closeConn(conn)
		write(conn, []byte(text))
	}
}

func hijack(w http.ResponseWriter) net.Conn {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err) // only a server without connections, which httptest is not
	}
	return conn
}

// closeConn closes a connection that the caller may have left already.
func closeConn(conn net.Conn) { _ = conn.Close() }

// resetConn closes a connection so that the other side gets an RST.
func resetConn(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // fails only where the connection is gone, as wanted
	}
	closeConn(conn)
}

// write tells whether the caller is still there.
func write(w io.Writer, b []byte) bool {
	_, err := w.Write(b)
	return err == nil
}
