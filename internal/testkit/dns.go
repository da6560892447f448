package testkit

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
)

// NameServer is a real DNS server on the loopback address whose answers (TTL 0) a test
// sets and changes. A name that nothing was set for does not exist.
type NameServer struct {
	addr string

	mu      sync.Mutex
	answers map[string]*script[[]netip.Addr]
	other   *script[[]netip.Addr]
	asked   map[string]int
	total   int
}

// DNS starts a name server; it ends with the test.
func DNS(t testing.TB) *NameServer {
	t.Helper()
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("start a name server: %v", err)
	}
	n := &NameServer{addr: socket.LocalAddr().String(), answers: map[string]*script[[]netip.Addr]{}, asked: map[string]int{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		query := make([]byte, 1500)
		for {
			size, from, err := socket.ReadFrom(query)
			if err != nil {
				return // closed at the end of the test
			}
			if reply := n.reply(query[:size]); reply != nil {
				_, _ = socket.WriteTo(reply, from) // who asked may have left
			}
		}
	}()
	t.Cleanup(func() {
		if err := socket.Close(); err != nil {
			t.Errorf("stop the name server: %v", err)
		}
		<-done
	})
	return n
}

// Resolver asks this server alone, never the machine's.
func (n *NameServer) Resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var dialer net.Dialer
		return dialer.DialContext(ctx, "udp", n.addr)
	}}
}

// Set makes a name resolve to these addresses from now on; none: it does not exist.
// The name "*" is every name that has no answer of its own.
func (n *NameServer) Set(name string, addresses ...string) {
	n.scriptFor(name).set(parseAddrs(addresses))
}

// Next makes the next look-up of a name give these IPv4 addresses, once; calls add up.
// After them what was Set holds again: a name that rebinds.
func (n *NameServer) Next(name string, addresses ...string) {
	n.scriptFor(name).queue(parseAddrs(addresses))
}

// Lookups is how often a name was looked up (asked for its IPv4 addresses); "*": all names.
func (n *NameServer) Lookups(name string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if name == "*" {
		return n.total
	}
	return n.asked[dnsName(name)]
}

func dnsName(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

func parseAddrs(texts []string) []netip.Addr {
	addrs := make([]netip.Addr, len(texts))
	for i, text := range texts {
		addrs[i] = netip.MustParseAddr(text)
	}
	return addrs
}

func (n *NameServer) scriptFor(name string) *script[[]netip.Addr] {
	n.mu.Lock()
	defer n.mu.Unlock()
	name = dnsName(name)
	if name == "*" {
		if n.other == nil {
			n.other = &script[[]netip.Addr]{}
		}
		return n.other
	}
	if n.answers[name] == nil {
		n.answers[name] = &script[[]netip.Addr]{}
	}
	return n.answers[name]
}

// The types of a DNS question that are answered (RFC 1035 section 3.2.2, RFC 3596).
const (
	dnsA    = 1
	dnsAAAA = 28
)

// reply answers a query of one question (RFC 1035 section 4); nil to what is none.
func (n *NameServer) reply(query []byte) []byte {
	name, kind, end := question(query)
	if end == 0 {
		return nil
	}
	addresses := n.lookUp(name, kind)
	rcode := byte(0)
	if len(addresses) == 0 {
		rcode = 3 // no such name
	}
	var records []byte
	count := 0
	for _, a := range addresses {
		ip := a.AsSlice()
		if (kind == dnsA) != (len(ip) == 4) || kind != dnsA && kind != dnsAAAA {
			continue
		}
		count++
		records = append(records, 0xc0, 12, 0, byte(kind), 0, 1, 0, 0, 0, 0, 0, byte(len(ip)))
		records = append(records, ip...)
	}
	reply := []byte{query[0], query[1], 0x81, 0x80 | rcode, 0, 1, 0, byte(count), 0, 0, 0, 0}
	reply = append(reply, query[12:end]...)
	return append(reply, records...)
}

// question reads the name and type asked for; end is where the question ends, or 0.
func question(query []byte) (name string, kind uint16, end int) {
	var labels []string
	at := 12
	for at < len(query) && query[at] != 0 {
		next := at + 1 + int(query[at])
		if next >= len(query) {
			return "", 0, 0
		}
		labels = append(labels, string(query[at+1:next]))
		at = next
	}
	if at+5 > len(query) {
		return "", 0, 0
	}
	return strings.Join(labels, "."), uint16(query[at+1])<<8 | uint16(query[at+2]), at + 5
}

// lookUp returns all addresses of a name. The question for IPv4 takes what is next; the
// one for IPv6 gets what holds after it, so that a name of one kind needs one answer.
func (n *NameServer) lookUp(name string, kind uint16) []netip.Addr {
	name = dnsName(name)
	n.mu.Lock()
	answers := n.answers[name]
	if answers == nil {
		answers = n.other
	}
	if kind == dnsA {
		n.asked[name]++
		n.total++
	}
	n.mu.Unlock()
	switch {
	case answers == nil:
		return nil
	case kind == dnsA:
		return answers.take()
	}
	return answers.peek()
}

// peek is take that leaves what it returns.
func (s *script[T]) peek() T {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.next) == 0 {
		return s.lasting
	}
	return s.next[0]
}
