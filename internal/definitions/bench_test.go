package definitions

import (
	"os"
	"testing"
)

func BenchmarkParse(b *testing.B) {
	for _, name := range []string{"onboarding.v1.yaml", "supplier.v1.yaml", "06-access-request.yaml", "08-expense-claim.yaml"} {
		src, err := os.ReadFile("testdata/" + name)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if d, problems := Parse(name, src); d == nil {
					b.Fatal(problems)
				}
			}
		})
	}
}
