package main

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"vobo/internal/approval"
	"vobo/internal/store"
)

// keysCmd makes, lists and revokes API keys, directly in the database.
type keysCmd struct {
	Create keysCreate `cmd:"" help:"Make a key; it is printed once, alone, on stdout."`
	List   keysList   `cmd:"" help:"List keys."`
	Revoke keysRevoke `cmd:"" help:"Revoke a key; a running server refuses it within a second."`
}

var (
	productRoles = []string{"viewer", "requester", "reviewer", "operator", "admin", "auditor", "impersonator"}
	keyName      = regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}$`)
)

type keysCreate struct {
	database
	Name    string        `arg:"" help:"The key acts as system:NAME."`
	Role    []string      `required:"" help:"viewer, requester, reviewer, operator, admin, auditor, impersonator; may be repeated."`
	Expires time.Duration `help:"How long it lives, such as 720h. Default: until revoked."`
}

// Run implements the command.
func (k *keysCreate) Run(c *console) error {
	if !keyName.MatchString(k.Name) {
		return fmt.Errorf("the name %q must be like esign or core-system: small letters, digits and hyphens", k.Name)
	}
	for _, r := range k.Role {
		if !slices.Contains(productRoles, r) {
			return fmt.Errorf("there is no role %q; the roles are %s", r, strings.Join(productRoles, ", "))
		}
	}
	return withMigrated(c, k.database, func(ctx context.Context, st *store.Store) error {
		now, err := st.Now(ctx)
		if err != nil {
			return err
		}
		var expires *time.Time
		if k.Expires > 0 {
			at := now.Add(k.Expires)
			expires = &at
		}
		key, row := approval.NewAPIKey(k.Name, k.Role, now, expires)
		if err := st.CreateKey(ctx, row); err != nil {
			return err
		}
		fmt.Fprintln(c.out, key)
		return st.Audit(ctx, store.AuditLine{Actor: "command", Action: "key-created", Detail: map[string]any{"name": k.Name, "roles": k.Role}})
	})
}

type keysList struct {
	database
	JSON bool `help:"Print JSON."`
}

type keyOut struct {
	Name       string     `json:"name"`
	Roles      []string   `json:"roles"`
	CreatedAt  time.Time  `json:"created_at"`
	ExpiresAt  *time.Time `json:"expires_at,omitempty"`
	RevokedAt  *time.Time `json:"revoked_at,omitempty"`
	LastUsedAt *time.Time `json:"last_used_at,omitempty"`
}

// Run implements the command.
func (k *keysList) Run(c *console) error {
	return withMigrated(c, k.database, func(ctx context.Context, st *store.Store) error {
		keys, err := st.Keys(ctx)
		if err != nil {
			return err
		}
		now, err := st.Now(ctx)
		if err != nil {
			return err
		}
		out := make([]keyOut, len(keys))
		rows := [][]string{{"NAME", "ROLES", "MADE", "LAST USED", "STATE"}}
		for i, r := range keys {
			out[i] = keyOut{r.Name, r.Roles, r.CreatedAt, r.ExpiresAt, r.RevokedAt, r.LastUsedAt}
			used := "never"
			if r.LastUsedAt != nil {
				used = ago(*r.LastUsedAt, now)
			}
			rows = append(rows, []string{r.Name, strings.Join(r.Roles, ","), ago(r.CreatedAt, now), used, keyState(r, now)})
		}
		if k.JSON {
			return printJSON(c, out)
		}
		return printTable(c, rows)
	})
}

func keyState(k store.APIKey, now time.Time) string {
	switch {
	case k.RevokedAt != nil:
		return "revoked"
	case k.ExpiresAt != nil && !k.ExpiresAt.After(now):
		return "expired"
	case k.ExpiresAt != nil:
		return "expires " + ago(*k.ExpiresAt, now)
	}
	return "live"
}

type keysRevoke struct {
	database
	Name string `arg:""`
}

// Run implements the command.
func (k *keysRevoke) Run(c *console) error {
	return withMigrated(c, k.database, func(ctx context.Context, st *store.Store) error {
		if err := st.RevokeKey(ctx, k.Name); err != nil {
			return err
		}
		fmt.Fprintf(c.out, "The key %s is revoked.\n", k.Name)
		return st.Audit(ctx, store.AuditLine{Actor: "command", Action: "key-revoked", Detail: map[string]any{"name": k.Name}})
	})
}
