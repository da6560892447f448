package testkit

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"vobo/internal/testkit/pgserver"
)

// BinaryVariable names the environment variable with the path of a vobo binary
// that is built already; without it each test binary builds one.
const BinaryVariable = "VOBOTEST_BINARY"

// built is the vobo binary of this test run and what removes it afterwards.
var built = sync.OnceValues(func() (binary, error) {
	if given := os.Getenv(BinaryVariable); given != "" {
		return binary{path: given}, nil
	}
	root, err := moduleRoot()
	if err != nil {
		return binary{}, err
	}
	dir, err := os.MkdirTemp("", "vobo-binary-")
	if err != nil {
		return binary{}, err
	}
	keeper, err := pgserver.RemoveAtExit(dir)
	if err != nil {
		return binary{}, errors.Join(err, os.RemoveAll(dir))
	}
	b := binary{path: filepath.Join(dir, "vobo"), keeper: keeper}
	args := []string{"build", "-o", b.path}
	if raceFlag != "" {
		args = append(args, raceFlag)
	}
	cmd := exec.Command("go", append(args, "./cmd/vobo")...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return binary{}, errors.Join(fmt.Errorf("build vobo: %w\n%s", err, out), keeper.Close())
	}
	return b, nil
})

type binary struct {
	path   string
	keeper *pgserver.Keeper
}

// Binary returns the path of the vobo binary, built once per test run.
func Binary(t testing.TB) string {
	t.Helper()
	b, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return b.path
}

// moduleRoot is the folder of go.mod above the test's own.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("there is no go.mod above the test's folder")
		}
		dir = parent
	}
}

// Launch says how to start a process.
type Launch struct {
	Binary string            // empty: the vobo binary
	Args   []string          // nil: serve
	Env    map[string]string // VOBO_* and others; nothing else of the test's environment but PATH reaches it
	Dir    string            // working folder; empty: a fresh one
	Opens  bool              // it is no vobo server: it is ready as soon as it listens
}

// Process is the real binary at work on a free port of the loopback address.
type Process struct {
	URL string // where it listens; VOBO_BASE_URL may differ

	t      testing.TB
	launch Launch
	mu     sync.Mutex
	cmd    *exec.Cmd
	logs   *lockedBuffer
	ended  chan struct{} // closed when cmd has been waited for
	err    error         // of cmd, once ended
}

// Serve starts the binary and waits until /readyz answers 200. When the test
// ends it is stopped; if the test failed, its log is printed.
func Serve(t testing.TB, launch Launch) *Process {
	t.Helper()
	if launch.Binary == "" {
		launch.Binary = Binary(t)
	}
	if launch.Args == nil {
		launch.Args = []string{"serve"}
	}
	if launch.Dir == "" {
		launch.Dir = t.TempDir()
	}
	launch.Env = maps.Clone(launch.Env)
	if launch.Env == nil {
		launch.Env = map[string]string{}
	}
	if launch.Env["VOBO_ADDR"] == "" {
		launch.Env["VOBO_ADDR"] = FreeAddress(t)
	}
	p := &Process{t: t, launch: launch, URL: "http://" + launch.Env["VOBO_ADDR"], logs: &lockedBuffer{}}
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("log of %s %s:\n%s", filepath.Base(launch.Binary), strings.Join(launch.Args, " "), p.Logs())
		}
	})
	p.Start()
	return p
}

// FreeAddress returns a loopback address that nobody listens on.
func FreeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return l.Addr().String()
}

// Start starts a process that was killed or stopped again, on the same port
// with the same settings, and waits until it is ready.
func (p *Process) Start() {
	p.t.Helper()
	p.Launch()
	p.WaitReady()
}

// Launch is Start without the wait.
func (p *Process) Launch() {
	p.t.Helper()
	cmd := command(p.launch)
	cmd.Stdout, cmd.Stderr = p.logs, p.logs
	if err := cmd.Start(); err != nil {
		p.t.Fatalf("start %s: %v", p.launch.Binary, err)
	}
	ended := make(chan struct{})
	p.mu.Lock()
	p.cmd, p.ended, p.err = cmd, ended, nil
	p.mu.Unlock()
	go func() {
		err := cmd.Wait()
		p.mu.Lock()
		p.err = err
		p.mu.Unlock()
		close(ended)
	}()
}

func command(launch Launch) *exec.Cmd {
	cmd := exec.Command(launch.Binary, launch.Args...)
	cmd.Dir = launch.Dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + launch.Dir, "TMPDIR=" + os.TempDir()}
	for _, name := range slices.Sorted(maps.Keys(launch.Env)) {
		cmd.Env = append(cmd.Env, name+"="+launch.Env[name])
	}
	return cmd
}

// WaitReady waits until /readyz answers 200, and fails the test at once when
// the process ends instead.
func (p *Process) WaitReady() {
	p.t.Helper()
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	gone := false
	ready := eventually(Patience, func() bool {
		if gone = !p.Running(); gone {
			return true
		}
		answer, err := client.Get(p.URL + "/readyz")
		if err != nil {
			return false // not listening yet
		}
		return answer.Body.Close() == nil && (p.launch.Opens || answer.StatusCode == http.StatusOK)
	})
	if gone {
		p.t.Fatalf("%s ended instead of serving: %v", p.launch.Binary, p.result())
	}
	if !ready {
		p.t.Fatalf("%s/readyz did not answer 200 within %s", p.URL, Patience)
	}
}

// Running tells whether the process has not ended.
func (p *Process) Running() bool {
	select {
	case <-p.current():
		return false
	default:
		return true
	}
}

func (p *Process) current() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

func (p *Process) result() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// Kill ends the process as a power cut would (SIGKILL) and waits for its end.
// One that has ended already stays ended.
func (p *Process) Kill() {
	p.t.Helper()
	p.signal(syscall.SIGKILL)
	p.waitEnd()
}

// Stop asks the process to end (SIGTERM), waits for it and returns its exit status.
func (p *Process) Stop() int {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	p.waitEnd()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd.ProcessState.ExitCode()
}

func (p *Process) signal(s os.Signal) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return // it never started, and the test has failed for that
	}
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Errorf("send %v to %s: %v", s, p.launch.Binary, err)
	}
}

func (p *Process) waitEnd() {
	p.t.Helper()
	ended := p.current()
	if ended == nil {
		return
	}
	timeout := time.NewTimer(Patience)
	defer timeout.Stop()
	select {
	case <-ended:
	case <-timeout.C:
		p.t.Errorf("%s did not end within %s", p.launch.Binary, Patience)
	}
}

// Logs returns what the process and its earlier starts wrote so far.
func (p *Process) Logs() string { return p.logs.String() }

// WaitLog waits until the log contains a text.
func (p *Process) WaitLog(text string) {
	p.t.Helper()
	WaitFor(p.t, fmt.Sprintf("%q in the log", text), func() bool { return strings.Contains(p.Logs(), text) })
}

// Command runs the binary once, to its end, and returns what it wrote and its
// exit status.
func Command(t testing.TB, launch Launch) (stdout, stderr string, status int) {
	t.Helper()
	if launch.Binary == "" {
		launch.Binary = Binary(t)
	}
	if launch.Dir == "" {
		launch.Dir = t.TempDir()
	}
	cmd := command(launch)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		t.Fatalf("run %s: %v", launch.Binary, err)
	}
	return out.String(), errOut.String(), cmd.ProcessState.ExitCode()
}

// lockedBuffer is a buffer that a process fills while a test reads it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
