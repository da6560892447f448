package deliver

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"vobo/internal/testkit"
)

// A receiver that sends everything back gives no secret to those who read the result:
// credentials, signatures and one-time tokens are masked, in whatever spelling; the
// definition's own headers, query and numbers stay as they are.
func TestAResultHoldsNoSecretOfItsRequest(t *testing.T) {
	t.Parallel()
	const token = "eyJhbGciOiJIUzI1NiJ9.eyJqdGkiOiJvbmNlIn0.c2lnbmF0dXJlLW9mLWEtdG9rZW4"
	receiver := testkit.Webhook(t)
	receiver.Answer(func(w http.ResponseWriter, r *http.Request, call testkit.WebhookCall) {
		w.Header().Set("Content-Type", "application/json")
		secret := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		said, err := json.Marshal(map[string]any{
			"headers": r.Header, "body": string(call.Body), "query": r.URL.RawQuery, secret: "as a name",
			"spelt": []string{strings.ToLower(secret), base64.StdEncoding.EncodeToString([]byte(secret)), "Bearer of news"},
			"big":   json.Number("616581622363398142.10"),
		})
		if err != nil {
			t.Error(err)
		}
		_, _ = io.WriteString(w, strings.ReplaceAll(string(said), "S", `\u0053`))
	})
	out := newSender(t, WebhookConfig{Allow: []string{"127.0.0.1"}}).Send(context.Background(), WebhookRequest{
		ID: "effect/1", Attempt: 1, URL: receiver.URL + "/echo?tenant=acme-production", Idempotent: true, Timestamp: time.Unix(1_800_000_000, 0),
		Headers: [][2]string{{"Authorization", "Bearer SECRETBEARER12345"}, {"X-Order", "order-4711-A"}, {"webhook-signature", "v1,c2lnbmVkLXdpdGgtYS1rZXk="}},
		Secret:  []string{"Authorization"}, Body: []byte(`{"notify":"https://vobo.example/v1/callbacks/` + token + `"}`),
	})
	if out.Class != Success || out.Body == nil {
		t.Fatalf("%+v", out)
	}
	got := strings.ReplaceAll(string(out.Body), `\u0053`, "S")
	for _, secret := range []string{"SECRETBEARER12345", "secretbearer12345", "U0VDUkVUQkVBUkVSMTIzNDU", "c2lnbmVkLXdpdGgtYS1rZXk=", token} {
		if strings.Contains(got, secret) {
			t.Errorf("the result holds %s: %s", secret, got)
		}
	}
	for _, kept := range []string{"order-4711-A", "acme-production", "Bearer of news", "616581622363398142.10"} {
		if !strings.Contains(got, kept) {
			t.Errorf("the result lost %s: %s", kept, got)
		}
	}
}

func TestAResultWithoutASecretStaysAsItCame(t *testing.T) {
	t.Parallel()
	body := []byte("{ \"a\" : 1.0, \"b\":\"\\u00e9 & <x>\" }")
	if got := maskedJSON(body, []string{"secret-value"}); string(got) != string(body) {
		t.Errorf("%s became %s", body, got)
	}
}
