package definitions

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"vobo/internal/fault"
)

func TestJSONIsReadAndWrittenWithTheSameDigits(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		// field report B48
		`{"id":616581622363398142,"n":9007199254740993,"u":18446744073709551615,"d":0.1,"z":-0}`: `{"d":0.1,"id":616581622363398142,"n":9007199254740993,"u":18446744073709551615,"z":-0}`,
		// field report B07
		"{\"b\" : 1.0,\n \"a\":1e2}\n":               `{"a":1e2,"b":1.0}`,
		`"\u00E9\uD83D\uDE00 & < > \/ \b\f\n\r\t\""`: "\"é😀 & < > / \\u0008\\u000c\\n\\r\\t\\\"\"",
		`[null,true,false,[],{},""]`:                 `[null,true,false,[],{},""]`,
		`1e308`:                                      `1e308`,
		`-1.5E-10`:                                   `-1.5E-10`,
		"\"\u2028\x7f\"":                             "\"\u2028\x7f\"",
	} {
		v, err := DecodeJSON([]byte(in))
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if got := string(EncodeJSON(v)); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

func TestJSONThatIsNotRightIsRefusedWithThePosition(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                             "line 1, column 1: there is no value",
		" \n":                          "line 2, column 1: there is no value",
		`{"a":1,"b":2,"a":3}`:          `column 14: the key "a" stands twice`,
		`{"a":1,"\u0061":3}`:           `column 8: the key "a" stands twice`,
		`{"e":1e400}`:                  "column 6: the number 1e400 is out of range", // field report B48
		`-1e400`:                       "out of range",
		`1e-400`:                       "out of range",
		`1e99999999999999999999`:       "out of range",
		"1" + strings.Repeat("0", 400): "out of range",
		`"a\u0000b"`:                   "column 3: the character NUL is not allowed",
		"\"a\x00b\"":                   "column 3: a control character stands in a text",
		"\"a\xffb\"":                   "column 3: a character is not valid UTF-8",
		`"\ud800"`:                     "half of a surrogate pair",
		`"\ud800\u0041"`:               "half of a surrogate pair",
		`"\udc00\ud800"`:               "half of a surrogate pair",
		`"\x"`:                         "no such escape",
		`"\u12g4"`:                     "four hexadecimal digits",
		`"\u12`:                        "four hexadecimal digits",
		`"abc`:                         "a text has no end",
		`"a\`:                          "a text has no end",
		`"a\n`:                         "a text has no end",
		`{"a":1} x`:                    "column 9: there is something after the value",
		`{"a":1}{}`:                    "something after the value",
		`{"a" 1}`:                      `'1' is not expected here`,
		`{a:1}`:                        `'a' is not expected here`,
		`{"a":1,}`:                     `'}' is not expected here`,
		`[1,]`:                         `']' is not expected here`,
		`[1 2]`:                        `'2' is not expected here`,
		`{"a":`:                        "it ends too early",
		`[`:                            "it ends too early",
		`01`:                           "a number is not written right",
		`1.`:                           "a number is not written right",
		`-`:                            "a number is not written right",
		`1e`:                           "a number is not written right",
		`+1`:                           `'+' is not expected here`,
		`.5`:                           `'.' is not expected here`,
		`NaN`:                          `'N' is not expected here`,
		`tru`:                          `'t' is not expected here`,
		"\ufeff{}":                     `is not expected here`,
		strings.Repeat("[", 65) + strings.Repeat("]", 65):           "column 65: there are more than 64 levels",
		strings.Repeat(`{"a":`, 10000) + strings.Repeat("}", 10000): "more than 64 levels", // field report B47
		"{\n  \"é\": 1,\n  \"é\": 2}":                               "line 3, column 3",
	} {
		_, err := DecodeJSON([]byte(in))
		if fault.CodeOf(err) != fault.Malformed || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %s", in, err, want)
		}
	}
	if _, err := DecodeJSON([]byte(strings.Repeat("[", 64) + strings.Repeat("]", 64))); err != nil {
		t.Errorf("64 levels: %v", err)
	}
}

func TestCanonicalJSONHasOneFormForEveryNumber(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"1.0": "1", "1e0": "1", "1": "1", "10e-1": "1", "-0": "0", "-0.0e5": "0", "0e999": "0", "1e2": "100", "1.50": "1.5", "-12.340e1": "-123.4",
		"1E-3": "0.001", "123e-3": "0.123", "616581622363398142": "616581622363398142", "0.10": "0.1", "100": "100", "1e300": "1" + strings.Repeat("0", 300),
		"1e5000": "1e5000", "10e5000": "1e5001", "1.5e-5000": "15e-5001",
	} {
		if got := string(CanonicalJSON(json.Number(in))); got != want {
			t.Errorf("%s: %.40s, want %.40s", in, got, want)
		}
	}
	if got := string(CanonicalJSON(map[string]any{"b": []any{json.Number("1.0")}, "a": nil})); got != `{"a":null,"b":[1]}` {
		t.Error(got)
	}
}

func TestACloneSharesNothing(t *testing.T) {
	t.Parallel()
	v := mustTree(t, `{"a":{"b":[1,{"c":2}]}}`)
	c, ok := CloneJSON(v).(map[string]any)
	if !ok || !reflect.DeepEqual(v, c) {
		t.Fatal(c)
	}
	c["a"].(map[string]any)["b"].([]any)[1].(map[string]any)["c"] = "changed"
	if got := string(EncodeJSON(v)); got != `{"a":{"b":[1,{"c":2}]}}` {
		t.Error(got)
	}
}

func FuzzCallbackJSON(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.5e3,"x\u00e9",null,true]}`, `{"a":1,"a":2}`, `"\ud83d\ude00"`, `1e400`, `[[[[]]]]`, " {}\n", "\"\x00\"", `-0`, `{"":{"":""}}`, `0.1e-7`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := DecodeJSON(b)
		if err != nil {
			if fault.CodeOf(err) != fault.Malformed {
				t.Fatalf("%q: %v", b, err)
			}
			return
		}
		// What is taken is JSON for the standard library too, with the same meaning.
		d := json.NewDecoder(bytes.NewReader(b))
		d.UseNumber()
		var std any
		if err := d.Decode(&std); err != nil || !reflect.DeepEqual(v, std) {
			t.Fatalf("%q: %#v, encoding/json: %#v %v", b, v, std, err)
		}
		out := EncodeJSON(v)
		again, err := DecodeJSON(out)
		if err != nil || !reflect.DeepEqual(v, again) {
			t.Fatalf("%q is written %q: %v", b, out, err)
		}
		canonical := CanonicalJSON(v)
		again, err = DecodeJSON(canonical)
		if err != nil || !bytes.Equal(CanonicalJSON(again), canonical) {
			t.Fatalf("%q has the canonical form %q: %v", b, canonical, err)
		}
	})
}
