// A receiver of webhooks that are signed as Standard Webhooks asks, with the standard library alone.
package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

var seen sync.Map // of webhook-ids; yours is a unique key, written in the transaction that does the work

func receive(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	id, at := r.Header.Get("webhook-id"), r.Header.Get("webhook-timestamp")
	sent, errAt := strconv.ParseInt(at, 10, 64)
	fresh := errAt == nil && time.Since(time.Unix(sent, 0)).Abs() <= 5*time.Minute // behind or ahead
	if err != nil || id == "" || !fresh || !signed(id+"."+at+"."+string(body), r.Header.Get("webhook-signature")) {
		http.Error(w, "not signed, or not now", http.StatusUnauthorized)
		return
	}
	if _, again := seen.LoadOrStore(id, true); !again {
		go log.Printf("%s: %s", id, body) // take the work and do it elsewhere: the sender waits
	}
	w.WriteHeader(http.StatusNoContent) // the same answer when it comes again
}

func signed(text, signatures string) bool {
	for secret := range strings.FieldsSeq(os.Getenv("WEBHOOK_SECRETS")) { // the new one and the old one
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(text))
		want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
		for signature := range strings.FieldsSeq(signatures) {
			if err == nil && len(key) >= 24 && hmac.Equal([]byte(signature), []byte(want)) {
				return true
			}
		}
	}
	return false
}

func main() {
	log.Fatal(http.ListenAndServe(os.Getenv("ADDR"), http.HandlerFunc(receive))) // ADDR=:9000
}
