package deliver

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"mime"
	"path"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"vobo/internal/fault"
)

// Limits of attachments.
const (
	MaxAttachments = 25 << 20 // bytes of all attachments of a mail together, as files
	maxFiles       = 100
	maxFileName    = 100 // runes
)

// Attachment is a file that goes with a mail.
type Attachment struct {
	Name      string // as people see it; made safe by FileName
	MediaType string // type/subtype, with or without charset; "": application/octet-stream
	Data      []byte
}

// checkAttachments refuses too many or too large ones, and media types that are none,
// with fault.InvalidInput.
func (m Message) checkAttachments() error {
	if len(m.Attachments) > maxFiles {
		return fault.New(fault.InvalidInput, "The mail has %d attachments; at most %d are allowed.", len(m.Attachments), maxFiles)
	}
	size := 0
	for _, a := range m.Attachments {
		if size += len(a.Data); size > MaxAttachments {
			return fault.New(fault.InvalidInput, "The attachments are larger than %d MiB together.", MaxAttachments>>20)
		}
		if _, err := a.contentType(); err != nil {
			return err
		}
	}
	return nil
}

const anyContent = "application/octet-stream"

var (
	mediaType = regexp.MustCompile(`^[a-z0-9][a-z0-9!#$&^_.+-]{0,63}/[a-z0-9][a-z0-9!#$&^_.+-]{0,63}$`) // RFC 6838 section 4.2
	charset   = regexp.MustCompile(`^[A-Za-z0-9._:+-]{1,40}$`)
)

// contentType returns the media type as a header may hold it. What would make a reader
// look for parts or messages inside (multipart, message) is written as any content.
func (a Attachment) contentType() (string, error) {
	if a.MediaType == "" {
		return anyContent, nil
	}
	kind, params, err := mime.ParseMediaType(a.MediaType)
	if err != nil || !mediaType.MatchString(kind) {
		return "", fault.New(fault.InvalidInput, "%q, the media type of the attachment %q, is not of the form type/subtype.", printable(a.MediaType, 80), printable(a.Name, 80))
	}
	switch family, _, _ := strings.Cut(kind, "/"); family {
	case "multipart", "message":
		return anyContent, nil
	}
	if set := params["charset"]; charset.MatchString(set) {
		kind += ";\r\n charset=\"" + set + "\""
	}
	return kind, nil
}

// write writes the attachment as a part of a multipart body: base64, the file name as
// RFC 2231 asks.
func (a Attachment) write(b *bytes.Buffer) error {
	kind, err := a.contentType()
	if err != nil {
		return err
	}
	header(b, "Content-Type", kind)
	header(b, "Content-Disposition", "attachment"+fileNameParameter(FileName(a.Name)))
	header(b, "Content-Transfer-Encoding", "base64")
	b.WriteString("\r\n")
	text := base64.StdEncoding.EncodeToString(a.Data)
	b.Grow(len(text) + len(text)/38 + 4)
	for ; len(text) > 76; text = text[76:] {
		b.WriteString(text[:76])
		b.WriteString("\r\n")
	}
	b.WriteString(text)
	b.WriteString("\r\n")
	return nil
}

// fileNameParameter writes ;filename= for a safe name: quoted where it is short ASCII,
// else percent-encoded in numbered pieces (RFC 2231 sections 3 and 4), a line each.
func fileNameParameter(name string) string {
	if plainASCII(name) && len(name) <= 60 && !strings.ContainsAny(name, `"\%`) && !strings.Contains(name, "=?") {
		return ";\r\n filename=\"" + name + "\""
	}
	var b strings.Builder
	piece, pieces := "utf-8''", 0
	flush := func() {
		fmt.Fprintf(&b, ";\r\n filename*%d*=%s", pieces, piece)
		piece, pieces = "", pieces+1
	}
	for _, c := range []byte(name) {
		word := string(rune(c))
		if !isLetterOrDigit(c) && c != '.' && c != '-' && c != '_' {
			word = fmt.Sprintf("%%%02X", c)
		}
		if len(piece)+len(word) > 55 {
			flush()
		}
		piece += word
	}
	flush()
	return b.String()
}

// windowsDevices are names that some systems take for devices, with any extension.
var windowsDevices = regexp.MustCompile(`(?i)^(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$|clock\$)$`)

// FileName makes a file name that is safe to save anywhere: the last part of what may
// be a path, without control, invisible or direction-changing characters and those that
// systems reserve; no leading dot, no trailing dot or space, no name of a device; at most
// 100 characters, the extension kept. "attachment" where nothing is left.
func FileName(s string) string {
	s = strings.ToValidUTF8(s, "_")
	s = path.Base("/" + strings.ReplaceAll(s, `\`, "/"))
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsControl(r), isLineSeparator(r), strings.ContainsRune(`/<>:"|?*`, r):
			return '_'
		case unicode.Is(unicode.Cf, r), unicode.Is(unicode.Co, r), unicode.Is(unicode.Variation_Selector, r):
			return -1
		case unicode.IsSpace(r):
			return ' '
		}
		return r
	}, s)
	s = strings.TrimRight(strings.TrimLeft(s, ". "), ". ")
	if stem, _, _ := strings.Cut(s, "."); windowsDevices.MatchString(strings.TrimSpace(stem)) {
		s = "_" + s
	}
	if utf8.RuneCountInString(s) > maxFileName {
		extension := path.Ext(s)
		if utf8.RuneCountInString(extension) > 10 {
			extension = ""
		}
		stem := []rune(strings.TrimSuffix(s, extension))
		s = strings.TrimRight(string(stem[:maxFileName-utf8.RuneCountInString(extension)]), ". ") + extension
	}
	if strings.Trim(s, "_. ") == "" {
		return "attachment"
	}
	return s
}
