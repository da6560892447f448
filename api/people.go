package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
)

// Me is who the caller is taken for.
type Me struct {
	ID        string   `json:"id"`
	Name      string   `json:"name,omitempty"`
	Groups    []string `json:"groups"`
	Roles     []string `json:"roles"`
	Via       string   `json:"via,omitempty"`
	Assurance string   `json:"assurance"`
	Locale    string   `json:"locale,omitempty"`
	Zone      string   `json:"zone,omitempty"`
}

func (a *API) people() {
	huma.Register(a.huma, a.describe(http.MethodGet, "/v1/me", "Who the caller is taken for", nil, Me{}, "people"), a.me)
}

func (a *API) me(ctx context.Context, _ *struct{}) (*answer, error) {
	c := callerOf(ctx)
	v := Me{ID: c.ID, Name: c.Name, Groups: c.Groups, Roles: c.Roles, Via: c.Via, Assurance: string(c.Assurance), Locale: c.Locale}
	if v.Groups == nil {
		v.Groups = []string{}
	}
	if v.Roles == nil {
		v.Roles = []string{}
	}
	if c.Zone != nil {
		v.Zone = c.Zone.String()
	}
	return ok(v)
}
