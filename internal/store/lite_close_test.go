package store

import (
	"context"
	"path/filepath"
	"testing"
	"time"
)

// A reader whose query was interrupted is closed by the pool: the statements prepared on
// it end with it, and a stop after that ends as any other.
func TestAStopAfterAnInterruptedReadEndsWell(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), Config{URL: "sqlite:" + filepath.Join(t.TempDir(), "vobo.db"), MaxConns: 2})
	if err != nil {
		t.Fatal(err)
	}
	look := func() error {
		return s.inReader(t.Context(), func(tx *liteTx) error {
			return tx.each(func(cells) error { return nil }, "SELECT 1")
		})
	}
	if err := look(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	endless := "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"
	var n int
	if err := s.impl.read.QueryRowContext(ctx, endless).Scan(&n); err == nil || ctx.Err() == nil {
		t.Errorf("the endless read ended with %v", err)
	}
	if err := look(); err != nil { // on another connection
		t.Error(err)
	}
	if n := len(s.impl.lite.prepared); n != 1 {
		t.Errorf("statements are kept for %d connections, want those of the one that is open", n)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if n := len(s.impl.lite.prepared); n != 0 {
		t.Errorf("after the stop statements are kept for %d connections", n)
	}
}
