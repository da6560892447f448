package approval

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"vobo/internal/fault"
)

// Client is where a request came from, as the edge established it.
type Client struct {
	IP        string
	UserAgent string
}

type clientKey struct{}

// WithClient puts the client into a request's context.
func WithClient(ctx context.Context, c Client) context.Context {
	return context.WithValue(ctx, clientKey{}, c)
}

func clientOf(ctx context.Context) Client {
	c, _ := ctx.Value(clientKey{}).(Client)
	return c
}

// attempts counts what is not authentic, per address: unknown tokens, unknown keys,
// dead log-in links and log-in requests. What is authentic is never counted.
type attempts struct {
	mu    sync.Mutex
	clock func() time.Time
	every time.Duration // one more is allowed after so long
	burst int
	by    map[string]*rate.Limiter
}

const (
	attemptsPerMinute = 30
	addressesKept     = 10_000

	loginMailEvery = 3 * time.Minute // to one person, whoever asks
	loginMailBurst = 5
)

func newAttempts(clock func() time.Time, every time.Duration, burst int) *attempts {
	return &attempts{clock: clock, every: every, burst: burst, by: map[string]*rate.Limiter{}}
}

// network is what one client holds at least: an IPv4 address, an IPv6 /64.
func network(address string) string {
	a, err := netip.ParseAddr(address)
	if err != nil {
		return address
	}
	if a = a.Unmap().WithZone(""); a.Is4() {
		return a.String()
	}
	return netip.PrefixFrom(a, 64).Masked().String()
}

// refuse gives the answer to an attempt that failed: err, or rate-limited once there
// were too many from this address.
func (a *attempts) refuse(ctx context.Context, err error) error {
	if a.allow(network(clientOf(ctx).IP)) {
		return err
	}
	e := fault.New(fault.RateLimited, "Too many attempts came from your address. Wait a minute.")
	e.RetryAfter = time.Minute
	return e
}

func (a *attempts) allow(key string) bool {
	if key == "" {
		return true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	l := a.by[key]
	if l == nil {
		if len(a.by) >= addressesKept {
			clear(a.by)
		}
		l = rate.NewLimiter(rate.Every(a.every), a.burst)
		a.by[key] = l
	}
	return l.AllowN(a.clock(), 1)
}
