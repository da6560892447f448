package testkit

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"
)

func TestAReceiverCutsAndResetsWhereItIsTold(t *testing.T) {
	t.Parallel()
	receiver := Webhook(t)
	post := func() (int, error) {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		answer, err := client.Post(receiver.URL, "application/json", bytes.NewReader([]byte("{}")))
		if err != nil {
			return 0, err
		}
		_, err = io.Copy(io.Discard, answer.Body)
		return answer.StatusCode, errors.Join(err, answer.Body.Close())
	}
	for name, c := range map[string]struct {
		answer WebhookAnswer
		status int
		broken bool
	}{
		"close":   {AnswerClose(), 0, true},
		"cut":     {AnswerCut(200, "{"), 200, true},
		"raw":     {AnswerRaw("HTTP/1.1 599 Odd\r\nContent-Length: 0\r\n\r\n"), 599, false},
		"garbage": {AnswerRaw("SSH-2.0-x\r\n"), 0, true},
		"text":    {AnswerText(500, "no"), 500, false},
		"302":     {AnswerRedirectWith(399, "x"), 399, false},
	} {
		receiver.Answer(c.answer)
		if status, err := post(); status != c.status || (err != nil) != c.broken {
			t.Errorf("%s: %d, %v", name, status, err)
		}
	}
	calls := len(receiver.Calls())
	receiver.ResetConnections()
	if status, err := post(); err == nil {
		t.Errorf("a reset connection answers %d", status)
	}
	receiver.CloseConnections()
	if status, err := post(); err == nil {
		t.Errorf("a closed connection answers %d", status)
	}
	if n := len(receiver.Calls()); n != calls || receiver.Connections() < 8 {
		t.Errorf("%d calls, want %d; %d connections", n, calls, receiver.Connections())
	}
	receiver.TakeConnections()
	receiver.Answer(AnswerStatus(http.StatusNoContent))
	if status, err := post(); status != http.StatusNoContent {
		t.Errorf("afterwards: %d, %v", status, err)
	}
}

func TestRetryAfterFormsArriveAsWritten(t *testing.T) {
	t.Parallel()
	receiver := Webhook(t)
	for _, form := range RetryAfterForms(time.Date(2026, 12, 3, 10, 0, 0, 0, time.UTC), 24*time.Hour) {
		receiver.Answer(AnswerRetryAfterText(429, form.Values...))
		answer, err := http.Get(receiver.URL)
		if err != nil {
			t.Fatal(err)
		}
		if err := answer.Body.Close(); err != nil {
			t.Fatal(err)
		}
		if got := answer.Header.Values("Retry-After"); len(got) != len(form.Values) {
			t.Errorf("%q arrives as %q", form.Values, got)
		}
	}
}

func TestAReceiverWithClientCertificatesNamesWhoCalled(t *testing.T) {
	t.Parallel()
	receiver := WebhookMTLS(t)
	pool := x509.NewCertPool()
	ca, err := os.ReadFile(receiver.CertFile())
	if err != nil || !pool.AppendCertsFromPEM(ca) {
		t.Fatalf("no authority: %v", err)
	}
	certificate, err := tls.LoadX509KeyPair(receiver.ClientCert())
	if err != nil {
		t.Fatal(err)
	}
	get := func(certificates ...tls.Certificate) error {
		transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: certificates, MinVersion: tls.VersionTLS12}}
		answer, err := (&http.Client{Transport: transport}).Get(receiver.URL)
		if err != nil {
			return err
		}
		return answer.Body.Close()
	}
	if err := get(); err == nil {
		t.Error("a caller without a certificate was served")
	}
	if err := get(certificate); err != nil {
		t.Fatal(err)
	}
	if calls := receiver.Calls(); len(calls) != 1 || calls[0].Client != "vobo" {
		t.Errorf("calls %+v", calls)
	}
}

func TestANameServerChangesItsAnswer(t *testing.T) {
	t.Parallel()
	names := DNS(t)
	names.Set("rebind.test", "127.0.0.1")
	names.Next("Rebind.TEST.", "93.184.215.14")
	names.Next("rebind.test", "10.0.0.1", "127.0.0.1")
	names.Set("six.test", "2001:db8::1", "192.0.2.1")
	lookUp := func(name string) []string {
		found, err := names.Resolver().LookupHost(t.Context(), name)
		if err != nil {
			return nil
		}
		slices.Sort(found)
		return found
	}
	for i, want := range [][]string{{"93.184.215.14"}, {"10.0.0.1", "127.0.0.1"}, {"127.0.0.1"}, {"127.0.0.1"}} {
		if got := lookUp("rebind.test"); !slices.Equal(got, want) {
			t.Errorf("look-up %d: %v, want %v", i, got, want)
		}
	}
	if got := lookUp("six.test"); !slices.Equal(got, []string{"192.0.2.1", "2001:db8::1"}) {
		t.Errorf("six.test is %v", got)
	}
	if got := lookUp("other.test"); got != nil {
		t.Errorf("a name that is not set is %v", got)
	}
	names.Set("*", "192.0.2.9")
	if got := lookUp("other.test"); !slices.Equal(got, []string{"192.0.2.9"}) || names.Lookups("rebind.test") != 4 {
		t.Errorf("other.test is %v; %d look-ups of rebind.test", got, names.Lookups("rebind.test"))
	}
}
