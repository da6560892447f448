package client

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"strconv"
)

func yaml(source []byte, path ...string) *call {
	return &call{method: http.MethodPost, path: path, kind: "application/yaml", body: source, header: http.Header{}}
}

// Publish publishes a definition; the same content again changes nothing. Refusals:
// invalid-definition (Errors say where), version-exists, forbidden.
func (c *Client) Publish(ctx context.Context, source []byte) (*Published, error) {
	var out Published
	if _, err := c.do(ctx, yaml(source, "definitions"), &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// Lint checks a definition as publishing would, and stores nothing.
func (c *Client) Lint(ctx context.Context, source []byte) (*Linted, error) {
	var out Linted
	if _, err := c.do(ctx, yaml(source, "definitions", "lint"), &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// Definitions lists published versions page after page, without their sources.
func (c *Client) Definitions(ctx context.Context) iter.Seq2[*Definition, error] {
	return pages[Definition](ctx, c, nil, "definitions")
}

// Newest finds the newest version of a definition. The error is *Error not-found where there is none.
func (c *Client) Newest(ctx context.Context, name string) (int, error) {
	newest := 0
	for d, err := range c.Definitions(ctx) {
		if err != nil {
			return 0, err
		}
		if d.Name == name {
			newest = max(newest, d.Version)
		}
	}
	if newest == 0 {
		return 0, &Error{Type: "/problems/not-found", Title: "Not found", Status: http.StatusNotFound, Detail: fmt.Sprintf("There is no definition %q.", name)}
	}
	return newest, nil
}

// Definition reads one version with its source. Version 0: the newest.
func (c *Client) Definition(ctx context.Context, name string, version int) (*Definition, error) {
	req, err := c.version(ctx, name, version)
	if err != nil {
		return nil, err
	}
	var d Definition
	if _, err := c.do(ctx, req, &d); err != nil {
		return nil, err
	}
	return &d, nil
}

// Diagram draws one version as SVG. Version 0: the newest.
func (c *Client) Diagram(ctx context.Context, name string, version int) ([]byte, error) {
	req, err := c.version(ctx, name, version, "diagram.svg")
	if err != nil {
		return nil, err
	}
	a, err := c.do(ctx, req, nil)
	if err != nil {
		return nil, err
	}
	return a.body, nil
}

// DeleteDefinition deletes a version that no instance uses; conflict while one does.
func (c *Client) DeleteDefinition(ctx context.Context, name string, version int) error {
	_, err := c.do(ctx, &call{method: http.MethodDelete, path: []string{"definitions", name, "versions", strconv.Itoa(version)}}, nil)
	return err
}

func (c *Client) version(ctx context.Context, name string, version int, more ...string) (*call, error) {
	if version == 0 {
		var err error
		if version, err = c.Newest(ctx, name); err != nil {
			return nil, err
		}
	}
	return get(append([]string{"definitions", name, "versions", strconv.Itoa(version)}, more...)...), nil
}
