package definitions

import (
	"embed"
	"io/fs"
)

//go:embed bundled/*.v[0-9].yaml
var bundled embed.FS

// Bundled gives the definitions that come with the product, by file name such as
// "onboarding.v1.yaml". The bytes are the caller's.
func Bundled() map[string][]byte {
	files := map[string][]byte{}
	entries, err := bundled.ReadDir("bundled")
	if err != nil {
		return files // an embedded folder is always there
	}
	for _, e := range entries {
		if src, err := fs.ReadFile(bundled, "bundled/"+e.Name()); err == nil {
			files[e.Name()] = src
		}
	}
	return files
}
