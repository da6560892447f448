// Command vobo is the service, its operators' tools and its client in one binary.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // zone data for images that have none

	"github.com/alecthomas/kong"
)

// Exit statuses.
const (
	exitDone    = 0
	exitRefused = 1 // refused or failed; the reason and the way out are on stderr
	exitUsage   = 2
)

// cli is the command line; each command lives in a file of its own.
type cli struct {
	Demo        demoCmd        `cmd:"" help:"A whole working service in one command, with sample data."`
	Serve       serveCmd       `cmd:"" help:"Run the service."`
	Migrate     migrateCmd     `cmd:"" help:"Bring the database schema up, or show where it is."`
	Definitions definitionsCmd `cmd:"" help:"Check, publish, list, show and draw definitions."`
	Simulate    simulateCmd    `cmd:"" help:"Run scenarios on a virtual clock; needs no server."`
	Instances   instancesCmd   `cmd:"" help:"Start, find, explain and drive instances."`
	Tasks       tasksCmd       `cmd:"" help:"List, show and decide tasks."`
	Effects     effectsCmd     `cmd:"" help:"List, show, retry, resolve and redrive effects."`
	Callbacks   callbacksCmd   `cmd:"" help:"List calls of webhook sources."`
	Sinks       sinksCmd       `cmd:"" help:"List and enable the endpoints of the event feed."`
	Keys        keysCmd        `cmd:"" help:"Make, list and revoke API keys."`
	People      peopleCmd      `cmd:"" help:"Import, list and deactivate people."`
	Keyring     keyringCmd     `cmd:"" help:"Rotate, list, retire and destroy the keys that sign links."`
	Doctor      doctorCmd      `cmd:"" help:"Check settings, database, key ring, mail server and service from outside."`
	Completion  completionCmd  `cmd:"" help:"Print a script for completion in bash, zsh or fish."`
	Version     versionCmd     `cmd:"" help:"Print the version."`
}

// console is where a command reads and writes.
type console struct {
	ctx      context.Context
	out, err io.Writer
	in       io.Reader
	terminal bool // stdout is one
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c := &console{ctx: ctx, out: os.Stdout, err: os.Stderr, in: os.Stdin, terminal: isTerminal(os.Stdout)}
	os.Exit(run(c, os.Args[1:]))
}

// run parses and runs one command line and returns the exit status.
func run(c *console, args []string) (status int) {
	var commands cli
	parser, err := kong.New(&commands, kong.Name("vobo"), kong.Writers(c.out, c.err),
		kong.Description("Durable approvals: versioned state machines, one-time links, deadlines that fire, effects that arrive."),
		kong.UsageOnError(), kong.Exit(func(code int) { panic(exit(code)) }), kong.Bind(c))
	if err != nil {
		fmt.Fprintln(c.err, "vobo:", err)
		return exitUsage
	}
	defer func() { // kong's --help leaves by its Exit
		switch v := recover().(type) {
		case nil:
		case exit:
			status = int(v)
		default:
			panic(v)
		}
	}()
	if err := checkEnvironment(parser.Model, os.Environ()); err != nil {
		fmt.Fprintln(c.err, "vobo:", err)
		return exitUsage
	}
	parsed, err := parser.Parse(args)
	if err != nil {
		fmt.Fprintf(c.err, "vobo: %v (vobo --help shows what there is)\n", err)
		return exitUsage
	}
	if err := parsed.Run(c); err != nil {
		if !errors.Is(err, errQuiet) {
			fmt.Fprintln(c.err, "vobo:", describe(err))
		}
		if _, usage := errors.AsType[usageError](err); usage {
			return exitUsage
		}
		return exitRefused
	}
	return exitDone
}

// exit is how kong leaves after --help.
type exit int

// errQuiet is a failure whose reason was printed already.
var errQuiet = errors.New("refused")

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
