package main

import (
	"context"
	"fmt"

	"vobo/internal/store"
)

// migrateCmd brings the schema up or shows where it is.
type migrateCmd struct {
	Up     migrateUp     `cmd:"" default:"1" help:"Bring the schema up (the default)."`
	Status migrateStatus `cmd:"" help:"List the migrations and when they were applied."`
}

type migrateUp struct{ database }

// Run implements the command.
func (m *migrateUp) Run(c *console) error {
	return withStore(c, m.database, func(ctx context.Context, st *store.Store) error {
		if err := st.Migrate(ctx); err != nil {
			return err
		}
		fmt.Fprintln(c.out, "The schema is up to date.")
		return nil
	})
}

type migrateStatus struct {
	database
	JSON bool `help:"Print JSON."`
}

// Run implements the command.
func (m *migrateStatus) Run(c *console) error {
	return withStore(c, m.database, func(ctx context.Context, st *store.Store) error {
		all, err := st.MigrationStatus(ctx)
		if err != nil {
			return err
		}
		if m.JSON {
			return printJSON(c, all)
		}
		rows := [][]string{{"VERSION", "NAME", "APPLIED"}}
		for _, v := range all {
			applied := "not yet"
			if v.AppliedAt != nil {
				applied = v.AppliedAt.Local().Format("2006-01-02 15:04")
			}
			rows = append(rows, []string{fmt.Sprint(v.Version), v.Name, applied})
		}
		return printTable(c, rows)
	})
}

// withStore opens the database for one command and closes it again.
func withStore(c *console, d database, use func(context.Context, *store.Store) error) (err error) {
	st, err := store.Open(c.ctx, store.Config{URL: d.DatabaseURL, DirectURL: d.DirectURL})
	if err != nil {
		return err
	}
	defer func() {
		if cerr := st.Close(); err == nil {
			err = cerr
		}
	}()
	return use(c.ctx, st)
}

// withMigrated is withStore for commands that need the present schema; on a database
// of its own file it makes the schema, so that keys and people may come before the first start.
func withMigrated(c *console, d database, use func(context.Context, *store.Store) error) error {
	return withStore(c, d, func(ctx context.Context, st *store.Store) error {
		if err := st.Ping(ctx); err != nil {
			if err := st.Migrate(ctx); err != nil {
				return err
			}
		}
		return use(ctx, st)
	})
}
