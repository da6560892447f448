package store

import (
	"crypto/sha256"
	"slices"
	"sync"
	"testing"
	"time"

	"vobo/internal/fault"
	"vobo/internal/fsm"
)

func hashOf(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return sum[:]
}

func ana() fsm.Person {
	return fsm.Person{
		ID: "ana@example.com", Name: "Ana", Locale: "es", Timezone: "Europe/Madrid", Groups: []string{"risk", "board", "risk"},
		Roles: []string{"reviewer"}, Active: true,
	}
}

func luis() fsm.Person { return fsm.Person{ID: "luis", Email: "luis@example.com", Active: true} }

// sync syncs people and tells how many changed and by how much the version rose.
func (b *bench) sync(t *testing.T, people ...fsm.Person) (changed int, risen int64) {
	t.Helper()
	before := b.directory(t).Version
	changed, err := b.SyncPeople(t.Context(), people)
	if err != nil {
		t.Fatal(err)
	}
	return changed, b.directory(t).Version - before
}

func (b *bench) directory(t *testing.T) *fsm.Directory {
	t.Helper()
	directory, err := b.People(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return directory
}

func TestASyncSetsThoseItListsAndTouchesNoOther(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		if changed, risen := b.sync(t, ana(), luis()); changed != 2 || risen != 1 {
			t.Errorf("the first sync: %d changed, version +%d", changed, risen)
		}
		if changed, risen := b.sync(t, luis(), ana()); changed != 0 || risen != 0 {
			t.Errorf("the same again: %d changed, version +%d", changed, risen)
		}
		other := ana()
		other.Groups, other.Timezone = []string{"board"}, "America/Lima"
		if changed, risen := b.sync(t, other); changed != 1 || risen != 1 {
			t.Errorf("Ana alone: %d changed, version +%d", changed, risen)
		}
		if changed, risen := b.sync(t); changed != 0 || risen != 0 {
			t.Errorf("an empty sync: %d changed, version +%d", changed, risen)
		}
		d := b.directory(t)
		got := d.Person("ana@example.com")
		if got == nil || got.Timezone != "America/Lima" || got.Email != "ana@example.com" || !slices.Equal(got.Groups, []string{"board"}) ||
			!slices.Equal(got.Roles, []string{"reviewer"}) || !got.Active {
			t.Errorf("Ana is %+v", got)
		}
		if got := d.Person("luis"); got == nil || got.Email != "luis@example.com" || !got.Active {
			t.Errorf("Luis is %+v", got)
		}
		if len(d.Group("risk")) != 0 || len(d.Group("board")) != 1 {
			t.Errorf("risk has %d, board %d", len(d.Group("risk")), len(d.Group("board")))
		}
	})
}

// field report B68
func TestPeopleWithoutAnIDOrListedTwiceAreRefusedWhole(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		for name, people := range map[string][]fsm.Person{
			"no id": {ana(), {Name: "Nobody"}}, "a blank id": {{ID: " "}}, "twice": {ana(), luis(), ana()},
		} {
			if _, err := b.SyncPeople(t.Context(), people); fault.CodeOf(err) != fault.InvalidInput {
				t.Errorf("%s: got %v", name, err)
			}
		}
		_, err := b.SyncPeople(t.Context(), []fsm.Person{{ID: "a\x00"}})
		wantCode(t, err, fault.Malformed)
		if people := b.directory(t).People(); len(people) != 0 {
			t.Errorf("got %v", people)
		}
		wantCode(t, b.DeactivatePerson(t.Context(), ""), fault.NotFound)
		wantCode(t, b.DeactivatePerson(t.Context(), "nobody"), fault.NotFound)
	})
}

// field report B55
func TestADeactivationClosesEveryDoorAtOnceAndOutlivesASync(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		b.sync(t, ana(), luis())
		expires := b.now(t).Add(time.Hour)
		for _, id := range []string{"ana@example.com", "luis"} {
			if err := b.CreateSession(t.Context(), Session{Hash: hashOf("s" + id), Person: id, ExpiresAt: expires}); err != nil {
				t.Fatal(err)
			}
			if err := b.CreateLoginLink(t.Context(), LoginLink{Hash: hashOf("l" + id), Person: id, ExpiresAt: expires}); err != nil {
				t.Fatal(err)
			}
		}
		before := b.directory(t).Version
		if err := b.DeactivatePerson(t.Context(), "ana@example.com"); err != nil {
			t.Fatal(err)
		}
		closed := func(id string) {
			t.Helper()
			_, err := b.SessionByHash(t.Context(), hashOf("s"+id), 0)
			wantCode(t, err, fault.NotFound)
			_, err = b.PeekLoginLink(t.Context(), hashOf("l"+id))
			wantCode(t, err, fault.NotFound)
			_, err = b.UseLoginLink(t.Context(), hashOf("l"+id))
			wantCode(t, err, fault.NotFound)
			wantCode(t, b.CreateSession(t.Context(), Session{Hash: hashOf("new"), Person: id, ExpiresAt: expires}), fault.NotFound)
			wantCode(t, b.CreateLoginLink(t.Context(), LoginLink{Hash: hashOf("new"), Person: id, ExpiresAt: expires}), fault.NotFound)
		}
		closed("ana@example.com")
		if d := b.directory(t); d.Version != before+1 || d.Person("ana@example.com").Active || !d.Person("luis").Active {
			t.Errorf("version %d after %d, Ana %+v", d.Version, before, d.Person("ana@example.com"))
		}
		if err := b.DeactivatePerson(t.Context(), "ana@example.com"); err != nil || b.directory(t).Version != before+1 {
			t.Errorf("again: %v, version %d", err, b.directory(t).Version)
		}
		renamed := ana()
		renamed.Name = "Ana María"
		if changed, _ := b.sync(t, renamed); changed != 1 || b.directory(t).Person("ana@example.com").Active {
			t.Errorf("a sync makes Ana active again (%d changed)", changed)
		}
		gone := luis()
		gone.Active = false
		if changed, risen := b.sync(t, gone); changed != 1 || risen != 1 {
			t.Errorf("Luis: %d changed, version +%d", changed, risen)
		}
		closed("luis")
		if b.sync(t, luis()); !b.directory(t).Person("luis").Active {
			t.Error("a sync that says so does not make Luis active again")
		}
		_, err := b.SessionByHash(t.Context(), hashOf("sluis"), 0)
		wantCode(t, err, fault.NotFound)
	})
}

func TestSyncsAtOnceEachRaiseTheVersion(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		before := b.directory(t).Version
		var group sync.WaitGroup
		for n := range 8 {
			group.Go(func() {
				p := ana()
				p.Groups = []string{string(rune('a' + n))}
				if changed, err := b.SyncPeople(t.Context(), []fsm.Person{p}); err != nil || changed != 1 {
					t.Errorf("%d changed, %v", changed, err)
				}
			})
		}
		group.Wait()
		d := b.directory(t)
		if d.Version != before+8 || len(d.Person("ana@example.com").Groups) != 1 {
			t.Errorf("version %d after %d, Ana %+v", d.Version, before, d.Person("ana@example.com"))
		}
	})
}
