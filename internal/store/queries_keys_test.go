package store

import (
	"slices"
	"testing"
	"time"

	"vobo/internal/fault"
)

func TestAKeyWorksUntilItExpiresOrIsRevoked(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		expires := b.now(t).Add(time.Hour)
		if err := b.CreateKey(t.Context(), APIKey{Name: "erp", Hash: hashOf("erp"), Roles: []string{"viewer", "requester"}}); err != nil {
			t.Fatal(err)
		}
		if err := b.CreateKey(t.Context(), APIKey{Name: "short", Hash: hashOf("short"), ExpiresAt: &expires}); err != nil {
			t.Fatal(err)
		}
		key, err := b.KeyByHash(t.Context(), hashOf("erp"))
		if err != nil || key.Name != "erp" || !slices.Equal(key.Roles, []string{"requester", "viewer"}) || key.ExpiresAt != nil || key.LastUsedAt != nil {
			t.Errorf("got %+v, %v", key, err)
		}
		if short, err := b.KeyByHash(t.Context(), hashOf("short")); err != nil || !short.ExpiresAt.Equal(expires) || short.ExpiresAt.Location() != time.UTC {
			t.Errorf("got %+v, %v", short, err)
		}
		_, err = b.KeyByHash(t.Context(), hashOf("other"))
		wantCode(t, err, fault.NotFound)
		b.pass(time.Hour)
		_, err = b.KeyByHash(t.Context(), hashOf("short"))
		wantCode(t, err, fault.NotFound)
		if err := b.RevokeKey(t.Context(), "erp"); err != nil {
			t.Fatal(err)
		}
		_, err = b.KeyByHash(t.Context(), hashOf("erp"))
		wantCode(t, err, fault.NotFound)
		wantCode(t, b.RevokeKey(t.Context(), "erp"), fault.NotFound)
	})
}

// field report B68
func TestANameIsFreeAgainOnceItsKeyIsRevokedOrExpired(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		expires := b.now(t).Add(time.Hour)
		create := func(name, secret string) error {
			return b.CreateKey(t.Context(), APIKey{Name: name, Hash: hashOf(secret), ExpiresAt: &expires})
		}
		if err := create("erp", "1"); err != nil {
			t.Fatal(err)
		}
		wantCode(t, create("erp", "2"), fault.Conflict)
		wantCode(t, create("other", "1"), fault.Conflict)
		if err := b.RevokeKey(t.Context(), "erp"); err != nil {
			t.Fatal(err)
		}
		if err := create("erp", "3"); err != nil {
			t.Errorf("after a revocation: %v", err)
		}
		b.pass(2 * time.Hour)
		expires = b.now(t).Add(time.Hour)
		if err := create("erp", "4"); err != nil {
			t.Errorf("after its end: %v", err)
		}
		keys, err := b.Keys(t.Context())
		if err != nil || len(keys) != 3 {
			t.Fatalf("got %v, %v", keys, err)
		}
		live := slices.DeleteFunc(keys, func(k APIKey) bool { return k.RevokedAt != nil })
		if len(live) != 1 || !slices.Equal(live[0].Hash, hashOf("4")) {
			t.Errorf("live are %+v", live)
		}
		wantCode(t, create("", "5"), fault.InvalidInput)
		wantCode(t, b.RevokeKey(t.Context(), ""), fault.NotFound)
		wantCode(t, b.CreateKey(t.Context(), APIKey{Name: "no hash"}), fault.Internal)
		_, err = b.KeyByHash(t.Context(), nil)
		wantCode(t, err, fault.Internal)
	})
}

func TestTheLastUseOfAKeyIsNotedOnceAMinute(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		if err := b.CreateKey(t.Context(), APIKey{Name: "erp", Hash: hashOf("erp")}); err != nil {
			t.Fatal(err)
		}
		use := func() time.Time {
			t.Helper()
			if err := b.KeyUsed(t.Context(), "erp"); err != nil {
				t.Fatal(err)
			}
			key, err := b.KeyByHash(t.Context(), hashOf("erp"))
			if err != nil || key.LastUsedAt == nil {
				t.Fatalf("got %+v, %v", key, err)
			}
			return *key.LastUsedAt
		}
		first := use()
		b.pass(20 * time.Second)
		if again := use(); !again.Equal(first) {
			t.Errorf("noted at %v and, 20 s later, at %v", first, again)
		}
		b.pass(50 * time.Second)
		if later := use(); later.Sub(first) < 70*time.Second {
			t.Errorf("noted at %v and, 70 s later, at %v", first, later)
		}
	})
}
