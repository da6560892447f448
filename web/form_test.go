package web

import (
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"vobo/internal/approval"
	"vobo/internal/definitions"
)

func TestNumbersAreReadAsPeopleWriteThemDigitByDigit(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]string{
		"5": "5", " 40 000 ": "40000", "1,234.50": "1234.50", "1.234,50": "1234.50", "1.234.567": "1234567", "1,234,567": "1234567", "12,5": "12.5", "0,125": "0.125", "1.234": "1.234",
		"007": "7", "-3": "-3", "−3": "-3", "+7": "7", ".5": "0.5", "5.": "5", "9007199254740993": "9007199254740993", "616581622363398142": "616581622363398142", "0.10": "0.10", "1e3": "1e3", // field report B48
		"１２３": "123", "٣٤": "34", "1'000'000": "1000000", "1\u202f250\u00a0000,5": "1250000.5", "1234,567": "1234.567",
	} {
		if got, ok := parseNumber(typed); !ok || got.String() != want {
			t.Errorf("%q is %q (%v), want %q", typed, got, ok, want)
		}
	}
	for _, typed := range []string{"", " ", "1,234", "abc", "1.2.3", "1,2,3", "--5", "5-", "1,23,456", "1.234.56", "½", "0x10", "1e", "1e+-3", "NaN", "Infinity", "1,234.5,6", ".", ","} {
		if got, ok := parseNumber(typed); ok {
			t.Errorf("%q was read as %q", typed, got)
		}
	}
}

func FuzzWhatIsReadAsANumberIsJSON(f *testing.F) {
	for _, typed := range []string{"1,234.50", "1.234,5", "-7e10", "１２", "1 000"} {
		f.Add(typed)
	}
	f.Fuzz(func(t *testing.T, typed string) {
		if n, ok := parseNumber(typed); ok {
			if v, err := definitions.DecodeJSON([]byte(n)); err != nil && len(n) < 50 && !strings.ContainsAny(n.String(), "eE") {
				t.Errorf("%q became %q: %v %v", typed, n, v, err)
			}
		}
	})
}

func everyFieldAsked() asked {
	return asked{events: []approval.OfferedEvent{{Name: "go", Title: "Go", Comment: "none", Fields: everyField(), Form: []byte(`{}`)}}, zone: time.UTC, say: languageOf("en")}
}

func TestAFormOfEveryKindIsReadIntoOneTree(t *testing.T) {
	t.Parallel()
	madrid, err := time.LoadLocation("Europe/Madrid")
	if err != nil {
		t.Fatal(err)
	}
	a := everyFieldAsked()
	a.zone = madrid
	req, mistakes := a.read(url.Values{
		"event": {"go"}, "digest": {"d"}, "input.limit": {"1 000.00"}, "input.rate": {"12,50"}, "input.label": {"a label"}, "input.note": {"one\r\ntwo"}, "input.urgent": {"false"}, "input.risk": {"medium"}, "input.level": {"6"},
		"input.from_day": {"2026-12-03"}, "input.starts": {"2026-12-03T18:00"}, "input.contact.name": {"Ana"}, "input.contact.mail": {""}, "input.tags": {"x\r\n\r\n y "}, "input.colours": {"red", "green"},
		"input.refused.0.line": {"7"}, "input.refused.0.cents": {"900"}, "input.refused.1.line": {""}, "input.refused.1.cents": {""}, "input.refused.2.line": {"9"}, "input.arguments": {`{"n": 9007199254740993}`},
	})
	if len(mistakes) != 0 {
		t.Fatalf("mistakes: %v", mistakes)
	}
	want := `{"arguments":{"n":9007199254740993},"colours":["red","green"],"contact":{"name":"Ana"},"from_day":"2026-12-03","label":"a label","level":6,"limit":1000,"note":"one\ntwo","rate":12.50,` +
		`"refused":[{"cents":900,"line":"7"},{"line":"9"}],"risk":"medium","starts":"2026-12-03T18:00:00+01:00","tags":["x","y"],"urgent":false}`
	if got := string(definitions.EncodeJSON(req.Input)); got != want {
		t.Errorf("read\n%s, want\n%s", got, want)
	}
}

func TestWhatCannotBeReadIsNamedByItsField(t *testing.T) {
	t.Parallel()
	_, mistakes := everyFieldAsked().read(url.Values{
		"event": {"go"}, "input.limit": {"1,234"}, "input.rate": {"many"}, "input.urgent": {"perhaps"}, "input.starts": {"soon"}, "input.arguments": {`{"a":`}, "input.refused.0.cents": {"1.5"}, "input.contact.mail": {"a@example.com"},
	})
	got := map[string]string{}
	for _, m := range mistakes {
		got[m.Pointer] = m.Detail
	}
	for pointer, want := range map[string]string{"/limit": "may mean two numbers", "/rate": "not a number", "/urgent": "Choose one", "/starts": "Type a date and a time", "/arguments": "not JSON", "/refused/0/cents": "not a whole number", "/refused/0/line": "Fill in “Line”", "/contact/name": "Fill in “Name”"} {
		if !strings.Contains(got[pointer], want) {
			t.Errorf("%s: %q, want %q", pointer, got[pointer], want)
		}
	}
	if len(got) != 8 {
		t.Errorf("%d mistakes, want 8: %v", len(got), got)
	}
}

func TestNothingTypedIsNothingSent(t *testing.T) {
	t.Parallel()
	a := everyFieldAsked()
	a.events[0].Fields = a.events[0].Fields[1:]
	req, mistakes := a.read(url.Values{"event": {"go"}, "input.contact.name": {" "}, "input.refused.0.line": {""}})
	if got := string(definitions.EncodeJSON(req.Input)); len(mistakes) != 0 || got != `{}` {
		t.Errorf("read %s, %v", got, mistakes)
	}
	a.events[0].Fields, a.events[0].Form = nil, nil
	if req, _ := a.read(url.Values{"event": {"go"}}); req.Input != nil {
		t.Errorf("an event without a form got the input %v", req.Input)
	}
}

func TestRowsAreAddedAndRemovedWithoutScript(t *testing.T) {
	t.Parallel()
	b := newBundle(t, func(_ *Config, f *fakeService) { f.links["open"].Task.Events[0].Fields = everyField() })
	w := b.post("/a/open", "", form("event", "approve", "add", "input.refused", "input.refused.0.line", "seven", "digest", "d1"))
	wantStatus(t, w, 422)
	wantText(t, w, `name="input.refused.0.line"`, `value="seven"`, `name="input.refused.1.line"`)
	wantNoText(t, w, "Nothing was recorded yet", `name="input.refused.2.line"`)
	w = b.post("/a/open", "", form("event", "approve", "remove", "input.refused.0", "input.refused.0.line", "seven", "input.refused.1.line", "nine", "input.refused.1.cents", "3", "digest", "d1"))
	wantStatus(t, w, 422)
	wantText(t, w, `id="input-refused-0-line" name="input.refused.0.line" type="text" autocomplete="off" value="nine"`)
	wantNoText(t, w, "seven", `name="input.refused.1.line"`)
	wantChanges(t, b.svc, "")
}

func TestEveryKindOfFieldIsShownWithLabelHintAndError(t *testing.T) {
	t.Parallel()
	b := newBundle(t, func(_ *Config, f *fakeService) { f.links["open"].Task.Events[0].Fields = everyField() })
	w := b.get("/a/open")
	for _, want := range []string{`inputmode="decimal"`, `type="date"`, `type="datetime-local"`, `<select id="input-level"`, `type="checkbox" name="input.colours"`, `type="radio" name="input.urgent" value="true"`, `<legend><bdi>Contact</bdi>`, "One entry per line.", "A JSON value", "Time of Madrid.", "A whole number, at least 1."} {
		wantText(t, w, want)
	}
	wantNoText(t, w, "checked", "selected")
	labelled(t, w)
}

// labelled checks that every field has a label of its own.
func labelled(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	page := w.Body.String()
	for _, id := range strings.Split(page, ` id="input-`)[1:] {
		id, _, _ = strings.Cut(id, `"`)
		if strings.HasSuffix(id, "-about") {
			continue
		}
		if !strings.Contains(page, `for="input-`+id+`"`) && !strings.Contains(page, ` id="input-`+id+`"><legend>`) {
			t.Errorf("the field input-%s has no label", id)
		}
	}
}

func TestASecondPressIsTheSameInputHoweverItIsTyped(t *testing.T) {
	t.Parallel()
	recorded := map[string]any{"limit": number("5"), "tags": []any{"a", "b"}, "rows": []any{map[string]any{"line": "7"}}, "deep": map[string]any{"x": true}}
	same := url.Values{"event": {"go"}, "input.limit": {"5.0"}, "input.tags": {"a\r\nb"}, "input.rows.0.line": {"7"}, "input.deep": {`{"x": true}`}, "input.other": {""}}
	if !sameInput(same, recorded) {
		t.Error("the same input is another")
	}
	for key, value := range map[string]string{"input.limit": "6", "input.tags": "a", "input.extra": "x", "input.deep": `{"x": false}`} {
		other := url.Values{}
		for k, v := range same {
			other[k] = v
		}
		other.Set(key, value)
		if sameInput(other, recorded) {
			t.Errorf("%s = %s is taken for the same", key, value)
		}
	}
	if !sameInput(url.Values{"event": {"go"}}, nil) {
		t.Error("no input and no input are not the same")
	}
}
