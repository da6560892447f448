package web

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"

	"github.com/labstack/echo/v4"

	"vobo/internal/fault"
)

//go:embed static
var staticFiles embed.FS

// asset is one static file; its public name carries its hash, so it is kept for ever.
type asset struct {
	body []byte
	kind string
}

type assets struct {
	public map[string]string // "vobo.css" → "vobo.1f2e3d4c5b.css"
	files  map[string]asset  // by public name
}

var assetKinds = map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}

func loadAssets() (*assets, error) {
	a := &assets{public: map[string]string{}, files: map[string]asset{}}
	entries, err := fs.ReadDir(staticFiles, "static")
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		body, err := staticFiles.ReadFile("static/" + entry.Name())
		if err != nil {
			return nil, err
		}
		ext := path.Ext(entry.Name())
		kind, known := assetKinds[ext]
		if !known {
			return nil, fmt.Errorf("web: static/%s has no known media type", entry.Name())
		}
		sum := sha256.Sum256(body)
		name := strings.TrimSuffix(entry.Name(), ext) + "." + hex.EncodeToString(sum[:5]) + ext
		a.public[entry.Name()] = name
		a.files[name] = asset{body: body, kind: kind}
	}
	return a, nil
}

// static serves the files under their hashed names only.
func (s *site) static(c echo.Context) error {
	file, ok := s.assets.files[c.Param("*")]
	if !ok {
		return s.plain(func(echo.Context) error { return fault.New(fault.NotFound, "There is no file at this address.") })(c)
	}
	return s.serve(c, file, "public, max-age=31536000, immutable")
}

// favicon serves browsers that ask for it without looking at the page.
func (s *site) favicon(c echo.Context) error {
	return s.serve(c, s.assets.files[s.assets.public["favicon.svg"]], "public, max-age=86400")
}

func (s *site) serve(c echo.Context, file asset, cache string) error {
	h := c.Response().Header()
	s.secureHeaders(h, "same-origin")
	h.Set("Cache-Control", cache)
	h.Del("Vary")
	return c.Blob(http.StatusOK, file.kind, file.body)
}
