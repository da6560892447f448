package e2e_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"vobo/internal/testkit"
	"vobo/internal/testkit/conformance"
)

const exampleReceiver = "../docs/examples/receiver/main.go"

// receiver builds the example of the documents and starts it with two secrets.
func receiver(t *testing.T) *testkit.Process {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "receiver")
	if out, err := exec.Command("go", "build", "-o", binary, exampleReceiver).CombinedOutput(); err != nil {
		t.Fatalf("build the example: %v\n%s", err, out)
	}
	address := testkit.FreeAddress(t)
	return testkit.Serve(t, testkit.Launch{
		Binary: binary, Args: []string{}, Opens: true,
		Env: map[string]string{"VOBO_ADDR": address, "ADDR": address, "WEBHOOK_SECRETS": secret(2) + " " + secret(1)},
	})
}

// The receiver that the documents show passes what any receiver must, and takes what the
// service sends.
func TestTheExampleReceiverConforms(t *testing.T) {
	t.Parallel()
	p := receiver(t)
	handled := func(id string) int { return strings.Count(p.Logs(), " "+id+": ") }
	conformance.Receiver{URL: p.URL, Secrets: []string{secret(2), secret(1)}, Foreign: secret(9), Clock: time.Now, Handled: handled}.Test(t)
	t.Run("the service's own calls", func(t *testing.T) {
		how, _ := withSecrets(t, setup{definitions: []string{order}, env: map[string]string{"VOBO_ENV_ESIGN_URL": p.URL}}, "signing: [\""+secret(1)+"\"]\n")
		s := serve(t, how)
		s.core.Answer(testkit.AnswerJSON(http.StatusOK, `{"receipt":"R-1"}`))
		id := s.start(rosa, "order", map[string]any{"number": "Søren & <Co> 🙂"}).ID
		s.settled(id)
		if n := handled(id + "/1/1"); n != 1 {
			t.Errorf("the call was handled %d times", n)
		}
	})
}

// What the page on receivers shows is the example, to the letter.
func TestThePageOnReceiversShowsTheExample(t *testing.T) {
	t.Parallel()
	code, err := os.ReadFile(exampleReceiver)
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../docs/how-to/webhook-receiver.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "\n```go\n"+string(code)+"```\n") {
		t.Error("docs/how-to/webhook-receiver.md does not show docs/examples/receiver/main.go as it is")
	}
}
