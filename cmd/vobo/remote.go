package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"vobo/client"
)

// remote is the setting of every command that talks to a running server.
type remote struct {
	URL        string `name:"url" env:"VOBO_URL" default:"http://127.0.0.1:8080" help:"The server."`
	APIKey     string `name:"api-key" env:"VOBO_API_KEY" help:"API key; better in the environment, where other users do not see it."`
	OnBehalfOf string `name:"on-behalf-of" placeholder:"PERSON" help:"Act for a person; the key needs the role impersonator."`
}

// listed is the setting of every command that prints a list.
type listed struct {
	Limit int  `default:"50" help:"Rows at most; 0: all."`
	JSON  bool `help:"Print JSON."`
}

// call runs one command against the server; refusals get their way out.
func (r remote) call(c *console, use func(context.Context, *client.Client) error) error {
	server, err := client.New(client.Config{URL: r.URL, Key: r.APIKey, OnBehalfOf: r.OnBehalfOf, Attempts: 3, UserAgent: "vobo-cli/" + version()})
	if err != nil {
		return fmt.Errorf("VOBO_URL: %w", err)
	}
	return r.explain(use(c.ctx, server))
}

// explain says what to do about an error of the server.
func (r remote) explain(err error) error {
	if err == nil || errors.Is(err, errQuiet) {
		return err
	}
	e, ok := errors.AsType[*client.Error](err)
	if !ok {
		if strings.Contains(err.Error(), "does not answer") {
			return fmt.Errorf("%w. Start it with `vobo serve`, or name another in VOBO_URL", err)
		}
		return err
	}
	text := strings.TrimRight(e.Detail, " ")
	for _, f := range e.Errors {
		text += "\n  " + fieldLine(f)
	}
	switch {
	case e.Code() == "unauthorized" && r.APIKey == "":
		text = "VOBO_API_KEY is not set. `vobo keys create NAME --role operator`, beside the server, makes a key."
	case e.Code() == "unauthorized":
		text = "The key in VOBO_API_KEY is not known to " + r.URL + ", has expired or was revoked."
	case e.Code() == "":
		text += fmt.Sprintf(" (%d). Check VOBO_URL: %s", e.Status, r.URL)
	case e.InstanceID != "":
		text += "\n  See: vobo instances show " + e.InstanceID
	}
	return errors.New(text)
}

// fieldLine writes one error of an input or a definition.
func fieldLine(f client.FieldError) string {
	var parts []string
	if f.Pointer != "" {
		parts = append(parts, f.Pointer+":")
	}
	if f.Line > 0 {
		parts = append(parts, fmt.Sprintf("%d:%d:", f.Line, f.Column))
	}
	parts = append(parts, f.Detail)
	if f.Hint != "" {
		parts = append(parts, "("+f.Hint+")")
	}
	return plain(strings.Join(parts, " "))
}

// usageError is a command line that cannot be meant.
type usageError struct{ error }

func wrongUsage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// hint says on stderr what to do next, so that stdout stays the answer.
func hint(c *console, format string, args ...any) {
	fmt.Fprintf(c.err, "next: "+format+"\n", args...)
}

// take reads the first limit rows of a list (0: all) and tells whether there are more.
func take[T any](rows func(func(*T, error) bool), limit int) (out []*T, more bool, err error) {
	out = []*T{}
	for row, err := range rows {
		if err != nil {
			return nil, false, err
		}
		if limit > 0 && len(out) == limit {
			return out, true, nil
		}
		out = append(out, row)
	}
	return out, false, nil
}

// show prints a list as JSON or as a table.
func show[T any](c *console, l listed, rows func(func(*T, error) bool), header []string, line func(*T, time.Time) []string, none string) error {
	items, more, err := take(rows, l.Limit)
	if err != nil {
		return err
	}
	if l.JSON {
		return printJSON(c, items)
	}
	if len(items) == 0 {
		fmt.Fprintln(c.err, none)
		return nil
	}
	table := [][]string{header}
	now := time.Now()
	for _, item := range items {
		table = append(table, line(item, now))
	}
	if err := printTable(c, table); err != nil {
		return err
	}
	if more {
		fmt.Fprintf(c.err, "There are more; --limit 0 prints all.\n")
	}
	return nil
}

// pageSize is how many rows to ask for at once.
func (l listed) pageSize() int {
	if l.Limit <= 0 || l.Limit >= 500 {
		return 500
	}
	return l.Limit + 1 // one more tells whether there are more
}

// jsonArgument reads JSON given as text, as @FILE, or as @- for stdin; exact digits.
func jsonArgument(c *console, flag, text string) (json.RawMessage, error) {
	if text == "" {
		return nil, nil
	}
	raw := []byte(text)
	if path, ok := strings.CutPrefix(text, "@"); ok {
		var err error
		if path == "-" {
			raw, err = io.ReadAll(c.in)
		} else {
			raw, err = os.ReadFile(path)
		}
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", flag, err)
		}
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	var value json.RawMessage
	if err := d.Decode(&value); err != nil {
		return nil, wrongUsage("--%s is not JSON: %s", flag, brokenJSON(raw, err))
	}
	if d.More() {
		return nil, wrongUsage("--%s is not JSON: there is more after the end of the value, at byte %d", flag, d.InputOffset())
	}
	return value, nil
}

// brokenJSON says what is wrong with JSON, and where.
func brokenJSON(raw []byte, err error) string {
	s, ok := errors.AsType[*json.SyntaxError](err)
	if !ok {
		return "the text ends too early"
	}
	at := int(min(s.Offset, int64(len(raw))))
	before := raw[:at]
	return fmt.Sprintf("%v, line %d, column %d", err, bytes.Count(before, []byte("\n"))+1, at-(bytes.LastIndexByte(before, '\n')+1))
}

// documentsArgument reads references to documents by name.
func documentsArgument(c *console, text string) (map[string]client.Document, error) {
	raw, err := jsonArgument(c, "documents", text)
	if err != nil || raw == nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	var docs map[string]client.Document
	if err := d.Decode(&docs); err != nil {
		return nil, wrongUsage(`--documents must be like {"contract": {"name": "c.pdf", "media_type": "application/pdf", "size": 10, "sha256": "…", "uri": "https://…"}}: %w`, err)
	}
	return docs, nil
}

// versioned reads NAME or NAME@VERSION; version 0 is the newest.
func versioned(text string) (name string, number int, err error) {
	name, v, found := strings.Cut(text, "@")
	if !found {
		return name, 0, nil
	}
	if number, err = strconv.Atoi(strings.TrimPrefix(v, "v")); err != nil || number < 1 || name == "" {
		return "", 0, wrongUsage("%q is not NAME or NAME@VERSION, such as onboarding@2", text)
	}
	return name, number, nil
}

// orNone writes "-" for nothing, so that columns stay.
func orNone(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// when is a moment relative to now, "-" for none.
func when(t *time.Time, now time.Time) string {
	if t == nil {
		return "-"
	}
	return ago(*t, now)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
