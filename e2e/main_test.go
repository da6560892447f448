package e2e_test

import (
	"flag"
	"os"
	"strconv"
	"testing"
)

// TestMain lets more tests run at once than there are processors: these wait for other
// processes, and for leases to run out, more than they compute.
func TestMain(m *testing.M) {
	flag.Parse()
	if parallel := flag.Lookup("test.parallel"); parallel.Value.String() == parallel.DefValue {
		if n, err := strconv.Atoi(parallel.DefValue); err == nil {
			if err := parallel.Value.Set(strconv.Itoa(2 * n)); err != nil {
				panic(err)
			}
		}
	}
	os.Exit(m.Run())
}
