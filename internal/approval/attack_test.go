package approval

import (
	"context"
	"crypto/rand"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"vobo/internal/callbacks"
	"vobo/internal/deliver"
	"vobo/internal/fault"
	"vobo/internal/fsm"
	"vobo/internal/store"
	"vobo/internal/testkit"
)

// guarantee S-27: what is stored can be read again, whichever edge it came by.
func TestAnInputThatCouldNotBeReadAgainIsNotTaken(t *testing.T) {
	t.Parallel()
	var deep any = "x"
	for range 20_000 {
		deep = map[string]any{"x": deep}
	}
	eachRoute(t, func(t *testing.T, b *bundle, route Route) {
		id := b.review()
		link := b.link(id, "ana@example.com")
		for what, input := range map[string]any{"deep": map[string]any{"x": deep}, "NUL": map[string]any{"x": "\x00"}, "not UTF-8": map[string]any{"\xff": "x"}} {
			_, err := b.decide(link, route, RaiseRequest{Event: "reject", Comment: "no", Input: input})
			wantCode(t, what, err, fault.Malformed)
			_, err = b.svc.Start(b.ctx, b.as("rosa@example.com"), StartRequest{Definition: "review", Data: input.(map[string]any)})
			wantCode(t, "a start: "+what, err, fault.Malformed)
		}
		b.unchanged("an input that cannot be kept", id, 1)
		b.mustDecide(link, route, RaiseRequest{Event: "reject", Comment: "no"})
		if _, err := b.svc.DispatchOnce(b.ctx); err != nil {
			t.Errorf("the outbox: %v", err)
		}
	})
}

// guarantee S-11
func TestGuessingIsCountedByTheNetworkItComesFrom(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	tries := func(addresses func(i int) string, n int) (refused int) {
		a := newAttempts(func() time.Time { return now }, time.Minute/attemptsPerMinute, attemptsPerMinute)
		for i := range n {
			ctx := WithClient(context.Background(), Client{IP: addresses(i)})
			if fault.CodeOf(a.refuse(ctx, errNotALink)) == fault.RateLimited {
				refused++
			}
		}
		return refused
	}
	for what, c := range map[string]struct {
		of   func(int) string
		want int
	}{
		"one address":            {func(int) string { return "192.0.2.1" }, 10},
		"one IPv6 network":       {func(i int) string { return fmt.Sprintf("2001:db8:0:1::%x", i+1) }, 10},
		"the same in two forms":  {func(i int) string { return []string{"192.0.2.1", "::ffff:192.0.2.1"}[i%2] }, 10},
		"as many IPv4 addresses": {func(i int) string { return fmt.Sprintf("192.0.2.%d", i) }, 0},
		"as many IPv6 networks":  {func(i int) string { return fmt.Sprintf("2001:db8:0:%x::1", i) }, 0},
	} {
		if got := tries(c.of, attemptsPerMinute+10); got != c.want {
			t.Errorf("%s: %d of %d tries were refused, want %d", what, got, attemptsPerMinute+10, c.want)
		}
	}
}

func TestNobodysMailboxIsFloodedWithLoginLinks(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		for i := range 4 * loginMailBurst {
			ctx := WithClient(b.ctx, Client{IP: fmt.Sprintf("198.51.100.%d", i)})
			for _, address := range []string{"ana@example.com", "ANA@example.com", "nobody@example.com"} {
				if err := b.svc.RequestLogin(ctx, address, "/inbox"); err != nil {
					t.Fatalf("request %d for %s: %v", i, address, err)
				}
			}
		}
		if got := len(b.svc.logins.all()); got != loginMailBurst {
			t.Errorf("%d mails, want %d", got, loginMailBurst)
		}
		if err := b.svc.RequestLogin(b.ctx, "bea@example.com", "/inbox"); err != nil || len(b.svc.logins.all()) != loginMailBurst+1 {
			t.Errorf("somebody else's request: %v, %d mails", err, len(b.svc.logins.all()))
		}
	})
}

func TestGuessedLoginLinksAreCountedAndLiveOnesAreNot(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		ctx := WithClient(b.ctx, Client{IP: "203.0.113.7"})
		token, row := NewLoginLink("ana@example.com", "/inbox", b.now())
		if err := b.store.CreateLoginLink(ctx, row); err != nil {
			t.Fatal(err)
		}
		limited := false
		for range attemptsPerMinute + 1 {
			err := b.svc.PeekLogin(ctx, "guess")
			limited = fault.CodeOf(err) == fault.RateLimited
		}
		if !limited {
			t.Errorf("%d guesses were not limited", attemptsPerMinute+1)
		}
		if err := b.svc.PeekLogin(ctx, token); err != nil {
			t.Errorf("the live link: %v", err)
		}
		if _, _, _, err := b.svc.Login(ctx, token); err != nil {
			t.Errorf("the live link: %v", err)
		}
		_, _, _, err := b.svc.Login(ctx, token)
		wantCode(t, "the used link", err, fault.RateLimited)
	})
}

// guarantee S-06
func TestAMailsInstructionsCannotTurnTheTextAroundThemNorPushItAway(t *testing.T) {
	t.Parallel()
	b := newBundle(t, testkit.SQLite(t))
	hostile := "Check \u202eelbairav\u202c and \u2066x\u2069.\n\n" + strings.Repeat("more\n\n", 20_000)
	m := b.svc.taskMail(&store.ClaimedEffect{Instance: "01a22c44-c2a0-72eb-baad-980d7eadfcf1"}, &fsm.FrozenTaskMail{Kind: "task", To: "ana@example.com", Title: "x", Instructions: hostile})
	_, text, html, err := deliver.RenderTaskMail(m)
	if err != nil {
		t.Fatal(err)
	}
	for part, body := range map[string]string{"text": text, "HTML": html} {
		if strings.ContainsAny(body, "\u202e\u202c\u2066\u2069") {
			t.Errorf("the %s part keeps direction characters", part)
		}
		if len(body) > 100_000 {
			t.Errorf("the %s part has %d bytes", part, len(body))
		}
	}
}

// guarantee S-13: one replica signs with the new key before the other has looked for it.
func TestAReplicaThatMissedARotationReadsTheRingAgain(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		old, err := callbacks.NewKeyRing(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		holder, reads := callbacks.NewHolder(old), 0
		path := filepath.Join(t.TempDir(), "vobo.keys")
		if err := b.ring.Save(path); err != nil {
			t.Fatal(err)
		}
		late, _ := b.replica(func(c *Config) {
			c.Ring = holder
			c.ReloadRing = func() error { reads++; return holder.Reload(path) }
		})
		link := b.link(b.review(), "ana@example.com")
		if _, err := late.ViewToken(b.ctx, link, "en"); err != nil {
			t.Errorf("a link of the new key: %v", err)
		}
		head, _, _ := strings.Cut(link, ".")
		for _, guess := range []string{"x.y.z", "", head, "eyJ." + link} {
			_, err := late.ViewToken(b.ctx, guess, "en")
			wantCode(t, "a guess", err, fault.InvalidToken)
		}
		if reads != 1 {
			t.Errorf("the ring was read %d times, want once a second", reads)
		}
		b.pass(2 * ringReadAgainAfter)
		if _, err := late.ViewToken(b.ctx, link, "en"); err != nil || reads != 1 {
			t.Errorf("a known key: %v, %d reads", err, reads)
		}
	})
}
