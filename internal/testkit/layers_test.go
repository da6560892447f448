package testkit

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The house plan: for each room the rooms that it may import. Rooms of one
// storey do not import each other; folders inside a room belong to it. `client`
// imports nothing of ours, tests may import what they like.
var (
	foundation = []string{"fault"}
	language   = append([]string{"definitions"}, foundation...)
	engine     = append([]string{"fsm"}, language...)
	services   = append([]string{"callbacks", "store", "deliver", "markdown"}, engine...)
	useCases   = append([]string{"approval"}, services...)
	edges      = append([]string{"api", "web", "timers", "simulate"}, useCases...)

	mayImport = map[string][]string{
		"fault":       nil,
		"client":      nil,
		"markdown":    nil,
		"definitions": foundation,
		"fsm":         language,
		"callbacks":   engine,
		"store":       engine,
		"deliver":     engine,
		"simulate":    engine,
		"approval":    services,
		"api":         useCases,
		"web":         useCases,
		"timers":      useCases,
		"cmd":         append([]string{"client"}, edges...),
		"testkit":     nil,
		"deploy":      nil,
		"docs":        nil, // examples that readers copy
		"e2e":         nil, // tests only
	}
)

// mayReadClock lists the files outside cmd and the examples of docs that may call time.Now, time.Since
// and time.Until: the store's clock, from which all others get the time.
var mayReadClock = []string{"internal/store/open.go"}

type listedPackage struct {
	ImportPath string
	Name       string
	Dir        string
	Imports    []string
	GoFiles    []string
}

const module = "vobo"

// room names the part of the house that a package belongs to; "" is not ours.
func room(importPath string) string {
	rest, ours := strings.CutPrefix(importPath, module+"/")
	if !ours {
		return ""
	}
	rest = strings.TrimPrefix(rest, "internal/")
	first, _, _ := strings.Cut(rest, "/")
	return first
}

// misplacedImports returns one sentence for each import that the plan forbids.
func misplacedImports(packages []listedPackage) []string {
	var wrong []string
	for _, p := range packages {
		from := room(p.ImportPath)
		allowed, known := mayImport[from]
		if !known {
			wrong = append(wrong, p.ImportPath+" has no place in the plan: give it one in layers_test.go or move it")
			continue
		}
		for _, imported := range p.Imports {
			to := room(imported)
			if to == "" || to == from || slices.Contains(allowed, to) {
				continue
			}
			wrong = append(wrong, fmt.Sprintf("%s imports %s: %s may import only %s", p.ImportPath, imported, from, strings.Join(allowed, ", ")))
		}
	}
	return wrong
}

var vagueNames = []string{"util", "utils", "common", "helper", "helpers", "model", "models", "type", "types"}

func vaguePackages(packages []listedPackage) []string {
	var wrong []string
	for _, p := range packages {
		if slices.Contains(vagueNames, p.Name) || slices.Contains(vagueNames, filepath.Base(p.Dir)) {
			wrong = append(wrong, p.ImportPath+": name it after what it holds")
		}
	}
	return wrong
}

func listPackages(t *testing.T) []listedPackage {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Name,Dir,Imports,GoFiles", "./...")
	cmd.Dir = root(t)
	out, err := cmd.Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			t.Fatalf("go list: %v\n%s", err, exit.Stderr)
		}
		t.Fatal(err)
	}
	var packages []listedPackage
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listedPackage
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}

func root(t *testing.T) string {
	t.Helper()
	dir, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestLayers holds the house plan: which package may import which, who may read
// the clock, and what no test does.
func TestLayers(t *testing.T) {
	t.Parallel()
	t.Run("imports go down only", importsGoDownOnly)
	t.Run("no package has a vague name", noPackageHasAVagueName)
	t.Run("the plan forbids upward, sideways and test-only imports", thePlanForbidsOtherImports)
	t.Run("looplab is imported in one file of the engine", looplabIsImportedOnce)
	t.Run("only cmd and the store's clock read the time", onlyCmdAndTheStoreReadTheTime)
	t.Run("no test skips or sleeps", noTestSkipsOrSleeps)
	t.Run("the source checks find what they look for", theSourceChecksFindWhatTheyLookFor)
}

func importsGoDownOnly(t *testing.T) {
	t.Parallel()
	for _, sentence := range misplacedImports(listPackages(t)) {
		t.Error(sentence)
	}
}

func noPackageHasAVagueName(t *testing.T) {
	t.Parallel()
	for _, sentence := range vaguePackages(listPackages(t)) {
		t.Error(sentence)
	}
}

func thePlanForbidsOtherImports(t *testing.T) {
	t.Parallel()
	for from, imports := range map[string]map[string]bool{
		"internal/fsm":          {"internal/store": false, "internal/definitions": true, "internal/fault": true},
		"internal/store":        {"internal/store/migrations": true, "internal/deliver": false, "internal/approval": false, "internal/fsm": true},
		"internal/api":          {"internal/web": false, "internal/approval": true, "client": false},
		"internal/simulate":     {"internal/store": false, "internal/fsm": true},
		"internal/approval":     {"internal/testkit": false, "internal/deliver": true, "internal/simulate": false},
		"internal/deliver/smtp": {"internal/callbacks": false},
		"client":                {"internal/fault": false},
		"cmd/vobo":              {"internal/web": true, "client": true, "internal/testkit": false},
	} {
		for imported, want := range imports {
			p := listedPackage{ImportPath: module + "/" + from, Imports: []string{"fmt", module + "/" + imported}}
			if allowed := len(misplacedImports([]listedPackage{p})) == 0; allowed != want {
				t.Errorf("%s imports %s: allowed = %v, want %v", from, imported, allowed, want)
			}
		}
	}
	if len(misplacedImports([]listedPackage{{ImportPath: module + "/internal/attic"}})) != 1 {
		t.Error("a package without a place in the plan is let in")
	}
	if len(vaguePackages([]listedPackage{{Name: "smtp", Dir: "/x/util"}, {Name: "models", Dir: "/x/y"}})) != 2 {
		t.Error("a vague package name is let in")
	}
}

func looplabIsImportedOnce(t *testing.T) {
	t.Parallel()
	var importers []string
	eachGoFile(t, func(path string, file *ast.File, _ *token.FileSet) {
		for _, spec := range file.Imports {
			if imported, err := strconv.Unquote(spec.Path.Value); err != nil {
				t.Errorf("%s: %v", path, err)
			} else if imported == "github.com/looplab/fsm" && !strings.HasPrefix(path, "internal/deps/") {
				importers = append(importers, path)
			}
		}
	})
	if len(importers) != 1 || !strings.HasPrefix(importers[0], "internal/fsm/") {
		t.Errorf("looplab/fsm is imported in %q, want exactly one file of internal/fsm", importers)
	}
}

func onlyCmdAndTheStoreReadTheTime(t *testing.T) {
	t.Parallel()
	eachGoFile(t, func(path string, file *ast.File, set *token.FileSet) {
		if strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "cmd/") || strings.HasPrefix(path, "docs/examples/") || slices.Contains(mayReadClock, path) {
			return
		}
		for _, use := range usesOf(file, set, "time", "Now", "Since", "Until") {
			t.Errorf("%s: pass the time in, or hold a clock", use)
		}
	})
}

func noTestSkipsOrSleeps(t *testing.T) {
	t.Parallel()
	eachGoFile(t, func(path string, file *ast.File, set *token.FileSet) {
		if !strings.HasSuffix(path, "_test.go") && !strings.HasPrefix(path, "internal/testkit/") {
			return
		}
		uses := usesOf(file, set, "t", "Skip", "Skipf", "SkipNow")
		if !imports(file, "testing/synctest") { // where sleeping takes no time
			uses = append(uses, usesOf(file, set, "time", "Sleep")...)
		}
		for _, use := range uses {
			t.Errorf("%s: a test runs, and waits for a condition", use)
		}
	})
}

func theSourceChecksFindWhatTheyLookFor(t *testing.T) {
	t.Parallel()
	const source = `package p
import clock "time"
func f(t T) { _ = clock.Now(); now := clock.Now; _ = now; t.Skip("x"); var x X; x.Now(); clock.Sleep(1) }`
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "p.go", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	if found := usesOf(file, set, "time", "Now", "Since"); len(found) != 2 {
		t.Errorf("uses of time.Now: %q, want the call and the value", found)
	}
	if found := usesOf(file, set, "t", "Skip"); len(found) != 1 {
		t.Errorf("uses of t.Skip: %q, want one", found)
	}
}

// usesOf finds SELECTOR.name, where selector is a variable or an import path
// under whatever local name.
func usesOf(file *ast.File, set *token.FileSet, selector string, names ...string) []string {
	local := selector
	for _, spec := range file.Imports {
		if spec.Path.Value == strconv.Quote(selector) && spec.Name != nil {
			local = spec.Name.Name
		}
	}
	var found []string
	ast.Inspect(file, func(node ast.Node) bool {
		if expr, ok := node.(*ast.SelectorExpr); ok && slices.Contains(names, expr.Sel.Name) {
			if on, ok := expr.X.(*ast.Ident); ok && on.Name == local {
				found = append(found, fmt.Sprintf("%s: %s.%s", set.Position(expr.Pos()), selector, expr.Sel.Name))
			}
		}
		return true
	})
	return found
}

func imports(file *ast.File, path string) bool {
	return slices.ContainsFunc(file.Imports, func(spec *ast.ImportSpec) bool { return spec.Path.Value == strconv.Quote(path) })
}

// eachGoFile visits every Go file of the module, whatever its build tags.
func eachGoFile(t *testing.T, visit func(path string, file *ast.File, set *token.FileSet)) {
	t.Helper()
	base, set := root(t), token.NewFileSet()
	visited := 0
	err := filepath.WalkDir(base, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(base, path)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			name := entry.Name()
			if path != base && (strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules" || relative == "bench") {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(path) != ".go" {
			return nil
		}
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		visited++
		visit(filepath.ToSlash(relative), file, set)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if visited == 0 {
		t.Fatal("no Go file was found")
	}
}
