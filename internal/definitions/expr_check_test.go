package definitions

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"vobo/internal/fault"
)

func TestAWrongExpressionIsRefusedWithPlaceAndHint(t *testing.T) {
	t.Parallel()
	sc := orderScope(t)
	narrow := newScope(mustSchema(t, orderSchema))
	for _, c := range []struct {
		text   string
		want   exprType
		sc     *scope
		offset int
		detail string
		hint   string
	}{
		{"data.amuont > 1", wantBool, sc, 5, `data has no field "amuont".`, "did you mean amount?"},
		{"data.applicant.nam", wantAny, sc, 15, `data.applicant has no field "nam".`, "did you mean name?"},
		{"data.lines.all(l, l.cent > 1)", wantBool, sc, 20, `l has no field "cent".`, "did you mean cents?"},
		{"true && dat.amount > 1", wantBool, sc, 8, `There is no "dat".`, "did you mean data?"},
		{"amount > 1", wantBool, sc, 0, `There is no "amount".`, "write data.amount"},
		{"draft", wantString, sc, 0, `There is no "draft".`, "a text stands in quotes: 'draft'"},
		{"input.limit > 1", wantBool, narrow, 0, "There is no input here.", ""},
		{"votes.approve.size() > 1", wantBool, narrow, 0, "votes cannot be used here.", ""},
		{"votes.aprove.size() > 1", wantBool, sc, 6, `There is no event "aprove" to have votes.`, "did you mean approve?"},
		{"roudn(1.5, 1)", wantAny, sc, 5, `There is no function "roudn".`, "did you mean round?"},
		{"data.name > 5", wantBool, sc, 10, "> does not take a text and a whole number.", ""},
		{"data.amount + 1", wantAny, sc, 12, "+ does not take a number and a whole number; write double() around the whole number.", ""},
		{"data.name == 5", wantBool, sc, 10, "A text is never equal to a whole number.", ""},
		{"5 in data.tags", wantBool, sc, 2, "A whole number is never in a list or object of a text.", ""},
		{"data.name.x", wantAny, sc, 9, "A text has no fields.", ""},
		{"data.amount", wantBool, sc, 4, "This gives a number where true or false is needed.", "compare it with something"},
		{"data.amount", wantString, sc, 4, "This gives a number where a text is needed.", ""},
		{"data.amount", wantList, sc, 4, "This gives a number where a list is needed.", ""},
		{"data.amount", wantTime, sc, 4, "This gives a number where a time is needed.", ""},
		{"data.name", wantNumber, sc, 4, "This gives a text where a number is needed.", ""},
		{"data.amount >", wantBool, sc, 13, "The expression ends too early.", ""},
		{"data.amount > )", wantBool, sc, 14, `")" is not expected here.`, ""},
		{"data.amount > 1 2", wantBool, sc, 16, `"2" is not expected here.`, ""},
		{"", wantAny, sc, 0, "The expression is empty.", ""},
		{"'a\x00b'", wantAny, sc, 2, "The character NUL is not allowed.", ""},
		{`'a\u0000b'`, wantAny, sc, 0, "The character NUL is not allowed.", ""},
		{"sum(data.tags)", wantAny, sc, 3, "sum takes a list of numbers, and this is one of a text.", ""},
		{"workdays(now, now, 'ofice')", wantAny, sc, 19, `There is no calendar "ofice".`, "did you mean office?"},
		{"isopen(now, data.name)", wantAny, sc, 16, "The calendar is named by a text.", "such as 'office'"},
		{"data.name.matches('(')", wantBool, sc, 18, "The pattern does not work: missing closing ): `(`.", ""},
		{"'ñandú' == data.nam", wantBool, sc, 18, `data has no field "nam".`, "did you mean name?"},
		{"Foo{a: 1}", wantAny, sc, 3, `There is no "Foo".`, ""},
		{"timestamp('x') > now", wantBool, sc, 0, `Invalid RFC 3339 timestamp "x".`, ""},
		{"now.getSeconds() > 'x'", wantBool, sc, 17, "> does not take a whole number and a text.", ""},
		{"@zone == 1", wantBool, sc, 0, "", ""},
	} {
		_, problems := compileExpr(c.text, c.want, c.sc)
		if !hasErrors(problems) {
			t.Errorf("%q was taken", c.text)
			continue
		}
		p := problems[0]
		if c.detail != "" && (p.Detail != c.detail || p.Offset != c.offset || c.hint != "" && p.Hint != c.hint) {
			t.Errorf("%q:\n got %d %s (%s)\nwant %d %s (%s)", c.text, p.Offset, p.Detail, p.Hint, c.offset, c.detail, c.hint)
		}
	}
}

func TestAnIntegerDivisionIsAWarning(t *testing.T) {
	t.Parallel()
	_, problems := compileExpr("data.next / 2 > 1", wantBool, orderScope(t))
	if len(problems) != 1 || problems[0].Severity != Warning || problems[0].Code != "integer-division" || problems[0].Offset != 10 {
		t.Errorf("%+v", problems)
	}
}

func TestWorkingTimeIsNamedAsNotSupported(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"workdays(now, now, 'office') > 1", "isopen(now, 'office')", "add(now, 'P1D', 'office') > now"} {
		_, problems := compileExpr(text, wantBool, orderScope(t))
		if len(problems) != 1 || problems[0].Severity != NotSupported || problems[0].Code != "not-supported" {
			t.Errorf("%s: %+v", text, problems)
		}
	}
}

func TestAConstantGuardIsFound(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]any{
		"true": true, "1 > 2": false, "data.amount > 5.0 || true": true, "false && data.yes": false,
		"data.yes": nil, "data.amount > 5.0": nil, "data.amount > 5.0 || data.yes": nil, "now > now": nil, "env.A == 'x'": nil,
	} {
		e, problems := compileExpr(text, wantBool, orderScope(t))
		if hasErrors(problems) {
			t.Errorf("%s: %+v", text, problems)
			continue
		}
		if v, ok := e.constant(); ok != (want != nil) || ok && v != want {
			t.Errorf("%s: constant %v %v, want %v", text, v, ok, want)
		}
	}
}

func TestAnExpressionNamesWhatItReads(t *testing.T) {
	t.Parallel()
	e, problems := compileExpr("data.amount > 1.0 && input.limit > 1 && now > last.at && visits > 1 && size(votes.approve) > 0 && env.B + env.A != callback.url && instance.requester != data.applicant.name", wantBool, orderScope(t))
	if hasErrors(problems) {
		t.Fatal(problems)
	}
	r := e.refs()
	if fmt.Sprint(r.Env) != "[A B]" || fmt.Sprint(r.Data) != "[amount applicant]" || !r.Input || !r.Now || !r.Last || !r.Visits || !r.Votes || !r.Callback || !r.Requester {
		t.Errorf("%+v", r)
	}
	e, problems = compileExpr("size({'a': data}) > 0", wantBool, orderScope(t))
	if hasErrors(problems) {
		t.Fatal(problems)
	}
	if r := e.refs(); !slices.Contains(r.Data, "lines") || r.Input {
		t.Errorf("all of data: %+v", r)
	}
}

func TestTheTypeOfASetValueIsHeldAgainstItsField(t *testing.T) {
	t.Parallel()
	sc := orderScope(t)
	for _, c := range []struct {
		field, text string
		fits        bool
	}{
		{"limit", "data.amount", false},
		{"limit", "data.name", false},
		{"limit", "1", true},
		{"amount", "1", true},
		{"limit", "int(data.amount)", true},
		{"name", "now", true},
		{"name", "data.tags", false},
		{"tags", "[]", true},
		{"applicant", "{'name': 'x'}", true},
		{"any", "data.amount", true},
		{"yes", "data.any", true},
		{"maybe", "null", true},
		{"name", "null", false},
	} {
		e, problems := compileExpr(c.text, wantAny, sc)
		p, more := compilePath(c.field, sc)
		if hasErrors(problems) || hasErrors(more) {
			t.Fatal(problems, more)
		}
		if ok, got, want := e.fits(sc.data.At(p)); ok != c.fits {
			t.Errorf("%s: %s: fits %v (%s, %s)", c.field, c.text, ok, got, want)
		}
	}
}

func TestBoolRefusesWhatIsNoBoolean(t *testing.T) {
	t.Parallel()
	env := orderEnv(t)
	for text, want := range map[string]string{"data.any": "an object where true or false", "data.yes": "", "result.id": "a text where true"} {
		e, problems := compileExpr(text, wantBool, orderScope(t))
		if hasErrors(problems) {
			t.Fatal(problems)
		}
		got, err := e.Bool(env)
		if want == "" && (err != nil || !got) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v %v", text, got, err)
		}
	}
}

// guarantee S-26
func TestAnExpressionThatCostsTooMuchIsRefused(t *testing.T) {
	t.Parallel()
	sc, env := orderScope(t), orderEnv(t)
	many := make([]any, 2000)
	for i := range many {
		many[i] = "some text of no great length"
	}
	env.Data["tags"] = many
	nested := func(open, close string, n int) string {
		return strings.Repeat(open, n) + "1" + strings.Repeat(close, n)
	}
	for name, text := range map[string]string{
		"10,000 parentheses":      nested("(", ")", 10000),
		"10,000 lists":            nested("[", "]", 10000),
		"200 parentheses":         nested("(", ")", 200),
		"10,000 nots":             strings.Repeat("!", 10000) + "true",
		"3,000 minus signs":       strings.Repeat("-", 3000) + "1",
		"2,000 additions":         strings.Repeat("1+", 2000) + "1",
		"2,000 fields":            "data.any" + strings.Repeat(".a", 1900),
		"100 loops in a row":      strings.Repeat("data.tags.all(t, t != 'x') && ", 100) + "true",
		"1,000 conditions":        strings.Repeat("true?", 1000) + "1" + strings.Repeat(":1", 1000),
		"map in map in map":       "data.tags.map(a, data.tags.map(b, data.tags.map(c, a + b + c)))",
		"all in all in all":       "data.tags.all(a, data.tags.all(b, data.tags.all(c, a + b + c != 'x')))",
		"range in range":          "lists.range(1000000).map(a, lists.range(1000000))",
		"a text that doubles":     "[1,2,3,4,5,6,7,8,9,10].map(a, data.tags.join('').replace('', data.tags.join('')))",
		"a huge text":             "'" + strings.Repeat("x", 1<<20) + "' == data.name",
		"a huge pattern":          "data.name.matches('(a{1000}){1000}')",
		"a nested pattern":        "data.name.matches('((a{100}){100}){100}')",
		"a computed pattern":      "data.name.matches(data.tags.join('|') + '(x{900}){900}')",
		"a wide format":           "'%.1000000f'.format([1.5])",
		"a method of the runtime": "data.name.getClass().forName('x')",
		"sleep":                   "time.Sleep(1000000)",
		"sets of long lists":      "sets.contains(data.tags, data.tags)",
		"distinct of a long list": "data.tags.distinct()",
		"a search in long text":   "data.tags.join('').indexOf('x')",
		"a long separator":        "data.tags.join(data.tags.join(''))",
		"a pattern on long text":  "data.tags.join('').matches('(a|b)*c')",
		"a computed field":        "env['HOME']",
	} {
		start := time.Now()
		e, problems := compileExpr(text, wantAny, sc)
		compiled := time.Since(start)
		var err error
		if !hasErrors(problems) {
			_, err = e.Eval(env)
			if err == nil {
				t.Errorf("%s was taken", name)
			} else if fault.CodeOf(err) != fault.GuardRejected {
				t.Errorf("%s: %v", name, err)
			}
		}
		if evaluated := time.Since(start) - compiled; compiled > time.Second || evaluated > 2*time.Second {
			t.Errorf("%s: compiled in %v, evaluated in %v", name, compiled, evaluated)
		}
	}
}

func FuzzGuard(f *testing.F) {
	for _, text := range []string{
		"data.amount < 1000", "data.lines.map(l, l.cents).filter(c, c > 1).exists(c, c == 2)", "sum(data.prices) / 2.0", "'a' + data.name + \"\\n\"",
		"add(date(data.day), 'P1M') > now", "{'a': [1, {'b': data.free}]}", "has(data.any.x) ? data.any.x.y : 1", "data.lines[data.next].id", "((((1))))",
		"votes.approve.exists(v, 'x' in v.actor.groups)", "'%s %d'.format(['a', 1])", "data.tags.join('').matches('a+b*')", "lists.range(10).map(x, x * x)", "1/0", "9223372036854775807 + 1",
		"!!!!true", "-(-1)", "a ? b : c", "data.", "\x00", "'", "{{", "// comment", "1e999", "0xFFFFFFFFFFFFFFFFFF", "[1,2][5]", "dyn(1) == 'a'", "type(data)", "b'\\xff'", "r'\\'", "input.limit in data",
	} {
		f.Add(text)
	}
	sc, env := orderScope(f), orderEnv(f)
	f.Fuzz(func(t *testing.T, text string) {
		e, problems := compileExpr(text, wantAny, sc)
		for _, p := range problems {
			if p.Detail == "" || p.Offset < 0 || p.Offset > len(text) {
				t.Errorf("%q: %+v", text, p)
			}
		}
		if hasErrors(problems) {
			if e != nil {
				t.Errorf("%q: an expression with errors", text)
			}
			return
		}
		e.refs()
		v, err := e.Eval(env)
		if err != nil {
			if fault.CodeOf(err) != fault.GuardRejected {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		if _, err := DecodeJSON(EncodeJSON(v)); err != nil && !strings.Contains(err.Error(), "NUL") && !strings.Contains(err.Error(), "levels") && !strings.Contains(err.Error(), "range") {
			t.Errorf("%q gives %q: %v", text, EncodeJSON(v), err)
		}
	})
}

func TestExpressionsAndSchemasMayBeUsedByManyAtOnce(t *testing.T) {
	t.Parallel()
	sc, env := orderScope(t), orderEnv(t)
	e, problems := compileExpr("sum(data.lines.map(l, l.cents)) > 100 && data.name.matches('^E') && has(data.day)", wantBool, sc)
	if hasErrors(problems) {
		t.Fatal(problems)
	}
	fresh := mustSchema(t, orderSchema)
	done := make(chan error)
	for range 8 {
		go func() {
			var err error
			for range 50 {
				if ok, evalErr := e.Bool(env); evalErr != nil || !ok {
					err = fmt.Errorf("guard: %v %v", ok, evalErr)
				}
				if bad := fresh.Validate(env.Data); bad != nil {
					err = fmt.Errorf("schema: %v", bad)
				}
				if _, problems := compileExpr("data.amount > 1", wantBool, sc); hasErrors(problems) {
					err = fmt.Errorf("compile: %v", problems)
				}
			}
			done <- err
		}()
	}
	for range 8 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestAPathIsReadTheSameWithoutTheGrammar(t *testing.T) {
	t.Parallel()
	sc := orderScope(t)
	c, err := sc.checker()
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"data", "data.name", "data.applicant.email", "data.any.x.y.z", "_x1.y_2", "data.package", "data.in", "true", "null", "data.", ".data", "data..x", "1.5", "data.1x", "package", "dyn"} {
		with, errs := c.base.Parse(text)
		names := pathNames(text)
		if errs.Err() != nil {
			if names != nil {
				t.Errorf("%s is no path for the grammar", text)
			}
			continue
		}
		if names == nil {
			continue
		}
		without, source := pathTree(text, names), with.NativeRep()
		for e, f := source.Expr(), without.Expr(); ; e, f = e.AsSelect().Operand(), f.AsSelect().Operand() {
			want, got := offsetOf(text, source.SourceInfo().GetStartLocation(e.ID())), offsetOf(text, without.SourceInfo().GetStartLocation(f.ID()))
			if e.Kind() != f.Kind() || want != got {
				t.Errorf("%s: %v at %d, want %v at %d", text, f.Kind(), got, e.Kind(), want)
			}
			if e.AsIdent() != f.AsIdent() || e.AsSelect().FieldName() != f.AsSelect().FieldName() {
				t.Errorf("%s: the names differ", text)
			}
			if e.AsSelect().FieldName() == "" {
				break
			}
		}
	}
}
