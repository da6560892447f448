package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/diff"

	"vobo/client"
	"vobo/internal/definitions"
)

// definitionsCmd checks, publishes, lists, shows, compares and draws definitions.
type definitionsCmd struct {
	Lint    definitionsLint    `cmd:"" help:"Check files; needs no server."`
	Publish definitionsPublish `cmd:"" help:"Publish files; the same content again changes nothing."`
	List    definitionsList    `cmd:"" help:"List published versions."`
	Show    definitionsShow    `cmd:"" help:"Print a published version as it was written."`
	Diff    definitionsDiff    `cmd:"" help:"Compare two versions or files."`
	Diagram definitionsDiagram `cmd:"" help:"Draw a version or a file; a file needs no server."`
}

// definitionFile is a file and what it holds.
type definitionFile struct {
	name   string
	source []byte
}

const scenarioSuffix = ".scenario.yaml"

// definitionFiles reads files as they are named, and of folders the *.yaml and *.yml
// that are not scenarios, in the order of their names.
func definitionFiles(paths []string) ([]definitionFile, error) {
	names, err := expand(paths, func(name string) bool {
		return (strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml")) && !isScenario(name)
	})
	if err != nil {
		return nil, err
	}
	files := make([]definitionFile, 0, len(names))
	for _, name := range names {
		source, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		files = append(files, definitionFile{name, source})
	}
	return files, nil
}

func isScenario(name string) bool {
	return strings.HasSuffix(name, scenarioSuffix) || strings.HasSuffix(name, ".scenario.yml")
}

// expand replaces folders by their files that are wanted, sorted.
func expand(paths []string, wanted func(string) bool) ([]string, error) {
	var names []string
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			names = append(names, path)
			continue
		}
		entries, err := os.ReadDir(path) // sorted by name
		if err != nil {
			return nil, err
		}
		before := len(names)
		for _, e := range entries {
			if !e.IsDir() && wanted(e.Name()) {
				names = append(names, filepath.Join(path, e.Name()))
			}
		}
		if len(names) == before {
			return nil, fmt.Errorf("%s holds no file of the kind that is wanted here", path)
		}
	}
	return names, nil
}

type definitionsLint struct {
	Files []string `arg:"" name:"file" help:"Files or folders."`
	JSON  bool     `help:"Print JSON."`
}

// Run implements the command.
func (l *definitionsLint) Run(c *console) error {
	files, err := definitionFiles(l.Files)
	if err != nil {
		return err
	}
	all := definitions.Problems{}
	for _, f := range files {
		_, problems := definitions.Parse(f.name, f.source)
		all = append(all, problems...)
	}
	if l.JSON {
		if err := printJSON(c, all); err != nil {
			return err
		}
	} else {
		for _, p := range all {
			fmt.Fprintln(c.out, plain(p.String()))
		}
		fmt.Fprintln(c.out, lintSummary(len(files), all))
	}
	if all.HasErrors() {
		return errQuiet
	}
	return nil
}

// lintSummary counts the findings: "2 files: 1 error, 3 warnings, 1 not supported yet."
func lintSummary(files int, all definitions.Problems) string {
	counts := map[definitions.Severity]int{}
	for _, p := range all {
		counts[p.Severity]++
	}
	var parts []string
	if n := counts[definitions.Error]; n > 0 {
		parts = append(parts, plural(n, "error"))
	}
	if n := counts[definitions.Warning]; n > 0 {
		parts = append(parts, plural(n, "warning"))
	}
	if n := counts[definitions.NotSupported]; n > 0 {
		parts = append(parts, fmt.Sprintf("%d not supported yet", n))
	}
	if len(parts) == 0 {
		parts = []string{"no problem"}
	}
	return plural(files, "file") + ": " + strings.Join(parts, ", ") + "."
}

type definitionsPublish struct {
	remote
	Files []string `arg:"" name:"file" help:"Files or folders."`
	JSON  bool     `help:"Print JSON."`
}

// Run implements the command. A refused file does not keep the others from being published.
func (p *definitionsPublish) Run(c *console) error {
	files, err := definitionFiles(p.Files)
	if err != nil {
		return err
	}
	return p.call(c, func(ctx context.Context, server *client.Client) error {
		done, refused := []*client.Published{}, 0
		for _, f := range files {
			out, err := server.Publish(ctx, f.source)
			if e, ok := errors.AsType[*client.Error](err); ok && e.Status >= 400 && e.Status < 500 && e.Status != 401 && e.Status != 403 {
				printRefused(c, f.name, e)
				refused++
				continue
			}
			if err != nil {
				return err
			}
			done = append(done, out)
			if !p.JSON {
				printPublished(c, f.name, out)
			}
		}
		if p.JSON {
			if err := printJSON(c, done); err != nil {
				return err
			}
		}
		if refused > 0 {
			fmt.Fprintf(c.err, "vobo: %d of %s refused; nothing of them was published\n", refused, plural(len(files), "file"))
			return errQuiet
		}
		return nil
	})
}

func printRefused(c *console, file string, e *client.Error) {
	if len(e.Errors) == 0 {
		fmt.Fprintf(c.err, "%s: %s\n", file, plain(e.Detail))
	}
	for _, f := range e.Errors {
		at := strings.TrimPrefix(fieldLine(f), ": ")
		fmt.Fprintf(c.err, "%s:%s\n", file, at)
	}
}

func printPublished(c *console, file string, out *client.Published) {
	for _, w := range out.Warnings {
		fmt.Fprintf(c.err, "%s:%d:%d: warning: %s\n", file, w.Line, w.Column, plain(w.Detail))
	}
	verb := "published"
	if !out.Created {
		verb = "was there already"
	}
	fmt.Fprintf(c.out, "%s@%d %s (%.15s…)\n", out.Name, out.Version, verb, out.Hash)
}

type definitionsList struct {
	remote
	listed
}

// Run implements the command.
func (l *definitionsList) Run(c *console) error {
	return l.call(c, func(ctx context.Context, server *client.Client) error {
		return show(c, l.listed, server.Definitions(ctx), []string{"NAME", "VERSION", "TITLE", "LIVE", "PUBLISHED", "BY"},
			func(d *client.Definition, now time.Time) []string {
				return []string{d.Name, fmt.Sprint(d.Version), d.Title, fmt.Sprint(d.Live), ago(d.PublishedAt, now), d.PublishedBy}
			}, "No definition is published. Next: vobo definitions publish FILE")
	})
}

type definitionsShow struct {
	remote
	Name string `arg:"" placeholder:"NAME[@V]"`
	JSON bool   `help:"Print JSON."`
}

// Run implements the command.
func (s *definitionsShow) Run(c *console) error {
	name, v, err := versioned(s.Name)
	if err != nil {
		return err
	}
	return s.call(c, func(ctx context.Context, server *client.Client) error {
		d, err := server.Definition(ctx, name, v)
		if err != nil {
			return err
		}
		if s.JSON {
			return printJSON(c, d)
		}
		_, err = fmt.Fprint(c.out, d.Source)
		return err
	})
}

// source reads a definition from a file, else from the server.
func (r remote) source(c *console, from string) (name string, source []byte, err error) {
	if isFile(from) {
		source, err = os.ReadFile(from)
		return from, source, err
	}
	name, v, err := versioned(from)
	if err != nil {
		return "", nil, err
	}
	err = r.call(c, func(ctx context.Context, server *client.Client) error {
		d, err := server.Definition(ctx, name, v)
		if err != nil {
			return err
		}
		name, source = fmt.Sprintf("%s@%d", d.Name, d.Version), []byte(d.Source)
		return nil
	})
	return name, source, err
}

// isFile tells a path from NAME@V.
func isFile(text string) bool {
	return strings.ContainsAny(text, `/\`) || slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(text))
}

type definitionsDiff struct {
	remote
	A string `arg:"" placeholder:"A" help:"NAME[@V] or a file."`
	B string `arg:"" placeholder:"B" help:"NAME[@V] or a file."`
}

// Run implements the command.
func (d *definitionsDiff) Run(c *console) error {
	nameA, a, err := d.source(c, d.A)
	if err != nil {
		return err
	}
	nameB, b, err := d.source(c, d.B)
	if err != nil {
		return err
	}
	text := diff.Diff(nameA, a, nameB, b)
	if len(text) == 0 {
		fmt.Fprintf(c.err, "%s and %s are the same.\n", nameA, nameB)
		return nil
	}
	left, _ := definitions.Parse(nameA, a)
	right, _ := definitions.Parse(nameB, b)
	if left != nil && right != nil && left.Hash == right.Hash {
		fmt.Fprintln(c.err, "Only comments and layout differ: they mean the same.")
	}
	_, err = c.out.Write(text)
	return err
}

type definitionsDiagram struct {
	remote
	From    string `arg:"" placeholder:"NAME[@V]|FILE"`
	Out     string `short:"o" placeholder:"FILE" help:"Where to write it; stdout unless said."`
	Mermaid bool   `help:"Mermaid text in place of SVG."`
}

// Run implements the command.
func (d *definitionsDiagram) Run(c *console) error {
	name, source, err := d.source(c, d.From)
	if err != nil {
		return err
	}
	def, problems := definitions.Parse(name, source)
	if def == nil {
		return fmt.Errorf("%s has errors and cannot be drawn:\n%s", name, strings.TrimRight(problems.String(), "\n"))
	}
	drawing := def.SVG(definitions.DiagramOptions{})
	if d.Mermaid {
		drawing = []byte(def.Mermaid())
	}
	if d.Out == "" || d.Out == "-" {
		_, err = c.out.Write(drawing)
		return err
	}
	if err := os.WriteFile(d.Out, drawing, 0o644); err != nil {
		return err
	}
	fmt.Fprintf(c.err, "%s is drawn in %s\n", name, d.Out)
	return nil
}
