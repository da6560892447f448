package deliver

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"

	"vobo/internal/fault"
)

// request writes an attempt; roundTrip gives it its context.
func (s *WebhookSender) request(t target, r WebhookRequest) (*http.Request, error) {
	method := strings.ToUpper(r.Method)
	switch method {
	case "":
		method = http.MethodPost
	case http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
	default:
		return nil, fault.New(fault.InvalidInput, "The webhook's method %q is not GET, POST, PUT, PATCH or DELETE.", r.Method)
	}
	if r.ID == "" || !validHeaderValue(r.ID) {
		return nil, fault.New(fault.InvalidInput, "The webhook's id is missing or holds a control character.")
	}
	// net/http sends a request again by itself on a cut connection if it can rewind its
	// body and the method is GET or there is an Idempotency-Key. So: no GetBody, a GET
	// has a body in name, and the key stands under a spelling it does not look for.
	var body io.Reader = http.NoBody
	if len(r.Body) > 0 || method == http.MethodGet {
		body = io.NopCloser(bytes.NewReader(r.Body))
	}
	req, err := http.NewRequestWithContext(context.Background(), method, t.url.String(), body)
	if err != nil {
		return nil, fault.Wrap(err, fault.InvalidInput, "The webhook's URL is not well-formed.")
	}
	req.GetBody = nil
	req.ContentLength = int64(len(r.Body))
	for _, h := range r.Headers {
		if !validHeaderName(h[0]) || !validHeaderValue(h[1]) {
			return nil, fault.New(fault.InvalidInput, "The webhook's header %q has a name or value that HTTP does not allow.", printable(h[0], 60))
		}
		if ownHeaders[strings.ToLower(h[0])] {
			return nil, fault.New(fault.InvalidInput, "The webhook's header %s is set by the service; take it out of the definition.", h[0])
		}
		req.Header.Add(h[0], h[1])
	}
	if req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", s.userAgent)
	}
	req.Header["webhook-id"] = []string{r.ID}
	req.Header["webhook-timestamp"] = []string{strconv.FormatInt(r.Timestamp.Unix(), 10)}
	req.Header["idempotency-key"] = []string{r.ID}
	req.Header.Set("Vobo-Attempt", strconv.Itoa(r.Attempt))
	return req, nil
}

// ownHeaders are those a definition may not set.
var ownHeaders = map[string]bool{
	"host": true, "content-length": true, "transfer-encoding": true, "connection": true, "upgrade": true, "te": true,
	"trailer": true, "expect": true, "proxy-authorization": true, "proxy-connection": true, "keep-alive": true,
	"accept-encoding": true, "webhook-id": true, "webhook-timestamp": true, "idempotency-key": true, "vobo-attempt": true,
}

// validHeaderName is RFC 9110's token.
func validHeaderName(s string) bool {
	for _, c := range []byte(s) {
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return s != ""
}

func validHeaderValue(s string) bool {
	for _, c := range []byte(s) {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
