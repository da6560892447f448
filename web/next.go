package web

import (
	"net/url"
	"strings"
)

// landing is where a log-in leads when nothing better is known.
const landing = "/inbox"

// ownPaths are the pages that a log-in may lead to.
var ownPaths = []string{"/inbox", "/tasks", "/instances", "/attention", "/effects", "/callbacks", "/sinks", "/start", "/dev/mail", "/problems"}

// safeNext returns next if it is a path of one of our own pages, in the very form
// that every browser reads alike; else the inbox. It never leads off this origin.
func safeNext(next string) string {
	if len(next) > 2000 || !plainPath(next) {
		return landing
	}
	u, err := url.Parse(next)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || u.Opaque != "" || u.Fragment != "" || u.RawPath != "" {
		return landing
	}
	for _, segment := range strings.Split(u.Path, "/")[1:] {
		if segment == "" || strings.Trim(segment, ".") == "" {
			return landing
		}
	}
	for _, own := range ownPaths {
		if u.Path == own || strings.HasPrefix(u.Path, own+"/") {
			return next
		}
	}
	return landing
}

// plainPath: begins with one slash and holds nothing that browsers rewrite. Percent
// signs stand in the query only.
func plainPath(next string) bool {
	if !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") {
		return false
	}
	path, _, _ := strings.Cut(next, "?")
	if strings.Contains(path, "%") {
		return false
	}
	for i := 0; i < len(next); i++ {
		switch c := next[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("/-._~?=&%+,:@", c) >= 0:
		default:
			return false
		}
	}
	return true
}
