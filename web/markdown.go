package web

import (
	"html/template"

	"vobo/internal/markdown"
)

// instructions renders a task's instructions; user text in them is isolated as everywhere.
func instructions(source string) template.HTML {
	return template.HTML(markdown.HTML(source, func(s string) string { return string(userText(s)) }))
}
