package definitions

import "testing"

func BenchmarkGuardEval(b *testing.B) {
	sc, env := orderScope(b), orderEnv(b)
	for name, text := range map[string]string{
		"path":      "data.name",
		"compare":   "data.amount < 1000",
		"two":       "data.risk == 'low' && data.amount >= 0.9",
		"has":       "has(data.limit) && has(data.name)",
		"fold":      "data.lines.all(l, l.cents > 1 || has(l.reason))",
		"filtermap": "sum(data.lines.map(l, l.cents))",
	} {
		e, problems := compileExpr(text, wantAny, sc)
		if hasErrors(problems) {
			b.Fatal(problems)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := e.Eval(env); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	sc := orderScope(b)
	b.Run("scope", func(b *testing.B) {
		for b.Loop() {
			if _, err := sc.with("env").checker(); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, text := range []string{"data.name", "data.amount < 1000", "sum(data.lines.map(l, l.cents)) > 100000"} {
		b.Run(text, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, problems := compileExpr(text, wantAny, sc); hasErrors(problems) {
					b.Fatal(problems)
				}
			}
		})
	}
	b.Run("fresh scope", func(b *testing.B) {
		for b.Loop() {
			if _, problems := compileExpr("data.amount < 1000", wantBool, sc.with("env")); hasErrors(problems) {
				b.Fatal(problems)
			}
		}
	})
}

func BenchmarkSchema(b *testing.B) {
	s := mustSchema(b, orderSchema)
	data := mustTree(b, orderData)
	small := mustSchema(b, `{"type":"object","required":["applicant","total"],"properties":{"applicant":{"type":"object","required":["name","email"],"properties":{"name":{"type":"string","minLength":1,"maxLength":200},"email":{"type":"string","format":"email"}}},"total":{"type":"number","minimum":0},"contract":{"type":"object"}}}`)
	order := mustTree(b, `{"applicant":{"name":"Eva Martínez García de la Torre","email":"eva.martinez@example.com"},"total":1234.50,"contract":{"name":"contract.pdf","media_type":"application/pdf","size":10,"sha256":"e3b0c44298fc1c149afbf4c8996fb924"}}`)
	b.Run("validate 200 bytes", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if f := small.Validate(order); f != nil {
				b.Fatal(f)
			}
		}
	})
	b.Run("validate order", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if f := s.Validate(data); f != nil {
				b.Fatal(f)
			}
		}
	})
	b.Run("compile small", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, problems := compileSchema(small.doc.raw); len(problems) > 0 {
				b.Fatal(problems)
			}
		}
	})
}

func BenchmarkJSON(b *testing.B) {
	text := []byte(`{"applicant":{"name":"Eva Martínez García de la Torre","email":"eva.martinez@example.com"},"total":1234.50,"contract":{"name":"contract.pdf","media_type":"application/pdf","size":10,"sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","uri":"mem://1"},"note":"a\nb","ok":true}`)
	tree, err := DecodeJSON(text)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("decode 300 bytes", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := DecodeJSON(text); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("encode 300 bytes", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if len(EncodeJSON(tree)) == 0 {
				b.Fatal("empty")
			}
		}
	})
}
