package main

import "testing"

func TestTheCommandFindsAServerAndItsStatusIsKept(t *testing.T) {
	t.Parallel()
	status, err := run([]string{"sh", "-c", `case $VOBOTEST_POSTGRES_URL in postgres://*@127.0.0.1:*) exit 7;; esac`})
	if err != nil || status != 7 {
		t.Errorf("status %d, %v, want the command's 7", status, err)
	}
}

func TestACommandThatIsMissingIsAnError(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"none": nil, "not there": {"/nonexistent/command"}} {
		if status, err := run(args); err == nil || status == 0 {
			t.Errorf("%s: status %d, %v, want an error", name, status, err)
		}
	}
}
