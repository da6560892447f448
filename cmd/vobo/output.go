package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
)

// printJSON writes v, indented on a terminal.
func printJSON(c *console, v any) error {
	e := json.NewEncoder(c.out)
	e.SetEscapeHTML(false)
	if c.terminal {
		e.SetIndent("", "  ")
	}
	return e.Encode(v)
}

// printTable writes aligned columns; control characters of what others wrote are left out.
func printTable(c *console, rows [][]string) error {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 4, 2, ' ', 0)
	for _, row := range rows {
		for i := range row {
			row[i] = plain(row[i])
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(text.String()) {
		if _, err := fmt.Fprintln(c.out, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// plain takes control characters out of text for a terminal.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f || (r >= 0x80 && r < 0xa0) || (r >= 0x202a && r <= 0x202e) || (r >= 0x2066 && r <= 0x2069) {
			return ' '
		}
		return r
	}, s)
}

// ago writes a time relative to now: "3 hours ago", "in 2 days".
func ago(t, now time.Time) string {
	d := now.Sub(t)
	future := d < 0
	if future {
		d = -d
	}
	var text string
	switch {
	case d < time.Minute:
		text = plural(int(d.Seconds()), "second")
	case d < time.Hour:
		text = plural(int(d.Minutes()), "minute")
	case d < 48*time.Hour:
		text = plural(int(d.Hours()), "hour")
	case future:
		text = plural(int((d+30*time.Minute).Hours()/24), "day") // a week that began a moment ago is one
	default:
		text = plural(int(d.Hours()/24), "day")
	}
	if future {
		return "in " + text
	}
	return text + " ago"
}

func plural(n int, unit string) string {
	if unit == "person" && n != 1 {
		return fmt.Sprintf("%d people", n)
	}
	if n == 1 {
		return "1 " + unit
	}
	return fmt.Sprintf("%d %ss", n, unit)
}

// shortID is enough of an instance's id for a reader to tell rows apart.
func shortID(id string) string {
	if len(id) <= 12 {
		return id
	}
	return "…" + id[len(id)-8:]
}

// detailed is a word and, where there is one, what it means here: "succeeded (kept in the mailbox page)".
func detailed(word, detail string) string {
	if detail == "" {
		return word
	}
	return word + " (" + strings.TrimSuffix(detail, ".") + ")"
}
