package approval

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"sync"
	"time"

	"vobo/internal/fault"
	"vobo/internal/fsm"
	"vobo/internal/store"
)

const (
	keyPrefix    = "vobo_"
	keyCachedFor = time.Second // a key revoked by command is refused within this time
	loginLinkFor = 15 * time.Minute
	sessionFor   = 12 * time.Hour
	sessionIdle  = 2 * time.Hour
)

var errUnauthorized = fault.New(fault.Unauthorized, "Who is calling is not known. Send an API key (Authorization: Bearer vobo_…) or log in.")

// secret is 32 random bytes as text.
func secret() string {
	b := make([]byte, 32)
	rand.Read(b) //nolint:errcheck // crypto/rand never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// NewAPIKey makes a key and the row that is stored of it; the key itself is shown once.
func NewAPIKey(name string, roles []string, now time.Time, expires *time.Time) (string, store.APIKey) {
	key := keyPrefix + secret()
	hash := sha256.Sum256([]byte(key))
	return key, store.APIKey{Name: name, Hash: hash[:], Roles: roles, CreatedAt: now, ExpiresAt: expires}
}

// keyCache spares a look-up per request.
type keyCache struct {
	mu      sync.Mutex
	entries map[[32]byte]keyEntry
}

type keyEntry struct {
	key  store.APIKey
	read time.Time
}

// AuthenticateKey establishes who calls with an API key, perhaps on somebody's behalf.
// Faults: unauthorized; forbidden where the key may not impersonate.
func (s *Service) AuthenticateKey(ctx context.Context, key, onBehalfOf string) (Caller, error) {
	if !strings.HasPrefix(key, keyPrefix) || len(key) > 200 {
		return Caller{}, s.attempts.refuse(ctx, errUnauthorized)
	}
	k, err := s.keyByHash(ctx, sha256.Sum256([]byte(key)))
	if err != nil {
		if fault.CodeOf(err) == fault.NotFound {
			return Caller{}, s.attempts.refuse(ctx, errUnauthorized)
		}
		return Caller{}, err
	}
	c := Caller{Kind: fsm.ActorSystem, ID: "system:" + k.Name, Name: k.Name, Roles: k.Roles, Assurance: fsm.ByKey, Zone: s.cfg.Zone}
	if onBehalfOf == "" {
		return c, nil
	}
	return s.onBehalf(ctx, c, onBehalfOf)
}

func (s *Service) onBehalf(ctx context.Context, key Caller, id string) (Caller, error) {
	if !key.HasRole("impersonator") {
		return Caller{}, fault.New(fault.Forbidden, "This key may not act on anybody's behalf: it lacks the role impersonator.")
	}
	c, err := s.personCaller(ctx, id, fsm.Impersonated)
	if err != nil {
		return Caller{}, err
	}
	c.Via, c.KeyRoles = key.ID, key.Roles
	return c, nil
}

func (s *Service) personCaller(ctx context.Context, id string, sure fsm.Assurance) (Caller, error) {
	dir, err := s.directory(ctx)
	if err != nil {
		return Caller{}, err
	}
	p := dir.Person(id)
	if p == nil || !p.Active {
		return Caller{}, fault.New(fault.Forbidden, "%s is not an active person of the directory.", id)
	}
	zone := s.cfg.Zone
	if z, err := time.LoadLocation(p.Timezone); err == nil && p.Timezone != "" {
		zone = z
	}
	return Caller{
		Kind: fsm.ActorPerson, ID: p.ID, Name: p.Name, Groups: p.Groups, Roles: p.Roles,
		Assurance: sure, Locale: p.Locale, Zone: zone,
	}, nil
}

func (s *Service) keyByHash(ctx context.Context, hash [32]byte) (store.APIKey, error) {
	s.keys.mu.Lock()
	e, ok := s.keys.entries[hash]
	s.keys.mu.Unlock()
	if ok && s.elapsed(e.read) < keyCachedFor {
		return e.key, nil
	}
	k, err := s.store.KeyByHash(ctx, hash[:])
	s.keys.mu.Lock()
	defer s.keys.mu.Unlock()
	if err != nil {
		delete(s.keys.entries, hash)
		return k, err
	}
	s.keys.entries[hash] = keyEntry{k, s.mono()}
	if err := s.store.KeyUsed(ctx, k.Name); err != nil {
		s.log.Warn("the last use of a key could not be noted", "key", k.Name, "error", err)
	}
	return k, nil
}

// RequestLogin sends a one-time login link to an address of the directory. The answer
// is the same for known and unknown addresses, and for a person who was sent enough.
func (s *Service) RequestLogin(ctx context.Context, email, next string) error {
	if err := s.attempts.refuse(ctx, nil); err != nil {
		return err
	}
	dir, err := s.directory(ctx)
	if err != nil {
		return err
	}
	p := personByAddress(dir, email)
	if p == nil || !s.loginMailsTo.allow(p.ID) {
		return nil
	}
	if s.cfg.Mailer == nil {
		return s.mailLogin(ctx, p, next)
	}
	s.outbox.work.Go(func() { // so that the answer takes as long for an unknown address
		ctx, cancel := context.WithTimeout(s.outbox.ctx, lease)
		defer cancel()
		if err := s.mailLogin(ctx, p, next); err != nil {
			s.log.Warn("a login link could not be made", "person", p.ID, "error", err)
		}
	})
	return nil
}

// mailLogin makes a login link and mails it.
func (s *Service) mailLogin(ctx context.Context, p *fsm.Person, next string) error {
	now, err := s.store.Now(ctx)
	if err != nil {
		return err
	}
	token, row := NewLoginLink(p.ID, next, now)
	if err := s.store.CreateLoginLink(ctx, row); err != nil {
		return err
	}
	return s.sendLogin(ctx, p, token, now)
}

// NewLoginLink makes a one-time login token and the row that is stored of it: /login/TOKEN
// logs the person in, once, within a quarter of an hour.
func NewLoginLink(person, next string, now time.Time) (string, store.LoginLink) {
	token := secret()
	hash := sha256.Sum256([]byte(token))
	return token, store.LoginLink{Hash: hash[:], Person: person, Next: next, ExpiresAt: now.Add(loginLinkFor)}
}

func personByAddress(dir *fsm.Directory, email string) *fsm.Person {
	email = strings.TrimSpace(email)
	for _, p := range dir.People() {
		if p.Active && (strings.EqualFold(p.Email, email) || p.ID == email) {
			return p
		}
	}
	return nil
}

// PeekLogin tells whether a login link would work, without using it.
func (s *Service) PeekLogin(ctx context.Context, token string) error {
	hash := sha256.Sum256([]byte(token))
	_, err := s.store.PeekLoginLink(ctx, hash[:])
	return s.deadLink(ctx, err)
}

// deadLink counts a login link that is not live.
func (s *Service) deadLink(ctx context.Context, err error) error {
	if fault.CodeOf(err) == fault.NotFound {
		return s.attempts.refuse(ctx, err)
	}
	return err
}

// Login takes a login link, once, and begins a session.
func (s *Service) Login(ctx context.Context, token string) (session, csrf, next string, err error) {
	hash := sha256.Sum256([]byte(token))
	link, err := s.store.UseLoginLink(ctx, hash[:])
	if err != nil {
		return "", "", "", s.deadLink(ctx, err)
	}
	session, csrf, err = s.LoginAs(ctx, link.Person)
	return session, csrf, link.Next, err
}

// LoginAs begins a session for a person. Only Login and the demo's picker may call it.
func (s *Service) LoginAs(ctx context.Context, person string) (session, csrf string, err error) {
	if _, err := s.personCaller(ctx, person, fsm.BySession); err != nil {
		return "", "", err
	}
	now, err := s.store.Now(ctx)
	if err != nil {
		return "", "", err
	}
	session, csrf = secret(), secret()
	hash := sha256.Sum256([]byte(session))
	err = s.store.CreateSession(ctx, store.Session{
		Hash: hash[:], Person: person, CreatedAt: now, SeenAt: now,
		ExpiresAt: now.Add(sessionFor), Assurance: fsm.BySession, CSRF: csrf,
	})
	if err == nil {
		err = s.store.Audit(ctx, store.AuditLine{Actor: person, Action: "logged-in"})
	}
	return session, csrf, err
}

// Session establishes who calls with a session cookie. Fault unauthorized.
func (s *Service) Session(ctx context.Context, session string) (Caller, string, error) {
	if session == "" || len(session) > 200 {
		return Caller{}, "", errUnauthorized
	}
	hash := sha256.Sum256([]byte(session))
	row, err := s.store.SessionByHash(ctx, hash[:], sessionIdle)
	if err != nil {
		if fault.CodeOf(err) == fault.NotFound {
			return Caller{}, "", errUnauthorized
		}
		return Caller{}, "", err
	}
	c, err := s.personCaller(ctx, row.Person, row.Assurance)
	if err != nil {
		return Caller{}, "", errUnauthorized
	}
	return c, row.CSRF, s.store.TouchSession(ctx, hash[:])
}

// Logout ends a session.
func (s *Service) Logout(ctx context.Context, session string) error {
	hash := sha256.Sum256([]byte(session))
	return s.store.DeleteSession(ctx, hash[:])
}

// People returns everybody in the directory, by id.
func (s *Service) People(ctx context.Context) ([]fsm.Person, error) {
	dir, err := s.directory(ctx)
	if err != nil {
		return nil, err
	}
	all := dir.People()
	out := make([]fsm.Person, len(all))
	for i, p := range all {
		out[i] = *p
	}
	return out, nil
}
