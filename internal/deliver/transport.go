package deliver

import (
	"net/http"
	"slices"
	"sync"
	"time"
)

// maxClients bounds the client identities whose connections are kept.
const maxClients = 32

// transports are the two ways to send for one client identity.
type transports struct {
	id     string
	pooled *http.Transport // for idempotent requests: keeps connections
	fresh  *http.Transport // for others: a cut of an idle connection would leave them unknown
}

func (p *transports) closeIdle() {
	p.pooled.CloseIdleConnections()
	p.fresh.CloseIdleConnections()
}

func (s *WebhookSender) newTransports(client *ClientTLS) *transports {
	p := &transports{pooled: s.transport(client), fresh: s.transport(client)}
	p.fresh.DisableKeepAlives = true
	if client != nil {
		p.id = client.ID
	}
	return p
}

func (s *WebhookSender) transport(client *ClientTLS) *http.Transport {
	d := &guardedDialer{sender: s, client: client}
	return &http.Transport{
		Proxy:                  nil,
		DialContext:            d.dialPlain,
		DialTLSContext:         d.dialTLS,
		MaxIdleConns:           64,
		MaxIdleConnsPerHost:    4,
		IdleConnTimeout:        15 * time.Second,
		MaxResponseHeaderBytes: MaxAnswer,
		DisableCompression:     true,
		ForceAttemptHTTP2:      false,
	}
}

// transportCache keeps the transports of the identities used last. What it lets go
// closes its idle connections at once; those in use end with their request or, within
// IdleConnTimeout, after it.
type transportCache struct {
	common *transports // without a client identity

	mu      sync.Mutex
	clients []*transports // the one used last stands last
}

// transportsFor returns those of a client, and what to call when the request is over.
func (s *WebhookSender) transportsFor(client *ClientTLS) (_ *transports, release func()) {
	switch {
	case client == nil:
		return s.transports.common, func() {}
	case client.ID == "":
		once := s.newTransports(client)
		return once, once.closeIdle
	}
	return s.transports.use(client.ID, func() *transports { return s.newTransports(client) }), func() {}
}

func (c *transportCache) use(id string, create func() *transports) *transports {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.IndexFunc(c.clients, func(p *transports) bool { return p.id == id }); i >= 0 {
		found := c.clients[i]
		c.clients = append(slices.Delete(c.clients, i, i+1), found)
		return found
	}
	if len(c.clients) >= maxClients {
		c.clients[0].closeIdle()
		c.clients = slices.Delete(c.clients, 0, 1)
	}
	c.clients = append(c.clients, create())
	return c.clients[len(c.clients)-1]
}

func (c *transportCache) closeIdle() {
	c.common.closeIdle()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.clients {
		p.closeIdle()
	}
}
