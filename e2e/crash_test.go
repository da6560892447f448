package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"vobo/internal/testkit"
)

// leaseOver is how long it takes at most until what a killed process had begun is
// taken up again: the lease and a generous look-out.
const leaseOver = 100 * time.Second

// A power cut between the commit and the delivery costs no mail. Some mails were in
// the middle of being sent, some were not begun: each goes out, with the one
// Message-ID that it had from the start.
func TestAMailSurvivesAKill(t *testing.T) {
	t.Parallel()
	killAndCount(t, serve(t, setup{}))
}

// The same for three replicas on PostgreSQL, all killed at once. It stands apart so that
// the two tests, which wait for a lease to run out, begin early.
func TestAMailSurvivesAKillOfThreeReplicas(t *testing.T) {
	t.Parallel()
	killAndCount(t, serve(t, setup{database: testkit.Postgres(t), replicas: 3}))
}

func killAndCount(t *testing.T, s *service) {
	t.Helper()
	const count = 6
	s.mail.SetMode(testkit.MailHold)
	var ids []string
	for i := range count {
		ids = append(ids, s.start(rosa, "onboarding", applicant(fmt.Sprintf("Kim%d", i))).ID)
	}
	s.mail.WaitMailWhere(t, "in the middle of being sent", 1, func(testkit.Mail) bool { return true })
	for _, p := range s.replicas {
		p.Kill()
	}
	seen := copies(s.mail.Mails())
	s.mail.SetMode(testkit.MailAccept)
	s.mail.Release()
	for _, p := range s.replicas {
		p.Start()
	}
	for _, id := range ids {
		testkit.WaitForWithin(t, leaseOver, "the end of the mail", func() bool {
			all := s.effects("instance_id=" + id)
			return len(all) == 1 && (all[0].Status == "succeeded" || all[0].Status == "unknown")
		})
	}
	after := copies(s.mail.Mails())
	if len(after) != count {
		t.Errorf("%d different mails went out for %d tasks: %v", len(after), count, after)
	}
	for id, n := range after {
		if allowed := 1 + seen[id]; n > allowed {
			t.Errorf("the mail %s came %d times; the server had it %d times before the kill", id, n, seen[id])
		}
	}
	for _, id := range ids {
		if now := s.read(id); now.State != "draft" || now.Revision != 1 {
			t.Errorf("after the kill: %+v", now)
		}
	}
}

// copies counts mails by their Message-ID.
func copies(mails []testkit.Mail) map[string]int {
	count := map[string]int{}
	for _, m := range mails {
		count[m.MessageID]++
	}
	return count
}

// A mail server that is away costs no mail either, not even over a kill.
func TestAMailWaitsForItsServerOverAKill(t *testing.T) {
	t.Parallel()
	s := serve(t, setup{})
	s.mail.SetMode(testkit.MailDeferRcpt)
	id := s.start(rosa, "onboarding", applicant("Noor")).ID
	testkit.WaitFor(t, "a failed attempt", func() bool {
		all := s.effects("instance_id=" + id)
		return len(all) == 1 && all[0].Status == "retrying"
	})
	s.replicas[0].Kill()
	s.mail.SetMode(testkit.MailAccept)
	s.replicas[0].Start()
	s.settled(id)
	if mails := s.mail.MailsTo(rosa); len(mails) != 1 {
		t.Errorf("the mail came %d times", len(mails))
	}
}

// field report B27, R-29: what is in the middle of being sent when the process is told
// to stop is finished, and not sent again.
func TestAPoliteStopFinishesWhatItBegan(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s *service) {
		release := make(chan struct{})
		s.mail.SetMode(testkit.MailHold)
		s.esign.Answer(func(w http.ResponseWriter, r *http.Request, _ testkit.WebhookCall) {
			select {
			case <-release:
			case <-r.Context().Done():
			}
			w.WriteHeader(http.StatusNoContent)
		})
		ids := []string{s.start(rosa, "supplier", supplierOf("Tiny", 10)).ID, s.start(rosa, "onboarding", applicant("Tom")).ID}
		s.esign.WaitCalls(t, "/envelopes", 1)
		s.mail.WaitMail(t, rosa, 1)
		ended := make(chan int, len(s.replicas))
		for _, p := range s.replicas {
			go func() { ended <- p.Stop() }()
		}
		for _, p := range s.replicas {
			p.WaitLog(`"stopping"`)
		}
		s.mail.SetMode(testkit.MailAccept)
		s.mail.Release()
		close(release)
		for range s.replicas {
			if status := <-ended; status != 0 {
				t.Errorf("a polite stop ended with the status %d", status)
			}
		}
		for _, p := range s.replicas {
			p.Start()
		}
		for _, id := range ids {
			for _, e := range s.effects("instance_id=" + id) {
				if e.Status != "succeeded" {
					t.Errorf("after the stop the effect %s is %s", e.Name, e.Status)
				}
			}
		}
		if calls, mails := len(s.esign.Calls()), len(s.mail.MailsTo(rosa)); calls != 1 || mails != 1 {
			t.Errorf("the call was made %d times, the mail sent %d times", calls, mails)
		}
	}, setup{})
}

// field report B27, R-29: a stop under load, again and again.
func TestAStopUnderLoadLosesNothing(t *testing.T) {
	t.Parallel()
	s := serve(t, setup{})
	s.esign.Answer(func(w http.ResponseWriter, r *http.Request, _ testkit.WebhookCall) {
		select {
		case <-time.After(30 * time.Millisecond): // a slow receiver
		case <-r.Context().Done():
		}
		w.WriteHeader(http.StatusNoContent)
	})
	const rounds = 30
	all := &load{s: s}
	for range rounds {
		stop := all.run()
		testkit.WaitFor(t, "load", func() bool { return all.acceptedInRound() >= 8 })
		if status := s.replicas[0].Stop(); status != 0 {
			t.Fatalf("a polite stop ended with the status %d", status)
		}
		stop()
		s.replicas[0].Start()
		all.repeatUnanswered(t)
	}
	// A lease that was not given back would keep its effect for a minute.
	s.allSent()
	if bad := s.effects("status=dead,unknown"); len(bad) > 0 {
		t.Errorf("effects ended badly: %+v", bad)
	}
	all.compare(t)
	t.Logf("%d requests over %d stops, %d of them asked again: 0 lost, 0 doubled (< %.2f %% at 95 %%)",
		len(all.ids), rounds, all.repeated, 300/float64(len(all.ids)))
	mails := copies(s.mail.Mails())
	for id, n := range mails {
		if n != 1 {
			t.Errorf("the mail %s was sent %d times", id, n)
		}
	}
	calls := map[string]int{}
	for _, call := range s.esign.Calls() {
		calls[call.Header.Get("Webhook-Id")]++
	}
	for id, n := range calls {
		if n != 1 {
			t.Errorf("the call %s was made %d times", id, n)
		}
	}
	if len(mails)+len(calls) != len(all.ids) {
		t.Errorf("%d mails and %d calls for %d requests", len(mails), len(calls), len(all.ids))
	}
}

// one `serve` per SQLite file; other commands may work beside it.
func TestASecondServerOnTheFileIsRefused(t *testing.T) {
	t.Parallel()
	s := serve(t, setup{})
	const tries = 50
	work := make(chan struct{}, tries)
	for range tries {
		work <- struct{}{}
	}
	close(work)
	together(4, func(int) {
		for range work {
			out, errOut, status := testkit.Command(t, testkit.Launch{
				Args: []string{"serve"}, Dir: s.dir,
				Env: map[string]string{"VOBO_DATABASE_URL": s.database, "VOBO_ADDR": "127.0.0.1:0"},
			})
			if status != 1 || !strings.Contains(errOut, "Another vobo server") || !strings.Contains(errOut, "vobo.db") || out != "" {
				t.Errorf("a second server on the file: status %d\n%s%s", status, out, errOut)
			}
		}
	})
	if keys := s.command("keys", "list"); !strings.Contains(keys, "desk") {
		t.Errorf("other commands do not work beside the server: %s", keys)
	}
	if s.start(rosa, "onboarding", applicant("Still")).State != "draft" {
		t.Error("the first server does not work any more")
	}
}
