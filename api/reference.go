package api

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"

	"vobo/internal/definitions"
)

var (
	//go:embed reference/reference.html
	referencePage string
	//go:embed reference/reference.css
	referenceStyle []byte
)

// schemaName names a shape in the document; without the package two shapes would share a name.
func schemaName(t reflect.Type, hint string) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == reflect.TypeFor[definitions.Problem]() {
		return "DefinitionProblem"
	}
	return strings.TrimSuffix(huma.DefaultSchemaNamer(t, hint), "View")
}

// referencePolicy lets the page load its own stylesheet and nothing else.
const referencePolicy = "default-src 'none'; style-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// reference serves /docs: the OpenAPI document as a page, rendered once, without script.
// The document itself is at /openapi.json.
func (a *API) reference(e *echo.Echo) error {
	for body, media := range a.bodies {
		body.Content["application/json"] = media
	}
	page, err := a.renderReference()
	if err != nil {
		return err
	}
	serve := func(kind string, body []byte) echo.HandlerFunc {
		return func(c echo.Context) error {
			h := c.Response().Header()
			h.Set("Content-Security-Policy", referencePolicy)
			h.Set("X-Content-Type-Options", "nosniff")
			h.Set("Referrer-Policy", "no-referrer")
			h.Set("Cache-Control", "no-cache")
			return c.Blob(http.StatusOK, kind, body)
		}
	}
	for path, h := range map[string]echo.HandlerFunc{
		"/docs":               serve("text/html; charset=utf-8", page),
		"/docs/reference.css": serve("text/css; charset=utf-8", referenceStyle),
	} {
		e.GET(path, h)
		e.HEAD(path, h)
	}
	return nil
}

// What the page shows.
type (
	referenceView struct {
		Title, Version, Description, BaseURL, Prefix string
		Groups                                       []referenceGroup
		Shapes                                       []referenceShape
	}
	referenceGroup struct {
		Name       string
		Operations []referenceOperation
	}
	referenceOperation struct {
		ID, Method, Path, Summary, Description string
		Open                                   bool // needs no caller
		Parameters                             []referenceField
		Body                                   *referenceBody
		Answers                                []referenceAnswer
	}
	referenceBody struct {
		Media string
		Kind  referenceKind
	}
	referenceAnswer struct {
		Status, Meaning string
		Kind            referenceKind
	}
	referenceShape struct {
		Name, Meaning string
		Fields        []referenceField
	}
	referenceField struct {
		Name, In, Meaning string
		Required          bool
		Kind              referenceKind
	}
	// referenceKind is a type in words; Shape names the shape that follows the words.
	referenceKind struct{ Text, Shape string }
)

func (a *API) renderReference() ([]byte, error) {
	t, err := template.New("reference").Parse(referencePage)
	if err != nil {
		return nil, fmt.Errorf("the page of the API reference: %w", err)
	}
	base, err := url.Parse(a.cfg.BaseURL)
	if err != nil {
		return nil, fmt.Errorf("base URL: %w", err)
	}
	doc := a.huma.OpenAPI()
	v := referenceView{
		Title: doc.Info.Title, Version: doc.Info.Version, Description: doc.Info.Description, BaseURL: a.cfg.BaseURL,
		Prefix: strings.TrimRight(base.EscapedPath(), "/"), Groups: referenceGroups(doc),
	}
	schemas := doc.Components.Schemas.Map()
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		if s := schemas[name]; len(s.Properties) > 0 {
			v.Shapes = append(v.Shapes, referenceShape{name, s.Description, referenceFields(s)})
		}
	}
	var page bytes.Buffer
	if err := t.Execute(&page, v); err != nil {
		return nil, fmt.Errorf("the page of the API reference: %w", err)
	}
	return page.Bytes(), nil
}

// referenceGroups orders operations by tag in the order of the interface, then by path.
func referenceGroups(doc *huma.OpenAPI) []referenceGroup {
	order := []string{"instances", "tasks", "callbacks", "definitions", "effects", "event feed", "people"}
	groups := map[string][]referenceOperation{}
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		p := doc.Paths[path]
		for _, op := range []*huma.Operation{p.Get, p.Post, p.Put, p.Delete, p.Patch} {
			if op == nil || op.Hidden {
				continue
			}
			tag := "other"
			if len(op.Tags) > 0 {
				tag = op.Tags[0]
			}
			groups[tag] = append(groups[tag], referenceOperationOf(op))
		}
	}
	for _, tag := range slices.Sorted(maps.Keys(groups)) {
		if !slices.Contains(order, tag) {
			order = append(order, tag)
		}
	}
	var out []referenceGroup
	for _, tag := range order {
		if len(groups[tag]) > 0 {
			out = append(out, referenceGroup{tag, groups[tag]})
		}
	}
	return out
}

func referenceOperationOf(op *huma.Operation) referenceOperation {
	v := referenceOperation{
		ID: op.OperationID, Method: op.Method, Path: op.Path, Summary: op.Summary,
		Description: op.Description, Open: op.Metadata[open] == true,
	}
	for _, p := range op.Parameters {
		v.Parameters = append(v.Parameters, referenceField{
			Name: p.Name, In: p.In, Required: p.Required, Kind: kindOf(p.Schema),
			Meaning: cmp.Or(p.Description, descriptionOf(p.Schema)),
		})
	}
	if op.RequestBody != nil {
		for _, media := range slices.Sorted(maps.Keys(op.RequestBody.Content)) {
			v.Body = &referenceBody{media, kindOf(op.RequestBody.Content[media].Schema)}
		}
	}
	for _, status := range slices.Sorted(maps.Keys(op.Responses)) {
		r := op.Responses[status]
		answer := referenceAnswer{Status: status, Meaning: r.Description}
		for _, media := range slices.Sorted(maps.Keys(r.Content)) {
			answer.Kind = kindOf(r.Content[media].Schema)
		}
		v.Answers = append(v.Answers, answer)
	}
	return v
}

func descriptionOf(s *huma.Schema) string {
	if s == nil {
		return ""
	}
	return s.Description
}

// referenceFields lists a shape's fields: those that are always there first.
func referenceFields(s *huma.Schema) []referenceField {
	var fields []referenceField
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[name]
		fields = append(fields, referenceField{Name: name, Meaning: p.Description, Required: slices.Contains(s.Required, name), Kind: kindOf(p)})
	}
	slices.SortStableFunc(fields, func(a, b referenceField) int {
		switch {
		case a.Required == b.Required:
			return 0
		case a.Required:
			return -1
		}
		return 1
	})
	return fields
}

// kindOf puts a schema into words.
func kindOf(s *huma.Schema) referenceKind {
	if s == nil {
		return referenceKind{Text: "any JSON"}
	}
	if name := s.Ref[strings.LastIndexByte(s.Ref, '/')+1:]; name != "" {
		return referenceKind{Shape: name}
	}
	if len(s.Enum) > 0 {
		var values []string
		for _, v := range s.Enum {
			values = append(values, fmt.Sprint(v))
		}
		return referenceKind{Text: strings.Join(values, " | ")}
	}
	switch s.Type {
	case "array":
		inner := kindOf(s.Items)
		return referenceKind{Text: "list of " + inner.Text, Shape: inner.Shape}
	case "object":
		if values, ok := s.AdditionalProperties.(*huma.Schema); ok {
			inner := kindOf(values)
			return referenceKind{Text: "object of " + inner.Text, Shape: inner.Shape}
		}
		return referenceKind{Text: "object"}
	case "string":
		if s.Format == "date-time" {
			return referenceKind{Text: "time"}
		}
		return referenceKind{Text: "text"}
	case "integer":
		return referenceKind{Text: "whole number"}
	case "boolean":
		return referenceKind{Text: "true | false"}
	case "":
		return referenceKind{Text: "any JSON"}
	}
	return referenceKind{Text: s.Type}
}
