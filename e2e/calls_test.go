package e2e_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"vobo/internal/testkit"
)

// answer is what an HTTP request got.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) text() string { return string(a.body) }

// words are the visible words of a page, more or less: without tags and entities.
func (a answer) words() string {
	return strings.Join(strings.Fields(html.UnescapeString(tag.ReplaceAllString(string(a.body), " "))), " ")
}

var tag = regexp.MustCompile(`<[^>]*>`)

func (a answer) into(t testing.TB, target any) {
	t.Helper()
	if err := json.Unmarshal(a.body, target); err != nil {
		t.Fatalf("the answer is not the JSON that it should be: %v\n%d %s", err, a.status, a.body)
	}
}

// want fails the test unless the answer has the status.
func (a answer) want(t testing.TB, status int) answer {
	t.Helper()
	if a.status != status {
		t.Fatalf("status %d, want %d: %s", a.status, status, a.excerpt())
	}
	return a
}

// wantProblem fails the test unless the answer is that problem.
func (a answer) wantProblem(t testing.TB, status int, code string) {
	t.Helper()
	var problem struct {
		Type   string `json:"type"`
		Status int    `json:"status"`
	}
	if a.want(t, status).into(t, &problem); problem.Type != "/problems/"+code || problem.Status != status {
		t.Errorf("the problem is %s, want /problems/%s: %s", problem.Type, code, a.body)
	}
	if kind := a.header.Get("Content-Type"); kind != "application/problem+json" {
		t.Errorf("a problem has the content type %q", kind)
	}
}

func (a answer) excerpt() string {
	if strings.HasPrefix(a.header.Get("Content-Type"), "text/html") {
		return a.words()
	}
	return a.text()
}

// send sends a request with a client and returns the answer, whole.
func send(client *http.Client, method, address string, body []byte, header http.Header) (answer, error) {
	request, err := http.NewRequest(method, address, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	maps.Copy(request.Header, header)
	if host := header.Get("Host"); host != "" {
		request.Host = host
	}
	got, err := client.Do(request)
	if err != nil {
		return answer{}, err
	}
	content, err := io.ReadAll(got.Body)
	if err := errors.Join(err, got.Body.Close()); err != nil {
		return answer{}, err
	}
	return answer{status: got.StatusCode, header: got.Header, body: content}, nil
}

// credentials are the headers of a caller: noOne, the key itself, or a person on
// whose behalf the key acts.
func (s *service) credentials(who string) http.Header {
	header := http.Header{}
	if who != noOne {
		header.Set("Authorization", "Bearer "+s.key)
	}
	if who != noOne && who != desk {
		header.Set("On-Behalf-Of", who)
	}
	return header
}

// api calls the API as somebody; extra are pairs of header names and values.
func (s *service) api(who, method, path string, body any, extra ...string) answer {
	s.t.Helper()
	got, err := s.try(s.at, who, method, path, body, extra...)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	return got
}

// try is api at one replica's address, where a broken connection is an answer too.
func (s *service) try(base, who, method, path string, body any, extra ...string) (answer, error) {
	header := s.credentials(who)
	var content []byte
	if body != nil {
		var err error
		if content, err = json.Marshal(body); err != nil {
			return answer{}, err
		}
		header.Set("Content-Type", "application/json")
	}
	for ; len(extra) > 0; extra = extra[2:] {
		header.Set(extra[0], extra[1])
	}
	return send(direct, method, base+path, content, header)
}

// inside is where the tests find one of the service's addresses.
func (s *service) inside(address string) string {
	if rest, ours := strings.CutPrefix(address, s.base); ours {
		return s.at + rest
	}
	return address
}

// page gets a page without cookies.
func (s *service) page(address string) answer {
	s.t.Helper()
	got, err := send(direct, http.MethodGet, s.inside(address), nil, nil)
	if err != nil {
		s.t.Fatalf("GET a page: %v", err)
	}
	return got
}

var digestField = regexp.MustCompile(`<input type="hidden" name="digest" value="([^"]*)">`)

// submit loads a link's page, fills its form and sends it as a browser without
// script would; fields are pairs of names and values.
func (s *service) submit(link string, fields ...string) answer {
	s.t.Helper()
	form := url.Values{}
	if found := digestField.FindStringSubmatch(s.page(link).text()); found != nil {
		form.Set("digest", html.UnescapeString(found[1]))
	}
	for ; len(fields) > 0; fields = fields[2:] {
		form.Set(fields[0], fields[1])
	}
	return s.post(link, form)
}

func (s *service) post(address string, form url.Values) answer {
	s.t.Helper()
	got, err := send(direct, http.MethodPost, s.inside(address), []byte(form.Encode()), http.Header{"Content-Type": {"application/x-www-form-urlencoded"}})
	if err != nil {
		s.t.Fatalf("POST a form: %v", err)
	}
	return got
}

// The shapes of the API, as far as the tests look.
type (
	instance struct {
		ID        string         `json:"id"`
		State     string         `json:"state"`
		Status    string         `json:"status"`
		Revision  int            `json:"revision"`
		Attention bool           `json:"attention"`
		Parent    string         `json:"parent"`
		Data      map[string]any `json:"data"`
		Tasks     []task         `json:"tasks"`
		Effects   []effect       `json:"effects"`
		Deadlines []struct {
			Action string `json:"action"`
		} `json:"deadlines"`
	}
	task struct {
		ID     string `json:"id"`
		Title  string `json:"title"`
		Status string `json:"status"`
	}
	effect struct {
		ID         string `json:"id"`
		InstanceID string `json:"instance_id"`
		Name       string `json:"name"`
		Status     string `json:"status"`
		Attempts   []struct {
			Outcome string `json:"outcome"`
			Detail  string `json:"detail"`
		} `json:"attempts"`
	}
	transition struct {
		Seq   int    `json:"seq"`
		Kind  string `json:"kind"`
		Event string `json:"event"`
		To    string `json:"to"`
		Actor struct {
			ID string `json:"id"`
		} `json:"actor"`
		Assurance string    `json:"assurance"`
		At        time.Time `json:"at"`
		Comment   string    `json:"comment"`
	}
	result struct {
		Instance   instance   `json:"instance"`
		Transition transition `json:"transition"`
		Replayed   bool       `json:"replayed"`
		Token      string     `json:"token"`
		Pending    *struct {
			Have int `json:"have"`
			Need int `json:"need"`
		} `json:"pending"`
	}
)

// start starts an instance in somebody's name.
func (s *service) start(who, definition string, data map[string]any) instance {
	s.t.Helper()
	var started instance
	s.api(who, http.MethodPost, "/v1/instances", map[string]any{"definition": definition, "data": data}).want(s.t, http.StatusCreated).into(s.t, &started)
	return started
}

// raise raises an event as somebody.
func (s *service) raise(who, id string, body map[string]any) result {
	s.t.Helper()
	var done result
	s.api(who, http.MethodPost, "/v1/instances/"+id+"/events", body).want(s.t, http.StatusOK).into(s.t, &done)
	return done
}

func (s *service) read(id string) instance {
	s.t.Helper()
	var now instance
	s.api(desk, http.MethodGet, "/v1/instances/"+id, nil).want(s.t, http.StatusOK).into(s.t, &now)
	return now
}

func (s *service) history(id string) []transition {
	s.t.Helper()
	var page struct{ Items []transition }
	s.api(desk, http.MethodGet, "/v1/instances/"+id+"/history?limit=500", nil).want(s.t, http.StatusOK).into(s.t, &page)
	return page.Items
}

func (s *service) effects(query string) []effect {
	s.t.Helper()
	var page struct{ Items []effect }
	s.api(desk, http.MethodGet, "/v1/effects?limit=500&"+query, nil).want(s.t, http.StatusOK).into(s.t, &page)
	return page.Items
}

// waitState waits until the instance is in a state.
func (s *service) waitState(id, state string) instance {
	s.t.Helper()
	var now instance
	testkit.WaitFor(s.t, fmt.Sprintf("the state %s", state), func() bool {
		now = s.read(id)
		return now.State == state
	})
	return now
}

// settled waits until nothing of an instance is under way: every effect has ended well.
func (s *service) settled(id string) {
	s.t.Helper()
	testkit.WaitFor(s.t, "the end of all effects", func() bool {
		for _, e := range s.effects("instance_id=" + id) {
			switch e.Status {
			case "succeeded":
			case "waiting", "running", "retrying":
				return false
			default:
				if e.Name != "task" || e.Status != "cancelled" { // a task that was over before its mail went out
					s.t.Fatalf("the effect %s ended as %s", e.Name, e.Status)
				}
			}
		}
		return true
	})
}

// allSent waits until no effect of any instance is waiting or under way.
func (s *service) allSent() {
	s.t.Helper()
	var left []effect
	defer func() {
		if s.t.Failed() {
			s.t.Logf("still to be sent: %+v", left)
		}
	}()
	testkit.WaitFor(s.t, "the end of all effects", func() bool {
		left = s.effects("status=waiting,running,retrying")
		return len(left) == 0
	})
}

// everything is all that the API tells of an instance, to compare before and after.
func (s *service) everything(id string) string {
	s.t.Helper()
	var all strings.Builder
	for _, path := range []string{"", "/history", "/explain"} {
		all.Write(s.api(desk, http.MethodGet, "/v1/instances/"+id+path, nil).want(s.t, http.StatusOK).body)
	}
	all.Write(s.api(desk, http.MethodGet, "/v1/effects?instance_id="+id, nil).want(s.t, http.StatusOK).body)
	return all.String()
}

// mailOf waits for the one mail of a subject to an address.
func (s *service) mailOf(to, subject string) testkit.Mail {
	s.t.Helper()
	found := s.mail.WaitMailWhere(s.t, fmt.Sprintf("%q to %s", subject, to), 1, func(m testkit.Mail) bool {
		return len(m.To) == 1 && m.To[0] == to && strings.Contains(m.Subject, subject)
	})
	if len(found) != 1 {
		s.t.Fatalf("%d mails %q to %s, want one", len(found), subject, to)
	}
	return found[0]
}

// linkOf waits for the one mail of a subject to an address and returns its link.
func (s *service) linkOf(to, subject string) string {
	s.t.Helper()
	return s.mailOf(to, subject).Link(s.t)
}

// tokenOf is the token of a decision link.
func tokenOf(link string) string { return link[strings.LastIndex(link, "/")+1:] }
