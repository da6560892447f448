package definitions

import (
	"strings"
	"testing"
)

// small is the least definition with a wait, an end and a deadline.
const small = `name: demo
version: 1
initial: waiting
data:
  type: object
  required: [email, amount]
  properties:
    email: {type: string}
    amount: {type: integer}
    note: {type: string}
    due: {type: string, format: date}
    file: {type: object}
states:
  waiting:
    owner: [requester]
    deadlines: [{after: P1D, fire: expire}]
    events:
      go: {to: done, by: [owner]}
      expire: {to: done, by: [timer]}
  done: {final: true}
`

// changed gives small with some texts replaced; each old text must be there.
func changed(t *testing.T, pairs ...string) string {
	t.Helper()
	text := small
	for i := 0; i+1 < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			t.Fatalf("%q is not in the definition", pairs[i])
		}
		text = strings.Replace(text, pairs[i], pairs[i+1], 1)
	}
	return text
}

// problemCase is a change of small and what Parse says about it, without the file.
type problemCase struct {
	name  string
	pairs []string
	want  string
}

func runProblemCases(t *testing.T, cases []problemCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d, problems := Parse("f", []byte(changed(t, c.pairs...)))
			lines := strings.Split(problems.String(), "\n")
			for i, l := range lines {
				lines[i] = strings.TrimPrefix(l, "f:")
			}
			if got := strings.Join(lines, "\n"); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
			if (d == nil) != problems.HasErrors() {
				t.Errorf("definition %v with errors %v", d != nil, problems.HasErrors())
			}
		})
	}
}
