package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"vobo/client"
)

const (
	signAfter    = 300 * time.Millisecond // how long a signer thinks
	slowSigner   = "@slow.example.com"    // these never sign: an instance that keeps waiting
	outsideGrace = 2 * time.Second
)

// outside is the demo's world around it: a signing service and a core system, on a
// loopback port of their own.
type outside struct {
	addr   string
	server *http.Server
	ctx    context.Context // of the signers; ends at close
	stop   context.CancelFunc
	signer sync.WaitGroup

	mu        sync.Mutex
	contracts map[string]string // by envelope
	vendors   map[string]string // id by Idempotency-Key
}

// startOutside listens on the address of the start before, kept in a file: what was
// queued then is sent to where it was told to. Else on a free port.
func startOutside(file string) (*outside, error) {
	before, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	l, err := net.Listen("tcp", string(before))
	if err != nil || len(before) == 0 {
		if err == nil {
			err = l.Close()
		}
		var lerr error
		if l, lerr = net.Listen("tcp", "127.0.0.1:0"); lerr != nil {
			return nil, errors.Join(lerr, err)
		}
	}
	o := &outside{addr: l.Addr().String(), contracts: map[string]string{}, vendors: map[string]string{}}
	o.ctx, o.stop = context.WithCancel(context.Background())
	if err := os.WriteFile(file, []byte(o.addr), 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /esign/envelopes", o.envelope)
	mux.HandleFunc("GET /esign/envelopes/{id}/contract.txt", o.contract)
	mux.HandleFunc("POST /core/vendors", o.vendor)
	mux.HandleFunc("POST /core/vendors/{id}/close", func(w http.ResponseWriter, r *http.Request) {
		answerJSON(w, http.StatusOK, map[string]string{"id": r.PathValue("id"), "state": "closed"})
	})
	o.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		if err := o.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			slog.Error("the demo's signing service and core system stopped", "error", err)
		}
	}()
	return o, nil
}

func (o *outside) url(path string) string { return "http://" + o.addr + path }

func (o *outside) close() error {
	o.stop()
	ctx, cancel := context.WithTimeout(context.Background(), outsideGrace)
	defer cancel()
	err := o.server.Shutdown(ctx)
	o.signer.Wait()
	return err
}

func answerJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(v); err != nil {
		slog.Debug("a caller of the demo's systems left", "error", err)
	}
}

// envelope takes something to be signed; soon after, its signer signs.
func (o *outside) envelope(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Signer string          `json:"signer"`
		Amount json.RawMessage `json:"amount"`
		Notify string          `json:"notify"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&in); err != nil || in.Notify == "" {
		answerJSON(w, http.StatusBadRequest, map[string]string{"error": "signer, amount and notify are needed"})
		return
	}
	hash := sha256.Sum256([]byte(in.Notify)) // the same envelope when it is sent again
	id := hex.EncodeToString(hash[:6])
	o.mu.Lock()
	_, known := o.contracts[id]
	o.contracts[id] = fmt.Sprintf("Contract of %s for %s a year.\nSigned by %s.\n", in.Signer, in.Amount, in.Signer)
	o.mu.Unlock()
	if !known && !strings.HasSuffix(in.Signer, slowSigner) {
		o.signer.Go(func() { o.sign(id, in.Notify) })
	}
	answerJSON(w, http.StatusCreated, map[string]string{"id": id})
}

// sign answers at the address that the envelope came with.
func (o *outside) sign(id, notify string) {
	select {
	case <-o.ctx.Done():
		return
	case <-time.After(signAfter):
	}
	base, token, found := strings.Cut(notify, "/v1/callbacks/")
	if !found {
		slog.Error("the demo's signing service was given no callback address")
		return
	}
	o.mu.Lock()
	contract := []byte(o.contracts[id])
	o.mu.Unlock()
	hash := sha256.Sum256(contract)
	vobo, err := client.New(client.Config{URL: base, UserAgent: "demo-esign"})
	if err == nil {
		_, err = vobo.Callback(o.ctx, token, client.Decision{EventRequest: client.EventRequest{
			Event: "signed",
			Documents: map[string]client.Document{"contract": {
				Name: "contract.txt", MediaType: "text/plain", Size: int64(len(contract)),
				SHA256: hex.EncodeToString(hash[:]), URI: o.url("/esign/envelopes/" + id + "/contract.txt"),
			}},
		}})
	}
	if err != nil && o.ctx.Err() == nil {
		slog.Error("the demo's signing service was refused", "error", err)
	}
}

func (o *outside) contract(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	text, ok := o.contracts[r.PathValue("id")]
	o.mu.Unlock()
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if _, err := w.Write([]byte(text)); err != nil {
		slog.Debug("a caller of the demo's systems left", "error", err)
	}
}

// vendor makes a supplier in the core system, once per Idempotency-Key.
func (o *outside) vendor(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get("Idempotency-Key")
	o.mu.Lock()
	id, known := o.vendors[key]
	if !known {
		id = fmt.Sprintf("V-%d", 1001+len(o.vendors))
		o.vendors[key] = id
	}
	o.mu.Unlock()
	answerJSON(w, http.StatusCreated, map[string]string{"id": id})
}
