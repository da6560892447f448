package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"vobo/internal/approval"
	"vobo/internal/fsm"
	"vobo/internal/store"
)

// peopleCmd keeps people and groups, directly in the database.
type peopleCmd struct {
	Import     peopleImport     `cmd:"" help:"Sync people from a YAML file; those it does not list stay."`
	List       peopleList       `cmd:"" help:"List people."`
	Deactivate peopleDeactivate `cmd:"" help:"Deactivate a person: sessions and links stop at once."`
	Link       peopleLink       `cmd:"" help:"Make a one-time login link for a person, for when no mail can be sent."`
}

type personEntry struct {
	ID       string   `yaml:"id"`
	Email    string   `yaml:"email"`
	Name     string   `yaml:"name"`
	Groups   []string `yaml:"groups"`
	Roles    []string `yaml:"roles"`
	Locale   string   `yaml:"locale"`
	Timezone string   `yaml:"timezone"`
	Active   *bool    `yaml:"active"`
}

// readPeople reads a VOBO_PEOPLE file; every problem is named at once.
func readPeople(path string) ([]fsm.Person, error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var file struct {
		People []personEntry `yaml:"people"`
	}
	if err := yaml.Load(source, &file, yaml.WithKnownFields()); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var problems []error
	seen := map[string]bool{}
	people := make([]fsm.Person, 0, len(file.People))
	for i, e := range file.People {
		p, err := e.person()
		if err == nil && seen[p.ID] {
			err = fmt.Errorf("%s stands twice", p.ID)
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: person %d: %w", path, i+1, err))
			continue
		}
		seen[p.ID] = true
		people = append(people, p)
	}
	return people, errors.Join(problems...)
}

func (e personEntry) person() (fsm.Person, error) {
	p := fsm.Person{
		ID: strings.TrimSpace(e.ID), Name: strings.TrimSpace(e.Name), Email: strings.TrimSpace(e.Email), Locale: e.Locale,
		Timezone: e.Timezone, Groups: e.Groups, Roles: e.Roles, Active: e.Active == nil || *e.Active,
	}
	if p.ID == "" || strings.ContainsAny(p.ID, " \t\r\n:,") {
		return p, fmt.Errorf("id %q is empty or has spaces, colons or commas", e.ID)
	}
	if p.Email == "" {
		p.Email = p.ID
	}
	if at := strings.LastIndexByte(p.Email, '@'); at < 1 || at == len(p.Email)-1 || strings.ContainsAny(p.Email, " \t\r\n<>,;") {
		return p, fmt.Errorf("%q is not an e-mail address; give `email:` beside an id that is none", p.Email)
	}
	if p.Name == "" {
		p.Name = p.ID
	}
	for _, r := range p.Roles {
		if !slices.Contains(productRoles, r) {
			return p, fmt.Errorf("%s: there is no role %q; the roles are %s", p.ID, r, strings.Join(productRoles, ", "))
		}
	}
	if p.Timezone != "" {
		if _, err := time.LoadLocation(p.Timezone); err != nil {
			return p, fmt.Errorf("%s: there is no time zone %q", p.ID, p.Timezone)
		}
	}
	return p, nil
}

type peopleImport struct {
	database
	File string `arg:"" type:"existingfile"`
}

// Run implements the command.
func (p *peopleImport) Run(c *console) error {
	people, err := readPeople(p.File)
	if err != nil {
		return err
	}
	return withMigrated(c, p.database, func(ctx context.Context, st *store.Store) error {
		changed, err := st.SyncPeople(ctx, people)
		if err != nil {
			return err
		}
		fmt.Fprintf(c.out, "%s read, %d changed.\n", plural(len(people), "person"), changed)
		return nil
	})
}

type peopleList struct {
	database
	JSON bool `help:"Print JSON."`
}

// Run implements the command.
func (p *peopleList) Run(c *console) error {
	return withMigrated(c, p.database, func(ctx context.Context, st *store.Store) error {
		dir, err := st.People(ctx)
		if err != nil {
			return err
		}
		out := []personOut{}
		rows := [][]string{{"ID", "NAME", "GROUPS", "ROLES", "ACTIVE"}}
		for _, v := range dir.People() {
			out = append(out, personOut{v.ID, v.Name, v.Email, v.Groups, v.Roles, v.Locale, v.Timezone, v.Active})
			active := "yes"
			if !v.Active {
				active = "no"
			}
			rows = append(rows, []string{v.ID, v.Name, strings.Join(v.Groups, ","), strings.Join(v.Roles, ","), active})
		}
		if p.JSON {
			return printJSON(c, out)
		}
		return printTable(c, rows)
	})
}

type personOut struct {
	ID       string   `json:"id"`
	Name     string   `json:"name"`
	Email    string   `json:"email"`
	Groups   []string `json:"groups"`
	Roles    []string `json:"roles"`
	Locale   string   `json:"locale,omitempty"`
	Timezone string   `json:"timezone,omitempty"`
	Active   bool     `json:"active"`
}

type peopleDeactivate struct {
	database
	ID string `arg:""`
}

// Run implements the command.
func (p *peopleDeactivate) Run(c *console) error {
	return withMigrated(c, p.database, func(ctx context.Context, st *store.Store) error {
		if err := st.DeactivatePerson(ctx, p.ID); err != nil {
			return err
		}
		fmt.Fprintf(c.out, "%s is deactivated. Sessions and links stopped working.\n", p.ID)
		return st.Audit(ctx, store.AuditLine{Actor: "command", Action: "person-deactivated", Detail: map[string]any{"person": p.ID}})
	})
}

type peopleLink struct {
	database
	ID      string `arg:""`
	Addr    string `env:"VOBO_ADDR" default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"Where the service listens."`
	BaseURL string `name:"base-url" env:"VOBO_BASE_URL" help:"What the link begins with. Default: http:// and the address."`
}

// Run implements the command.
func (p *peopleLink) Run(c *console) error {
	base := p.BaseURL
	if base == "" {
		var err error
		if base, err = baseOf(p.Addr); err != nil {
			return wrongUsage("%w", err)
		}
	}
	return withMigrated(c, p.database, func(ctx context.Context, st *store.Store) error {
		now, err := st.Now(ctx)
		if err != nil {
			return err
		}
		token, row := approval.NewLoginLink(p.ID, "", now)
		if err := st.CreateLoginLink(ctx, row); err != nil {
			return err
		}
		fmt.Fprintln(c.out, strings.TrimRight(base, "/")+"/login/"+token)
		fmt.Fprintln(c.err, "It logs "+p.ID+" in, once, within 15 minutes.")
		return st.Audit(ctx, store.AuditLine{Actor: "command", Action: "login-link-made", Detail: map[string]any{"person": p.ID}})
	})
}
