package web

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"vobo/internal/approval"
	"vobo/internal/fault"
	"vobo/internal/fsm"
	"vobo/internal/store"
)

// The console: what operators look after, and those who oversee may read. Who sees
// what is the service's to say; the pages only offer nobody what it would refuse.

// countLimit bounds what a page counts: a number is exact below it.
const countLimit = 50

// count is how many there are; More: or more.
type count struct {
	N    int
	More bool
}

func (c count) String() string {
	if c.More {
		return strconv.Itoa(c.N) + "+"
	}
	return strconv.Itoa(c.N)
}

func (c count) plus(other count) count { return count{N: c.N + other.N, More: c.More || other.More} }

// counted is how many a list holds.
func counted[T any](page store.Page[T], err error) (count, error) {
	return count{N: len(page.Items), More: page.Next != ""}, err
}

func (s *site) countEffects(ctx context.Context, v *visitor, f store.EffectFilter) (count, error) {
	return counted(s.svc.Effects(ctx, v.Caller, f, store.Paging{Limit: countLimit}))
}

func (s *site) countCalls(ctx context.Context, v *visitor, status string) (count, error) {
	return counted(s.svc.Calls(ctx, v.Caller, store.CallFilter{Status: status}, store.Paging{Limit: countLimit}))
}

// needPeople are the statuses of effects that stay until a person says what became of them.
var needPeople = []fsm.EffectStatus{fsm.EffectDead, fsm.EffectUnknown}

// troubleKept is how long the number beside "Attention" is shown before it is counted
// again: it stands on every page.
const troubleKept = 5 * time.Second

// troubles keeps that number; whoever oversees sees the same.
type troubles struct {
	mu    sync.Mutex
	until time.Time
	n     count
}

func (t *troubles) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.until = time.Time{}
}

// trouble is how many things wait for an operator.
func (s *site) trouble(ctx context.Context, v *visitor) (count, error) {
	t := s.troubles
	t.mu.Lock()
	defer t.mu.Unlock()
	now := s.cfg.Now()
	if now.Before(t.until) {
		return t.n, nil
	}
	all, err := s.countEffects(ctx, v, store.EffectFilter{Status: needPeople, Open: true})
	if err != nil {
		return count{}, err
	}
	sinks, err := s.svc.Sinks(ctx, v.Caller)
	if err != nil {
		return count{}, err
	}
	t.n, t.until = all.plus(disabled(sinks)), now.Add(troubleKept)
	return t.n, nil
}

func disabled(sinks []approval.SinkView) (n count) {
	for _, sink := range sinks {
		if !sink.Enabled {
			n.N++
		}
	}
	return n
}

// consoleLink is one page of the console in its own navigation.
type consoleLink struct{ Name, Path string }

var consoleLinks = []consoleLink{{"attention", "/attention"}, {"effects", "/effects"}, {"calls", "/callbacks"}, {"sinks", "/sinks"}}

// console makes the view of one of its pages.
func (s *site) console(v *visitor, section string, body any) *view {
	view := s.page(v, "attention", "", body)
	view.Section, view.Title = section, view.Text("console."+section)
	return view
}

// operators keeps a page from those for whom it would end in a refusal.
func (s *site) operators(h handler) handler {
	return func(c echo.Context, v *visitor) error {
		if !v.HasRole("operator", "admin") {
			return fault.New(fault.Forbidden, "Only operators may do this. Ask one, or an admin for the role.")
		}
		if c.Request().Method == http.MethodPost {
			defer s.troubles.forget()
		}
		return h(c, v)
	}
}

// concern is one line of the attention page.
type concern struct {
	Name  string // keys of its words
	Path  string
	Count count
	Mine  bool // a person must do something
}

type attentionPage struct {
	Concerns []concern
	Urgent   count // what only a person can end
}

// showAttention answers one question: is anything wrong?
func (s *site) showAttention(c echo.Context, v *visitor) error {
	ctx, yes := c.Request().Context(), true
	p := &attentionPage{}
	var failed error
	add := func(name, path string, mine bool, n count, err error) {
		if failed == nil {
			failed = err
		}
		p.Concerns = append(p.Concerns, concern{name, path, n, mine})
		if mine {
			p.Urgent = p.Urgent.plus(n)
		}
	}
	counts, err := s.svc.EffectCounts(ctx, v.Caller)
	if err != nil {
		return err
	}
	effects := func(status fsm.EffectStatus, mine bool) {
		add(string(status), "/effects?status="+string(status), mine, count{N: counts[status]}, nil)
	}
	effects(fsm.EffectUnknown, true)
	effects(fsm.EffectDead, true)
	sinks, err := s.svc.Sinks(ctx, v.Caller)
	add("sinks", "/sinks", true, disabled(sinks), err)
	instances, err := counted(s.svc.Instances(ctx, v.Caller, store.InstanceFilter{Attention: &yes}, store.Paging{Limit: countLimit}))
	add("requests", "/instances?attention=true", false, instances, err)
	effects(fsm.EffectRetrying, false)
	for _, status := range []string{store.CallWaiting, store.CallRefused} {
		n, err := s.countCalls(ctx, v, status)
		add("calls."+status, "/callbacks?status="+status, false, n, err)
	}
	if failed != nil {
		return failed
	}
	return s.render(c, http.StatusOK, "attention", s.console(v, "attention", p))
}

// tab is one choice of a row of tabs.
type tab struct {
	Name  string
	Path  string
	Open  bool
	Count *count // nil: not counted
}

// query writes the parameters that are set.
func query(pairs ...string) string {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	if len(q) == 0 {
		return ""
	}
	return "?" + q.Encode()
}
