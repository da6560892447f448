package store

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"vobo/internal/fault"
	"vobo/internal/testkit"
)

// guarantee S-17: PostgreSQL's integer columns have 32 bits, SQLite's have 64.
func TestANumberThatNoColumnHoldsFindsNothingOnBothDatabases(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, url string) {
		b := newBench(t, url)
		for _, n := range []int{math.MaxInt32 + 1, math.MinInt32 - 1, math.MaxInt64, math.MinInt64} {
			page, err := b.Instances(t.Context(), InstanceFilter{Version: n}, Paging{})
			if err != nil || len(page.Items) != 0 {
				t.Errorf("instances of version %d: %v, %v", n, page.Items, err)
			}
			_, err = b.Definition(t.Context(), "simple", n)
			wantCode(t, err, fault.NotFound)
			wantCode(t, b.DeleteDefinition(t.Context(), "simple", n), fault.NotFound)
			for _, o := range []listOrder{tasksByDue.listOrder, effectOrder, historyOrder, definitionOrder} {
				values := make([]any, len(o.columns))
				for i, c := range o.columns {
					switch c.kind {
					case numberValue:
						values[i] = int64(n)
					case timeValue:
						values[i] = int64(1)
					case idValue:
						values[i] = "01a22c44-c2a0-72eb-baad-980d7eadfcf1"
					default:
						values[i] = "x"
					}
				}
				cursor, err := o.encode(values...)
				if err != nil {
					t.Fatal(err)
				}
				_, _, err = o.after(cursor)
				wantCode(t, err, fault.Malformed)
			}
		}
		cursor, err := auditOrder.encode(int64(math.MaxInt64))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.AuditLines(t.Context(), "", Paging{Cursor: cursor}); err != nil {
			t.Errorf("audit after the last id: %v", err)
		}
	})
}

// guarantee S-34
func TestANewDatabaseFileIsItsOwnersAlone(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "vobo.db")
	newBench(t, "sqlite:"+path)
	files, err := filepath.Glob(path + "*")
	if err != nil || len(files) < 2 {
		t.Fatalf("files %v, %v", files, err)
	}
	for _, name := range files {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if rights := info.Mode().Perm(); rights&0o077 != 0 {
			t.Errorf("%s has rights %o", filepath.Base(name), rights)
		}
	}
}
