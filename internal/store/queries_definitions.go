package store

import (
	"context"
	"time"

	"gorm.io/gorm"

	"vobo/internal/fault"
)

// DefinitionRow is a published definition.
type DefinitionRow struct {
	Name        string
	Version     int
	Hash        string
	Title       string
	Source      []byte
	PublishedAt time.Time // set by Publish
	PublishedBy string
	Live        int // instances running or suspended; read only
}

var definitionOrder = listOrder{name: "definitions", columns: []sortColumn{
	{name: "name", kind: textValue}, {name: "version", kind: numberValue},
}}

const selectDefinitions = `SELECT name, version, hash, title, source, published_at, published_by,
	(SELECT count(*) FROM instances WHERE instances.definition = definitions.name
		AND instances.version = definitions.version AND instances.status IN ('running', 'suspended'))
	FROM definitions`

func readDefinition(row rowScanner, d *DefinitionRow) error {
	return row.Scan(&d.Name, &d.Version, &d.Hash, &d.Title, &d.Source, timeColumn{&d.PublishedAt}, &d.PublishedBy, &d.Live)
}

// Publish stores a definition; created is false where the same triple is there already,
// which then stays as it was; fault version-exists where (name, version) has another hash.
func (s *Store) Publish(ctx context.Context, d DefinitionRow) (created bool, err error) {
	if d.Name == "" || d.Version < 1 || d.Hash == "" {
		return false, fault.New(fault.Internal, "A definition without name, version or hash cannot be published.")
	}
	now, err := s.Now(ctx)
	if err != nil {
		return false, err
	}
	err = s.inTransaction(ctx, func(tx *gorm.DB) error {
		n, err := execute(tx, `INSERT INTO definitions (name, version, hash, title, source, published_at, published_by)
			VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (name, version) DO NOTHING`,
			d.Name, d.Version, d.Hash, d.Title, d.Source, stamp(now), d.PublishedBy)
		created = n == 1
		if err != nil || created {
			return err
		}
		hash, _, err := selectOne(tx, func(row rowScanner, hash *string) error { return row.Scan(hash) },
			`SELECT hash FROM definitions WHERE name = ? AND version = ?`, d.Name, d.Version)
		if err != nil || hash == d.Hash {
			return err
		}
		return fault.New(fault.VersionExists, "Version %d of %s is published with other content. Raise the version number and publish again.", d.Version, d.Name)
	})
	if err != nil {
		return false, err
	}
	return created, nil
}

// Definition returns one version, the newest for version 0. NotFound.
func (s *Store) Definition(ctx context.Context, name string, version int) (DefinitionRow, error) {
	if err := checkText("The definition's name", name); err != nil {
		return DefinitionRow{}, err
	}
	var query statement
	query.and("name = ?", name)
	if version != 0 {
		query.and("version = ?", version)
	}
	if !fitsColumn(int64(version)) {
		return DefinitionRow{}, fault.New(fault.NotFound, "There is no version %d of a definition named %q.", version, name)
	}
	row, found, err := selectOne(s.reader(ctx), readDefinition,
		selectDefinitions+" WHERE "+query.conditions()+" ORDER BY version DESC LIMIT 1", query.args...)
	switch {
	case err != nil:
		return DefinitionRow{}, s.dbError(err)
	case !found && version == 0:
		return DefinitionRow{}, fault.New(fault.NotFound, "There is no definition named %q.", name)
	case !found:
		return DefinitionRow{}, fault.New(fault.NotFound, "There is no version %d of a definition named %q.", version, name)
	}
	return row, nil
}

// Definitions lists by name and version.
func (s *Store) Definitions(ctx context.Context, p Paging) (Page[DefinitionRow], error) {
	var query statement
	tail, limit, err := query.paged(definitionOrder, p)
	if err != nil {
		return Page[DefinitionRow]{}, err
	}
	rows, err := selectRows(s.reader(ctx), readDefinition, selectDefinitions+tail, query.args...)
	if err != nil {
		return Page[DefinitionRow]{}, s.dbError(err)
	}
	return pageOf(definitionOrder, limit, rows,
		func(d DefinitionRow) []any { return []any{d.Name, d.Version} }, itself)
}

// DeleteDefinition removes a version that no instance, not even a finished one, uses;
// conflict while any is there. NotFound.
func (s *Store) DeleteDefinition(ctx context.Context, name string, version int) error {
	if err := checkText("The definition's name", name); err != nil {
		return err
	}
	if !fitsColumn(int64(version)) {
		return fault.New(fault.NotFound, "There is no version %d of a definition named %q.", version, name)
	}
	return s.inTransaction(ctx, func(tx *gorm.DB) error {
		n, err := execute(tx, `DELETE FROM definitions WHERE name = ? AND version = ? AND NOT EXISTS
			(SELECT 1 FROM instances WHERE definition = ? AND instances.version = ?)`, name, version, name, version)
		if err != nil || n == 1 {
			return err
		}
		there, _, err := selectOne(tx, readCount, `SELECT count(*) FROM definitions WHERE name = ? AND version = ?`, name, version)
		switch {
		case err != nil:
			return err
		case there == 0:
			return fault.New(fault.NotFound, "There is no version %d of a definition named %q.", version, name)
		}
		return fault.New(fault.Conflict, "Instances use version %d of %s, so it cannot be deleted. Publish a newer version instead.", version, name)
	})
}
