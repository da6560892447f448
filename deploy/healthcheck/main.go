// Command healthcheck asks the vobo of its own container whether it is ready.
// The image has neither a shell nor curl.
package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"
)

func main() {
	if err := check(os.Getenv("VOBO_ADDR")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// check asks /readyz on the port of addr, which is in the form of VOBO_ADDR.
func check(addr string) error {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("VOBO_ADDR: %w", err)
	}
	client := http.Client{Timeout: 4 * time.Second}
	answer, err := client.Get("http://" + net.JoinHostPort("127.0.0.1", port) + "/readyz")
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		err = errors.New("/readyz answers " + answer.Status)
	}
	return errors.Join(err, answer.Body.Close())
}
