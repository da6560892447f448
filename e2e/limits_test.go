package e2e_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const maxBody = 1 << 20

// padded is a JSON object of exactly that many bytes.
func padded(t *testing.T, body map[string]any, size int) []byte {
	t.Helper()
	content, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	return append(content, bytes.Repeat([]byte(" "), size-len(content))...)
}

// field report B47: the limit of a body holds on every path, whatever the headers say,
// and what was refused has changed nothing.
func TestNoBodyPassesTheLimit(t *testing.T) {
	t.Parallel()
	s := serve(t, setup{})
	id := s.submitted("onboarding", "Quin").ID
	link := s.linkOf(ana, "Approve Quin")
	s.settled(id)
	before := s.everything(id)
	decide := map[string]any{"event": "approve"}
	key := http.Header{"Authorization": {"Bearer " + s.key}}
	for name, path := range map[string]string{
		"callback": "/v1/callbacks/" + tokenOf(link), "start": "/v1/instances",
		"event": "/v1/instances/" + id + "/events", "unknown token": "/v1/callbacks/x", "page": "/a/" + tokenOf(link),
	} {
		kind := "application/json"
		if name == "page" {
			kind = "application/x-www-form-urlencoded"
		}
		post := func(body io.Reader, header http.Header) int {
			request, err := http.NewRequest(http.MethodPost, s.at+path, body)
			if err != nil {
				t.Fatal(err)
			}
			for field, values := range header {
				request.Header[field] = values
			}
			request.Header.Set("Content-Type", kind)
			got, err := direct.Do(request)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if err := got.Body.Close(); err != nil {
				t.Fatal(err)
			}
			return got.StatusCode
		}
		want := func(what string, status int, allowed ...int) {
			t.Helper()
			if !slices.Contains(allowed, status) {
				t.Errorf("%s: %s is answered with %d, want one of %v", name, what, status, allowed)
			}
		}
		want("a byte too many", post(bytes.NewReader(padded(t, decide, maxBody+1)), key), 413)
		want("ten times the limit without a length", post(io.MultiReader(bytes.NewReader(padded(t, decide, 10*maxBody))), key), 413)
		want("a body that inflates", post(bytes.NewReader(zipped(t, padded(t, decide, 20*maxBody))), header(key, "Content-Encoding", "gzip")), 415, 422, 400)
		if kind == "application/json" {
			illFormed := 400
			if name == "unknown token" { // the one answer for what is not authentic comes first
				illFormed = 404
			}
			want("JSON 10,000 deep", post(strings.NewReader(strings.Repeat("[", 10_000)+strings.Repeat("]", 10_000)), key), illFormed)
			want("JSON 10,000 deep inside", post(strings.NewReader(`{"event":"approve","input":`+strings.Repeat(`{"a":`, 10_000)+"1"+strings.Repeat("}", 10_000)+"}"), key), illFormed)
		}
	}
	if after := s.everything(id); after != before {
		t.Errorf("a refused body changed something:\nbefore %s\nafter  %s", before, after)
	}
	got, err := send(direct, http.MethodPost, s.at+"/v1/callbacks/"+tokenOf(link), padded(t, decide, maxBody), http.Header{"Content-Type": {"application/json"}})
	if err != nil {
		t.Fatal(err)
	}
	got.want(t, http.StatusOK)
}

func header(base http.Header, name, value string) http.Header {
	h := base.Clone()
	h.Set(name, value)
	return h
}

func zipped(t *testing.T, content []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// field report B53: a business key is found by its own encoding, upper or lower case,
// and by no other.
func TestEveryBusinessKeyFindsItsInstanceAlone(t *testing.T) {
	t.Parallel()
	keyed := variant(t, "supplier.v1.yaml", "keyed", "{type: string, minLength: 3, maxLength: 30}", "{type: string, minLength: 1, maxLength: 400}")
	s := serve(t, setup{definitions: []string{keyed}})
	keys := []string{"a/b", "a%2Fb", "a%2fb", "100%", "a b", "a+b", "+", "ü", "..", "../v1/tasks", "?", "#", "'", `"`, "<b>", "日本"}
	ids := map[string]string{}
	for i, key := range keys {
		data := supplierOf(fmt.Sprintf("Key%d", i), 5000)
		data["tax_id"] = key
		ids[key] = s.start(rosa, "keyed", data).ID
	}
	find := func(key, encoded string) {
		t.Helper()
		var page struct{ Items []instance }
		s.api(desk, http.MethodGet, "/v1/instances?key="+encoded, nil).want(t, http.StatusOK).into(t, &page)
		if len(page.Items) != 1 || page.Items[0].ID != ids[key] {
			t.Errorf("the key %q asked for as %s finds %d instances: %+v", key, encoded, len(page.Items), page.Items)
		}
	}
	v, _ := s.logIn(omar, "")
	for _, key := range keys {
		encoded := url.QueryEscape(key)
		find(key, encoded)
		find(key, strings.ReplaceAll(lowerHex(encoded), "+", "%20"))
		page := v.get("/instances/"+ids[key]).want(t, http.StatusOK)
		if !strings.Contains(page.words(), key) {
			t.Errorf("the page of the instance does not show its key %q", key)
		}
		listed := v.get("/instances?q="+ids[key]).want(t, http.StatusOK)
		if !strings.Contains(listed.text(), "/instances/"+ids[key]) {
			t.Errorf("the list does not lead to the instance with the key %q", key)
		}
	}
	for key, status := range map[string]int{"": http.StatusUnprocessableEntity, "nobody": http.StatusCreated} {
		data := supplierOf("Other", 5000)
		data["tax_id"] = key
		s.api(rosa, http.MethodPost, "/v1/instances", map[string]any{"definition": "keyed", "data": data}).want(t, status)
	}
	data := supplierOf("Long", 5000)
	data["tax_id"] = strings.Repeat("k", 301)
	if got := s.api(rosa, http.MethodPost, "/v1/instances", map[string]any{"definition": "keyed", "data": data}); got.status != 400 && got.status != 422 {
		t.Errorf("a key of 301 characters is answered with %d", got.status)
	}
}

// lowerHex writes the digits of percent-encoding in lower case and nothing else.
func lowerHex(encoded string) string {
	return percent.ReplaceAllStringFunc(encoded, strings.ToLower)
}

var percent = regexp.MustCompile(`%[0-9A-F]{2}`)
