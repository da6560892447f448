package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// server is a running vobo with an API key.
type server struct {
	url    string
	key    string
	cmd    *exec.Cmd
	dir    string
	dbURL  string
	client *http.Client
	drop   func()
}

// freshDatabase makes a database for one measurement and a way to drop it.
func freshDatabase(ctx context.Context, base string) (string, func(), error) {
	conn, err := pgx.Connect(ctx, base)
	if err != nil {
		return "", nil, err
	}
	defer conn.Close(ctx) //nolint:errcheck // the process ends soon
	var b [6]byte
	rand.Read(b[:])
	name := "bench_" + hex.EncodeToString(b[:])
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		return "", nil, err
	}
	u, err := url.Parse(base)
	if err != nil {
		return "", nil, err
	}
	u.Path = "/" + name
	drop := func() {
		c, err := pgx.Connect(context.Background(), base)
		if err == nil {
			_, err = c.Exec(context.Background(), "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
			c.Close(context.Background()) //nolint:errcheck // nothing is lost
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "bench: the database", name, "stays:", err)
		}
	}
	return u.String(), drop, nil
}

// serve starts vobo on a fresh database, with a key and the bench definition.
func serve(ctx context.Context, o options, database string, env ...string) (*server, error) {
	dir, err := os.MkdirTemp("", "vobo-bench-")
	if err != nil {
		return nil, err
	}
	s := &server{dir: dir, dbURL: database, drop: func() {}}
	if database == "" {
		if s.dbURL, s.drop, err = freshDatabase(ctx, o.database); err != nil {
			return nil, err
		}
	}
	environ := append(s.environ(filepath.Join(dir, "keys")), env...)
	out, err := command(ctx, o.binary, environ, "keys", "create", "bench", "--role", "requester", "--role", "operator")
	if err != nil {
		return nil, err
	}
	s.key = strings.TrimSpace(out)
	return s, s.launch(ctx, o, environ)
}

// serveNamed starts vobo on a database that is there, with its ring.
func serveNamed(ctx context.Context, o options, database, ring string) (*server, error) {
	dir, err := os.MkdirTemp("", "vobo-bench-")
	if err != nil {
		return nil, err
	}
	s := &server{dir: dir, dbURL: database, drop: func() {}}
	return s, s.launch(ctx, o, s.environ(ring))
}

func (s *server) environ(ring string) []string {
	return append(os.Environ(), "VOBO_DATABASE_URL="+s.dbURL, "VOBO_KEYRING="+ring, "VOBO_DEFINITIONS=purchase.yaml", "VOBO_LOG=warn,text")
}

func (s *server) launch(ctx context.Context, o options, environ []string) error {
	address, err := freeAddress()
	if err != nil {
		return err
	}
	s.url = "http://" + address
	s.cmd = exec.CommandContext(ctx, o.binary, "serve", "--addr", address)
	s.cmd.Env, s.cmd.Stderr = environ, os.Stderr
	if err := s.cmd.Start(); err != nil {
		return err
	}
	s.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true}}
	return s.ready(ctx)
}

func command(ctx context.Context, binary string, environ []string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, binary, args...)
	c.Env, c.Stderr = environ, os.Stderr
	out, err := c.Output()
	return string(out), err
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close() //nolint:errcheck // only the number was wanted
	return l.Addr().String(), nil
}

func (s *server) ready(ctx context.Context) error {
	for range 3000 {
		r, err := s.client.Get(s.url + "/readyz")
		if err == nil {
			r.Body.Close() //nolint:errcheck // nothing was written
			if r.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
	return fmt.Errorf("the server did not become ready")
}

// stop ends the server and takes its files along.
func (s *server) stop() {
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
	if err := s.cmd.Wait(); err != nil {
		fmt.Fprintln(os.Stderr, "bench: the server ended with", err)
	}
	if err := os.RemoveAll(s.dir); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
	s.drop()
}

// residentMiB is the server's resident memory.
func (s *server) residentMiB() (float64, error) {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(s.cmd.Process.Pid) + "/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.SplitSeq(string(status), "\n") {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(rest, "kB")), 64)
			return kb / 1024, err
		}
	}
	return 0, fmt.Errorf("no VmRSS")
}

const startBody = `{"definition":"bench-purchase","data":{"title":"Purchase order 4711","amount":1234.56,"currency":"EUR","requester":"bob@example.test","department":"engineering","items":["laptop","dock","monitor"],"note":"urgent, please approve this week"}}`

// startOne starts an instance and returns its id and link.
func (s *server) startOne() (id, token string, err error) {
	var got struct{ ID, Token string }
	err = s.post("/v1/instances", startBody, true, http.StatusCreated, &got)
	return got.ID, got.Token, err
}

// approve decides by the link.
func (s *server) approve(token string) error {
	return s.post("/v1/callbacks/"+token, `{"event":"approve","comment":"ok"}`, false, http.StatusOK, nil)
}

func (s *server) post(path, body string, keyed bool, want int, into any) error {
	r, err := http.NewRequest(http.MethodPost, s.url+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	if keyed {
		r.Header.Set("Authorization", "Bearer "+s.key)
	}
	res, err := s.client.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close() //nolint:errcheck // read to the end below
	var b bytes.Buffer
	if _, err := io.Copy(&b, res.Body); err != nil {
		return err
	}
	if res.StatusCode != want {
		return fmt.Errorf("%s answered %d: %s", strings.SplitAfterN(path, "/", 4)[0], res.StatusCode, b.String())
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(b.Bytes(), into)
}
