package approval

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"vobo/internal/fsm"
	"vobo/internal/store"
	"vobo/internal/testkit"
)

// letters starts an instance that mails these people.
func (b *bundle) letters(definition string, people ...string) string {
	b.t.Helper()
	text, err := json.Marshal(map[string]any{"people": people})
	if err != nil {
		b.t.Fatal(err)
	}
	return b.start(admin, definition, string(text)).ID
}

func crowd(prefix string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%s%d@example.org", prefix, i)
	}
	return all
}

// outcomesOf counts the effects of instances by status.
func (b *bundle) outcomesOf(ids []string) map[fsm.EffectStatus]int {
	b.t.Helper()
	n := map[fsm.EffectStatus]int{}
	for _, id := range ids {
		for _, e := range b.effects(id) {
			n[e.Status]++
		}
	}
	return n
}

// every fifth mail is taken and the connection cut before the answer
func dropAFifth(server *testkit.MailServer, n int) {
	modes := make([]testkit.MailMode, n)
	for i := range modes {
		modes[i] = testkit.MailAccept
		if i%5 == 4 {
			modes[i] = testkit.MailDropAfterData
		}
	}
	server.Next(modes...)
}

// guarantee R-18
func TestAMailOfUnknownEndIsSentAgainAsTheSameMailOrNotAtAll(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		server := b.mailing()
		for definition, again := range map[string]bool{"bulk": true, "bulk-once": false} {
			const perInstance = 25
			n := size(500, 5_000)
			dropAFifth(server, n)
			var ids []string
			for i := range n / perInstance {
				ids = append(ids, b.letters(definition, crowd(fmt.Sprintf("%s-%d-", definition, i), perInstance)...))
			}
			for range 3 {
				b.deliver()
				b.pass(time.Minute)
			}
			copies, first, cut := map[string]int{}, map[string]testkit.Mail{}, 0
			for _, m := range server.Mails() {
				to := m.To[0]
				if !strings.HasPrefix(to, definition+"-") || !again && strings.HasPrefix(to, "bulk-once") != (definition == "bulk-once") {
					continue
				}
				if definition == "bulk" && strings.HasPrefix(to, "bulk-once") {
					continue
				}
				if !m.Answered {
					cut++
				}
				if copies[to]++; copies[to] == 1 {
					first[to] = m
				} else if m.MessageID != first[to].MessageID || !bytes.Equal(m.Raw, first[to].Raw) {
					t.Errorf("%s: the copy to %s is another mail", definition, to)
				}
			}
			extra := 0
			for _, c := range copies {
				extra += c - 1
			}
			out := b.outcomesOf(ids)
			if len(copies) != n || cut != n/5 {
				t.Errorf("%s: %d of %d people got it, %d were cut", definition, len(copies), n, cut)
			}
			switch {
			case again && (extra != cut || out[fsm.EffectSucceeded] != n):
				t.Errorf("%s: %d copies for %d cuts, effects %v", definition, extra, cut, out)
			case !again && (extra != 0 || out[fsm.EffectUnknown] != cut || !b.instance(ids[0]).Attention):
				t.Errorf("%s: %d copies for %d cuts, effects %v", definition, extra, cut, out)
			}
		}
	})
}

// guarantee R-19
func TestAMailServerThatRefusesOrStallsHoldsUpOnlyItsOwnMails(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		server := b.mailing()
		server.RefuseRecipient("gone@example.org", 550)
		server.Next(testkit.MailRefuse(testkit.AtRcpt, 451), testkit.MailRefuse(testkit.AtContent, 450), testkit.MailRefuse(testkit.AtMail, 421), testkit.MailStall(testkit.AtMail))
		n := size(200, 2_000)
		people := append([]string{"gone@example.org"}, crowd("p", n)...)
		id := b.letters("bulk", people...)
		testkit.WaitFor(t, "all but those that are refused or stalled", func() bool {
			if _, err := b.svc.DispatchOnce(b.ctx); err != nil {
				t.Fatal(err)
			}
			return len(server.Mails()) >= n-4
		})
		server.Release()
		b.deliver()
		for range 2 {
			b.pass(time.Minute)
			b.deliver()
		}
		got := map[string]int{}
		for _, m := range server.Mails() {
			got[m.To[0]]++
		}
		for _, p := range people[1:] {
			if got[p] != 1 {
				t.Errorf("%s got %d", p, got[p])
			}
		}
		out := b.outcomesOf([]string{id})
		v := b.instance(id)
		if out[fsm.EffectSucceeded] != n || out[fsm.EffectDead] != 1 || len(v.AttentionReasons) != 1 || !strings.Contains(v.AttentionReasons[0].Detail, "550") {
			t.Errorf("effects %v, attention %+v", out, v.AttentionReasons)
		}
	})
}

// field report B25
func TestPoisonedRowsAtTheHeadHarmNobodyElse(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		server := b.mailing()
		bad := []string{"a@b@c", "x@y\u200f", "", strings.Repeat("x", 290) + "@example.org", "no address"}
		var poison []string
		for i := range 2 * fastLane {
			poison = append(poison, b.letters("bulk", bad[i%len(bad)]))
		}
		for i, change := range []string{"request = '{'", "input = '{'"} { // rows that nobody can read
			b.write("UPDATE effects SET " + change + " WHERE instance_id = '" + poison[i] + "'")
		}
		var fine []string
		for i := range 20 {
			fine = append(fine, b.letters("bulk", fmt.Sprintf("good%d@example.org", i)))
		}
		mixed := b.letters("bulk", "one@example.org", "two at example.org", "three@example.org")
		b.deliver()
		for _, id := range fine {
			if e := b.effect(id, "tell"); e.Status != fsm.EffectSucceeded || len(e.Attempts) != 1 {
				t.Errorf("a good one is %s", e.Status)
			}
		}
		unreadable := "SELECT status FROM effects WHERE instance_id = '" + poison[1] + "'"
		if got := b.query(b.raw(), unreadable); len(got) != 1 || got[0] != "dead" {
			t.Errorf("the row that cannot be read is %v", got)
		}
		for i, id := range poison {
			if i == 1 { // its page cannot show what cannot be read
				continue
			}
			v := b.instance(id)
			if len(v.Effects) != 1 || v.Effects[0].Status != fsm.EffectDead || !v.Attention {
				t.Errorf("poison %d: %+v, attention %+v", i, v.Effects, v.AttentionReasons)
			}
		}
		v := b.instance(mixed)
		if len(server.MailsTo("one@example.org")) != 1 || len(server.MailsTo("three@example.org")) != 1 ||
			len(v.AttentionReasons) != 1 || !strings.Contains(v.AttentionReasons[0].Detail, "two at example.org") {
			t.Errorf("of three one is malformed: attention %+v", v.AttentionReasons)
		}
	})
}

// field report B26
func TestTwoReplicasSendAMailOnceAndAKilledOneAtMostTwice(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		server := b.mailing()
		services := []*Service{b.svc}
		if b.store.Dialect() == "postgres" {
			other, _ := b.replica(func(c *Config) { c.Mailer = b.svc.cfg.Mailer })
			services = append(services, other)
		}
		server.SetMode(testkit.MailSlow(20 * time.Millisecond))
		b.letters("bulk", crowd("both", 30)...)
		b.rest(services...)
		for _, to := range crowd("both", 30) {
			if n := len(server.MailsTo(to)); n != 1 {
				t.Errorf("%s got %d while both live", to, n)
			}
		}

		id := b.letters("bulk", crowd("kill", 30)...)
		var k breaker
		k.arm(store.PointFinish, forever)
		faulty, _, stop := b.process(func(c *Config) { c.Mailer = b.svc.cfg.Mailer }, k.fail)
		if _, err := faulty.DispatchOnce(b.ctx); err != nil {
			t.Fatal(err)
		}
		stop()
		b.pass(lease + time.Second)
		b.deliver()
		repeated := 0
		for _, to := range crowd("kill", 30) {
			mails := server.MailsTo(to)
			if len(mails) == 0 || len(mails) > 2 || mails[0].MessageID != mails[len(mails)-1].MessageID {
				t.Errorf("%s got %d mails", to, len(mails))
			}
			repeated += len(mails) - 1
		}
		if out := b.outcomesOf([]string{id}); out[fsm.EffectSucceeded] != 30 || repeated == 0 {
			t.Errorf("effects %v, %d repeated", out, repeated)
		}
	})
}

// chaosMode is what a receiver does, and what must become of its effects.
type chaosMode struct {
	name     string
	answer   testkit.WebhookAnswer
	wait     time.Duration // after the first attempt; 0: there is no second
	attempts int
	status   fsm.EffectStatus
}

// until answers one way for the first attempts and then well.
func untilAttempt(n string, answer testkit.WebhookAnswer) testkit.WebhookAnswer {
	return func(w http.ResponseWriter, r *http.Request, c testkit.WebhookCall) {
		if c.Header.Get("Vobo-Attempt") < n {
			answer(w, r, c)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}
}

// guarantee R-20, field report B31: nine ways to answer; what hangs does so in real time.
func TestEveryEventToAChaoticReceiverIsDeliveredOrKnownNotToBe(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		inside := testkit.Webhook(t)   // the target of a redirect
		const usual = 27 * time.Second // 0.9 of 30 s
		quick := []chaosMode{
			{"ok", testkit.AnswerStatus(http.StatusOK), 0, 1, fsm.EffectSucceeded},
			{"500", untilAttempt("3", testkit.AnswerStatus(http.StatusInternalServerError)), usual, 3, fsm.EffectSucceeded},
			{"410", testkit.AnswerStatus(http.StatusGone), 0, 1, fsm.EffectDead},
			{"429", untilAttempt("2", testkit.AnswerRetryAfter(http.StatusTooManyRequests, 60)), time.Minute, 2, fsm.EffectSucceeded},
			{"redirect", testkit.AnswerRedirect(inside.URL), 0, 1, fsm.EffectDead},
			{"10 MB", testkit.AnswerHuge(10 << 20), 0, 1, fsm.EffectSucceeded},
			{"reset", testkit.AnswerReset(), usual, 3, fsm.EffectUnknown},
		}
		hanging := []chaosMode{
			{"never", testkit.AnswerNever(), 0, 1, fsm.EffectUnknown},
			{"slowloris", testkit.AnswerDrip(time.Second), 0, 1, fsm.EffectUnknown},
		}
		events := 0
		start := func(definition string, attempts, instances int, modes []chaosMode) (ids []string) {
			var urls []string
			for _, m := range modes {
				r := testkit.Webhook(t)
				r.Answer(m.answer)
				urls = append(urls, r.URL)
			}
			b.publish(callsTo(definition, attempts, urls...))
			b.known.Store(definition, true)
			for range instances {
				ids = append(ids, b.start(admin, definition, `{}`).ID)
				events += len(modes)
			}
			return ids
		}
		slow := start("hanging", 1, size(perHost, 4*perHost), hanging)
		ids := start("quick", 3, size(40, 280), quick)
		b.running(b.svc)
		testkit.WaitFor(t, "all first attempts beside those that hang", func() bool {
			return b.attempted(ids) == len(ids)*len(quick)
		})
		for _, id := range ids {
			for i, e := range b.effects(id) {
				m := &quick[i]
				if m.wait == 0 {
					continue
				}
				if got := e.NextAttemptAt.Sub(e.Attempts[0].At.Time); got < m.wait || got > m.wait+15*time.Second {
					t.Errorf("%s: the second attempt comes after %s, want %s", m.name, got, m.wait)
				}
			}
		}
		testkit.WaitForWithin(t, 3*time.Minute, "what hangs to be given up", func() bool { return b.attempted(slow) == len(slow)*len(hanging) })
		for _, more := range []time.Duration{time.Minute + 15*time.Second, time.Minute} {
			b.pass(more)
			testkit.WaitFor(t, "the next attempts", func() bool { return b.due() == 0 && b.outcomesOf(ids)[fsm.EffectRunning] == 0 })
		}
		for _, c := range []struct {
			ids   []string
			modes []chaosMode
		}{{ids, quick}, {slow, hanging}} {
			for _, id := range c.ids {
				for i, e := range b.effects(id) {
					if m := &c.modes[i]; e.Status != m.status || len(e.Attempts) != m.attempts {
						t.Errorf("%s: %s after %d attempts, want %s after %d", m.name, e.Status, len(e.Attempts), m.status, m.attempts)
					}
				}
			}
		}
		if n := len(inside.Calls()); n != 0 {
			t.Errorf("%d redirects were followed", n)
		}
		bound(t, "R-20 events without a known end", events)
	})
}

// attempted counts the effects of instances with an attempt that has ended.
func (b *bundle) attempted(ids []string) int {
	b.t.Helper()
	n := 0
	for _, id := range ids {
		for _, e := range b.effects(id) {
			if len(e.Attempts) > 0 && e.Status != fsm.EffectRunning {
				n++
			}
		}
	}
	return n
}

// due counts the effects that wait, run, or are due again.
func (b *bundle) due() int {
	b.t.Helper()
	now := b.now()
	n, p := 0, store.Paging{Limit: 500}
	for {
		page, err := b.store.Effects(b.ctx, store.EffectFilter{Status: []fsm.EffectStatus{fsm.EffectWaiting, fsm.EffectRetrying}}, p)
		if err != nil {
			b.t.Fatal(err)
		}
		for _, e := range page.Items {
			if e.NextAttemptAt != nil && !e.NextAttemptAt.After(now) {
				n++
			}
		}
		if p.Cursor = page.Next; p.Cursor == "" {
			return n
		}
	}
}
