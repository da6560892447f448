package web

import (
	"strings"
	"testing"
	"time"

	"vobo/internal/fault"
)

func TestTheInboxShowsFoldersRowsAndTheTaskInPlace(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	w := b.get("/inbox?q=oN", as("luis"))
	wantText(t, w, "Mine", "My groups", "Waiting for others", "Done", "Approve the onboarding of María López", "Ana Ruiz", "due <time", "in 5 hours", "Urgent", "Choose a request", `value="oN"`)
	w = b.get("/inbox?task=t-2&folder=groups", as("luis"))
	wantText(t, w, `action="/flow/tasks/t-2"`, `name="csrf" value="csrf-luis"`, `name="once"`, `name="folder" value="groups"`, "What this is about", "Record my decision", "Open the whole request", "overdue")
	wantNoText(t, w, " checked", "Not you?")
	wantText(t, b.get("/inbox?q=zzz", as("luis")), "Nothing here matches “<bdi>zzz</bdi>”")
	wantText(t, b.get("/inbox?folder=nonsense", as("luis")), `folder=mine" aria-current="true"`)
	wantChanges(t, b.svc, "")
}

func TestATaskIsDecidedInPlace(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	w := b.post("/tasks/t-1", "luis", form("event", "reject", "digest", "d1", "once", "k1", "folder", "groups"))
	wantStatus(t, w, 422)
	wantText(t, w, "Type a comment", `href="#comment"`, `value="k1"`, `name="folder" value="groups"`)
	w = b.post("/tasks/t-1", "luis", form("event", "reject", "comment", "Not in the register", "digest", "d1", "once", "k1", "folder", "groups"))
	wantStatus(t, w, 200)
	wantText(t, w, "Your decision is recorded", "Not in the register", "Back to the list", "See the request")
	got := b.svc.last
	if got.Digest != "d1" || got.Idem.Key != "k1" || got.Idem.Route != "POST /tasks/t-1" || len(got.Idem.BodyHash) != 32 || got.Input != nil {
		t.Errorf("decided with %+v", got)
	}
	wantChanges(t, b.svc, "decide reject")
}

func TestSomebodyElsesDecisionIsToldInPlaceOfTheForm(t *testing.T) {
	t.Parallel()
	b := newBundle(t, func(_ *Config, f *fakeService) {
		f.refuse = &fault.Error{Code: fault.AlreadyDecided, Message: "Your answer was not needed.", Winner: &fault.Winner{Event: "approve", Actor: "Rosa Gil", At: sampleNow}}
	})
	w := b.post("/tasks/t-1", "luis", form("event", "reject", "comment", "x", "digest", "d1"))
	wantStatus(t, w, 409)
	wantText(t, w, "This is already decided", "Rosa Gil", "Approve the onboarding")
	wantText(t, b.get("/tasks/t-9", as("luis")), "This task is decided.")
}

func TestTheInstancePageSaysHowItStands(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	w := b.get(instancePath, as("luis"))
	wantText(t, w, "Pending approval", "It waits until Thu 3 Dec", `src="/flow`+instancePath+`/diagram.svg"`, "Path so far: Pending approval → Signing", "Reminder sent", "the deadline", "by emailed link", "Changed data (1)", "Outcome unknown", "Attempts (1)", "no answer after 20 s",
		"has answered", "opened 3 times", "not opened yet", "Nobody knows whether an effect happened", "north", "Take a step", "<bdi>Approve</bdi>: 1 of 2 needed answers")
	wantNoText(t, w, "Cancel this request", "Say what happened", `href="/flow/attention"`)
	wantText(t, b.get(instancePath, as("olga")), "Cancel this request", "Say what happened", "Raise the failed event again")
	svg := b.get(instancePath+"/diagram.svg", as("luis"))
	wantStatus(t, svg, 200)
	if csp := svg.Header().Get("Content-Security-Policy"); svg.Header().Get("Content-Type") != "image/svg+xml" || !strings.Contains(csp, "sandbox") || strings.Contains(csp, "script-src") {
		t.Errorf("diagram: %v", svg.Header())
	}
}

func TestAStepIsTakenFromTheInstancePage(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	wantText(t, b.get(instancePath+"/act", as("luis")), "What do you want to do?", `value="withdraw"`)
	wantStatus(t, b.post(instancePath+"/act", "luis", form("once", "k")), 422)
	w := b.post(instancePath+"/act", "luis", form("event", "withdraw", "once", "k"))
	wantStatus(t, w, 200)
	wantText(t, w, "Your decision is recorded")
	wantChanges(t, b.svc, "decide withdraw")
}

func TestTheMailboxIsForThoseWhoMayReadIt(t *testing.T) {
	t.Parallel()
	off := newBundle(t)
	wantStatus(t, off.get("/dev/mail", as("olga")), 404)
	loop := newBundle(t, func(c *Config, _ *fakeService) { c.Mailbox = MailboxLoopback })
	wantStatus(t, loop.get("/dev/mail"), 404) // httptest calls from 192.0.2.1
	admins := newBundle(t, func(c *Config, _ *fakeService) { c.Mailbox = MailboxAdmins })
	wantStatus(t, admins.get("/dev/mail"), 303)
	wantStatus(t, admins.get("/dev/mail", as("luis")), 404)
	wantText(t, admins.get("/dev/mail", as("olga")), "New supplier Talleres", "luis@example.com")
	wantText(t, admins.get("/dev/mail/m-1", as("olga")), `sandbox="allow-top-navigation-by-user-activation"`, `src="/flow/dev/mail/m-1/html"`, `href="http://vobo.example/flow/a/open"`)
	wantText(t, admins.get("/dev/mail/m-1?part=text", as("olga")), `<a href="http://vobo.example/flow/a/open"`)
	w := admins.get("/dev/mail/m-1/html", as("olga"))
	wantText(t, w, `<base target="_top">`)
	if csp := w.Header().Get("Content-Security-Policy"); !strings.Contains(csp, "sandbox allow-top-navigation-by-user-activation;") || strings.Contains(csp, "script") {
		t.Errorf("CSP %q", csp)
	}
	wantStatus(t, admins.get("/dev/mail/none", as("olga")), 404)
}

func TestEveryProblemTypeIsExplained(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	list := b.get("/problems")
	for _, code := range fault.Codes() {
		w := b.get("/problems/" + string(code))
		wantStatus(t, w, 200)
		wantText(t, w, englishProblems[code][0], englishProblems[code][2][:12], "/problems/"+string(code))
		wantText(t, list, string(code))
	}
}

func TestTimesAreSaidInTheReadersZoneAndInWords(t *testing.T) {
	t.Parallel()
	madrid, err := time.LoadLocation("Europe/Madrid")
	if err != nil {
		t.Fatal(err)
	}
	k := clock{now: sampleNow, zone: madrid, say: languageOf("en")}
	for after, want := range map[time.Duration]string{0: "now", 59 * time.Second: "now", 61 * time.Second: "in 1 minute", 59 * time.Minute: "in 59 minutes", 90 * time.Minute: "in 1 hour", 47 * time.Hour: "in 47 hours", 49 * time.Hour: "in 2 days", 71 * time.Hour: "in 2 days", -5 * time.Minute: "5 minutes ago", -25 * time.Hour: "25 hours ago", -72 * time.Hour: "3 days ago"} {
		if got := k.relative(sampleNow.Add(after)); got != want {
			t.Errorf("%s: %q, want %q", after, got, want)
		}
	}
	if got := k.full(time.Date(2026, 12, 3, 17, 0, 0, 0, time.UTC)); got != "Thu 3 Dec, 18:00 (Madrid)" {
		t.Errorf("full time %q", got)
	}
	if got := k.full(time.Date(2027, 7, 1, 0, 30, 0, 0, time.UTC)); got != "Thu 1 Jul 2027, 02:30 (Madrid)" {
		t.Errorf("full time %q", got)
	}
}
