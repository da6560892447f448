package deliver

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"vobo/internal/fault"
)

// fakeDNS answers A queries by answer (AAAA: none); no address is "no such name".
func fakeDNS(t *testing.T, answer func(name string) []netip.Addr) *net.Resolver {
	t.Helper()
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buffer := make([]byte, 1500)
		for {
			n, from, err := server.ReadFrom(buffer)
			if err != nil {
				return
			}
			if _, err := server.WriteTo(dnsReply(buffer[:n], answer), from); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", server.LocalAddr().String())
	}}
}

// dnsReply writes an answer with TTL 0 to a query of one question (RFC 1035 section 4).
func dnsReply(query []byte, answer func(string) []netip.Addr) []byte {
	var labels []string
	at := 12
	for query[at] != 0 {
		size := int(query[at])
		labels = append(labels, string(query[at+1:at+1+size]))
		at += 1 + size
	}
	kind := binary.BigEndian.Uint16(query[at+1:])
	question := query[12 : at+5]
	var addresses []netip.Addr
	if answer != nil {
		addresses = answer(strings.Join(labels, "."))
	}
	rcode := byte(3)
	if len(addresses) > 0 {
		rcode = 0
	}
	if kind != 1 {
		addresses = nil
	}
	reply := []byte{query[0], query[1], 0x81, 0x80 | rcode, 0, 1, 0, byte(len(addresses)), 0, 0, 0, 0}
	reply = append(reply, question...)
	for _, a := range addresses {
		ip := a.As4()
		reply = append(reply, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
		reply = append(reply, ip[:]...)
	}
	return reply
}

func TestOnlyThePublicInternetIsPublic(t *testing.T) {
	t.Parallel()
	for _, a := range []string{"1.1.1.1", "8.8.8.8", "93.184.215.14", "172.15.255.255", "172.32.0.0", "100.63.255.255", "100.128.0.0", "223.255.255.255", "2606:4700::1111", "2a00:1450:4001::1"} {
		if !IsPublic(netip.MustParseAddr(a)) {
			t.Errorf("%s is refused", a)
		}
	}
	for _, a := range []string{
		"0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.255.254", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.8", "192.0.2.1", "192.88.99.1",
		"192.168.1.1", "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
		"::", "::1", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b:1::1", "2002:7f00:1::", "2002:a00:1::1", "2001::1", "2001:0:7f00:1::", "2001:db8::1", "2001:10::1", "2001:20::1", "3fff::1",
		"fc00::1", "fd00:ec2::254", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1", "100::1", "5f00::1", "4000::1", "2606:4700::1%eth0",
	} {
		if IsPublic(netip.MustParseAddr(a)) {
			t.Errorf("%s passes for public", a)
		}
	}
	if IsPublic(netip.Addr{}) {
		t.Error("no address passes for public")
	}
}

// forbiddenURLs are S-20's forms: none may lead to a connect.
func forbiddenURLs(port string) []string {
	hosts := []string{
		"127.0.0.1", "127.1", "127.0.1", "127.255.255.254", "2130706433", "017700000001", "0177.0.0.1", "0177.0.0.01", "0x7f000001", "0x7f.0.0.1", "0x7f.1", "0X7F.1", "127.0.0.0x1", "127.0x1", "1.0x7f", "127.0.0.1.", "127.0.0.1..", "127.00.00.01", "0127.0.0.1", "٠.٠.٠.٠", "①②⑦.⓪.⓪.①",
		"0", "0.0.0.0", "0x0", "00", "000.000.000.000", "10.0.0.1", "10.1", "167772161", "100.64.0.1", "169.254.169.254", "2852039166", "0xa9fea9fe", "169.254.43518", "0251.0376.0251.0376", "172.16.0.1", "172.31.0.1", "192.168.0.1", "192.168.257", "192.0.2.1", "198.18.0.1", "203.0.113.9", "224.0.0.1", "240.0.0.1", "255.255.255.255",
		"[::]", "[::1]", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[64:ff9b::7f00:1]", "[64:ff9b::127.0.0.1]", "[64:ff9b:1::1]", "[2002:7f00:1::]", "[2001:0:7f00:1::]", "[fe80::1]", "[fe80::1%25eth0]", "[fe80::1%eth0]", "[::1%25lo]", "[fd00:ec2::254]", "[fc00::1]", "[ff02::1]", "[2001:db8::1]",
		"localhost", "LOCALHOST", "localhost.", "local.test", "metadata.google.internal", "a.test", "A.TEST", "xn--a.test", "127。0。0。1", "127．0．0．1", "ⓛocalhost", "loc\u00adalhost", "loc%61lhost", "127.0.0.1%00.ok.test", "127.0.0.1%2f", "ok.test%2e", "-a.test", "a-.test", "a..test", ".test", "a b.test", "a_b.1", "ok.test\\@127.0.0.1", "ok.test\t", strings.Repeat("a", 64) + ".test", strings.Repeat("a.", 130) + "test",
	}
	var urls []string
	for _, h := range hosts {
		urls = append(urls, "https://"+h+":"+port+"/x", "http://"+h+":"+port+"/x", "https://"+h+"/")
	}
	return append(urls,
		"https://ok.test@127.0.0.1:"+port+"/", "https://127.0.0.1:"+port+"#@ok.test/", "https://ok.test:443@127.0.0.1:"+port+"/", "https://127.0.0.1:"+port+"?@ok.test/", "https://user:pass@ok.test/", "https://@ok.test/", "https://ok.test#x", "https://ok.test/#",
		"https:127.0.0.1", "https:/127.0.0.1", "https:///127.0.0.1", "//127.0.0.1", "/\\127.0.0.1", "\\\\127.0.0.1", "https:\\\\127.0.0.1", "https://127.0.0.1:"+port+"\\@ok.test", "http://ok.test/", "HTTP://ok.test/", "https:evil", "127.0.0.1:"+port, "ok.test", "",
		"file:///etc/passwd", "gopher://127.0.0.1:"+port+"/_x", "ftp://127.0.0.1/", "unix:///var/run/docker.sock", "http+unix://%2Fvar%2Frun%2Fdocker.sock/x", "dict://127.0.0.1:11211/", "ldap://127.0.0.1/", "jar:https://ok.test!/", "data:text/plain,x", "javascript:alert(1)", "ws://127.0.0.1/",
		"https://ok.test:22/", "https://ok.test:25/", "https://ok.test:80/", "https://ok.test:5432/", "https://ok.test:6379/", "https://ok.test:11211/", "https://ok.test:2375/", "https://ok.test:0/", "https://ok.test:65536/", "https://ok.test:-1/", "https://ok.test:/", "https://ok.test:443443/", "https://ok.test:0443/", "https://ok.test: 443/", "https://ok.test:4 43/", "https://[::1", "https://::1/", "https://[127.0.0.1]:"+port+"/", "https://[ok.test]/",
		"https://ok.test/\r\nHost: x", "https://ok.test/ x", "https://ok.test/\x00", "https://ok.test/ü", "https://ok.test/\u2028", " https://ok.test/", "https://ok.test/"+strings.Repeat("a", MaxURLLength),
	)
}

// guarantees D8, S-20: a form is refused by the check of the URL or at dial; nothing connects.
func TestNoFormOfAURLReachesThisMachine(t *testing.T) {
	t.Parallel()
	var connects atomic.Int64
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			connects.Add(1)
			_ = c.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s := newSender(t, WebhookConfig{resolver: fakeDNS(t, func(string) []netip.Addr { return []netip.Addr{netip.MustParseAddr("127.0.0.1")} }), limits: shortLimits})
	urls := forbiddenURLs(port)
	for _, u := range urls {
		if out := s.Send(t.Context(), hook(u, true)); out.Class != Permanent || out.WentOut || strings.Contains(out.Detail, "127.0.0.1") && !strings.Contains(u, "127.0.0.1") {
			t.Errorf("%.120q: %+v", u, out)
		}
	}
	if n := connects.Load(); n != 0 {
		t.Errorf("%d connects", n)
	}
	t.Logf("0 connects by %d forms", len(urls))
}

func TestPublicURLsPassTheCheckOfTheirForm(t *testing.T) {
	t.Parallel()
	s := newSender(t, WebhookConfig{})
	for _, u := range []string{"https://example.com", "https://example.com/a/b?c=d&e=%2F", "HTTPS://Example.COM:8443/", "https://1.1.1.1/", "https://[2606:4700::1111]/x", "https://xn--bcher-kva.example/", "https://a_b.example.com/", "https://3com.com/"} {
		if err := s.CheckURL(u); err != nil {
			t.Errorf("%s: %v", u, err)
		}
	}
}

// guarantees D8, S-20: a name that was public when it was looked at is checked again, by its
// address, at every connect.
func TestARebindingNameNeverLeadsToAConnect(t *testing.T) {
	t.Parallel()
	server := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the inner service was reached") })
	_, port, err := net.SplitHostPort(strings.TrimPrefix(server.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	var queries atomic.Int64
	inner, mixed := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("10.0.0.1")
	s := newSender(t, WebhookConfig{limits: shortLimits, resolver: fakeDNS(t, func(name string) []netip.Addr {
		queries.Add(1)
		if strings.HasPrefix(name, "mixed") {
			return []netip.Addr{mixed, inner, netip.MustParseAddr("169.254.169.254")}
		}
		return []netip.Addr{inner}
	})})
	const tries = 500
	for n := range tries {
		name := []string{"rebind", "mixed"}[n%2]
		u := fmt.Sprintf("https://%s%d.test:%s/", name, n, port)
		if err := s.CheckURL(u); err != nil {
			t.Fatalf("the form of %s is refused: the guard at dial is not tested: %v", u, err)
		}
		if out := s.Send(t.Context(), hook(u, true)); out.Class != Permanent || out.WentOut || !strings.Contains(out.Detail, "may not reach") {
			t.Errorf("%+v", out)
		}
	}
	if queries.Load() < tries {
		t.Errorf("%d queries: the resolver was not asked each time", queries.Load())
	}
	t.Logf("0 connects in %d tries", tries)
}

func TestWhatIsAllowedIsReachedAndNothingBeside(t *testing.T) {
	t.Parallel()
	server := serve(t, func(http.ResponseWriter, *http.Request) {})
	_, port, err := net.SplitHostPort(strings.TrimPrefix(server.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	resolver := fakeDNS(t, func(name string) []netip.Addr {
		if name == "elsewhere.test" {
			return []netip.Addr{netip.MustParseAddr("127.0.0.2")}
		}
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}
	})
	for _, c := range []struct {
		allow, host string
		ok          bool
	}{
		{"127.0.0.1", "127.0.0.1", true},
		{"127.0.0.0/8", "127.0.0.1", true},
		{"127.0.0.0/8", "receiver.test", true},
		{"10.0.0.0/8", "receiver.test", false},
		{"127.0.0.1", "receiver.test", true},
		{"127.0.0.2/32", "receiver.test", false},
		{"receiver.test", "receiver.test", true},
		{"Receiver.TEST", "rEceiver.test", true},
		{"receiver.test:" + port, "receiver.test", true},
		{"receiver.test:1", "receiver.test", false},
		{"receiver.test", "other.test", false},
		{"test", "receiver.test", false},
		{"receiver.test", "127.0.0.1", false},
		{"127.0.0.1", "elsewhere.test", false},
		{"", "127.0.0.1", false},
	} {
		s := newSender(t, WebhookConfig{Allow: []string{c.allow}, resolver: resolver, limits: shortLimits})
		out := s.Send(t.Context(), hook("http://"+c.host+":"+port+"/", true))
		if ok := out.Class == Success; ok != c.ok || !ok && out.Class != Permanent {
			t.Errorf("allow %q, host %s: %+v", c.allow, c.host, out)
		}
	}
	for _, bad := range []string{"http://x", "a b", "10.0.0.0/99", "x:0", "x:99999", "x:", "*", "*.example.com", "127.1", "0x7f.1", "-a", "::ffff:10.0.0.0/104", "fe80::1%eth0"} {
		if _, err := NewWebhookSender(WebhookConfig{Allow: []string{bad}}); fault.CodeOf(err) != fault.InvalidInput {
			t.Errorf("allow %q: %v", bad, err)
		}
	}
}

// guarantees D8, S-20: no proxy of the environment is used.
func TestProxySettingsOfTheEnvironmentAreIgnored(t *testing.T) {
	proxy := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the proxy was used") })
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		t.Setenv(name, proxy.URL)
	}
	t.Setenv("NO_PROXY", "")
	if os.Getenv("HTTP_PROXY") == "" {
		t.Fatal("the environment has no proxy")
	}
	s := newSender(t, WebhookConfig{Allow: []string{"receiver.test"}, resolver: fakeDNS(t, nil), limits: shortLimits})
	if out := s.Send(t.Context(), hook("http://receiver.test/", true)); out.Class != Retry || out.WentOut {
		t.Errorf("%+v", out)
	}
}

func FuzzSSRFHost(f *testing.F) {
	s, err := NewWebhookSender(WebhookConfig{})
	if err != nil {
		f.Fatal(err)
	}
	for _, u := range forbiddenURLs("9") {
		f.Add(u)
	}
	f.Fuzz(func(t *testing.T, u string) {
		target, err := s.parseTarget(u)
		if err != nil {
			return
		}
		if a, err := netip.ParseAddr(target.host); err == nil && !IsPublic(a) {
			t.Fatalf("%q leads to %s", u, a)
		}
		if target.url.Scheme != "https" || target.url.User != nil {
			t.Fatalf("%q passes", u)
		}
	})
}
