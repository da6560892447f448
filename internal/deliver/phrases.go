package deliver

import (
	"fmt"
	"strings"
	"time"
)

// phrases are the sentences of mails in one language. A further language is one more
// entry of the table; nothing else knows any words.
type phrases struct {
	lang       string
	until      string // %s: a time
	decide     string // button
	open       string // button of a mail that asks nothing, or has no link of its own
	bareLink   string
	personal   string // %s: name
	others     string // %s: names
	more       string // of a list; %d
	shortened  string
	facts      string // heading
	comment    string // before what somebody wrote
	sentBy     string // %s: service
	reminder   string // %d of %d
	reminderOf string // %d, where the number of reminders is not known
	escalated  string
	changed    string
	told       string
	lead       map[string]string // by kind; %s: who asks
	why        map[string]string // by kind; %s: who asks
	greeting   string            // %s: name
	somebody   string

	loginSubject, loginLead, loginButton, loginWhy string // %s: service
	loginLasts                                     string // %s: a duration

	minute         string
	minutes, hours string // %d
	days           [7]string
	months         [12]string
}

var english = phrases{
	lang:       "en",
	until:      "Until %s",
	decide:     "Read and decide",
	open:       "Open your inbox",
	bareLink:   "If the button does not work, copy this address into your browser:",
	personal:   "This link was made for %s alone: please do not forward it.",
	others:     "Also asked: %s.",
	more:       "%d more",
	shortened:  "… (shortened)",
	facts:      "The facts",
	comment:    "They wrote:",
	sentBy:     "Sent by %s.",
	reminder:   "Reminder %d of %d",
	reminderOf: "Reminder %d",
	escalated:  "Escalated to you",
	changed:    "The request has changed",
	told:       "For your information",
	lead: map[string]string{
		kindTask:      "%s asks for your decision.",
		kindReminder:  "%s is still waiting for your decision.",
		kindEscalated: "%s is waiting for a decision, and nobody has made it yet. You can.",
		kindChanged:   "What %s asked you has changed. Earlier links and answers no longer count: please read it again.",
		kindTold:      "%s has a request that concerns you.",
	},
	why: map[string]string{
		kindTask:      "You get this because the decision is yours to make.",
		kindReminder:  "You get this because you were asked and have not decided yet. Links in earlier mails no longer work.",
		kindEscalated: "You get this because the request was escalated to you. Those who were asked before can still decide.",
		kindChanged:   "You get this because you were asked about the earlier form of this request.",
		kindTold:      "You get this because the process names you. Nothing is asked of you by this mail.",
	},
	greeting:     "Hello %s,",
	somebody:     "Somebody",
	loginSubject: "Your link to log in to %s",
	loginLead:    "Here is your link to log in to %s.",
	loginButton:  "Log in",
	loginWhy:     "You get this because your address was typed on the login page of %s. If that was not you, do nothing: without the link nobody gets in.",
	loginLasts:   "It works once, and for %s.",
	minute:       "one minute",
	minutes:      "%d minutes",
	hours:        "%d hours",
	days:         [7]string{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"},
	months:       [12]string{"January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"},
}

var languages = map[string]*phrases{"en": &english}

// phrasesFor returns the phrases of a BCP 47 tag's language, else the English ones.
func phrasesFor(locale string) *phrases {
	base, _, _ := strings.Cut(strings.ToLower(strings.ReplaceAll(locale, "_", "-")), "-")
	if p, ok := languages[base]; ok {
		return p
	}
	return &english
}

// moment writes a time in the reader's zone with its place and offset, since a mail is
// read anywhere: "Thu 3 December 2026, 18:00 (Madrid, UTC+01:00)".
func (p *phrases) moment(t time.Time, zone *time.Location) string {
	if zone == nil {
		zone = time.UTC
	}
	t = t.In(zone)
	text := fmt.Sprintf("%s %d %s %d, %s", p.days[t.Weekday()], t.Day(), p.months[t.Month()-1], t.Year(), t.Format("15:04"))
	place := zone.String()
	if place == "UTC" {
		return text + " (UTC)"
	}
	offset := "UTC" + t.Format("-07:00")
	place = strings.ReplaceAll(place[strings.LastIndex(place, "/")+1:], "_", " ")
	if place == "" || place == "Local" {
		return text + " (" + offset + ")"
	}
	return text + " (" + place + ", " + offset + ")"
}

// duration writes how long something lasts.
func (p *phrases) duration(minutes int) string {
	switch {
	case minutes == 1:
		return p.minute
	case minutes >= 120 && minutes%60 == 0:
		return fmt.Sprintf(p.hours, minutes/60)
	}
	return fmt.Sprintf(p.minutes, minutes)
}
