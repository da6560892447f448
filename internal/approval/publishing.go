package approval

import (
	"context"
	"fmt"

	"vobo/internal/definitions"
	"vobo/internal/fault"
	"vobo/internal/store"
)

// DefinitionError is a definition that was refused, with all its problems.
type DefinitionError struct{ Problems definitions.Problems }

func (e *DefinitionError) Error() string { return e.Problems.String() }

// PublishResult says what became of a definition.
type PublishResult struct {
	Name     string
	Version  int
	Hash     string
	Created  bool // false: the same triple was there
	Warnings definitions.Problems
}

// DefinitionView is a published version.
type DefinitionView struct {
	Name        string `json:"name"`
	Version     int    `json:"version"`
	Hash        string `json:"hash"`
	Title       string `json:"title"`
	Source      string `json:"source,omitempty"`
	PublishedAt Time   `json:"published_at"`
	PublishedBy string `json:"published_by"`
	Live        int    `json:"live"`
}

// Lint checks a definition as publishing would.
func (s *Service) Lint(source []byte) definitions.Problems {
	d, problems := definitions.Parse("definition.yaml", source)
	return append(problems, s.checkHere(d)...)
}

// checkHere checks what a definition needs of this server: variables, credentials and
// webhook sources. d may be nil.
func (s *Service) checkHere(d *definitions.Definition) definitions.Problems {
	if d == nil {
		return nil
	}
	credentials, sources := s.cfg.Secrets.Secrets().Names()
	return append(d.CheckEnv(s.cfg.Vars), d.CheckSecrets(credentials, sources)...)
}

// Publish checks and stores a definition; the same content again changes nothing.
// Faults: invalid-definition (its cause is a *DefinitionError), version-exists, forbidden.
func (s *Service) Publish(ctx context.Context, c Caller, file string, source []byte) (*PublishResult, error) {
	if err := adminOnly(c, "publish definitions"); err != nil {
		return nil, err
	}
	d, problems := definitions.Parse(file, source)
	problems = append(problems, s.checkHere(d)...)
	if d == nil || problems.Refuses() {
		return nil, refusedDefinition(problems)
	}
	title, err := d.Title.In("en", &definitions.Env{})
	if err != nil {
		return nil, err
	}
	if err := s.addCorrelations(ctx, d); err != nil { // before any instance can wait
		return nil, err
	}
	created, err := s.store.Publish(ctx, store.DefinitionRow{
		Name: d.Name, Version: d.Version, Hash: d.Hash,
		Title: title, Source: source, PublishedBy: c.ID,
	})
	if err != nil {
		return nil, err
	}
	s.planner.forget(d.Name)
	if created {
		line := store.AuditLine{
			Actor: c.ID, Action: "definition-published",
			Detail: map[string]any{"name": d.Name, "version": d.Version, "hash": d.Hash},
		}
		if err := s.store.Audit(ctx, line); err != nil {
			return nil, err
		}
	}
	return &PublishResult{d.Name, d.Version, d.Hash, created, problems}, nil
}

// addCorrelations makes known by which paths calls for the definition's events are told apart.
func (s *Service) addCorrelations(ctx context.Context, d *definitions.Definition) error {
	for _, shape := range d.Correlations() {
		if err := s.store.AddCorrelationPaths(ctx, shape.Event, shape.Paths); err != nil {
			return err
		}
	}
	return nil
}

// noteCorrelations does so for every published definition: those of an older Vobo too.
func (s *Service) noteCorrelations(ctx context.Context) error {
	paging := store.Paging{Limit: 500}
	for {
		rows, err := s.store.Definitions(ctx, paging)
		if err != nil {
			return err
		}
		for _, row := range rows.Items {
			d, err := s.planner.compile(row)
			if err != nil { // its instances say so; others go on
				s.log.Warn("a published definition cannot be read", "name", row.Name, "version", row.Version, "error", err)
				continue
			}
			if err := s.addCorrelations(ctx, d); err != nil {
				return err
			}
		}
		if rows.Next == "" {
			return nil
		}
		paging.Cursor = rows.Next
	}
}

func refusedDefinition(problems definitions.Problems) error {
	e := fault.Wrap(&DefinitionError{problems}, fault.InvalidDefinition, "The definition was refused; nothing was published.")
	for _, p := range problems {
		if p.Severity != definitions.Warning {
			e.Fields = append(e.Fields, fault.Field{Detail: fmt.Sprintf("line %d, column %d: %s", p.Line, p.Column, p.Detail)})
		}
	}
	return e
}

// Definitions lists published versions.
func (s *Service) Definitions(ctx context.Context, _ Caller, p store.Paging) (store.Page[DefinitionView], error) {
	rows, err := s.store.Definitions(ctx, p)
	if err != nil {
		return store.Page[DefinitionView]{}, err
	}
	page := store.Page[DefinitionView]{Items: make([]DefinitionView, len(rows.Items)), Next: rows.Next}
	for i, r := range rows.Items {
		page.Items[i] = definitionView(r, false)
	}
	return page, nil
}

// Definition returns one version, the newest for version 0, compiled and as written.
func (s *Service) Definition(ctx context.Context, _ Caller, name string, version int) (*DefinitionView, *definitions.Definition, error) {
	row, err := s.store.Definition(ctx, name, version)
	if err != nil {
		return nil, nil, err
	}
	d, err := s.planner.compile(row)
	if err != nil {
		return nil, nil, err
	}
	v := definitionView(row, true)
	return &v, d, nil
}

// DeleteDefinition removes a version that no instance uses. Fault conflict while one does.
func (s *Service) DeleteDefinition(ctx context.Context, c Caller, name string, version int) error {
	if err := adminOnly(c, "delete definitions"); err != nil {
		return err
	}
	if err := s.store.DeleteDefinition(ctx, name, version); err != nil {
		return err
	}
	s.planner.drop(name, version)
	return s.store.Audit(ctx, store.AuditLine{
		Actor: c.ID, Action: "definition-deleted",
		Detail: map[string]any{"name": name, "version": version},
	})
}

func definitionView(r store.DefinitionRow, source bool) DefinitionView {
	v := DefinitionView{
		Name: r.Name, Version: r.Version, Hash: r.Hash, Title: r.Title,
		PublishedAt: Time{r.PublishedAt}, PublishedBy: r.PublishedBy, Live: r.Live,
	}
	if source {
		v.Source = string(r.Source)
	}
	return v
}
