// Package pgserver runs a throw-away PostgreSQL server for tests.
//
// A server lives in a temporary folder, listens on a free port of the loopback
// address only and is stopped, and its folder removed, when the process that
// started it ends, however that ends. It never runs as root.
package pgserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"
)

// URLVariable names the environment variable that holds the URL of a server to
// share; its role must be allowed to create databases.
const URLVariable = "VOBOTEST_POSTGRES_URL"

// FsyncVariable names the environment variable that, set to "on", makes every
// commit reach the disk. The default is off: killing processes loses nothing
// either way, only a crash of the machine would.
const FsyncVariable = "VOBOTEST_FSYNC"

// MaxConnections is what each server accepts at once.
const MaxConnections = 300

const (
	role          = "vobo" // not a superuser, so that missing rights show
	startAttempts = 5      // another process may take the free port first
)

// Server is a running throw-away server.
type Server struct {
	dir    string // holds data/ and log
	bin    string // folder of initdb and pg_ctl
	port   int
	user   *account
	keeper *Keeper
}

// Start makes a new cluster and starts it. The error of a machine without
// PostgreSQL says what to install.
func Start() (*Server, error) {
	bin, err := findBinaries()
	if err != nil {
		return nil, err
	}
	user, err := unprivileged()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "vobo-postgres-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for PostgreSQL: %w", err)
	}
	if err := user.own(dir); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	s := &Server{dir: dir, bin: bin, user: user}
	if err := s.create(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	// From here on the keeper stops the server and removes the folder.
	s.keeper, err = keep(user, `"$1/pg_ctl" stop -D "$2/data" -m immediate >/dev/null 2>&1; rm -rf "$2"`, bin, dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := s.startOnFreePort(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if err := s.createRole(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// URL is where the server's maintenance database is found, as a role that may
// create databases.
func (s *Server) URL() string { return s.urlAs(role) }

func (s *Server) urlAs(user string) string {
	u := url.URL{
		Scheme: "postgres", User: url.User(user), Path: "/postgres", RawQuery: "sslmode=disable",
		Host: net.JoinHostPort("127.0.0.1", fmt.Sprint(s.port)),
	}
	return u.String()
}

// Crash ends the server at once, as a power cut of the database would; its
// clients lose their connections. Resume starts it again.
func (s *Server) Crash() error {
	return s.run("pg_ctl", "stop", "-D", s.data(), "-m", "immediate")
}

// Resume starts a crashed server again, on the same port with the same data.
func (s *Server) Resume() error { return s.start() }

// Close stops the server and removes its folder.
func (s *Server) Close() error { return s.keeper.Close() }

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) create() error {
	// Loopback and trust: the data is made up and gone with the test.
	err := s.run("initdb", "-D", s.data(), "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync")
	if err != nil {
		return err
	}
	fsync := "off"
	if os.Getenv(FsyncVariable) == "on" {
		fsync = "on"
	}
	conf, err := os.OpenFile(filepath.Join(s.data(), "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("configure PostgreSQL: %w", err)
	}
	_, err = fmt.Fprintf(conf, `
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
max_connections = %d
fsync = %s
full_page_writes = %s
timezone = 'America/Sao_Paulo' # not UTC, so that code that forgets the zone shows
log_timezone = 'UTC'
shared_buffers = '128MB'
`, MaxConnections, fsync, fsync)
	return errors.Join(err, conf.Close())
}

func (s *Server) startOnFreePort() error {
	var err error
	for range startAttempts {
		if s.port, err = freePort(); err != nil {
			return err
		}
		if err = s.start(); err == nil {
			return nil
		}
	}
	return err
}

func (s *Server) start() error {
	log := filepath.Join(s.dir, "log")
	err := s.run("pg_ctl", "start", "-D", s.data(), "-w", "-t", "60", "-l", log, "-o", fmt.Sprintf("-p %d", s.port))
	if err == nil {
		return nil
	}
	text, readErr := os.ReadFile(log)
	return errors.Join(fmt.Errorf("%w\nserver log:\n%s", err, text), readErr)
}

func (s *Server) createRole() error {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, s.urlAs("postgres"))
	if err != nil {
		return fmt.Errorf("connect to the new PostgreSQL: %w", err)
	}
	_, err = conn.Exec(ctx, "CREATE ROLE "+role+" LOGIN CREATEDB")
	return errors.Join(err, conn.Close(ctx))
}

func (s *Server) run(program string, args ...string) error {
	cmd := exec.Command(filepath.Join(s.bin, program), args...)
	cmd.Dir = s.dir
	cmd.SysProcAttr = s.user.attributes()
	// pg_ctl's child keeps what it inherits open, so a pipe would never end.
	out, err := os.CreateTemp("", "vobo-postgres-out-")
	if err != nil {
		return fmt.Errorf("run %s: %w", program, err)
	}
	cmd.Stdout, cmd.Stderr = out, out
	runErr := cmd.Run()
	text, readErr := os.ReadFile(out.Name())
	if err := errors.Join(readErr, out.Close(), os.Remove(out.Name())); err != nil {
		return fmt.Errorf("run %s: %w", program, err)
	}
	if runErr != nil {
		return fmt.Errorf("%s: %w\n%s", program, runErr, strings.TrimSpace(string(text)))
	}
	return nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	return port, l.Close()
}
