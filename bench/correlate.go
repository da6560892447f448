package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// correlate measures signed calls without a token, 16 at a time, each found by what it
// carries: with only the instances that they are for, and beside a million others that
// wait by the same event.
func correlate(ctx context.Context, o options) error {
	const calls = 1_000
	key := []byte("a key of the bench, 32 bytes long")
	secrets := filepath.Join(os.TempDir(), "vobo-bench-secrets.yaml")
	text := "sources:\n  carrier: {secrets: [whsec_" + base64.StdEncoding.EncodeToString(key) + "]}\n"
	if err := os.WriteFile(secrets, []byte(text), 0o600); err != nil {
		return err
	}
	defer os.Remove(secrets) //nolint:errcheck // a temporary file
	s, err := serve(ctx, o, "", "VOBO_WEBHOOK_SECRETS="+secrets, "VOBO_DEFINITIONS=parcel.yaml")
	if err != nil {
		return err
	}
	defer s.stop()
	conn, err := pgx.Connect(ctx, s.dbURL)
	if err != nil {
		return err
	}
	defer conn.Close(ctx) //nolint:errcheck // measured already
	for round, others := range []int{0, 1_000_000} {
		if _, err := conn.Exec(ctx, `INSERT INTO correlations (instance_id, event, hash)
			SELECT gen_random_uuid(), 'arrived', sha256(i::text::bytea) FROM generate_series(1, $1) i`, others); err != nil {
			return err
		}
		if _, err := conn.Exec(ctx, "ANALYZE correlations"); err != nil {
			return err
		}
		if err := s.parcels(round, calls); err != nil {
			return err
		}
		rate, p50, p99, err := s.arrivals(ctx, key, round, calls)
		if err != nil {
			return err
		}
		fmt.Printf("correlate  c=16   beside %7d other waits: %5.0f calls/s taken  p50 %.1f ms  p99 %.1f ms\n", others, rate, p50, p99)
	}
	return nil
}

func (s *server) parcels(round, n int) error {
	for i := range n {
		if err := s.post("/v1/instances", fmt.Sprintf(`{"definition":"bench-parcel","data":{"tracking":"T-%d-%d"}}`, round, i), true, http.StatusCreated, nil); err != nil {
			return err
		}
	}
	return nil
}

func (s *server) arrivals(ctx context.Context, key []byte, round, n int) (rate, p50, p99 float64, err error) {
	next := make(chan int, n)
	for i := range n {
		next <- i
	}
	close(next)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	rate, took, err := load(ctx, 16, time.Minute, func(int) error {
		i, more := <-next
		if !more {
			cancel()
			return nil
		}
		return s.arrive(key, fmt.Sprintf("call-%d-%d", round, i), fmt.Sprintf(`{"event":"arrived","input":{"tracking":"T-%d-%d"}}`, round, i))
	})
	return rate, ms(percentile(took, .5)), ms(percentile(took, .99)), err
}

func (s *server) arrive(key []byte, id, body string) error {
	at := strconv.FormatInt(time.Now().Unix(), 10)
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + at + "." + body))
	r, err := http.NewRequest(http.MethodPost, s.url+"/v1/hooks/carrier", strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("webhook-id", id)
	r.Header.Set("webhook-timestamp", at)
	r.Header.Set("webhook-signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	res, err := s.client.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close() //nolint:errcheck // read to the end below
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusAccepted || !strings.Contains(string(answer), `"status":"taken"`) {
		return fmt.Errorf("the call %s: %d %s", id, res.StatusCode, answer)
	}
	return nil
}
