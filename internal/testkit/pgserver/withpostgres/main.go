// Command withpostgres runs a command beside a throw-away PostgreSQL server,
// whose URL it finds in VOBOTEST_POSTGRES_URL, and ends with its exit status.
//
//	go run ./internal/testkit/pgserver/withpostgres go test ./...
//
// Where the variable is set already, the command runs with that server.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"vobo/internal/testkit/pgserver"
)

func main() {
	status, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "withpostgres:", err)
		status = max(status, 1)
	}
	os.Exit(status)
}

func run(args []string) (status int, err error) {
	if len(args) == 0 {
		return 2, errors.New("name the command to run, for example: withpostgres go test ./internal/store")
	}
	env := os.Environ()
	if os.Getenv(pgserver.URLVariable) == "" {
		server, err := pgserver.Start()
		if err != nil {
			return 1, err
		}
		defer func() { err = errors.Join(err, server.Close()) }()
		env = append(env, pgserver.URLVariable+"="+server.URL())
	}
	// The terminal sends an interrupt to the command as well: wait for it.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = env, os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	go func() {
		for s := range signals {
			if s == syscall.SIGTERM {
				if err := cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
					fmt.Fprintln(os.Stderr, "withpostgres:", err)
				}
			}
		}
	}()
	if err := cmd.Wait(); err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			return max(exit.ExitCode(), 1), nil
		}
		return 1, err
	}
	return 0, nil
}
