package deliver

import (
	"bytes"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"vobo/internal/testkit"
)

func TestAFetchGetsWhatIsThereUpToALimit(t *testing.T) {
	t.Parallel()
	receiver, inner := testkit.Webhook(t), testkit.Webhook(t)
	s := newSender(t, WebhookConfig{Allow: []string{"127.0.0.1"}, limits: shortLimits})
	content := strings.Repeat("PDF\x00", 256<<10) // 1 MiB
	for name, c := range map[string]struct {
		answer testkit.WebhookAnswer
		limit  int64
		want   string
		class  Class
	}{
		"content":        {testkit.AnswerText(200, content), 2 << 20, content, Success},
		"exactly":        {testkit.AnswerText(200, content), 1 << 20, content, Success},
		"one too many":   {testkit.AnswerText(200, content), 1<<20 - 1, "", Permanent},
		"empty":          {testkit.AnswerText(200, ""), 10, "", Success},
		"1 GB":           {testkit.AnswerHuge(1 << 30), 1 << 20, "", Permanent},
		"204":            {testkit.AnswerStatus(204), 10, "", Permanent},
		"206":            {testkit.AnswerText(206, "par"), 10, "", Permanent},
		"404":            {testkit.AnswerText(404, "secret of the inner network"), 100, "", Permanent},
		"500":            {testkit.AnswerStatus(500), 10, "", Retry},
		"503":            {testkit.AnswerRetryAfter(503, 120), 10, "", Retry},
		"redirect":       {testkit.AnswerRedirectWith(302, inner.URL), 10, "", Permanent},
		"cut":            {testkit.AnswerCut(200, "PDF"), 100, "", Retry},
		"never":          {testkit.AnswerNever(), 10, "", Retry},
		"drips":          {testkit.AnswerDrip(5 * time.Millisecond), 1 << 20, "", Retry},
		"reset":          {testkit.AnswerReset(), 10, "", Retry},
		"drips a header": {testkit.AnswerDripHeaders(5 * time.Millisecond), 10, "", Retry},
	} {
		receiver.Answer(c.answer)
		got, out := s.Fetch(t.Context(), receiver.URL+"/doc.pdf", c.limit)
		if out.Class != c.class || !bytes.Equal(got, []byte(c.want)) || out.WentOut || out.Body != nil || out.Answer != "" || strings.Contains(out.Detail, "secret") {
			t.Errorf("%s: %d bytes, %+v, want %s", name, len(got), out, c.class)
		}
		if c.class != Success && got != nil {
			t.Errorf("%s: content without success", name)
		}
		if name == "503" && out.RetryAfter != 2*time.Minute {
			t.Errorf("Retry-After %s", out.RetryAfter)
		}
	}
	calls := receiver.Calls()
	for _, call := range calls {
		if call.Method != "GET" || len(call.Body) != 0 || call.Header.Get("Webhook-Id") != "" || call.Header.Get("Authorization") != "" {
			t.Errorf("call %+v", call)
		}
	}
	if inner.Connections() != 0 {
		t.Error("a redirect was followed")
	}
}

// guarantee S-20: the guard of webhooks holds for documents.
func TestAFetchIsGuardedLikeAWebhook(t *testing.T) {
	t.Parallel()
	names := testkit.DNS(t)
	names.Set("*", "127.0.0.1")
	inner := testkit.Webhook(t)
	port := inner.URL[strings.LastIndex(inner.URL, ":")+1:]
	var forbidden atomic.Int64
	s := newSender(t, WebhookConfig{Resolver: names.Resolver(), limits: shortLimits, onConnect: countForbidden(&forbidden)})
	urls := append(forbiddenURLs(port), fmt.Sprintf("https://inner.test:%s/", port))
	for _, u := range urls {
		if got, out := s.Fetch(t.Context(), u, 1<<20); out.Class != Permanent || got != nil {
			t.Errorf("%.100q: %+v", u, out)
		}
	}
	if inner.Connections() != 0 || forbidden.Load() != 0 {
		t.Errorf("%d connections, %d forbidden connects", inner.Connections(), forbidden.Load())
	}
	t.Logf("0 connects by %d forms", len(urls))
}

func TestAFetchNeverTakesMoreThanAMailMayHave(t *testing.T) {
	t.Parallel()
	receiver := testkit.Webhook(t)
	s := newSender(t, WebhookConfig{Allow: []string{"127.0.0.1"}})
	receiver.Answer(testkit.AnswerHuge(MaxAttachments + 1))
	for _, limit := range []int64{1 << 62, -1} {
		if got, out := s.Fetch(t.Context(), receiver.URL+"/doc.pdf", limit); out.Class != Permanent || got != nil || !strings.Contains(out.Detail, "is larger than") {
			t.Errorf("up to %d: %d bytes, %+v", limit, len(got), out)
		}
	}
}
