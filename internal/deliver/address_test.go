package deliver

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"vobo/internal/fault"
	"vobo/internal/testkit"
)

// countForbidden counts connects that were not refused although they are not public,
// but for those to the addresses in except. Connects to public addresses are prevented:
// a test leaves the machine alone.
func countForbidden(forbidden *atomic.Int64, except ...string) func(netip.AddrPort) error {
	return func(to netip.AddrPort) error {
		if slices.Contains(except, to.Addr().String()) {
			return nil
		}
		if IsPublic(to.Addr()) {
			return syscall.ECONNREFUSED
		}
		forbidden.Add(1)
		return nil
	}
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
	inner, names := testkit.Webhook(t), testkit.DNS(t)
	names.Set("*", "127.0.0.1")
	port := inner.URL[strings.LastIndex(inner.URL, ":")+1:]
	var forbidden atomic.Int64
	s := newSender(t, WebhookConfig{Resolver: names.Resolver(), limits: shortLimits, onConnect: countForbidden(&forbidden)})
	urls := forbiddenURLs(port)
	for _, u := range urls {
		out := s.Send(t.Context(), hook(u, true))
		if out.Class != Permanent || out.WentOut || out.Answer != "" || strings.Contains(out.Detail, "127.0.0.1") && !strings.Contains(u, "127.0.0.1") {
			t.Errorf("%.120q: %+v", u, out)
		}
	}
	if inner.Connections() != 0 || forbidden.Load() != 0 || len(urls) < 120 {
		t.Errorf("%d connections, %d forbidden connects by %d forms", inner.Connections(), forbidden.Load(), len(urls))
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

// guarantees D8, S-20: a name that flips from a public address to an inner one between
// the check and the dial, or has both, is checked by its address at every connect.
func TestARebindingNameNeverLeadsToAConnect(t *testing.T) {
	t.Parallel()
	inner, names := testkit.Webhook(t), testkit.DNS(t)
	port := inner.URL[strings.LastIndex(inner.URL, ":")+1:]
	const public = "93.184.215.14"
	names.Set("rebind.test", "127.0.0.1")
	names.Set("mixed.test", public, "127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "64:ff9b::7f00:1", "2002:7f00:1::", "fd00::1", "::ffff:127.0.0.1")
	names.Set("inner.test", "10.0.0.1", "127.0.0.1", "100.64.0.1", "0.0.0.0")
	names.Set("six.test", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1")
	var forbidden atomic.Int64
	s := newSender(t, WebhookConfig{Resolver: names.Resolver(), limits: shortLimits, onConnect: countForbidden(&forbidden)})
	const tries = 1000
	for n := range tries {
		name := [...]string{"rebind.test", "rebind.test", "mixed.test", "inner.test", "six.test"}[n%5]
		if n%5 == 0 {
			names.Next(name, public) // the next attempt finds 127.0.0.1
		}
		u := fmt.Sprintf("https://%s:%s/%d", name, port, n)
		if err := s.CheckURL(u); err != nil {
			t.Fatalf("the form of %s is refused: the guard at dial is not tested: %v", u, err)
		}
		out := s.Send(t.Context(), hook(u, n%2 == 0))
		if out.WentOut || out.Answered || out.Class != Permanent && out.Class != Retry {
			t.Fatalf("%s: %+v", u, out)
		}
		if n%5 == 1 && (out.Class != Permanent || !strings.Contains(out.Detail, "may not reach")) {
			t.Fatalf("%s after the flip: %+v", u, out)
		}
	}
	if inner.Connections() != 0 || forbidden.Load() != 0 {
		t.Errorf("%d connections, %d forbidden connects", inner.Connections(), forbidden.Load())
	}
	if n := names.Lookups("*"); n < tries {
		t.Errorf("%d look-ups: the resolver was not asked each time", n)
	}
	t.Logf("0 connects in %d tries", tries)
}

// guarantee S-20: a redirect leads nowhere, and what a receiver says is told to nobody
// but operators.
func TestARedirectToAnInnerAddressIsAFailure(t *testing.T) {
	t.Parallel()
	receiver, inner := testkit.Webhook(t), testkit.Webhook(t)
	s := localSender(t)
	for _, to := range []string{inner.URL, strings.TrimPrefix(inner.URL, "http:"), "/again", "//169.254.169.254/", "http://[::1]/", "file:///etc/passwd", "gopher://127.0.0.1/", "javascript:x", ""} {
		for _, status := range []int{300, 301, 302, 303, 305, 307, 308} {
			receiver.Answer(testkit.AnswerRedirectWith(status, to))
			if out := s.Send(t.Context(), hook(receiver.URL, true)); out.Class != Permanent || out.Status != status || to != "" && strings.Contains(out.Detail, to) {
				t.Errorf("%d to %q: %+v", status, to, out)
			}
		}
	}
	if calls := len(receiver.Calls()); calls != 63 || inner.Connections() != 0 {
		t.Errorf("%d calls, want 63; %d connections to the inner service", calls, inner.Connections())
	}
}

func TestWhatIsAllowedIsReachedAndNothingBeside(t *testing.T) {
	t.Parallel()
	server := serve(t, func(http.ResponseWriter, *http.Request) {})
	_, port, err := net.SplitHostPort(strings.TrimPrefix(server.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	names := testkit.DNS(t)
	names.Set("*", "127.0.0.1")
	names.Set("elsewhere.test", "127.0.0.2")
	resolver := names.Resolver()
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
		s := newSender(t, WebhookConfig{Allow: []string{c.allow}, Resolver: resolver, limits: shortLimits})
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
	s := newSender(t, WebhookConfig{Allow: []string{"receiver.test"}, Resolver: testkit.DNS(t).Resolver(), limits: shortLimits})
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
