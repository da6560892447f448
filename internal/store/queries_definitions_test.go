package store

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"vobo/internal/fault"
	"vobo/internal/fsm"
)

func (b *bench) publish(t *testing.T, name string, version int) {
	t.Helper()
	if _, err := b.Publish(t.Context(), DefinitionRow{Name: name, Version: version, Hash: "v1:a", Source: []byte("x: 1\n")}); err != nil {
		t.Fatal(err)
	}
}

// field report B41
func TestPublishingTheSameAgainChangesNothingAndOtherContentIsRefused(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		row := DefinitionRow{Name: "supplier", Version: 1, Hash: "v1:a", Title: "Alta", Source: []byte("a\x00ü"), PublishedBy: "system:ci"}
		var created atomic.Int32
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				made, err := b.Publish(t.Context(), row)
				if err != nil {
					t.Error(err)
				}
				if made {
					created.Add(1)
				}
			})
		}
		group.Wait()
		if created.Load() != 1 {
			t.Errorf("created %d times", created.Load())
		}
		first, err := b.Definition(t.Context(), "supplier", 1)
		if err != nil || first.Title != "Alta" || string(first.Source) != "a\x00ü" || first.PublishedBy != "system:ci" || first.PublishedAt.IsZero() {
			t.Errorf("got %+v, %v", first, err)
		}
		reformatted := row
		reformatted.Source, reformatted.Title = []byte("other white space"), "x"
		if made, err := b.Publish(t.Context(), reformatted); made || err != nil {
			t.Errorf("equivalent content: %v, %v", made, err)
		}
		if again, err := b.Definition(t.Context(), "supplier", 1); err != nil || again.Title != "Alta" || !again.PublishedAt.Equal(first.PublishedAt) {
			t.Errorf("got %+v, %v", again, err)
		}
		other := row
		other.Hash = "v1:b"
		_, err = b.Publish(t.Context(), other)
		wantCode(t, err, fault.VersionExists)
	})
}

func TestVersionZeroIsTheNewestAndListsGoByNameAndVersion(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		for _, version := range []int{2, 10, 1} {
			b.publish(t, "b", version)
		}
		b.publish(t, "a", 1)
		b.instance(t, fsm.Instance{Definition: "b", Version: 2})
		b.instance(t, fsm.Instance{Definition: "b", Version: 2, Status: fsm.Suspended})
		b.instance(t, fsm.Instance{Definition: "b", Version: 2, Status: fsm.Finished})
		newest, err := b.Definition(t.Context(), "b", 0)
		if err != nil || newest.Version != 10 {
			t.Errorf("got %+v, %v", newest, err)
		}
		var got []string
		for _, d := range walk(t, 1, func() {}, func(ctx context.Context, p Paging) (Page[DefinitionRow], error) { return b.Definitions(ctx, p) }) {
			got = append(got, fmt.Sprintf("%s@%d:%d", d.Name, d.Version, d.Live))
		}
		if want := []string{"a@1:0", "b@1:0", "b@2:2", "b@10:0"}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		for _, absent := range []struct {
			name    string
			version int
		}{{"c", 0}, {"b", 3}, {"", 0}, {"b", -1}} {
			_, err := b.Definition(t.Context(), absent.name, absent.version)
			wantCode(t, err, fault.NotFound)
		}
	})
}

// field report B68
func TestADefinitionIsDeletedOnlyByNameAndVersionAndWhileNothingUsesIt(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		for version := range 3 {
			b.publish(t, "b", version+1)
		}
		b.instance(t, fsm.Instance{Definition: "b", Version: 2, Status: fsm.Finished})
		wantCode(t, b.DeleteDefinition(t.Context(), "b", 2), fault.Conflict)
		wantCode(t, b.DeleteDefinition(t.Context(), "b", 0), fault.NotFound)
		wantCode(t, b.DeleteDefinition(t.Context(), "", 1), fault.NotFound)
		wantCode(t, b.DeleteDefinition(t.Context(), "b", 1), "")
		wantCode(t, b.DeleteDefinition(t.Context(), "b", 1), fault.NotFound)
		b.publish(t, "b", 1)
		page, err := b.Definitions(t.Context(), Paging{})
		if err != nil || len(page.Items) != 3 {
			t.Errorf("got %v, %v", page, err)
		}
	})
}
