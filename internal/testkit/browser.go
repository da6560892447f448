package testkit

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// ScreenshotVariable names the environment variable with the folder that keeps
// screenshots; without it they go with the test.
const ScreenshotVariable = "VOBOTEST_SCREENSHOTS"

const missingChromium = `no Chromium is installed: none of %s is in PATH.
Run this, then the tests again:
    sudo apt-get install -y chromium        (Debian)
or put a Chromium or Chrome of another origin into PATH`

var chromiumNames = []string{"chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome"}

// findChromium returns the browser's path, or an error that says what to install.
func findChromium() (string, error) {
	for _, name := range chromiumNames {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf(missingChromium, strings.Join(chromiumNames, ", "))
}

// Tab is one tab of a real Chromium with a profile of its own. Its methods wait
// for what they need and fail the test when it does not come within Patience.
// A Tab serves one goroutine.
type Tab struct {
	t   testing.TB
	ctx context.Context

	mu       sync.Mutex
	requests []string
	console  []string
}

// Browser starts Chromium and returns its tab, as wide as a desktop, in light
// colours. It ends with the test; it fails the test where there is no Chromium.
func Browser(t testing.TB) *Tab {
	t.Helper()
	path, err := findChromium()
	if err != nil {
		t.Fatal(err)
	}
	tab := &Tab{t: t}
	// The first flags are those that any test browser needs; the others keep it
	// from calling home.
	parent, cancel := chromedp.NewExecAllocator(context.Background(),
		chromedp.ExecPath(path), chromedp.UserDataDir(profile(t)),
		chromedp.Flag("headless", "new"), chromedp.Flag("no-sandbox", os.Geteuid() == 0),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("hide-scrollbars", true),
		chromedp.Flag("password-store", "basic"), chromedp.Flag("lang", "en-GB"),
		chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-default-apps", true), chromedp.Flag("disable-extensions", true),
		chromedp.Flag("no-proxy-server", true), chromedp.Flag("disable-features", "Translate,OptimizationHints,MediaRouter"),
	)
	t.Cleanup(cancel)
	var stop context.CancelFunc
	tab.ctx, stop = chromedp.NewContext(parent, chromedp.WithListener(tab.listen), chromedp.WithErrorf(quiet))
	t.Cleanup(stop)
	// The first run binds the browser's life to its context: no limit on this one.
	if err := chromedp.Do(tab.ctx); err != nil {
		t.Fatalf("start %s: %v", path, err)
	}
	tab.record()
	tab.Desktop()
	tab.Light()
	return tab
}

// quiet drops the library's complaints about events it does not know.
func quiet(string, ...any) {}

// profile is an empty folder that outlives the browser's last writes to it.
func profile(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "vobo-chromium-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		var err error
		if !eventually(Patience, func() bool { err = os.RemoveAll(dir); return err == nil }) {
			t.Errorf("remove the browser's profile: %v", err)
		}
	})
	return dir
}

func (b *Tab) listen(event any) {
	if sent, ok := event.(*network.EventRequestWillBeSent); ok {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.requests = append(b.requests, sent.Request.URL)
	}
}

// record collects the console's errors until the tab ends.
func (b *Tab) record() {
	messages := chromedp.Console(b.ctx)
	go func() {
		for message, err := range messages {
			if err != nil {
				return
			}
			if message.IsException() || message.Type == chromedp.ConsoleError {
				b.mu.Lock()
				b.console = append(b.console, fmt.Sprintf("%s: %s", message.URL, message.Text))
				b.mu.Unlock()
			}
		}
	}()
}

// Do runs any actions of chromedp, all within Patience.
func (b *Tab) Do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, Patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.t.Fatalf("browser: %v\n%s", err, b.where())
	}
}

// value runs an action that has a result.
func value[T any](b *Tab, what string, action chromedp.Action[T]) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, Patience)
	defer cancel()
	result, err := chromedp.Run(ctx, action)
	if err != nil {
		b.t.Fatalf("browser: %s: %v\n%s", what, err, b.where())
	}
	return result
}

// where says what the tab shows, for the message of a failure.
func (b *Tab) where() string {
	ctx, cancel := context.WithTimeout(b.ctx, 2*time.Second)
	defer cancel()
	at, err := chromedp.Run(ctx, chromedp.Location())
	if err != nil {
		return "(the tab does not answer)"
	}
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string](`document.body ? document.body.innerText : ""`))
	if err != nil {
		return "at " + at
	}
	return fmt.Sprintf("at %s, which shows:\n%s", at, text)
}

// Open goes to an address and returns the status of the answer.
func (b *Tab) Open(address string) int {
	b.t.Helper()
	answer := value(b, "open "+address, chromedp.NavigateResponse(address))
	if answer == nil {
		return 0
	}
	return int(answer.Status)
}

// Follow clicks what leads to another page (a link, a form's button), waits for
// that page and returns the status of its answer.
func (b *Tab) Follow(selector string) int {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, Patience)
	defer cancel()
	answer, err := chromedp.RunResponse(ctx, chromedp.Click(chromedp.CSS(selector)))
	if err != nil {
		b.t.Fatalf("browser: follow %s: %v\n%s", selector, err, b.where())
	}
	if answer == nil {
		return 0
	}
	return int(answer.Status)
}

// Click clicks the first element of a CSS selector once it is visible.
func (b *Tab) Click(selector string) {
	b.t.Helper()
	b.Do(chromedp.Click(chromedp.CSS(selector)))
}

// Type puts text at the end of a field, key by key.
func (b *Tab) Type(selector, text string) {
	b.t.Helper()
	b.Do(chromedp.SendKeys(chromedp.CSS(selector), text))
}

// Press sends keys to whatever has the focus; chromedp/kb names special ones.
func (b *Tab) Press(keys string) {
	b.t.Helper()
	b.Do(chromedp.KeyEvent(keys))
}

// Text returns the visible text of the first element of a selector.
func (b *Tab) Text(selector string) string {
	b.t.Helper()
	return value(b, "text of "+selector, chromedp.Text(chromedp.CSS(selector)))
}

// HTML returns the page's source as it stands now.
func (b *Tab) HTML() string {
	b.t.Helper()
	return value(b, "source", chromedp.OuterHTML(chromedp.CSS("html")))
}

// Title returns the page's title.
func (b *Tab) Title() string { b.t.Helper(); return value(b, "title", chromedp.Title()) }

// Address returns the page's address.
func (b *Tab) Address() string { b.t.Helper(); return value(b, "address", chromedp.Location()) }

// Count returns how many elements a selector has now, visible or not.
func (b *Tab) Count(selector string) int {
	b.t.Helper()
	return EvalTab[int](b, fmt.Sprintf("document.querySelectorAll(%q).length", selector))
}

// EvalTab evaluates a JavaScript expression in the page.
func EvalTab[T any](b *Tab, expression string) T {
	b.t.Helper()
	return value(b, expression, chromedp.Evaluate[T](expression))
}

// WaitText waits until the page shows the text.
func (b *Tab) WaitText(text string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, Patience)
	defer cancel()
	shows := func() bool {
		found, err := chromedp.Run(ctx, chromedp.Evaluate[bool](
			fmt.Sprintf("!!document.body && document.body.innerText.includes(%q)", text)))
		return err == nil && found // an error is a page that is just being replaced
	}
	if !eventually(Patience, shows) {
		b.t.Fatalf("browser: the page never showed %q\n%s", text, b.where())
	}
}

// Requests returns the addresses asked for so far, pages and parts alike.
func (b *Tab) Requests() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.requests...)
}

// ForeignRequests returns those requests that went to another host than home.
func (b *Tab) ForeignRequests(home string) []string {
	b.t.Helper()
	own, err := url.Parse(home)
	if err != nil {
		b.t.Fatal(err)
	}
	var foreign []string
	for _, request := range b.Requests() {
		u, err := url.Parse(request)
		if err != nil || (u.Scheme == "http" || u.Scheme == "https") && u.Host != own.Host {
			foreign = append(foreign, request)
		}
	}
	return foreign
}

// ConsoleErrors returns what the pages wrote to the console as errors so far:
// exceptions, refused content, missing parts.
func (b *Tab) ConsoleErrors() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.console...)
}

// Desktop shows pages 1280 px wide.
func (b *Tab) Desktop() { b.t.Helper(); b.Do(chromedp.EmulateViewport(1280, 800)) }

// Phone shows pages 390 px wide, with touch, at two pixels a point.
func (b *Tab) Phone() {
	b.t.Helper()
	b.Do(chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile, chromedp.EmulateTouch,
		chromedp.EmulatePortrait, chromedp.EmulateScale(2)))
}

// Light makes pages see a preference for light colours.
func (b *Tab) Light() { b.t.Helper(); b.prefer("light") }

// Dark makes pages see a preference for dark colours.
func (b *Tab) Dark() { b.t.Helper(); b.prefer("dark") }

func (b *Tab) prefer(scheme string) {
	b.t.Helper()
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}})
}

// Script switches the pages' scripts on or off, from the next page on.
func (b *Tab) Script(on bool) {
	b.t.Helper()
	call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !on})
}

func call[P, R any](b *Tab, command cdp.Command[P, R], params P) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, Patience)
	defer cancel()
	if _, err := chromedp.Call(ctx, command, params); err != nil {
		b.t.Fatalf("browser: %s: %v", command.Method, err)
	}
}

// Screenshot keeps a picture of the whole page as NAME.png and returns its path.
func (b *Tab) Screenshot(name string) string {
	b.t.Helper()
	folder := os.Getenv(ScreenshotVariable)
	if folder == "" {
		folder = b.t.TempDir()
	}
	path := filepath.Join(folder, name+".png")
	picture := value(b, "screenshot", chromedp.FullScreenshot(100))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(path, picture, 0o644); err != nil {
		b.t.Fatal(err)
	}
	return path
}
