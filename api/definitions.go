package api

import (
	"context"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"vobo/internal/approval"
	"vobo/internal/definitions"
	"vobo/internal/fault"
)

// Published says what became of a definition.
type Published struct {
	Name     string                `json:"name"`
	Version  int                   `json:"version"`
	Hash     string                `json:"hash"`
	Created  bool                  `json:"created"`
	Warnings []definitions.Problem `json:"warnings"`
}

// Linted are the findings of a check.
type Linted struct {
	Publishable bool                  `json:"publishable"`
	Problems    []definitions.Problem `json:"problems"`
}

type yamlBody struct {
	RawBody []byte `contentType:"application/yaml"`
}

type byVersion struct {
	Name    string `path:"name"`
	Version string `path:"version"`
}

func (v byVersion) number() (int, error) {
	n, err := strconv.Atoi(v.Version)
	if err != nil || n < 1 {
		return 0, fault.New(fault.NotFound, "There is no version %q.", v.Version)
	}
	return n, nil
}

func (a *API) definitions() {
	yaml := func(op huma.Operation) huma.Operation {
		op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/yaml": {Schema: &huma.Schema{Type: "string"}}}}
		return op
	}
	publish := yaml(a.describe(http.MethodPost, "/v1/definitions", "Publish a definition", nil, Published{}, "definitions"))
	publish.Responses["201"] = publish.Responses["200"] // 200: it was there already
	huma.Register(a.huma, publish, a.publish)
	huma.Register(a.huma, yaml(a.describe(http.MethodPost, "/v1/definitions/lint", "Check a definition", nil, Linted{}, "definitions")), a.lint)
	huma.Register(a.huma, a.describe(http.MethodGet, "/v1/definitions", "List definitions", nil, list[approval.DefinitionView]{}, "definitions"), a.definitionList)
	huma.Register(a.huma, a.describe(http.MethodGet, "/v1/definitions/{name}/versions/{version}", "Read a version", nil, approval.DefinitionView{}, "definitions"), a.definition)
	huma.Register(a.huma, a.describe(http.MethodDelete, "/v1/definitions/{name}/versions/{version}", "Delete a version that no instance uses", nil, nil, "definitions"), a.deleteDefinition)
	huma.Register(a.huma, a.describe(http.MethodGet, "/v1/definitions/{name}/versions/{version}/diagram.svg", "Draw a version", nil, nil, "definitions"), a.diagram)
}

func (a *API) publish(ctx context.Context, in *yamlBody) (*answer, error) {
	res, err := a.svc.Publish(ctx, callerOf(ctx), "definition.yaml", in.RawBody)
	if err != nil {
		return nil, a.fail(err)
	}
	status := http.StatusOK
	if res.Created {
		status = http.StatusCreated
	}
	out, err := answerOf(status, Published{res.Name, res.Version, res.Hash, res.Created, unnamed(res.Warnings)})
	out.Location = a.cfg.BaseURL + "/v1/definitions/" + res.Name + "/versions/" + strconv.Itoa(res.Version)
	return out, err
}

// unnamed leaves out the file's name, which a caller's bytes have not.
func unnamed(all definitions.Problems) []definitions.Problem {
	out := make([]definitions.Problem, len(all))
	for i, p := range all {
		p.File = ""
		out[i] = p
	}
	return out
}

func (a *API) lint(_ context.Context, in *yamlBody) (*answer, error) {
	problems := a.svc.Lint(in.RawBody)
	return ok(Linted{!problems.Refuses(), unnamed(problems)})
}

func (a *API) definitionList(ctx context.Context, in *Paging) (*answer, error) {
	p, err := in.paging()
	if err != nil {
		return nil, a.fail(err)
	}
	page, err := a.svc.Definitions(ctx, callerOf(ctx), p)
	if err != nil {
		return nil, a.fail(err)
	}
	return ok(listOf(page))
}

func (a *API) definition(ctx context.Context, in *byVersion) (*answer, error) {
	n, err := in.number()
	if err != nil {
		return nil, a.fail(err)
	}
	v, _, err := a.svc.Definition(ctx, callerOf(ctx), in.Name, n)
	if err != nil {
		return nil, a.fail(err)
	}
	return ok(v)
}

func (a *API) deleteDefinition(ctx context.Context, in *byVersion) (*struct{}, error) {
	n, err := in.number()
	if err != nil {
		return nil, a.fail(err)
	}
	if err := a.svc.DeleteDefinition(ctx, callerOf(ctx), in.Name, n); err != nil {
		return nil, a.fail(err)
	}
	return nil, nil
}

type picture struct {
	ContentType string `header:"Content-Type"`
	Body        []byte
}

func (a *API) diagram(ctx context.Context, in *byVersion) (*picture, error) {
	n, err := in.number()
	if err != nil {
		return nil, a.fail(err)
	}
	_, d, err := a.svc.Definition(ctx, callerOf(ctx), in.Name, n)
	if err != nil {
		return nil, a.fail(err)
	}
	return &picture{"image/svg+xml", d.SVG(definitions.DiagramOptions{})}, nil
}
