package web

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"vobo/internal/approval"
	"vobo/internal/definitions"
	"vobo/internal/fault"
	"vobo/internal/fsm"
	"vobo/internal/store"
)

// fakeService answers from memory and notes every call that changes something.
type fakeService struct {
	mu      sync.Mutex
	now     time.Time
	people  []fsm.Person
	links   map[string]*approval.TokenView // by token
	tasks   map[string]*approval.TaskView
	order   []string
	results map[string]*approval.Result // first answer of a link
	refuse  error                       // what the next deciding call answers
	logins  map[string]string           // log-in token → person
	session map[string]string           // session → person
	mails   []approval.MailView
	view    approval.InstanceView
	history []approval.TransitionView
	effects []approval.EffectView
	defs    []*definitions.Definition
	changes []string                // calls that change something
	last    approval.RaiseRequest   // of the last decision
	begun   approval.StartRequest   // the last start
	solved  approval.ResolveRequest // the last resolution
	fetched int
	console
}

func (f *fakeService) note(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.changes = append(f.changes, fmt.Sprintf(format, args...))
}

// changed lists the calls that changed something.
func (f *fakeService) changed() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.changes, "; ")
}

func (f *fakeService) decided(r approval.RaiseRequest, by approval.ActorView) (*approval.Result, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = r
	if f.refuse != nil {
		return nil, f.refuse
	}
	raw := json.RawMessage(nil)
	if r.Input != nil {
		raw = definitions.EncodeJSON(r.Input)
	}
	f.changes = append(f.changes, "decide "+r.Event)
	return &approval.Result{
		Instance:   approval.Summary{ID: f.view.ID, Definition: "supplier", Version: 1, State: "signing", Status: fsm.Running, Revision: 5},
		Transition: approval.TransitionView{Seq: 5, Kind: fsm.TTransition, Event: r.Event, From: "pending_approval", To: "signing", Actor: by, Assurance: fsm.ByLink, Comment: r.Comment, Input: raw, At: approval.Time{Time: f.now}},
		Next:       "The contract goes to the signing service. Ana hears when it is signed.", EventLabel: titleOf(r.Event), StateLabel: "Signing",
	}, nil
}

func titleOf(event string) string {
	return strings.ToUpper(event[:1]) + strings.ReplaceAll(event[1:], "_", " ")
}

func (f *fakeService) ViewToken(_ context.Context, token, _ string) (*approval.TokenView, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v, ok := f.links[token]
	if !ok {
		return nil, fault.New(fault.InvalidToken, "This link is not valid.")
	}
	f.fetched++
	seen := *v
	return &seen, nil
}

func (f *fakeService) DecideByToken(_ context.Context, token string, route approval.Route, r approval.RaiseRequest, client approval.Caller) (*approval.Result, error) {
	f.mu.Lock()
	first, v := f.results[token], f.links[token]
	f.mu.Unlock()
	if v == nil || route != approval.RoutePage || client.ID != "" {
		return nil, fault.New(fault.InvalidToken, "This link is not valid.")
	}
	if first != nil {
		same := first.Transition.Event == r.Event && (r.Input == nil && len(first.Transition.Input) == 0 || r.Input != nil && string(definitions.CanonicalJSON(r.Input)) == string(first.Transition.Input))
		if !same {
			return nil, v.Closed
		}
		again := *first
		again.Replayed = true
		return &again, nil
	}
	if v.Closed != nil {
		return nil, v.Closed
	}
	result, err := f.decided(r, v.Person)
	if err != nil {
		return nil, err
	}
	if r.Event == "ask" {
		result.Transition.Kind, result.Token, result.Transition.To = fsm.TStay, "successor", ""
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	used := *v
	used.Own, used.Closed = result, &fault.Error{Code: fault.AlreadyDecided, Message: "You decided this already.", Winner: &fault.Winner{Event: r.Event, Actor: v.Person.Name, At: f.now}}
	f.links[token], f.results[token] = &used, result
	return result, nil
}

func (f *fakeService) Task(_ context.Context, _ approval.Caller, id string) (*approval.TaskView, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t, ok := f.tasks[id]
	if !ok {
		return nil, fault.New(fault.NotFound, "There is no task of this name, or it is not yours to see.")
	}
	seen := *t
	return &seen, nil
}

func (f *fakeService) Tasks(_ context.Context, _ approval.Caller, q approval.TaskQuery, _ store.Paging) (store.Page[approval.TaskView], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	page := store.Page[approval.TaskView]{}
	for _, id := range f.order {
		t := f.tasks[id]
		if (q.Folder == "done") == (t.Status != "open") && q.Folder != "waiting" && strings.Contains(strings.ToLower(t.Title), strings.ToLower(q.Q)) {
			page.Items = append(page.Items, *t)
		}
	}
	return page, nil
}

func (f *fakeService) DecideTask(_ context.Context, c approval.Caller, _ string, r approval.RaiseRequest) (*approval.Result, error) {
	return f.decided(r, approval.ActorView{ID: c.ID, Name: c.Name})
}

func (f *fakeService) InboxCounts(context.Context, approval.Caller) (approval.InboxCounts, error) {
	return approval.InboxCounts{Mine: len(f.order), Groups: len(f.order), Done: 0}, nil
}

func (f *fakeService) Start(_ context.Context, _ approval.Caller, r approval.StartRequest) (*approval.StartResult, error) {
	f.begun = r
	if f.refuse != nil {
		return nil, f.refuse
	}
	f.note("start %s", r.Definition)
	return &approval.StartResult{View: f.view}, nil
}

func (f *fakeService) Raise(_ context.Context, c approval.Caller, _ string, r approval.RaiseRequest) (*approval.Result, error) {
	return f.decided(r, approval.ActorView{ID: c.ID, Name: c.Name})
}

func (f *fakeService) Cancel(_ context.Context, _ approval.Caller, id, reason string, _ approval.Idempotency) (*approval.CancelResult, error) {
	if f.refuse != nil {
		return nil, f.refuse
	}
	f.note("cancel %s: %s", id, reason)
	return &approval.CancelResult{}, nil
}

func (f *fakeService) RaiseAgain(_ context.Context, _ approval.Caller, id, reason string, _ approval.Idempotency) (*approval.Result, error) {
	f.note("raise again %s: %s", id, reason)
	return &approval.Result{}, nil
}

func (f *fakeService) Instance(_ context.Context, _ approval.Caller, id string) (*approval.InstanceView, error) {
	if id != f.view.ID {
		return nil, fault.New(fault.NotFound, "There is no request of this name, or you may not read it.")
	}
	v := f.view
	return &v, nil
}

func (f *fakeService) Instances(_ context.Context, _ approval.Caller, filter store.InstanceFilter, _ store.Paging) (store.Page[approval.InstanceView], error) {
	if filter.Q == "nothing" {
		return store.Page[approval.InstanceView]{}, nil
	}
	other := f.view
	other.ID, other.Key, other.Status, other.State, other.Attention = "0198-b", "B-77120042", fsm.Finished, "active", false
	return store.Page[approval.InstanceView]{Items: []approval.InstanceView{f.view, other}, Next: "more"}, nil
}

func (f *fakeService) History(context.Context, approval.Caller, string, store.Paging) (store.Page[approval.TransitionView], error) {
	return store.Page[approval.TransitionView]{Items: f.history}, nil
}

func (f *fakeService) Explain(context.Context, approval.Caller, string) (*approval.ExplainView, error) {
	at := func(d time.Duration) approval.Time { return approval.Time{Time: f.now.Add(d)} }
	return &approval.ExplainView{
		Sentence: "It waits until Thu 3 Dec, 18:00 for one answer from risk and one from legal; Luis has answered for risk.",
		WaitsFor: []approval.WaitsFor{{Who: "user:luis@example.com", Name: "Luis Pérez", Rule: "group:risk", Voted: true}, {Who: "user:rosa@example.com", Name: "Rosa Gil", Rule: "group:legal"}},
		Quorum:   map[string]fsm.Pending{"approve": {Have: 1, Need: 2}},
		Events:   []approval.ExplainedEvent{{Name: "approve", Title: "Approve", By: []string{"owner"}, Not: []string{"requester"}}, {Name: "reject", Title: "Reject", By: []string{"owner"}}},
		Deadlines: []approval.DeadlineView{
			{Action: "remind", DueAt: at(20 * time.Hour)},
			{Action: "escalate", DueAt: at(50 * time.Hour)},
			{Action: "fire", Event: "expire", DueAt: at(80 * time.Hour)},
		},
		Correlations:  []approval.CorrelationView{{Event: "signed", Pairs: []approval.CorrelationMatch{{Path: "data.email", Input: "input.signer", Value: json.RawMessage(`"alta@talleres.example"`)}, {Path: "data.envelope", Input: "input.envelope"}}}},
		LateResults:   []approval.LateResultView{{Effect: effectAccount, Name: "open_account", Status: fsm.EffectSucceeded, At: at(-time.Hour)}},
		Notifications: []approval.NotificationView{{To: "luis@example.com", Status: "succeeded"}, {To: "rosa@example.com", Status: "retrying", Detail: "451 try again later"}},
	}, nil
}

func (f *fakeService) Links(context.Context, approval.Caller, string) ([]approval.LinkView, error) {
	seen := f.now.Add(-time.Hour)
	return []approval.LinkView{{Person: "luis@example.com", Name: "Luis Pérez", State: "used", FetchedAt: &seen, Fetches: 3, Delivery: "succeeded"}, {Person: "rosa@example.com", Name: "Rosa Gil", State: "live"}}, nil
}

func (f *fakeService) Diagram(context.Context, approval.Caller, string) ([]byte, error) {
	return []byte(`<svg xmlns="http://www.w3.org/2000/svg" width="620" height="120"><style>rect{fill:#eceefa;stroke:#3044a8}text{font:14px sans-serif}</style><rect x="10" y="40" width="120" height="40" rx="8"/><text x="30" y="65">Triage</text><rect x="200" y="40" width="160" height="40" rx="8"/><text x="220" y="65">Pending approval</text><rect x="430" y="40" width="120" height="40" rx="8"/><text x="450" y="65">Signing</text><path d="M130 60h70M360 60h70" stroke="#777"/></svg>`), nil
}

func (f *fakeService) Definitions(context.Context, approval.Caller, store.Paging) (store.Page[approval.DefinitionView], error) {
	page := store.Page[approval.DefinitionView]{}
	for _, d := range f.defs {
		page.Items = append(page.Items, approval.DefinitionView{Name: d.Name, Version: d.Version, Title: titleOf(d.Name)})
	}
	return page, nil
}

func (f *fakeService) Definition(_ context.Context, _ approval.Caller, name string, _ int) (*approval.DefinitionView, *definitions.Definition, error) {
	for _, d := range f.defs {
		if d.Name == name {
			return &approval.DefinitionView{Name: d.Name, Version: d.Version, Title: titleOf(d.Name)}, d, nil
		}
	}
	return nil, nil, fault.New(fault.NotFound, "There is no definition of this name.")
}

func (f *fakeService) RequestLogin(_ context.Context, email, next string) error {
	f.note("login mail %s %s", email, next)
	return nil
}

func (f *fakeService) PeekLogin(_ context.Context, token string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.logins[token] == "" {
		return fault.New(fault.NotFound, "This log-in link does not work.")
	}
	return nil
}

func (f *fakeService) Login(_ context.Context, token string) (string, string, string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	person := f.logins[token]
	if person == "" {
		return "", "", "", fault.New(fault.NotFound, "This log-in link does not work.")
	}
	delete(f.logins, token)
	f.session["fresh"] = person
	f.changes = append(f.changes, "login "+person)
	return "fresh", "csrf-fresh", "/instances?status=running", nil
}

func (f *fakeService) LoginAs(_ context.Context, person string) (string, string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.session["s-"+person] = person
	f.changes = append(f.changes, "login as "+person)
	return "s-" + person, "csrf-s-" + person, nil
}

func (f *fakeService) Session(_ context.Context, session string) (approval.Caller, string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.people {
		if f.session[session] == p.ID && p.Active {
			zone, err := time.LoadLocation(p.Timezone)
			return approval.Caller{Kind: fsm.ActorPerson, ID: p.ID, Name: p.Name, Roles: p.Roles, Assurance: fsm.BySession, Zone: zone}, "csrf-" + session, err
		}
	}
	return approval.Caller{}, "", fault.New(fault.Unauthorized, "You are not logged in.")
}

func (f *fakeService) Logout(_ context.Context, session string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.session, session)
	f.changes = append(f.changes, "logout "+session)
	return nil
}

func (f *fakeService) People(context.Context) ([]fsm.Person, error) { return f.people, nil }

func (f *fakeService) Mailbox(context.Context, store.Paging) (store.Page[approval.MailView], error) {
	return store.Page[approval.MailView]{Items: f.mails}, nil
}

func (f *fakeService) Mail(_ context.Context, id string) (*approval.MailView, error) {
	for i := range f.mails {
		if f.mails[i].ID == id {
			return &f.mails[i], nil
		}
	}
	return nil, fault.New(fault.NotFound, "There is no mail of this name.")
}
