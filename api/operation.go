package api

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"vobo/internal/approval"
	"vobo/internal/fault"
	"vobo/internal/store"
)

// answer is what handlers give: rendered once, written as it is.
type answer struct {
	Status   int
	ETag     string `header:"ETag"`
	Location string `header:"Location"`
	Replayed string `header:"Idempotent-Replayed"`
	Body     json.RawMessage
}

// ok renders an answer of status 200.
func ok(v any) (*answer, error) { return answerOf(http.StatusOK, v) }

func answerOf(status int, v any) (*answer, error) {
	return &answer{Status: status, Body: approval.Render(v)}, nil
}

// list is a page of a list.
type list[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next,omitempty" doc:"the cursor of the next page; left out at the end"`
}

func listOf[T any](p store.Page[T]) list[T] {
	if p.Items == nil {
		p.Items = []T{}
	}
	return list[T]{p.Items, p.Next}
}

// Paging are the parameters of every list.
type Paging struct {
	Limit  string `query:"limit" doc:"rows a page, 50 unless said, at most 500"`
	Cursor string `query:"cursor" doc:"next of the page before"`
}

func (p Paging) paging() (store.Paging, error) {
	out := store.Paging{Cursor: p.Cursor}
	if p.Limit == "" {
		return out, nil
	}
	n, err := strconv.Atoi(p.Limit)
	if err != nil || n < 1 || n > 500 {
		return out, fault.New(fault.Malformed, "limit is a whole number from 1 to 500.")
	}
	out.Limit = n
	return out, nil
}

// Sent are the parts of a request with a body. It is exported because huma reads embedded
// structs only so; this goes for ByID and Paging too.
type Sent struct {
	IdempotencyKey string `header:"Idempotency-Key" doc:"1 to 255 characters: the same key and body give the first answer again"`
	RawBody        []byte `contentType:"application/json"`

	keyPresent bool
}

// Resolve notes whether the header was there at all: an empty key is refused, not ignored.
func (s *Sent) Resolve(ctx huma.Context) []error {
	ctx.EachHeader(func(name, _ string) {
		if http.CanonicalHeaderKey(name) == "Idempotency-Key" {
			s.keyPresent = true
		}
	})
	return nil
}

// describe fills in the documentation of an operation from Go types.
func (a *API) describe(method, path, summary string, request, response any, tags ...string) huma.Operation {
	registry := a.huma.OpenAPI().Components.Schemas
	op := huma.Operation{
		Method: method, Path: path, Summary: summary, Tags: tags,
		MaxBodyBytes: MaxBody + 1, // huma refuses the limit itself
		OperationID:  operationID(method, path), SkipValidateBody: true, Responses: map[string]*huma.Response{},
	}
	if request != nil {
		op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
			"application/json": {Schema: registry.Schema(reflect.TypeOf(request), true, "")},
		}}
		a.bodies[op.RequestBody] = op.RequestBody.Content["application/json"]
	}
	if response != nil {
		op.Responses["200"] = &huma.Response{Description: "OK", Content: map[string]*huma.MediaType{
			"application/json": {Schema: registry.Schema(reflect.TypeOf(response), true, "")},
		}}
	}
	op.Responses["default"] = &huma.Response{Description: "A problem", Content: map[string]*huma.MediaType{
		"application/problem+json": {Schema: registry.Schema(reflect.TypeOf(Problem{}), true, "")},
	}}
	op.Security = []map[string][]string{{"key": {}}}
	return op
}

// answers gives the status of an operation's answer where it is not 200.
func answers(op huma.Operation, status int) huma.Operation {
	op.DefaultStatus, op.Responses[strconv.Itoa(status)] = status, op.Responses["200"]
	delete(op.Responses, "200")
	return op
}

func operationID(method, path string) string {
	id := []byte(method)
	for _, r := range path {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			id = append(id, byte(r))
		} else if id[len(id)-1] != '-' {
			id = append(id, '-')
		}
	}
	return string(id)
}

func withoutCaller(op huma.Operation) huma.Operation {
	op.Metadata = map[string]any{open: true}
	op.Security = []map[string][]string{}
	return op
}
