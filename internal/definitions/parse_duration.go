package definitions

import (
	"regexp"
	"strings"
	"time"

	"github.com/sosodev/duration"
	yaml "go.yaml.in/yaml/v4"

	"vobo/internal/fault"
)

var (
	durationPattern = regexp.MustCompile(`^-?P([0-9]{1,6}W|([0-9]{1,6}Y)?([0-9]{1,6}M)?([0-9]{1,6}D)?(T([0-9]{1,9}H)?([0-9]{1,9}M)?([0-9]{1,10}(\.[0-9]{1,3})?S)?)?)$`)
	durationUnit    = regexp.MustCompile(`[0-9][WYMDHS]`)
)

const maxDurationHours = 100 * 366 * 24

// ParseDuration reads an ISO 8601 duration such as P1D, PT2H, P1Y6M or -P2D. It is
// stricter than the standard's many readings: whole numbers (seconds may have three
// decimals), weeks alone, at least one unit, at most 100 years. PT0S is a duration.
// Years, months and days are calendar units; their length is the caller's to find.
// An error is *fault.Error of code invalid-definition with words for people.
func ParseDuration(text string) (*duration.Duration, error) {
	refuse := func(format string, args ...any) error {
		return fault.New(fault.InvalidDefinition, format, args...)
	}
	if !durationPattern.MatchString(text) || !durationUnit.MatchString(text) || strings.HasSuffix(text, "T") {
		return nil, refuse("%s is no ISO 8601 duration; write P1D, PT2H30M or P1Y.", clip(text))
	}
	d, err := duration.Parse(text)
	if err != nil {
		return nil, fault.Wrap(err, fault.InvalidDefinition, "%s is no ISO 8601 duration; write P1D, PT2H30M or P1Y.", clip(text))
	}
	hours := ((d.Years*366+d.Months*31+d.Weeks*7+d.Days)*24 + d.Hours) + d.Minutes/60 + d.Seconds/3600
	if hours > maxDurationHours {
		return nil, refuse("%s is longer than 100 years.", clip(text))
	}
	return d, nil
}

// durationRule says which durations a place takes.
type durationRule struct {
	negative bool // may be below zero
	positive bool // must be above zero
}

// duration compiles a duration: a literal that is checked now, or a template.
func (b *builder) duration(n *yaml.Node, what string, rule durationRule, w where) *Template {
	text, ok := b.text(n, what)
	if !ok {
		return nil
	}
	if !strings.Contains(text, "{{") {
		b.checkDuration(n, what, text, rule)
	}
	return b.templateText(n, text, w)
}

func (b *builder) checkDuration(n *yaml.Node, what, text string, rule durationRule) *duration.Duration {
	d, err := ParseDuration(text)
	if err != nil {
		b.errorAt(n, "duration", "", "%s: %s", what, fault.As(err).Message)
		return nil
	}
	if d.Negative && !rule.negative {
		b.errorAt(n, "duration", "", "%s may not be negative: %s.", what, text)
		return nil
	}
	if rule.positive && *d == (duration.Duration{}) {
		b.errorAt(n, "duration", "", "%s must be longer than nothing.", what)
		return nil
	}
	return d
}

// span reads a literal duration of exact length (no years or months).
func (b *builder) span(n *yaml.Node, what string, most, otherwise time.Duration) time.Duration {
	if n == nil {
		return otherwise
	}
	text, ok := b.text(n, what)
	if !ok {
		return otherwise
	}
	d := b.checkDuration(n, what, text, durationRule{positive: true})
	if d == nil {
		return otherwise
	}
	if d.Years != 0 || d.Months != 0 || d.ToTimeDuration() > most {
		b.errorAt(n, "duration", "", "%s may be %s at most, without months or years.", what, duration.Format(most))
		return otherwise
	}
	return d.ToTimeDuration()
}
