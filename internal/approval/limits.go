package approval

import (
	"context"
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

// attempts counts what is not authentic, per address: unknown tokens, unknown keys
// and log-in requests. What is authentic is never counted.
type attempts struct {
	mu    sync.Mutex
	clock func() time.Time
	by    map[string]*rate.Limiter
}

const (
	attemptsPerMinute = 30
	addressesKept     = 10_000
)

func newAttempts(clock func() time.Time) *attempts {
	return &attempts{clock: clock, by: map[string]*rate.Limiter{}}
}

// refuse gives the answer to an attempt that failed: err, or rate-limited once there
// were too many from this address.
func (a *attempts) refuse(ctx context.Context, err error) error {
	if a.allow(clientOf(ctx).IP) {
		return err
	}
	e := fault.New(fault.RateLimited, "Too many attempts came from your address. Wait a minute.")
	e.RetryAfter = time.Minute
	return e
}

func (a *attempts) allow(address string) bool {
	if address == "" {
		return true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	l := a.by[address]
	if l == nil {
		if len(a.by) >= addressesKept {
			clear(a.by)
		}
		l = rate.NewLimiter(rate.Every(time.Minute/attemptsPerMinute), attemptsPerMinute)
		a.by[address] = l
	}
	return l.AllowN(a.clock(), 1)
}
