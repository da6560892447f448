package main

import (
	"strings"
	"testing"
	"time"

	"vobo/client"
)

func TestAnEffectSaysInWordsHowItStands(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	over := now.Add(-time.Minute)
	attempts := []client.Attempt{{N: 1, At: over, Outcome: "retry"}, {N: 2, At: over, Outcome: "retry", FinishedAt: &now, Detail: "No answer."}}
	text := func(e *client.Effect) string {
		var lines []string
		for _, row := range effectRows(e, now) {
			lines = append(lines, strings.Join(row, " "))
		}
		return strings.Join(lines, "\n")
	}
	dead := &client.Effect{ID: "i-2-1", InstanceID: "i", Kind: "webhook", Status: "dead", Attempts: attempts, FinishedAt: &over}
	if got := lastOutcome(dead); got != "failed, 2 of 2 attempts (No answer)" {
		t.Errorf("last outcome %q", got)
	}
	if got := text(dead); !strings.Contains(got, "retry (took 1m0s), 2 of 2 attempts: they are used up. No answer.") || strings.Count(got, "used up") != 1 || !strings.Contains(got, "finished ") {
		t.Errorf("a dead effect: %s", got)
	}
	retrying := &client.Effect{Status: "retrying", Attempts: attempts}
	if got := text(retrying) + lastOutcome(retrying); strings.Contains(got, "of 2 attempts") {
		t.Errorf("an effect that is tried again: %s", got)
	}
	byHand := &client.Effect{Kind: "manual", Status: "unknown", FinishedAt: &over}
	if got := text(byHand); strings.Contains(got, "finished") {
		t.Errorf("work by hand that is open: %s", got)
	}
	dead.GivenUp = true
	if got := text(dead); !strings.Contains(got, "status given up") {
		t.Errorf("a given-up effect: %s", got)
	}
	if got := effectNext(dead); !strings.Contains(got, "vobo effects retry i-2-1") || !strings.Contains(got, "vobo instances history i") || strings.Contains(got, "resolve") {
		t.Errorf("a given-up effect offers: %s", got)
	}
	byHand.GivenUp, byHand.Status = true, "dead"
	if got := effectNext(byHand); strings.Contains(got, "retry") {
		t.Errorf("given-up work by hand offers: %s", got)
	}
}

func TestARefusedResultCanBeGivenAnew(t *testing.T) {
	t.Parallel()
	e := &client.Effect{ID: "i-2-1", InstanceID: "i", Status: "succeeded"}
	refused := client.Attention{Reason: "result-refused", Ref: "2-1", Detail: "a: The field id is missing"}
	got := refusedNext(e, []client.Attention{{Reason: "dead-effect", Ref: "2-2"}, refused})
	if !strings.Contains(got, "vobo effects resolve i-2-1 --outcome succeeded --result JSON") || !strings.Contains(got, "The field id is missing.") {
		t.Errorf("offers %q", got)
	}
	refused.Ref = "2-11"
	if got := refusedNext(e, []client.Attention{refused}); got != "" {
		t.Errorf("another effect's refusal offers %q", got)
	}
}

func TestExplainSaysWhatWentOutInWholeSentences(t *testing.T) {
	t.Parallel()
	v := &client.Explanation{
		Instance: client.Summary{ID: "i"},
		Notifications: []client.Notification{
			{Name: "a", To: "POST https://core.example.com/a", Status: "succeeded"},
			{Name: "task-mail", To: "ana@example.com", Status: "succeeded"},
			{Name: "stop children", Status: "succeeded"},
			{Name: "grow", To: "3 × child", Status: "waiting"},
		},
		Attention: []client.Attention{{Reason: "unknown-effect", Ref: "2-2", Detail: "order_laptop: no answer"}, {Reason: "no-owner", Ref: "group:risk"}},
	}
	var lines []string
	for _, row := range explanation(v, time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)) {
		lines = append(lines, strings.Join(row, " | "))
	}
	want := []string{
		"called | a, POST https://core.example.com/a: succeeded", "told | ana@example.com by task-mail: succeeded", "effect | grow, 3 × child: waiting",
		"attention | unknown-effect i-2-2 order_laptop: no answer", "attention | no-owner group:risk",
	}
	if got := strings.Join(lines, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("says:\n%s", got)
	}
}

func TestACancelNamesTheCommandForWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	for status, want := range map[string]string{
		"blocked": "vobo effects show i-2-1", "unknown": "vobo effects list --instance i --status dead --status unknown",
		"failed": "vobo effects list --instance i --status dead --status unknown", "running": "vobo instances show i", "succeeded": "vobo instances show i",
	} {
		plan := &client.Cancellation{Instance: client.Summary{ID: "i"}, Compensation: client.Compensation{Items: []client.CompensationItem{
			{Effect: "i-1-1", Status: "skipped"}, {Effect: "i-2-1", Status: status, Undo: "release"}, {Effect: "i-2-0", Status: "waiting", Undo: "manual"},
		}}}
		if status == "succeeded" {
			plan.Compensation.Items = plan.Compensation.Items[:2]
		}
		if got := undoNext(plan); got != want {
			t.Errorf("%s: %q, want %q", status, got, want)
		}
	}
}

func TestTheDemoNamesTheSettingsThatItLeavesAside(t *testing.T) {
	t.Parallel()
	got := demoIgnores([]string{"PATH=/bin", "VOBO_SINKS=https://a.example.com", "VOBO_URL=x", "VOBO_API_KEY=y", "VOBO_ENV_MINE=z", "VOBO_ENV_CORE_URL=z", "VOBO_PEOPLE=", "VOBO_DEFINITIONS=d"})
	if want := "VOBO_DEFINITIONS VOBO_ENV_CORE_URL VOBO_SINKS"; strings.Join(got, " ") != want {
		t.Errorf("names %q, want %s", got, want)
	}
}

func TestTimesAheadAreRoundedToTheNearestHalfHour(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for ahead, want := range map[time.Duration]string{7*24*time.Hour - time.Second: "in 7 days", 71 * time.Hour: "in 2 days", -71 * time.Hour: "2 days ago", 48 * time.Hour: "in 2 days"} {
		if got := ago(now.Add(ahead), now); got != want {
			t.Errorf("%s: %q, want %q", ahead, got, want)
		}
	}
}

func TestALoginLinkBeginsWithTheListenAddress(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{"127.0.0.1:9090": "http://127.0.0.1:9090", "0.0.0.0:80": "http://localhost:80", ":8081": "http://localhost:8081"} {
		if got, err := baseOf(addr); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %s", addr, got, err, want)
		}
	}
	if _, err := baseOf("nowhere"); err == nil {
		t.Error("an address without a port is taken")
	}
}
