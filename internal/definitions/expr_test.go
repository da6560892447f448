package definitions

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"vobo/internal/fault"
)

// mustSchema compiles a schema written as JSON.
func mustSchema(t testing.TB, text string) *Schema {
	t.Helper()
	v, err := DecodeJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	s, problems := compileSchema(v)
	if len(problems) > 0 {
		t.Fatalf("schema: %+v", problems)
	}
	return s
}

func mustTree(t testing.TB, text string) map[string]any {
	t.Helper()
	v, err := DecodeJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	m, ok := v.(map[string]any)
	if !ok {
		t.Fatalf("%s is no object", text)
	}
	return m
}

const orderSchema = `{"type":"object","required":["name","amount"],"properties":{
	"name":{"type":"string"},"amount":{"type":"number"},"limit":{"type":"integer"},"big":{"type":"integer"},
	"risk":{"enum":["low","high"]},"tags":{"type":"array","items":{"type":"string"}},"any":{},"free":{"type":"object"},"hits":{"type":"array"},
	"until":{"type":"string","format":"date-time"},"day":{"type":"string","format":"date"},"yes":{"type":"boolean"},"maybe":{"type":["string","null"]},
	"applicant":{"type":"object","required":["name"],"properties":{"name":{"type":"string"},"email":{"type":"string"}}},
	"other":{"type":"object","properties":{"name":{"type":"string"},"email":{"type":"string"}}},
	"open":{"type":"object","properties":{"a":{"type":"integer"}},"additionalProperties":{"type":"integer"}},
	"next":{"type":"integer"},
	"prices":{"type":"array","items":{"type":"number"}},
	"lines":{"type":"array","items":{"type":"object","required":["id","cents"],"properties":{"id":{"type":"string"},"cents":{"type":"integer"},"reason":{"type":"string"}}}}}}`

const orderData = `{"name":"Eva","amount":500,"big":9007199254740993,"risk":"low","tags":["a","b"],"any":{"x":{"y":1}},"free":{"k":[1,2.5,"s"]},"hits":[],
	"until":"2026-12-04T10:00:00+01:00","day":"2026-12-04","yes":true,"maybe":null,"applicant":{"name":"Eva"},"other":{"name":"Eva"},
	"open":{"a":1,"zz":7},"next":1,"prices":[0.1,0.2],"lines":[{"id":"l1","cents":250},{"id":"l2","cents":9,"reason":"why"}]}`

func orderScope(t testing.TB) *scope {
	return newScope(mustSchema(t, orderSchema)).with("actor", "instance", "last", "votes", "open_votes", "visits", "result", "response", "undone", "callback", "env", "now").
		withInput(mustSchema(t, `{"type":"object","properties":{"limit":{"type":"integer"},"name":{"type":"string"}}}`)).
		withLocal("region", nil).withCalendars([]string{"office"}).withEvents([]string{"approve", "reject"})
}

func orderEnv(t testing.TB) *Env {
	madrid, err := time.LoadLocation("Europe/Madrid")
	if err != nil {
		t.Fatal(err)
	}
	return &Env{
		Data: mustTree(t, orderData), Input: mustTree(t, `{"limit":7}`),
		Actor:     ActorVars{ID: "ana@example.com", Name: "Ana", Groups: []string{"risk", "legal"}},
		Instance:  InstanceVars{ID: "i1", Definition: "order", Version: 2, State: "pending", Requester: "rosa", StartedAt: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)},
		Last:      LastVars{Event: "ask", Actor: ActorVars{ID: "luis"}, Comment: "why?", At: time.Date(2026, 12, 4, 9, 0, 0, 5e6, time.UTC)},
		Votes:     map[string][]VoteVars{"approve": {{Actor: ActorVars{ID: "ana", Groups: []string{"risk"}}, Comment: "ok"}}},
		OpenVotes: 2, Visits: 3, Result: mustTree(t, `{"id":"acc-1","n":18446744073709551615}`), Status: 201,
		Undone:   UndoneVars{Result: mustTree(t, `{"id":"u1"}`)},
		Callback: CallbackVars{URL: "\x00cb\x00", URLs: map[string]string{"signed": "\x00cb:signed\x00"}},
		Vars:     map[string]string{"CORE_URL": "https://core.example/api", "HOST": "h.example"},
		Locals:   map[string]any{"region": "north"},
		Now:      time.Date(2026, 12, 4, 9, 30, 0, 0, time.UTC), Zone: madrid,
	}
}

func TestAnExpressionGivesAJSONTree(t *testing.T) {
	t.Parallel()
	sc, env := orderScope(t), orderEnv(t)
	for text, want := range map[string]string{
		"data.name":                                           `"Eva"`,
		"data.amount":                                         `500`,
		"data.amount + 0.5":                                   `500.5`,
		"data.amount < 1000":                                  `true`, // double and int compare
		"data.amount == 500":                                  `true`,
		"data.amount != 500":                                  `false`,
		"data.amount in [1, 500]":                             `true`,
		"data.big == 9007199254740993":                        `true`, // field report B48
		"data.big + 1":                                        `9007199254740994`,
		"data.big > 9007199254740992":                         `true`,
		"data.risk == 'low' && data.yes":                      `true`,
		"data.maybe == null":                                  `true`,
		"data.applicant":                                      `{"name":"Eva"}`,
		"data.applicant == data.other":                        `true`,
		"data.applicant == {'name': 'Eva'}":                   `true`,
		"has(data.limit)":                                     `false`,
		"has(data.name)":                                      `true`,
		"has(data.applicant.email)":                           `false`,
		"has(data.any.x) && !has(data.any.z)":                 `true`,
		"data.any.x.y + 1":                                    `2`,
		"data.free.k[1]":                                      `2.5`,
		"data.free.k":                                         `[1,2.5,"s"]`,
		"data.open.zz + data.open.a":                          `8`,
		"size(data.hits) == 0":                                `true`,
		"size(data.name)":                                     `3`,
		"'x' in data.free":                                    `false`,
		"'a' in data.tags":                                    `true`,
		"data.tags.join(', ')":                                `"a, b"`,
		"data.tags + ['c']":                                   `["a","b","c"]`,
		"['z'] + data.tags":                                   `["z","a","b"]`,
		"data.lines.map(l, l.cents)":                          `[250,9]`,
		"sum(data.lines.map(l, l.cents))":                     `259`,
		"double(sum(data.lines.map(l, l.cents)))/100.0":       `2.59`,
		"sum(data.prices)":                                    `0.30000000000000004`,
		"sum(data.hits)":                                      `0`,
		"sum(data.prices.filter(p, p > 5.0)) / 2.0":           `0`,
		"round(sum(data.prices), 2)":                          `0.3`,
		"round(2.675, 2)":                                     `2.68`,
		"round(-2.5, 0)":                                      `-3`,
		"round(7, 2)":                                         `7`,
		"data.lines.filter(l, l.id != 'l1')":                  `[{"cents":9,"id":"l2","reason":"why"}]`,
		"data.lines.all(l, l.cents > 1 || has(l.reason))":     `true`,
		"data.lines[data.next].id":                            `"l2"`,
		"data.lines[0]":                                       `{"cents":250,"id":"l1"}`,
		"data.lines.exists_one(l, l.id == 'l2')":              `true`,
		"input.limit * 2":                                     `14`,
		"actor.groups":                                        `["risk","legal"]`,
		"'risk' in actor.groups":                              `true`,
		"actor":                                               `{"groups":["risk","legal"],"id":"ana@example.com","name":"Ana","roles":[]}`,
		"instance.requester + '/' + string(instance.version)": `"rosa/2"`,
		"instance.started_at":                                 `"2026-12-01T00:00:00.000Z"`,
		"last.comment":                                        `"why?"`,
		"last.actor.id == 'luis'":                             `true`,
		"last.at":                                             `"2026-12-04T09:00:00.005Z"`,
		"votes.approve.exists(v, 'risk' in v.actor.groups)":   `true`,
		"size(votes.reject)":                                  `0`,
		"votes.approve.map(v, v.comment)":                     `["ok"]`,
		"votes.reject":                                        `[]`,
		"open_votes + visits":                                 `5`,
		"result.id":                                           `"acc-1"`,
		"result.n":                                            `18446744073709551615`,
		"response.status":                                     `201`,
		"undone.result.id":                                    `"u1"`,
		"env.CORE_URL":                                        `"https://core.example/api"`,
		"region":                                              `"north"`,
		"now":                                                 `"2026-12-04T09:30:00.000Z"`,
		"now - instance.started_at":                           `"PT293400S"`,
		"date(data.day)":                                      `"2026-12-03T23:00:00.000Z"`,
		"date(now) == date(data.day)":                         `true`,
		"timestamp(data.until) < now":                         `true`,
		"days(data.day, now)":                                 `0`,
		"days(date('2026-12-01'), date('2026-12-24'))":        `23`,
		"days('2026-12-24', '2026-12-01')":                    `-23`,
		"add(date(data.day), 'P1M')":                          `"2027-01-03T23:00:00.000Z"`,
		"add('2026-01-31', 'P1M')":                            `"2026-02-27T23:00:00.000Z"`, // clamps to the month's last day
		"add(date('2026-03-28'), 'P1D')":                      `"2026-03-28T23:00:00.000Z"`,
		"add(date('2026-03-29'), 'P1D')":                      `"2026-03-29T22:00:00.000Z"`, // a day of 23 hours
		"add(now, 'PT36H')":                                   `"2026-12-05T21:30:00.000Z"`,
		"add(now, '-P1D')":                                    `"2026-12-03T09:30:00.000Z"`,
		"add(now, now - now)":                                 `"2026-12-04T09:30:00.000Z"`,
		"string(add(now, 'P1D'))":                             `"2026-12-05T09:30:00Z"`,
		"data.yes ? 'a' : 'b'":                                `"a"`,
		"data.missing.x == 1 || true":                         ``,
		"math.greatest(1, 2)":                                 `2`,
		"sets.contains(data.tags, ['a'])":                     `true`,
		"[3, 1].sort()":                                       `[1,3]`,
		"{'a': data.amount, 'b': [null, true]}":               `{"a":500,"b":[null,true]}`,
		"1e300 * 10.0":                                        `1` + strings.Repeat("0", 301),
		"0.1":                                                 `0.1`,
		"b'abc'":                                              `"YWJj"`,
		"type(1)":                                             `"int"`,
		"'data.limit'.startsWith('data')":                     `true`,
		"data.name.matches('^E[a-z]+$')":                      `true`,
		"dyn(data.applicant).name":                            `"Eva"`,
		"[data.applicant, data.other][1].name":                `"Eva"`,
		"callback.url":                                        `"\u0000cb\u0000"`,
	} {
		if want == "" {
			continue
		}
		e, problems := compileExpr(text, wantAny, sc)
		if hasErrors(problems) {
			t.Errorf("%s: %+v", text, problems)
			continue
		}
		v, err := e.Eval(env)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := string(EncodeJSON(v)); got != want {
			t.Errorf("%s = %s, want %s", text, got, want)
		}
	}
}

func TestAnExpressionThatFailsSaysWhy(t *testing.T) {
	t.Parallel()
	sc, env := orderScope(t), orderEnv(t)
	env.Data["huge"] = json.Number("1")
	for text, want := range map[string]string{
		"data.limit":                        "data.limit is not set.",
		"data.limit < 5":                    "data.limit is not set.",
		"data.applicant.email == 'x'":       "data.applicant.email is not set.",
		"data.lines[5].id":                  "data.lines[5] is not set.",
		"data.lines[5].id == 'x'":           "a list has no entry [5]",
		"data.lines.all(l, l.reason != '')": "l.reason is not set.",
		"data.any.q.r == 1":                 "data.any.q is not set.",
		"input.name == 'x'":                 "input.name is not set.",
		"result.n == 1":                     "too large for an expression",
		"9223372036854775807 + data.next":   "overflow",
		"1 / (data.next - 1)":               "divi",
		"data.amount / 0.0":                 "not a finite number",
		"env.OTHER":                         "env.OTHER is not configured.",
		"'a' + env.OTHER":                   "env.OTHER is not configured.",
		"callback.urls.declined":            "callback.urls.declined is not set.",
		"date('never')":                     `"never" is neither a date nor a time`,
		"add(now, 'soon')":                  "no ISO 8601 duration",
		"add(now, 'P')":                     "no ISO 8601 duration",
		"add(now, 'P9999999Y')":             "out of range",
		"add(now, 'PT9999999999S')":         "out of range", // field report B19
		"int(data.name)":                    "cannot be evaluated",
		"sum([1, 9223372036854775807])":     "overflow",
		"round(1.5, 99)":                    "0 to 15 digits",
		"sum(data.free.k)":                  "sum takes numbers",
		"{1: 2}":                            "a key of an object",
		"workdays(now, now, 'office') > 1":  "not supported yet",
		"add(now, 'P1D', 'office')":         "not supported yet",
		"isopen(now, 'office')":             "not supported yet",
	} {
		e, problems := compileExpr(text, wantAny, sc)
		if hasErrors(problems) {
			t.Errorf("%s: %+v", text, problems)
			continue
		}
		v, err := e.Eval(env)
		if err == nil {
			t.Errorf("%s gave %v", text, v)
			continue
		}
		if f := fault.As(err); f.Code != fault.GuardRejected || !strings.Contains(f.Message, want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
