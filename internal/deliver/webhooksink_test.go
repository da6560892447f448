package deliver

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"vobo/internal/testkit"
)

// closedPort is an address at which nobody listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return l.Addr().String()
}

// sinkWant is the outcome of an attempt that may not be repeated, and of one that may.
type sinkWant struct {
	plain, idempotent Class
	answered, wentOut bool
}

type sinkCase struct {
	answer testkit.WebhookAnswer
	want   sinkWant
}

// sinkCases are the rows of "Outcome of an attempt".
func sinkCases() map[string]sinkCase {
	sure := func(c Class) sinkWant { return sinkWant{c, c, true, true} }
	unsure := sinkWant{Unknown, Retry, true, true}
	silent := sinkWant{Unknown, Retry, false, true}
	return map[string]sinkCase{
		"200":                 {testkit.AnswerJSON(200, "{}"), sure(Success)},
		"204":                 {testkit.AnswerStatus(204), sure(Success)},
		"299":                 {testkit.AnswerText(299, "fine"), sure(Success)},
		"10 MB":               {testkit.AnswerHuge(10 << 20), sure(Success)},
		"301":                 {testkit.AnswerRedirectWith(301, "http://127.0.0.1:1/"), sure(Permanent)},
		"302":                 {testkit.AnswerRedirectWith(302, "http://169.254.169.254/latest/meta-data"), sure(Permanent)},
		"304":                 {testkit.AnswerStatus(304), sure(Permanent)},
		"307":                 {testkit.AnswerRedirect("https://example.com/"), sure(Permanent)},
		"400":                 {testkit.AnswerStatus(400), sure(Permanent)},
		"401":                 {testkit.AnswerStatus(401), sure(Permanent)},
		"404":                 {testkit.AnswerStatus(404), sure(Permanent)},
		"408":                 {testkit.AnswerStatus(408), unsure},
		"409":                 {testkit.AnswerStatus(409), sure(Permanent)},
		"410":                 {testkit.AnswerStatus(410), sure(Permanent)},
		"422":                 {testkit.AnswerStatus(422), sure(Permanent)},
		"425":                 {testkit.AnswerStatus(425), sure(Retry)},
		"429":                 {testkit.AnswerRetryAfter(429, 3), sure(Retry)},
		"500":                 {testkit.AnswerStatus(500), unsure},
		"501":                 {testkit.AnswerStatus(501), unsure},
		"502":                 {testkit.AnswerStatus(502), unsure},
		"503":                 {testkit.AnswerRetryAfter(503, 3), sure(Retry)},
		"504":                 {testkit.AnswerStatus(504), unsure},
		"599":                 {testkit.AnswerRaw("HTTP/1.1 599 Odd\r\nContent-Length: 0\r\n\r\n"), unsure},
		"never":               {testkit.AnswerNever(), silent},
		"reset after reading": {testkit.AnswerReset(), silent},
		"close after reading": {testkit.AnswerClose(), silent},
		"garbage":             {testkit.AnswerRaw("SSH-2.0-OpenSSH\r\n"), silent},
		"half a status line":  {testkit.AnswerRaw("HTTP/1.1 20"), silent},
		"half a header":       {testkit.AnswerRaw("HTTP/1.1 200 OK\r\nContent-Le"), silent},
		"cut body of 200":     {testkit.AnswerCut(200, `{"a":`), silent},
		"cut body of 400":     {testkit.AnswerCut(400, `{"a":`), sure(Permanent)},
		"cut body of 500":     {testkit.AnswerCut(500, `{"a":`), unsure},
		"slowloris header":    {testkit.AnswerDripHeaders(5 * time.Millisecond), silent},
		"slowloris 200":       {testkit.AnswerDrip(5 * time.Millisecond), silent},
		"slowloris 410":       {testkit.AnswerDripWith(410, 5*time.Millisecond), sure(Permanent)},
		"slowloris 503":       {testkit.AnswerDripWith(503, 5*time.Millisecond), sure(Retry)},
	}
}

// guarantee R-20: the rows of "Outcome of an attempt" against a real receiver.
func TestAReceiversBehaviourDecidesTheOutcome(t *testing.T) {
	t.Parallel()
	for name, c := range sinkCases() {
		for _, idempotent := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, idempotent %v", name, idempotent), func(t *testing.T) {
				t.Parallel()
				receiver := testkit.Webhook(t)
				receiver.Answer(c.answer)
				s := newSender(t, WebhookConfig{Allow: []string{"127.0.0.1"}, limits: shortLimits})
				out := s.Send(t.Context(), hook(receiver.URL, idempotent))
				class := c.want.plain
				if idempotent {
					class = c.want.idempotent
				}
				if out.Class != class || out.Answered != c.want.answered || out.WentOut != c.want.wentOut {
					t.Errorf("%+v, want %s", out, class)
				}
				if n := len(receiver.Calls()); n != 1 {
					t.Errorf("%d calls for one attempt", n)
				}
			})
		}
	}
}

func TestAConnectionThatIsCutBeforeTheRequestLosesNothing(t *testing.T) {
	t.Parallel()
	s := newSender(t, WebhookConfig{Allow: []string{"127.0.0.1"}, limits: shortLimits})
	if out := s.Send(t.Context(), hook("http://"+closedPort(t), false)); out.Class != Retry || out.WentOut || !strings.Contains(out.Detail, "refused") {
		t.Errorf("refused: %+v", out)
	}
	receiver := testkit.Webhook(t)
	for name, cut := range map[string]func(){"reset": receiver.ResetConnections, "closed": receiver.CloseConnections} {
		cut()
		for _, idempotent := range []bool{false, true} {
			// The request may have been written into the cut connection: then nobody knows.
			out := s.Send(t.Context(), hook(receiver.URL, idempotent))
			if out.Answered || out.Class != Retry && (idempotent || !out.WentOut || out.Class != Unknown) {
				t.Errorf("%s, idempotent %v: %+v", name, idempotent, out)
			}
		}
	}
	receiver.TakeConnections()
	if out := s.Send(t.Context(), hook(receiver.URL, false)); out.Class != Success || len(receiver.Calls()) != 1 {
		t.Errorf("afterwards: %+v, %d calls", out, len(receiver.Calls()))
	}
}

// field report B30: every form of Retry-After, by way of a real receiver.
func TestRetryAfterIsAMinimumAndOddFormsCountForNothing(t *testing.T) {
	t.Parallel()
	receiver := testkit.Webhook(t)
	s := localSender(t)
	forms := testkit.RetryAfterForms(attemptTime, MaxRetryAfter)
	for _, form := range forms {
		for _, status := range []int{429, 503} {
			receiver.Answer(testkit.AnswerRetryAfterText(status, form.Values...))
			out := s.Send(t.Context(), hook(receiver.URL, false))
			if out.Class != Retry || out.RetryAfter != form.Wait {
				t.Errorf("%d %q: %+v, want %s", status, form.Values, out, form.Wait)
			}
			for _, jitter := range []float64{0, 0.5, 1} {
				if wait := Backoff(1, 5*time.Second, 6*time.Hour, jitter, out.RetryAfter); wait < form.Wait || wait > MaxRetryAfter {
					t.Errorf("%q with jitter %v waits %s", form.Values, jitter, wait)
				}
			}
		}
	}
	t.Logf("%d forms", len(forms))
}

// field report B31: 20 deliveries to each receiver that hurts and 20 to healthy ones.
func TestReceiversThatHurtHoldUpNobody(t *testing.T) {
	t.Parallel()
	inner, healthy := testkit.Webhook(t), testkit.Webhook(t)
	names := testkit.DNS(t)
	names.Set("private.test", "10.0.0.1", "192.168.0.1")
	urls := map[string]string{"private name": "https://private.test/"}
	for name, answer := range map[string]testkit.WebhookAnswer{
		"1 GB": testkit.AnswerHuge(1 << 30), "drips": testkit.AnswerDrip(10 * time.Millisecond), "never": testkit.AnswerNever(),
		"to metadata": testkit.AnswerRedirectWith(302, "http://169.254.169.254/"), "to loopback": testkit.AnswerRedirectWith(302, inner.URL), "keeps the method": testkit.AnswerRedirectWith(308, inner.URL),
	} {
		receiver := testkit.Webhook(t)
		receiver.Answer(answer)
		urls[name] = receiver.URL
	}
	var forbidden atomic.Int64
	limits := phaseLimits{dial: 3 * time.Second, handshake: 3 * time.Second, write: 3 * time.Second, header: 3 * time.Second, body: 3 * time.Second, total: 8 * time.Second}
	s := newSender(t, WebhookConfig{Allow: []string{"127.0.0.1"}, Resolver: names.Resolver(), limits: limits, onConnect: countForbidden(&forbidden, "127.0.0.1")})
	var bad sync.WaitGroup
	for name, url := range urls {
		for range 20 {
			bad.Go(func() {
				out := s.Send(t.Context(), hook(url, true))
				if want := map[string]Class{"1 GB": Success, "drips": Retry, "never": Retry}[name]; out.Class != want && (want != "" || out.Class != Permanent) {
					t.Errorf("%s: %+v", name, out)
				}
			})
		}
	}
	for range 20 {
		if out := s.Send(t.Context(), hook(healthy.URL, true)); out.Class != Success {
			t.Errorf("healthy: %+v", out)
		}
	}
	bad.Wait()
	if len(healthy.Calls()) != 20 || len(inner.Calls()) != 0 || inner.Connections() != 0 || forbidden.Load() != 0 {
		t.Errorf("%d healthy calls, %d inner ones, %d forbidden connects", len(healthy.Calls()), len(inner.Calls()), forbidden.Load())
	}
}

// mtlsClient reads what a receiver of testkit.WebhookMTLS accepts.
func mtlsClient(t *testing.T, receiver *testkit.WebhookReceiver, id string) *ClientTLS {
	t.Helper()
	certificate, err := tls.LoadX509KeyPair(receiver.ClientCert())
	if err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(receiver.CertFile())
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	return &ClientTLS{Certificate: &certificate, RootCAs: pool, ID: id}
}

func TestAClientCertificateProvesWhoCalls(t *testing.T) {
	t.Parallel()
	receiver, other := testkit.WebhookMTLS(t), testkit.WebhookMTLS(t)
	s := localSender(t)
	send := func(client *ClientTLS, idempotent bool) Outcome {
		r := hook(receiver.URL, idempotent)
		r.Client = client
		return s.Send(t.Context(), r)
	}
	right := mtlsClient(t, receiver, "right")
	for range 3 {
		for _, idempotent := range []bool{false, true} {
			if out := send(right, idempotent); out.Class != Success {
				t.Errorf("with the right certificate: %+v", out)
			}
		}
	}
	// An identity without an ID, too, is used for its own request alone.
	for name, client := range map[string]*ClientTLS{
		"none": nil, "no certificate": {RootCAs: right.RootCAs, ID: "roots"}, "another's roots": mtlsClient(t, other, "other"), "another's certificate": {Certificate: mtlsClient(t, other, "").Certificate, RootCAs: right.RootCAs},
	} {
		if out := send(client, true); out.Class == Success || out.Answered {
			t.Errorf("%s: %+v", name, out)
		}
	}
	if out := send(&ClientTLS{Certificate: right.Certificate, RootCAs: right.RootCAs}, true); out.Class != Success {
		t.Errorf("without an ID: %+v", out)
	}
	calls := receiver.Calls()
	if len(calls) != 7 || slices.ContainsFunc(calls, func(c testkit.WebhookCall) bool { return c.Client != "vobo" }) {
		t.Errorf("%d calls: %+v", len(calls), calls)
	}
	if n := receiver.Connections(); n > 12 {
		t.Errorf("%d connections: those of idempotent calls are not kept", n)
	}
}

func TestTheIdentitiesWhoseConnectionsAreKeptAreBounded(t *testing.T) {
	t.Parallel()
	receiver := testkit.WebhookMTLS(t)
	s := localSender(t)
	identity := mtlsClient(t, receiver, "")
	for n := range 3 * maxClients {
		client := *identity
		client.ID = fmt.Sprint("id", n)
		r := hook(receiver.URL, true)
		r.Client = &client
		if out := s.Send(t.Context(), r); out.Class != Success {
			t.Fatalf("%+v", out)
		}
	}
	s.transports.mu.Lock()
	defer s.transports.mu.Unlock()
	if n := len(s.transports.clients); n != maxClients || s.transports.clients[n-1].id != fmt.Sprint("id", 3*maxClients-1) {
		t.Errorf("%d identities are kept", n)
	}
}

func TestAnAnswerIsKeptReadableAndWithoutTheSecretsOfTheRequest(t *testing.T) {
	t.Parallel()
	const token, key, pair = "s3cr3t/Bearer+Token==", "api-key-0123456789", "dXNlcjpwYXNzd29yZC14eXo=" // user:password-xyz
	link := "https://vobo.example/a/eyJhbGciOiJIUzI1NiJ9.eyJqdGkiOiJ4In0xyz.c2lnbmF0dXJlLXNpZ25hdHVyZQ"
	echo := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(map[string]int{"/ok": 200, "/bad": 400, "/down": 500}[r.URL.Path])
		fmt.Fprintf(w, "You said %q\n%v\n\x1b[31mred\x00\u202e end. password-xyz %s %s", r.Header, r.URL.Query(), strings.ReplaceAll(token, "/", `\/`), link)
	})
	s := localSender(t)
	for _, path := range []string{"/ok", "/bad", "/down"} {
		r := hook(echo.URL+path+"?sig=query-secret-1", true)
		r.Headers = [][2]string{{"Authorization", "Bearer " + token}, {"X-Api-Key", key}, {"X-Other", "Basic " + pair}, {"webhook-signature", "v1,AAAABBBBCCCC="}}
		out := s.Send(t.Context(), r)
		for _, secret := range []string{token, `s3cr3t\/`, key, pair, "password-xyz", "query-secret-1", "AAAABBBBCCCC", "eyJqdGkiOiJ4In0xyz", "\x1b", "\x00", "\u202e"} {
			if strings.Contains(out.Answer, secret) || strings.Contains(out.Detail, secret) {
				t.Errorf("%s: %q is shown in %q %q", path, secret, out.Answer, out.Detail)
			}
		}
		if !strings.Contains(out.Answer, "You said") || !strings.Contains(out.Answer, masked) || !strings.Contains(out.Answer, "end.") || !strings.Contains(out.Answer, "\n") {
			t.Errorf("%s: the answer is not kept: %q", path, out.Answer)
		}
	}
}

func TestTheAnswerThatIsKeptIsShortAndWholeRunes(t *testing.T) {
	t.Parallel()
	secrets := []string{strings.Repeat("k", 5000), "secret-word"}
	for name, c := range map[string]struct {
		raw   string
		whole bool
	}{
		"short": {"fine", true}, "empty": {"", true}, "long": {strings.Repeat("é", 10_000), true}, "binary": {string([]byte{0, 1, 0xff, 0xfe, 'a'}), true},
		"cut secret": {strings.Repeat(secrets[0], 20)[:MaxAnswer+1], false}, "cut word": {"x secret-wor", false}, "cut token": {"see eyJhbGciOiJIUzI1NiJ9.eyJqdGki", false},
	} {
		got := answerText([]byte(c.raw), c.whole, secrets)
		if len(got) > maxAnswerText || !strings.EqualFold(got, strings.ToValidUTF8(got, "?")) || strings.Contains(got, "kkkk") || strings.Contains(got, "secret-wor") || strings.Contains(got, "eyJ") {
			t.Errorf("%s: %d bytes, %.60q", name, len(got), got)
		}
	}
	if got := answerText([]byte(strings.Repeat("é", 10_000)), true, nil); len(got) < maxAnswerText-8 || !strings.HasSuffix(got, "é…") {
		t.Errorf("%d bytes, ends %q", len(got), got[len(got)-8:])
	}
}
