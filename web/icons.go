package web

import "html/template"

// logo is the word Vobo with a tick that closes the last o.
const logo = template.HTML(`<svg class="logo" viewBox="0 0 112 38" role="img" aria-label="Vobo" fill="none" stroke-width="5" stroke-linecap="round" stroke-linejoin="round"><g stroke="currentColor"><path d="M4 8l10 24L24 8"/><circle cx="38" cy="22.5" r="9"/><path d="M57 4v28"/><circle cx="66" cy="22.5" r="9"/><path d="M93.5 13.6A9 9 0 1 0 101 22.5"/></g><path class="tick" d="M88.5 20.5l5 5.5L107 7"/></svg>`)

// shapes are the icons' paths on a 20 × 20 grid, drawn with strokes.
var shapes = map[string]string{
	"clock":    `<circle cx="10" cy="10" r="7.25"/><path d="M10 6v4.2l2.8 1.7"/>`,
	"tick":     `<path d="M4 10.5l4 4.2L16 6"/>`,
	"cross":    `<path d="M5.5 5.5l9 9M14.5 5.5l-9 9"/>`,
	"alert":    `<path d="M10 3.200L17.5 16.5h-15z"/><path d="M10 8.200v3.600M10 14.200v.1"/>`,
	"pause":    `<path d="M7 5v10M13 5v10"/>`,
	"document": `<path d="M5.5 2.75h6l3.5 3.5v11h-9.5z"/><path d="M11.25 3v3.5H15"/>`,
	"person":   `<circle cx="10" cy="7" r="3.25"/><path d="M3.75 17c.8-3.4 3.2-5 6.25-5s5.450 1.6 6.25 5"/>`,
	"group":    `<circle cx="7.5" cy="7.5" r="2.75"/><path d="M2.5 16c.6-2.9 2.5-4.25 5-4.25s4.4 1.350 5 4.25"/><path d="M12.5 4.900a2.75 2.75 0 0 1 0 5.200M14.5 12.200c1.7.6 2.7 1.9 3 3.8"/>`,
	"inbox":    `<path d="M3 11l2.5-7h9L17 11v5H3z"/><path d="M3 11h4l1 2h4l1-2h4"/>`,
	"sent":     `<path d="M3 9.5L17 3.5l-4.5 13-3-5.5z"/>`,
	"dot":      `<circle cx="10" cy="10" r="2.5"/>`,
	"arrow":    `<path d="M4 10h12M11 5l5 5-5 5"/>`,
	"back":     `<path d="M16 10H4M9 5l-5 5 5 5"/>`,
	"search":   `<circle cx="9" cy="9" r="5.25"/><path d="M13 13l4 4"/>`,
	"lock":     `<rect x="4.5" y="9" width="11" height="8" rx="1.5"/><path d="M7 9V6.5a3 3 0 0 1 6 0V9"/>`,
	"mail":     `<rect x="2.75" y="4.5" width="14.5" height="11" rx="1.5"/><path d="M3.25 5.5L10 11l6.75-5.5"/>`,
	"undo":     `<path d="M7 4L3.5 7.5 7 11"/><path d="M3.5 7.5H12a4.25 4.25 0 0 1 0 8.5H8"/>`,
}

// icon draws one; beside a word it says nothing to a screen reader.
func icon(name string) template.HTML {
	return template.HTML(`<svg class="icon icon-` + name + `" viewBox="0 0 20 20" aria-hidden="true" focusable="false">` + shapes[name] + `</svg>`)
}
