package approval

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"vobo/internal/deliver"
	"vobo/internal/fsm"
	"vobo/internal/store"
	"vobo/internal/testkit"
)

// alertMails are the mails about effects that the mailbox page shows.
func (b *bundle) alertMails() []MailView {
	b.t.Helper()
	page, err := b.svc.Mailbox(b.ctx, store.Paging{Limit: 500})
	if err != nil {
		b.t.Fatal(err)
	}
	var all []MailView
	for _, m := range page.Items {
		if strings.Contains(m.Subject, "need") && strings.Contains(m.Subject, "a person") {
			all = append(all, m)
		}
	}
	return all
}

func (b *bundle) alert(svc *Service) {
	b.t.Helper()
	if err := svc.AlertOnce(b.ctx); err != nil {
		b.t.Fatalf("alert: %v", err)
	}
}

// metric is the value of a counter or gauge without labels, as /metrics shows it.
func metric(t testing.TB, svc *Service, name string) float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	for _, c := range svc.Metrics() {
		registry.MustRegister(c)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	total, found := 0.0, false
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			found = true
			total += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	if !found {
		t.Fatalf("there is no metric %s", name)
	}
	return total
}

func TestOperatorsAreMailedWhenDeadAndUnknownEffectsGrow(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		b.alert(b.svc)
		if n := len(b.alertMails()); n != 0 {
			t.Fatalf("%d mails about nothing", n)
		}
		id := b.deadNote("no")
		services := append(b.services(2), b.svc)
		together(len(services), func(i int) { b.alert(services[i]) })
		b.alert(b.svc)
		mails := 0
		for _, svc := range services[:len(services)-1] {
			mails += len(svc.logins.all())
		}
		if mails != 1 { // Olga alone is an operator
			t.Fatalf("%d mails, want 1", mails)
		}
		b.pass(alertEvery + time.Minute)
		b.alert(b.svc)
		b.deadNote("no") // it has not grown until now
		b.alert(b.svc)
		all := b.alertMails()
		if len(all) == 0 || all[0].To != "olga@example.com" || all[0].Subject != "2 effects need a person" ||
			!strings.Contains(all[0].Text, "http://vobo.test/attention") || !strings.Contains(all[0].Text, "Failed: 2.") {
			t.Fatalf("the mailbox shows %+v", all)
		}
		grown := len(all)
		b.deadNote("no") // within the quarter of an hour
		b.alert(b.svc)
		if n := len(b.alertMails()); n != grown {
			t.Errorf("%d mails within a quarter of an hour", n-grown)
		}
		b.pass(alertEvery + time.Minute)
		b.alert(b.svc)
		if all = b.alertMails(); len(all) != grown+1 || all[0].Subject != "3 effects need a person" {
			t.Errorf("after it: %+v", all)
		}
		b.answer("/note", testkit.AnswerStatus(http.StatusOK))
		b.redrive(RedriveRequest{Instance: id})
		b.deliver()
		b.pass(alertEvery + time.Minute)
		b.alert(b.svc)
		if n := len(b.alertMails()); n != grown+1 {
			t.Errorf("%d mails about fewer", n-grown-1)
		}
	})
}

func TestAnAlertThatCouldNotBeSentIsTriedAgain(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		server := testkit.SMTP(t)
		mailer, err := deliver.NewMailer(server.URL(), "vobo@example.com")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(mailer.Close)
		svc, _ := b.replica(func(c *Config) { c.Mailer = mailer })
		b.deadNote("no")
		server.RefuseRecipient("olga@example.com", 451)
		if err := svc.AlertOnce(b.ctx); err == nil {
			t.Fatal("a mail that was not sent is no error")
		}
		server.RefuseRecipient("olga@example.com", 0)
		b.alert(svc)
		if got := server.WaitMail(t, "olga@example.com", 1); len(got) != 1 {
			t.Errorf("%d mails", len(got))
		}
		b.alert(svc)
		if n := len(server.MailsTo("olga@example.com")); n != 1 {
			t.Errorf("%d mails, want 1", n)
		}
	})
}

// Our own SMTP set-up is no recipient's fault: it is raised by itself.
func TestAMailThatFailsForOurOwnSetUpIsCounted(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		server := testkit.SMTPWithLogin(t, "vobo", "right")
		mailer, err := deliver.NewMailer(strings.Replace(server.URL(), "right", "wrong", 1), "vobo@example.com")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(mailer.Close)
		svc, _ := b.replica(func(c *Config) { c.Mailer = mailer })
		id := b.review()
		if before := metric(t, svc, "vobo_mail_setup_failures_total"); before != 0 {
			t.Fatalf("%v failures before a mail was sent", before)
		}
		deliverBy(t, svc)
		if n := metric(t, svc, "vobo_mail_setup_failures_total"); n < 1 {
			t.Errorf("%v failures are counted", n)
		}
		x, err := b.svc.Explain(b.ctx, admin, id)
		if err != nil {
			t.Fatal(err)
		}
		told := 0
		for _, n := range x.Notifications {
			if strings.Contains(n.Detail, "does not let us in") {
				told++
			}
		}
		if told == 0 {
			t.Errorf("explain tells %+v", x.Notifications)
		}
	})
}

// http-api.md, explain: the refusal in the mail server's own words.
func TestExplainTellsWhyAMailWasRefused(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		server := testkit.SMTP(t)
		mailer, err := deliver.NewMailer(server.URL(), "vobo@example.com")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(mailer.Close)
		svc, _ := b.replica(func(c *Config) { c.Mailer = mailer })
		server.RefuseRecipient("ana@example.com", 550)
		id := b.review()
		deliverBy(t, svc)
		x, err := b.svc.Explain(b.ctx, admin, id)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range x.Notifications {
			refused := strings.Contains(n.Detail, "550")
			if (n.To == "ana@example.com") != refused {
				t.Errorf("%s to %s: %s, %q", n.Name, n.To, n.Status, n.Detail)
			}
		}
	})
}

func TestASinkThatGetsNothingShowsInTheMetrics(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		b.feeding("lake")
		b.answer("/lake", testkit.AnswerStatus(http.StatusGone))
		id := b.start(b.as("rosa@example.com"), "notes", `{"title":"x"}`).ID
		if n := metric(t, b.svc, "vobo_sink_disabled"); n != 0 {
			t.Errorf("disabled before anything was sent: %v", n)
		}
		b.rest()
		rows := float64(len(b.history(id)))
		if off, waiting := metric(t, b.svc, "vobo_sink_disabled"), metric(t, b.svc, "vobo_sink_rows"); off != 1 || waiting != rows {
			t.Errorf("disabled %v, %v rows, want 1 and %v", off, waiting, rows)
		}
	})
}

// What is owed to some operators is sent by the next pass; the others are not told twice.
func TestAnOperatorWhoWasNotReachedIsMailedAgainAlone(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		server := testkit.SMTP(t)
		mailer, err := deliver.NewMailer(server.URL(), "vobo@example.com")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(mailer.Close)
		svc, _ := b.replica(func(c *Config) { c.Mailer = mailer })
		b.sync(func(p *fsm.Person) {
			if p.ID == "bea@example.com" {
				p.Roles = []string{"operator"}
			}
		})
		b.pass(2 * directoryFor)
		b.deadNote("no")
		server.RefuseRecipient("bea@example.com", 451)
		if err := svc.AlertOnce(b.ctx); err == nil {
			t.Error("a mail that was not sent is no error")
		}
		server.RefuseRecipient("bea@example.com", 0)
		b.alert(svc)
		b.alert(svc)
		for _, who := range []string{"olga@example.com", "bea@example.com"} {
			if n := len(server.WaitMail(t, who, 1)); n != 1 {
				t.Errorf("%s got %d mails, want 1", who, n)
			}
		}
	})
}

func TestAMailToAnOperatorThatIsRefusedForGoodIsNotSentAgain(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		server := testkit.SMTP(t)
		mailer, err := deliver.NewMailer(server.URL(), "vobo@example.com")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(mailer.Close)
		svc, _ := b.replica(func(c *Config) { c.Mailer = mailer })
		b.deadNote("no")
		server.RefuseRecipient("olga@example.com", 550)
		for range 3 {
			b.alert(svc)
			b.pass(time.Minute)
		}
		if n := metric(t, svc, "vobo_effect_attempts_total"); n != 1 {
			t.Errorf("%v attempts", n)
		}
	})
}

func TestOfWhatIsOwedToAnOperatorTheNewestIsKeptForADay(t *testing.T) {
	t.Parallel()
	var owed alerts
	began := time.Now()
	mail := func(to, subject string, after time.Duration) alertMail {
		return alertMail{to: to, subject: subject, at: began.Add(after)}
	}
	owed.owe([]alertMail{mail("ana@example.com", "1", 0), mail("olga@example.com", "1", 0)})
	owed.owe([]alertMail{mail("olga@example.com", "3", time.Hour)})
	owed.owe([]alertMail{mail("olga@example.com", "2", time.Minute)})
	owed.owe(owed.take(began.Add(alertOwedFor)))
	if len(owed.owed) != 2 || owed.owed[1].subject != "3" {
		t.Errorf("owed: %+v", owed.owed)
	}
	if left := owed.take(began.Add(alertOwedFor + time.Minute)); len(left) != 1 || left[0].to != "olga@example.com" {
		t.Errorf("after a day: %+v", left)
	}
}

// What a person has given up needs no person any more, and is not sent again unasked.
func TestAnEffectThatWasGivenUpIsLeftAloneUntilItIsNamed(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		id := b.deadNote("no")
		e := b.effect(id, "note")
		if e.GivenUp {
			t.Fatal("it is given up before anybody said so")
		}
		v, err := b.svc.ResolveEffect(b.ctx, admin, e.ID, ResolveRequest{Outcome: "failed", Reason: "the order is void"}, Idempotency{})
		if err != nil || !v.GivenUp || !b.effect(id, "note").GivenUp || !strings.Contains(string(Render(v)), `"given_up":true`) {
			t.Fatalf("given up: %+v, %v", v, err)
		}
		if res := b.redrive(RedriveRequest{}); res.Matched != 0 {
			t.Errorf("a redrive matches %+v", res)
		}
		counts, err := b.svc.EffectCounts(b.ctx, admin)
		if err != nil || counts[fsm.EffectDead] != 0 {
			t.Errorf("counted %v, %v", counts, err)
		}
		b.alert(b.svc)
		if mails := b.alertMails(); len(mails) != 0 {
			t.Errorf("operators are told %+v", mails)
		}
		b.answer("/note", testkit.AnswerStatus(http.StatusOK))
		if v, err = b.svc.RetryEffect(b.ctx, admin, e.ID, "it is valid after all", Idempotency{}); err != nil || v.GivenUp {
			t.Fatalf("by its id: %+v, %v", v, err)
		}
		b.deliver()
		if e = b.effect(id, "note"); e.Status != fsm.EffectSucceeded || e.GivenUp {
			t.Errorf("in the end it is %s, given up: %v", e.Status, e.GivenUp)
		}
	})
}
