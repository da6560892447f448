package store

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"vobo/internal/fault"
	"vobo/internal/fsm"
)

func TestASessionEndsWhenIdleWhenOverAndWhenLoggedOut(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		b.sync(t, ana())
		const idle = 30 * time.Minute
		create := func(id string) {
			t.Helper()
			if err := b.CreateSession(t.Context(), Session{
				Hash: hashOf(id), Person: "ana@example.com", ExpiresAt: b.now(t).Add(time.Hour), Assurance: fsm.BySession, CSRF: "c" + id,
			}); err != nil {
				t.Fatal(err)
			}
		}
		find := func(id string) error { _, err := b.SessionByHash(t.Context(), hashOf(id), idle); return err }
		touch := func(id string) {
			t.Helper()
			if err := b.TouchSession(t.Context(), hashOf(id)); err != nil {
				t.Fatal(err)
			}
		}
		create("used")
		create("idle")
		got, err := b.SessionByHash(t.Context(), hashOf("used"), idle)
		if err != nil || got.Person != "ana@example.com" || got.Assurance != fsm.BySession || got.CSRF != "cused" {
			t.Errorf("got %+v, %v", got, err)
		}
		b.pass(20 * time.Minute)
		touch("used")
		b.pass(20 * time.Minute)
		wantCode(t, find("used"), "")
		wantCode(t, find("idle"), fault.NotFound)
		if _, err := b.SessionByHash(t.Context(), hashOf("idle"), 0); err != nil {
			t.Errorf("without an idle limit: %v", err)
		}
		touch("used")
		b.pass(20 * time.Minute)
		wantCode(t, find("used"), fault.NotFound)
		create("out")
		if err := b.DeleteSession(t.Context(), hashOf("out")); err != nil {
			t.Fatal(err)
		}
		wantCode(t, find("out"), fault.NotFound)
		if err := b.DeleteSession(t.Context(), hashOf("out")); err != nil {
			t.Errorf("out twice: %v", err)
		}
		wantCode(t, find("unknown"), fault.NotFound)
		_, err = b.SessionByHash(t.Context(), nil, idle)
		wantCode(t, err, fault.Internal)
	})
}

func TestALoginLinkIsTakenOnceOfAnyNumberWhoTry(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		b.sync(t, ana())
		link := LoginLink{Hash: hashOf("l"), Person: "ana@example.com", Next: "/inbox", ExpiresAt: b.now(t).Add(time.Hour)}
		if err := b.CreateLoginLink(t.Context(), link); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if got, err := b.PeekLoginLink(t.Context(), hashOf("l")); err != nil || got.Next != "/inbox" || got.Person != link.Person || !got.ExpiresAt.Equal(link.ExpiresAt) {
				t.Errorf("a peek: got %+v, %v", got, err)
			}
		}
		var taken, refused atomic.Int32
		var group sync.WaitGroup
		for range 16 {
			group.Go(func() {
				switch _, err := b.UseLoginLink(t.Context(), hashOf("l")); fault.CodeOf(err) {
				case "":
					taken.Add(1)
				case fault.NotFound:
					refused.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		group.Wait()
		if taken.Load() != 1 || refused.Load() != 15 {
			t.Errorf("taken %d times, refused %d times", taken.Load(), refused.Load())
		}
		_, err := b.PeekLoginLink(t.Context(), hashOf("l"))
		wantCode(t, err, fault.NotFound)
	})
}

func TestALoginLinkExpires(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		b.sync(t, ana())
		if err := b.CreateLoginLink(t.Context(), LoginLink{Hash: hashOf("l"), Person: "ana@example.com", ExpiresAt: b.now(t).Add(time.Minute)}); err != nil {
			t.Fatal(err)
		}
		b.pass(time.Minute)
		_, err := b.PeekLoginLink(t.Context(), hashOf("l"))
		wantCode(t, err, fault.NotFound)
		_, err = b.UseLoginLink(t.Context(), hashOf("l"))
		wantCode(t, err, fault.NotFound)
		wantCode(t, b.CreateLoginLink(t.Context(), LoginLink{Hash: hashOf("m"), Person: "nobody"}), fault.NotFound)
	})
}
