package approval

import (
	"context"
	"encoding/hex"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"vobo/internal/callbacks"
	"vobo/internal/definitions"
	"vobo/internal/fault"
	"vobo/internal/fsm"
	"vobo/internal/store"
)

// mint signs the link of a row; the same row gives the same bytes for ever, so a
// retried mail and a replayed answer carry the same link.
func (s *Service) mint(instance string, row *fsm.Assignee) string {
	if row.Nonce == nil {
		return ""
	}
	aud := callbacks.AudienceLink
	if row.Kind == fsm.AssigneeCallback {
		aud = callbacks.AudienceCallback
	}
	ring := s.cfg.Ring.Ring()
	t, err := ring.Mint(row.Kid, row.Nonce, aud, instance, s.incarnation, issuedAt(instance))
	if fault.CodeOf(err) == fault.NotFound && s.newerRing(ring) {
		t, err = s.cfg.Ring.Ring().Mint(row.Kid, row.Nonce, aud, instance, s.incarnation, issuedAt(instance))
	}
	if err != nil {
		s.log.Warn("a link cannot be signed: its key is gone", "instance", instance, "kid", row.Kid, "error", err)
		return ""
	}
	return t
}

// ringReadAgainAfter spares the ring's file from whoever sends tokens of unknown keys.
const ringReadAgainAfter = time.Second

// newerRing tells whether there is another ring than the one that did not know a key:
// a replica that has taken up a rotation signs links before this one looks for it.
func (s *Service) newerRing(used *callbacks.Ring) bool {
	if s.cfg.ReloadRing == nil {
		return false
	}
	s.ringMu.Lock()
	defer s.ringMu.Unlock()
	if s.cfg.Ring.Ring() != used {
		return true
	}
	if !s.ringRead.IsZero() && s.elapsed(s.ringRead) < ringReadAgainAfter {
		return false
	}
	s.ringRead = s.mono()
	if err := s.cfg.ReloadRing(); err != nil {
		s.log.Warn("the key ring could not be read again", "error", err)
	}
	return s.cfg.Ring.Ring() != used
}

// issuedAt is when the instance began, in Unix seconds, read from its UUIDv7.
func issuedAt(instance string) int64 {
	id, err := uuid.Parse(instance)
	if err != nil {
		return 0
	}
	sec, _ := id.Time().UnixTime()
	return sec
}

// usedTokens remembers, within bounds, which links this process saw used up: their
// replays are answered from the history without taking the lock.
type usedTokens struct {
	mu     sync.RWMutex
	hashes map[[32]byte]struct{}
}

const usedTokensKept = 100_000

func newUsedTokens() *usedTokens { return &usedTokens{hashes: map[[32]byte]struct{}{}} }

func (u *usedTokens) has(h [32]byte) bool {
	u.mu.RLock()
	defer u.mu.RUnlock()
	_, ok := u.hashes[h]
	return ok
}

func (u *usedTokens) add(h [32]byte) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.hashes) >= usedTokensKept {
		clear(u.hashes)
	}
	u.hashes[h] = struct{}{}
}

// verify checks a presented token. Every failure is the same fault invalid-token.
func (s *Service) verify(token string, route Route) (*callbacks.Claims, error) {
	auds := []callbacks.Audience{callbacks.AudienceLink}
	if route == RouteCallback {
		auds = append(auds, callbacks.AudienceCallback)
	}
	ring := s.cfg.Ring.Ring()
	claims, err := ring.Verify(token, auds...)
	if err != nil && !ring.Knows(token) && s.newerRing(ring) {
		claims, err = s.cfg.Ring.Ring().Verify(token, auds...)
	}
	if err != nil {
		return nil, errNotALink
	}
	if claims.Incarnation != s.incarnation {
		return nil, errNotALink
	}
	return claims, nil
}

// errNotALink is the one answer to every token that is not authentic.
var errNotALink = fault.New(fault.InvalidToken, "This link is not valid. Use the newest message you got, or open your inbox.")

// DecideByToken raises an event as the holder of a one-time token. Outcomes are those
// of "Decisions by token"; the same decision again is answered with the first answer.
func (s *Service) DecideByToken(ctx context.Context, token string, route Route, r RaiseRequest, client Caller) (*Result, error) {
	claims, err := s.verify(token, route)
	if err != nil {
		return nil, s.attempts.refuse(ctx, err)
	}
	if err := s.signedIfAsked(ctx, claims, r.Signed); err != nil {
		return nil, err
	}
	ev, err := s.newEvent(fsm.KindRaise, claims.InstanceID)
	if err != nil {
		return nil, err
	}
	ev.Token = true
	if err := fill(ev, r, client); err != nil {
		return nil, s.ClosedOr(ctx, token, route, r.Signed, err)
	}
	if s.used.has(claims.JTIHash) {
		if res, err, ok := s.decideClosed(ctx, claims, ev); ok {
			return res, err
		}
	}
	job := &store.Job{Event: ev, TokenHash: claims.JTIHash[:]}
	if job.Claims, err = idempotencyClaim(Caller{ID: "token:" + hex.EncodeToString(claims.JTIHash[:])}, r.Idem); err != nil {
		return nil, err
	}
	f, err := s.fire(ctx, job)
	if errors.Is(err, errUsedUp) {
		if res, err, ok := s.decideClosed(ctx, claims, ev); ok {
			return res, err
		}
		return nil, fault.Wrap(err, fault.Unavailable, "The answer could not be read. Try again in a moment.")
	}
	if err != nil {
		return nil, tokenRefusal(err)
	}
	return s.result(ctx, f)
}

// signedIfAsked checks the signature of a call by a callback token whose effect says
// `verify`. Fault unauthorized, and nothing is told of the instance.
func (s *Service) signedIfAsked(ctx context.Context, claims *callbacks.Claims, call *Signed) error {
	if claims.Audience != callbacks.AudienceCallback {
		return nil
	}
	snap, err := s.store.TokenLookup(ctx, claims.JTIHash[:], s.planner)
	if err != nil {
		return tokenRefusal(err)
	}
	if snap.Token == nil {
		return errNotALink
	}
	source := fsm.VerifySource(snap.Token)
	if source == "" {
		return nil
	}
	if call == nil {
		call = &Signed{}
	}
	return s.verifySigned(ctx, source, call)
}

// usedUp tells whether a job comes by a link that this process knows to be used up.
func (s *Service) usedUp(job *store.Job) bool {
	return len(job.TokenHash) == 32 && s.used.has([32]byte(job.TokenHash))
}

// noteUse remembers the link of a planned job once it is used up.
func (s *Service) noteUse(job *store.Job) {
	if len(job.TokenHash) != 32 || job.Snapshot == nil || job.Snapshot.Token == nil {
		return
	}
	if token := job.Snapshot.Token; token.Consumed > 0 || consumed(&job.Step, token) {
		s.used.add([32]byte(job.TokenHash))
	}
}

// tokenRefusal gives a signed token without its row the one answer for tokens that are
// not authentic.
func tokenRefusal(err error) error {
	switch fault.CodeOf(err) {
	case fault.NotFound, fault.InvalidToken:
		return errNotALink
	}
	return err
}

// consumed tells whether the step used the presented link up.
func consumed(step *fsm.Step, row *fsm.Assignee) bool {
	if row == nil {
		return false
	}
	for _, c := range step.AssigneeChanges {
		if c.Seq == row.Seq && c.N == row.N && c.Consumed > 0 {
			return true
		}
	}
	return false
}

// decideClosed answers a used-up link from the history, without a lock; ok is false
// where it turns out that the link may still decide.
func (s *Service) decideClosed(ctx context.Context, claims *callbacks.Claims, ev *fsm.Event) (*Result, error, bool) {
	snap, err := s.store.TokenLookup(ctx, claims.JTIHash[:], s.planner)
	if err != nil {
		return nil, tokenRefusal(err), true
	}
	if snap.Token == nil || snap.Token.Consumed == 0 {
		return nil, nil, false
	}
	snap.Vars, snap.Zone = s.cfg.Vars, s.cfg.Zone
	actAsHolder(snap, ev)
	now, err := s.store.Now(ctx)
	if err != nil {
		return nil, err, true
	}
	step := fsm.DecideClosed(snap, ev, now)
	if step == nil {
		return nil, nil, false
	}
	job := &store.Job{Event: ev, TokenHash: claims.JTIHash[:], Snapshot: snap, Step: *step, Now: now}
	if step.Refusal != nil {
		s.refused(ctx, job)
		return nil, step.Refusal, true
	}
	res, err := s.result(ctx, &fired{job: job, replay: step.Replay})
	return res, err, true
}

// ClosedOr gives the fault of a decision that is ill-formed (err), or of a token that is not
// authentic, that must be signed and is not, or whose answer no longer depends on the
// decision: that comes first.
func (s *Service) ClosedOr(ctx context.Context, token string, route Route, signed *Signed, err error) error {
	claims, unknown := s.verify(token, route)
	if unknown != nil {
		return s.attempts.refuse(ctx, unknown)
	}
	if unsigned := s.signedIfAsked(ctx, claims, signed); unsigned != nil {
		return unsigned
	}
	snap, failed := s.store.TokenLookup(ctx, claims.JTIHash[:], s.planner)
	if failed != nil {
		return tokenRefusal(failed)
	}
	now, failed := s.store.Now(ctx)
	if failed != nil {
		return failed
	}
	snap.Vars, snap.Zone = s.cfg.Vars, s.cfg.Zone
	ev := &fsm.Event{Kind: fsm.KindRaise, Instance: claims.InstanceID, Token: true}
	actAsHolder(snap, ev)
	if step := fsm.DecideClosed(snap, ev, now); step != nil && step.Refusal != nil {
		return step.Refusal
	}
	return err
}

// ViewToken reads what a link asks. It changes nothing and records only that the
// link was fetched. Anything that is not an authentic link is fault invalid-token.
func (s *Service) ViewToken(ctx context.Context, token, locale string) (*TokenView, error) {
	claims, err := s.verify(token, RoutePage)
	if err != nil {
		return nil, s.attempts.refuse(ctx, err)
	}
	snap, err := s.store.TokenLookup(ctx, claims.JTIHash[:], s.planner)
	if err != nil {
		return nil, tokenRefusal(err)
	}
	if snap.Instance.ID != claims.InstanceID || snap.Token == nil {
		return nil, errNotALink
	}
	row := snap.Token
	if err := s.store.TokenFetched(ctx, snap.Instance.ID, fsm.EffectID{Seq: row.Seq, N: row.N}); err != nil {
		s.log.Warn("a link's fetch could not be recorded", "instance", snap.Instance.ID, "error", err)
	}
	snap.Vars, snap.Zone = s.cfg.Vars, s.cfg.Zone
	now, err := s.store.Now(ctx)
	if err != nil {
		return nil, err
	}
	return s.tokenView(ctx, snap, token, locale, now)
}

func (s *Service) tokenView(ctx context.Context, snap *fsm.Snapshot, token, locale string, now time.Time) (*TokenView, error) {
	row := snap.Token
	ev := &fsm.Event{Kind: fsm.KindRaise, Instance: snap.Instance.ID, Token: true}
	actAsHolder(snap, ev)
	v := &TokenView{
		Token: token, Instance: summaryOf(&snap.Instance),
		Person:  ActorView{ID: ev.Actor.ID, Name: ev.Actor.Name},
		Outside: strings.HasPrefix(row.Ref, string(definitions.KindEmail)+":"),
	}
	if locale == "" {
		locale = s.localeOf(snap.Directory, ev.Actor.ID)
	}
	if row.Consumed > 0 {
		own, err := s.resultAt(ctx, snap, row.Consumed)
		if err != nil {
			return nil, err
		}
		v.Own = own
	}
	if closed := fsm.DecideClosed(snap, ev, now); closed != nil && closed.Refusal != nil {
		v.Closed = closed.Refusal
	}
	task, err := s.taskOfWait(ctx, snap, row.Wait, taskNumber(row))
	if err != nil {
		return nil, err
	}
	if task != nil {
		v.Task = s.taskView(snap, task, ev.Actor, locale, now)
		v.Task.Why = whyAsked(row.Lines)
		if err := s.addHistory(ctx, snap, &v.Task); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// localeOf is a person's language, "" where the directory says none.
func (s *Service) localeOf(dir *fsm.Directory, id string) string {
	if p := dir.Person(id); p != nil {
		return p.Locale
	}
	return ""
}
