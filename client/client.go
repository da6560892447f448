// Package client talks to a Vobo server: it starts instances, raises events, decides
// tasks, answers callbacks and looks after definitions and effects.
//
// Calls that change something carry an Idempotency-Key, made once per call where the
// caller gives none, so a call that is tried again is done once. Answers that a later
// try may better (503, 429, 409 in-progress, a lost connection) are tried again within
// the call, as long as the context lives. Refusals are *Error.
//
// Numbers keep their exact digits: data, input and changes are json.RawMessage.
// The package imports the standard library only.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	defaultAttempts = 5
	defaultTimeout  = 30 * time.Second
	maxAnswer       = 64 << 20 // bytes
)

// Config says which server to call and as whom.
type Config struct {
	// URL is what the server's paths begin with, such as https://vobo.example.com.
	URL string
	// Key is an API key (vobo_…). Empty: only Callback works.
	Key string
	// OnBehalfOf names the person for whom the key acts; the key needs the role impersonator.
	OnBehalfOf string
	// Attempts bounds how often a call is tried; 0: 5, 1: never again.
	Attempts int
	// HTTP makes the requests. Nil: a client with a time-out of 30 s that follows no redirect.
	HTTP *http.Client
	// UserAgent names the program.
	UserAgent string
}

// Client calls one server. It is safe for concurrent use.
type Client struct {
	cfg  Config
	base *url.URL
}

// New checks the configuration; it does not connect.
func New(cfg Config) (*Client, error) {
	base, err := url.Parse(cfg.URL)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" || base.User != nil || base.RawQuery != "" || base.Fragment != "" {
		return nil, fmt.Errorf("the server's address %q is not like https://vobo.example.com", cfg.URL)
	}
	if strings.ContainsAny(cfg.Key, " \t\r\n") {
		return nil, errors.New("the API key holds a space or a line break")
	}
	if cfg.Attempts <= 0 {
		cfg.Attempts = defaultAttempts
	}
	if cfg.HTTP == nil {
		cfg.HTTP = &http.Client{Timeout: defaultTimeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	if cfg.UserAgent == "" {
		cfg.UserAgent = "vobo-client"
	}
	base.Path, base.RawPath = strings.TrimRight(base.Path, "/"), ""
	return &Client{cfg: cfg, base: base}, nil
}

// For gives a client that acts on behalf of a person, by the same key.
func (c *Client) For(person string) *Client {
	other := *c
	other.cfg.OnBehalfOf = person
	return &other
}

// call is one request, made the same way at every try.
type call struct {
	method string
	path   []string // segments; escaped when the URL is made
	query  url.Values
	kind   string // Content-Type; "" without body
	body   []byte
	header http.Header
	open   bool // the URL is the capability: no key is sent
}

func get(path ...string) *call { return &call{method: http.MethodGet, path: path} }

// send makes a call with v as its JSON body.
func send(method string, v any, path ...string) (*call, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("the request cannot be written as JSON: %w", err)
	}
	return &call{method: method, path: path, kind: "application/json", body: body, header: http.Header{}}, nil
}

// once gives the call an Idempotency-Key, so that it is done once however often it is tried.
func (r *call) once(key string) *call {
	if key == "" {
		key = newKey()
	}
	r.header.Set("Idempotency-Key", key)
	return r
}

// answer is what the server said.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a *answer) replayed() bool { return a.header.Get("Idempotent-Replayed") == "true" }

// do tries a call until it is answered for good, and reads the answer into out (nil: thrown away).
func (c *Client) do(ctx context.Context, r *call, out any) (*answer, error) {
	for attempt := 1; ; attempt++ {
		a, err := c.try(ctx, r)
		if err == nil {
			if out != nil {
				if err := json.Unmarshal(a.body, out); err != nil {
					return a, fmt.Errorf("the answer of %s cannot be read: %w", c.base.Host, err)
				}
			}
			return a, nil
		}
		if attempt >= c.cfg.Attempts || !again(err) {
			return a, err
		}
		if ended := ctx.Err(); ended != nil {
			if !errors.Is(err, ended) { // the answer came just before the caller gave up
				err = errors.Join(ended, err)
			}
			return a, err
		}
		wait, ok := delay(attempt, err)
		if !ok {
			return a, err
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return a, errors.Join(ctx.Err(), err)
		case <-timer.C:
		}
	}
}

// try makes one request. The error of a refusal is *Error, of a lost connection *connectionError.
func (c *Client) try(ctx context.Context, r *call) (*answer, error) {
	req, err := http.NewRequestWithContext(ctx, r.method, c.address(r), bytes.NewReader(r.body))
	if err != nil {
		return nil, err
	}
	for name, values := range r.header {
		req.Header[name] = values
	}
	req.Header.Set("User-Agent", c.cfg.UserAgent)
	req.Header.Set("Accept", "application/json, application/problem+json, image/svg+xml")
	if r.kind != "" {
		req.Header.Set("Content-Type", r.kind)
	}
	if !r.open {
		if c.cfg.Key != "" {
			req.Header.Set("Authorization", "Bearer "+c.cfg.Key)
		}
		if c.cfg.OnBehalfOf != "" {
			req.Header.Set("On-Behalf-Of", c.cfg.OnBehalfOf)
		}
	}
	// GetBody would let the transport send a POST again by itself; trying again is do's.
	req.GetBody = nil
	res, err := c.cfg.HTTP.Do(req)
	if err != nil {
		return nil, &connectionError{host: c.base.Host, cause: withoutURL(err)}
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if cerr := res.Body.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, &connectionError{host: c.base.Host, cause: err}
	}
	if len(body) > maxAnswer {
		return nil, fmt.Errorf("the answer of %s has more than %d MiB", c.base.Host, maxAnswer>>20)
	}
	a := &answer{status: res.StatusCode, header: res.Header, body: body}
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return a, refusal(a)
	}
	return a, nil
}

// address is the URL of a call.
func (c *Client) address(r *call) string {
	u := strings.TrimRight(c.base.String(), "/") + "/v1"
	for _, segment := range r.path {
		u += "/" + url.PathEscape(segment)
	}
	if len(r.query) > 0 {
		u += "?" + r.query.Encode()
	}
	return u
}

// query collects the parameters that are set.
type query url.Values

func (q query) text(name, value string) {
	if value != "" {
		url.Values(q).Set(name, value)
	}
}

func (q query) whole(name string, value int) {
	if value != 0 {
		url.Values(q).Set(name, strconv.Itoa(value))
	}
}

func (q query) time(name string, value time.Time) {
	if !value.IsZero() {
		url.Values(q).Set(name, value.UTC().Format(time.RFC3339Nano))
	}
}
