package approval

import (
	"context"
	"crypto/sha256"
	"fmt"
	"mime"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"vobo/internal/callbacks"
	"vobo/internal/definitions"
	"vobo/internal/fault"
	"vobo/internal/fsm"
	"vobo/internal/store"
)

const (
	maxCallBody = 1 << 20 // bytes
	maxCallName = 200     // characters of an event, a definition and a business key
)

// Signed is a call with its Standard Webhooks headers, byte for byte.
type Signed struct {
	ID, Timestamp, Signature string
	Body                     []byte
}

// HookRequest is a call at /v1/hooks/{source}.
type HookRequest struct {
	Source      string
	ContentType string // application/json, or application/cloudevents+json
	Signed
}

// HookResult says what became of a call.
type HookResult struct {
	ID         string          `json:"id"`
	Status     string          `json:"status"` // taken | waiting | refused | expired
	Detail     string          `json:"detail,omitempty"`
	Instance   *Summary        `json:"instance,omitempty"`
	Transition *TransitionView `json:"transition,omitempty"`
	Replayed   bool            `json:"replayed"`
}

// Hook takes a call of a webhook source: verified, kept under its webhook-id, and given
// to the instance that waits for it, now or when its wait begins. Faults: unauthorized
// (unknown source, signature, time), malformed and invalid-input (nothing is kept),
// idempotency-mismatch (the id was used with another body), too-large.
func (s *Service) Hook(ctx context.Context, r HookRequest) (*HookResult, error) {
	if len(r.Body) > maxCallBody {
		return nil, fault.New(fault.TooLarge, "The body is larger than %d KiB. Send documents by reference.", maxCallBody>>10)
	}
	if err := s.verifySigned(ctx, r.Source, &r.Signed); err != nil {
		return nil, err
	}
	call, err := readCall(&r)
	if err != nil {
		return nil, err
	}
	if call.Hashes, err = s.callHashes(ctx, call); err != nil {
		return nil, err
	}
	first, err := s.store.KeepCall(ctx, call, callbackKept, lookFirst)
	if err != nil {
		return nil, err
	}
	replayed := first != nil
	if replayed {
		if string(first.BodyHash) != string(call.BodyHash) {
			return nil, fault.New(fault.IdempotencyMismatch, "This webhook-id was used with another body. Give each new call an id of its own.")
		}
		call = first
	}
	s.metrics.call(map[bool]string{true: "replayed", false: "received"}[replayed])
	if !replayed || call.Status == store.CallWaiting {
		s.lookNow(ctx, call)
	}
	return s.callResult(ctx, call.ID, replayed)
}

// verifySigned checks a call against the keys of its source. Every failure is the same
// fault unauthorized, and rate-limited once too many came from one address.
func (s *Service) verifySigned(ctx context.Context, source string, call *Signed) error {
	from := s.cfg.Secrets.Secrets().Source(source)
	if from == nil {
		from = &callbacks.Source{} // has no keys: nothing is signed with one of them
	}
	if err := from.Verify(call.ID, call.Timestamp, call.Signature, call.Body, s.cfg.Clock()); err != nil {
		return s.attempts.refuse(ctx, err)
	}
	return nil
}

// keptCall is what a source is told of a call that waits; operators see why.
const keptCall = "Its wait has not begun. It is kept until it does, or its time is over."

var namesInstance = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-7`)

// callResult renders what became of a kept call.
func (s *Service) callResult(ctx context.Context, id string, replayed bool) (*HookResult, error) {
	row, err := s.call(ctx, id)
	if err != nil {
		return nil, err
	}
	r := &HookResult{ID: row.ID, Status: row.Status, Detail: row.Detail, Replayed: replayed}
	if row.Status == store.CallWaiting && namesInstance.MatchString(row.Detail) {
		r.Detail = keptCall // which instances there are, and where they stand, is not the source's to know
	}
	if row.Status != store.CallTaken || row.Instance == "" {
		return r, nil
	}
	snap, err := s.store.Snapshot(ctx, row.Instance, s.planner)
	if fault.CodeOf(err) == fault.NotFound { // the call outlives an instance that was removed
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	if row.Seq == 0 {
		summary := summaryOf(&snap.Instance)
		r.Instance = &summary
		return r, nil
	}
	t, err := s.store.TransitionAt(ctx, row.Instance, row.Seq)
	if err != nil {
		return nil, err
	}
	d, err := s.planner.Definition(ctx, snap.Instance.Definition, t.DefinitionVersion)
	if err != nil {
		return nil, err
	}
	res := resultOf(d, snap.Instance, t)
	r.Instance, r.Transition = &res.Instance, &res.Transition
	return r, nil
}

// call reads a kept call. Not-found.
func (s *Service) call(ctx context.Context, id string) (*store.Call, error) {
	page, err := s.store.Calls(ctx, store.CallFilter{ID: id}, store.Paging{Limit: 1})
	if err != nil {
		return nil, err
	}
	if len(page.Items) == 0 {
		return nil, fault.New(fault.NotFound, "There is no such call.")
	}
	return &page.Items[0], nil
}

// readCall reads the body of a verified call: plain, or a CloudEvent in structured mode.
func readCall(r *HookRequest) (*store.Call, error) {
	media := r.ContentType
	if media != "" {
		var err error
		if media, _, err = mime.ParseMediaType(r.ContentType); err != nil {
			return nil, unsupportedCall()
		}
	}
	if media != "" && media != "application/json" && media != "application/cloudevents+json" {
		return nil, unsupportedCall()
	}
	value, err := definitions.DecodeJSON(r.Body)
	if err != nil {
		return nil, err
	}
	body, ok := value.(map[string]any)
	if !ok {
		return nil, badCall("", "Send an object: {\"event\": …} or a CloudEvent.")
	}
	call := &store.Call{Source: r.Source, WebhookID: r.ID}
	sum := sha256.Sum256(r.Body)
	call.BodyHash = sum[:]
	id, err := uuid.NewV7()
	if err != nil {
		return nil, err
	}
	call.ID = id.String()
	if _, cloud := body["specversion"]; cloud || media == "application/cloudevents+json" {
		return call, readCloudEvent(call, body)
	}
	return call, readPlainCall(call, body)
}

func unsupportedCall() error {
	return fault.New(fault.Unsupported, "Send application/json, or application/cloudevents+json in structured mode.")
}

func badCall(pointer, detail string) error {
	return fault.New(fault.InvalidInput, "The call cannot be taken; nothing was kept.").With(fault.Field{Pointer: pointer, Detail: detail})
}

var plainMembers = []string{"event", "input", "comment", "documents", "definition", "key"}

func readPlainCall(call *store.Call, body map[string]any) error {
	for name := range body {
		if !slices.Contains(plainMembers, name) {
			return badCall("/"+pointerPart(name), "There is no such member. Use "+strings.Join(plainMembers, ", ")+".")
		}
	}
	for _, m := range []struct {
		name  string
		most  int
		value *string
	}{{"event", maxCallName, &call.Event}, {"comment", MaxComment, &call.Comment}, {"definition", maxCallName, &call.Definition}, {"key", maxCallName, &call.Key}} {
		if err := textMember(body, m.name, m.most, m.value); err != nil {
			return err
		}
	}
	switch {
	case call.Event == "":
		return badCall("/event", "Name the event.")
	case call.Definition != "" && call.Key == "":
		return badCall("/key", "A definition goes with the business key of one of its instances.")
	}
	call.Input = body["input"]
	if documents, given := body["documents"]; given && documents != nil {
		tree, ok := documents.(map[string]any)
		if !ok {
			return badCall("/documents", "Send an object of documents by name.")
		}
		call.Documents = tree
	}
	return nil
}

// readCloudEvent reads CloudEvents 1.0 in structured mode: the event is the part of the
// type after its last dot, the subject a business key, the data its input.
func readCloudEvent(call *store.Call, body map[string]any) error {
	if body["specversion"] != "1.0" {
		return badCall("/specversion", "Send CloudEvents 1.0: \"specversion\": \"1.0\".")
	}
	if _, binary := body["data_base64"]; binary {
		return badCall("/data_base64", "Send JSON under data.")
	}
	var id, source, kind string
	for _, m := range []struct {
		name  string
		value *string
	}{{"id", &id}, {"source", &source}, {"type", &kind}} {
		if err := textMember(body, m.name, MaxReason, m.value); err != nil {
			return err
		}
		if *m.value == "" {
			return badCall("/"+m.name, "A CloudEvent needs it.")
		}
	}
	if err := textMember(body, "subject", maxCallName, &call.Key); err != nil {
		return err
	}
	call.Event = kind[strings.LastIndex(kind, ".")+1:]
	if call.Event == "" || utf8.RuneCountInString(call.Event) > maxCallName {
		return badCall("/type", "Its part after the last dot is the event's name, of at most "+strconv.Itoa(maxCallName)+" characters.")
	}
	call.Input = body["data"]
	return nil
}

// textMember reads a member that is a text of at most so many characters, or absent.
func textMember(body map[string]any, name string, most int, into *string) error {
	value, given := body[name]
	if !given || value == nil {
		return nil
	}
	text, ok := value.(string)
	if !ok {
		return badCall("/"+name, "Send a text.")
	}
	if utf8.RuneCountInString(text) > most {
		return badCall("/"+name, fmt.Sprintf("Use at most %d characters.", most))
	}
	*into = text
	return nil
}

// pointerPart escapes a name for an RFC 6901 pointer.
func pointerPart(name string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(name) }

// callHashes are under which a call is found: what its input says by the paths of every
// published correlation of its event, and its business key.
func (s *Service) callHashes(ctx context.Context, call *store.Call) ([][]byte, error) {
	shapes, err := s.store.CorrelationPaths(ctx, call.Event)
	if err != nil {
		return nil, err
	}
	var hashes [][]byte
	for _, paths := range shapes {
		pairs := make([]fsm.Pair, len(paths))
		for i, path := range paths {
			pairs[i] = fsm.Pair{Input: path, Value: valueAt(call.Input, path)}
		}
		if hash, ok := fsm.CorrelationHash(call.Event, pairs); ok {
			hashes = append(hashes, hash)
		}
	}
	if call.Key != "" {
		hashes = append(hashes, fsm.KeyHash(call.Definition, call.Key))
	}
	return hashes, nil
}

// valueAt reads a path such as signer.email, lines[0] or tags["a.b"] in a call's input;
// nil where there is nothing.
func valueAt(at any, path string) any {
	for path != "" {
		var name string
		if inner, quoted := bracket(path); inner != "" {
			name, path = inner, strings.TrimPrefix(path[strings.IndexByte(path, ']')+1:], ".")
			if list, ok := at.([]any); ok && !quoted {
				i, err := strconv.Atoi(name)
				if err != nil || i < 0 || i >= len(list) {
					return nil
				}
				at = list[i]
				continue
			}
		} else {
			end := strings.IndexAny(path, ".[")
			if end < 0 {
				end = len(path)
			}
			name, path = path[:end], strings.TrimPrefix(path[end:], ".")
		}
		object, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = object[name]
	}
	return at
}

// bracket reads the index or quoted name with which a path begins; "" where it begins with none.
func bracket(path string) (inner string, quoted bool) {
	rest, ok := strings.CutPrefix(path, "[")
	end := strings.IndexByte(rest, ']')
	if !ok || end < 0 {
		return "", false
	}
	inner = rest[:end]
	if n := len(inner); n > 2 && (inner[0] == '"' || inner[0] == '\'') && inner[n-1] == inner[0] {
		return inner[1 : n-1], true
	}
	return inner, false
}

// CallView is a call of a webhook source as operators see it.
type CallView struct {
	ID         string `json:"id"`
	Source     string `json:"source"`
	WebhookID  string `json:"webhook_id"`
	Event      string `json:"event"`
	Definition string `json:"definition,omitempty"`
	Key        string `json:"key,omitempty"`
	Status     string `json:"status"`
	Detail     string `json:"detail,omitempty"`
	InstanceID string `json:"instance_id,omitempty"`
	Seq        int    `json:"seq,omitempty"`
	ReceivedAt Time   `json:"received_at"`
	ExpiresAt  Time   `json:"expires_at"`
	Input      any    `json:"input,omitempty"`
}

// Calls lists calls of webhook sources. Operators and who oversees.
func (s *Service) Calls(ctx context.Context, c Caller, f store.CallFilter, p store.Paging) (store.Page[CallView], error) {
	var page store.Page[CallView]
	if !oversees(c) {
		return page, fault.New(fault.Forbidden, "Only operators see the calls of webhook sources.")
	}
	rows, err := s.store.Calls(ctx, f, p)
	if err != nil {
		return page, err
	}
	page.Next = rows.Next
	page.Items = make([]CallView, len(rows.Items))
	for i, r := range rows.Items {
		page.Items[i] = CallView{
			ID: r.ID, Source: r.Source, WebhookID: r.WebhookID, Event: r.Event, Definition: r.Definition, Key: r.Key,
			Status: r.Status, Detail: r.Detail, InstanceID: r.Instance, Seq: r.Seq,
			ReceivedAt: Time{r.ReceivedAt}, ExpiresAt: Time{r.ExpiresAt}, Input: r.Input,
		}
	}
	return page, nil
}
