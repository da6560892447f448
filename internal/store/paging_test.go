package store

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"
	"time"

	"vobo/internal/fault"
)

var orderUnderTest = listOrder{name: "test", columns: []sortColumn{
	{name: "due_at", kind: timeValue, null: true},
	{name: "title", kind: textValue, desc: true},
	{name: "id", kind: idValue},
	{name: "seq", kind: numberValue},
}}

const someID = "01980000-0000-7000-8000-000000000001"

func TestACursorComesBackAsItWasMade(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 12, 3, 10, 2, 0, 123e6, time.UTC)
	for _, values := range [][]any{{at, "Ärger %_\"", someID, int64(7)}, {nil, "", someID, int64(-1)}} {
		cursor, err := orderUnderTest.encode(values...)
		if err != nil {
			t.Fatal(err)
		}
		got, err := orderUnderTest.decode(cursor)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, values) {
			t.Errorf("got %v, want %v", got, values)
		}
	}
}

// field report B51
func TestACursorThatIsNotOursIsMalformed(t *testing.T) {
	t.Parallel()
	good, err := orderUnderTest.encode(time.UnixMilli(5), "a", someID, 7)
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := listOrder{name: "other", columns: orderUnderTest.columns}.encode(time.UnixMilli(5), "a", someID, 7)
	if err != nil {
		t.Fatal(err)
	}
	encode := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	for name, cursor := range map[string]string{
		"cut":             good[:len(good)-3],
		"longer":          good + "A",
		"no base64":       "%%%",
		"no JSON":         encode("x"),
		"trailing":        encode(`{"l":"test","a":[5,"a","`+someID+`",7]} `) + encode("{}"),
		"two values":      encode(`{"l":"test","a":[5,"a","` + someID + `",7]}{}`),
		"another list":    foreign,
		"too few values":  encode(`{"l":"test","a":[5,"a"]}`),
		"unknown field":   encode(`{"l":"test","a":[5,"a","` + someID + `",7],"x":1}`),
		"wrong type":      encode(`{"l":"test","a":[5,"a","` + someID + `","7"]}`),
		"no id":           encode(`{"l":"test","a":[5,"a","x",7]}`),
		"null not null":   encode(`{"l":"test","a":[5,null,"` + someID + `",7]}`),
		"time beyond":     encode(`{"l":"test","a":[9223372036854775807,"a","` + someID + `",7]}`),
		"number beyond":   encode(`{"l":"test","a":[5,"a","` + someID + `",1e30]}`),
		"NUL in text":     encode(`{"l":"test","a":[5,"\u0000","` + someID + `",7]}`),
		"upper case id":   encode(`{"l":"test","a":[5,"a","` + strings.ToUpper("0198abcd-0000-7000-8000-000000000001") + `",7]}`),
		"an empty object": encode(`{}`),
	} {
		_, err := orderUnderTest.decode(cursor)
		if fault.CodeOf(err) != fault.Malformed {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestOnlyPagesOfOneToFiveHundredRowsAreGiven(t *testing.T) {
	t.Parallel()
	for limit, want := range map[int]int{0: 50, 1: 1, 500: 500} {
		if got, err := pageLimit(Paging{Limit: limit}); err != nil || got != want {
			t.Errorf("limit %d: got %d, %v", limit, got, err)
		}
	}
	for _, limit := range []int{-1, 501} {
		if _, err := pageLimit(Paging{Limit: limit}); fault.CodeOf(err) != fault.Malformed {
			t.Errorf("limit %d: got %v", limit, err)
		}
	}
}

func FuzzEveryCursorIsRefusedOrComesBackTheSame(f *testing.F) {
	good, err := orderUnderTest.encode(time.UnixMilli(5), "a", someID, 7)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add("")
	f.Add("e30")
	f.Fuzz(func(t *testing.T, cursor string) {
		values, err := orderUnderTest.decode(cursor)
		if err != nil {
			if fault.CodeOf(err) != fault.Malformed {
				t.Errorf("%q: %v", cursor, err)
			}
			return
		}
		again, err := orderUnderTest.encode(values...)
		if err != nil {
			t.Fatal(err)
		}
		back, err := orderUnderTest.decode(again)
		if err != nil || !slices.Equal(back, values) {
			t.Errorf("%q: %v came back as %v (%v)", cursor, values, back, err)
		}
	})
}
