package fsm

import "time"

// Markers stand in a frozen request for what is made only at delivery. They hold a
// NUL character, which no data can contain.
const (
	MarkerLink        = "\x00link\x00"         // the decision link of Frozen.Assignee
	MarkerCallbackURL = "\x00callback.url\x00" // the callback URL of Frozen.Callback
)

// MarkerCallbackEvent stands for callback.urls.EVENT.
func MarkerCallbackEvent(event string) string { return "\x00callback.urls." + event + "\x00" }

// Frozen is the request of a queued effect, JSON in QueuedEffect.Request. Exactly
// one of Webhook, Email and TaskMail is set.
type Frozen struct {
	Webhook  *FrozenWebhook  `json:"webhook,omitempty"`
	Email    *FrozenEmail    `json:"email,omitempty"`
	TaskMail *FrozenTaskMail `json:"task_mail,omitempty"`
	Assignee EffectID        `json:"assignee,omitzero"` // (seq, n) whose link MarkerLink stands for
	Callback EffectID        `json:"callback,omitzero"` // (seq, n) of the callback row
}

// FrozenWebhook is one HTTP request.
type FrozenWebhook struct {
	Method      string      `json:"method"`
	URL         string      `json:"url"`
	Headers     [][2]string `json:"headers,omitempty"`
	Body        any         `json:"body,omitempty"`
	HasBody     bool        `json:"has_body"`
	Credentials string      `json:"credentials,omitempty"`
}

// FrozenEmail is one mail to one recipient.
type FrozenEmail struct {
	To      string   `json:"to"` // address
	ToName  string   `json:"to_name,omitempty"`
	Cc      []string `json:"cc,omitempty"`
	Subject string   `json:"subject"`
	Body    string   `json:"body"`
	Problem string   `json:"problem,omitempty"` // why it cannot be sent at all: dead at the first attempt
}

// FrozenTaskMail is a mail about a task to one person.
type FrozenTaskMail struct {
	Kind         string     `json:"kind"` // task | reminder | escalated | changed | told
	To           string     `json:"to"`   // address
	ToName       string     `json:"to_name,omitempty"`
	Locale       string     `json:"locale,omitempty"`
	Timezone     string     `json:"timezone,omitempty"`
	Requester    string     `json:"requester"` // display name
	Process      string     `json:"process"`   // the definition's title
	Title        string     `json:"title"`
	Instructions string     `json:"instructions,omitempty"` // Markdown
	Facts        []Fact     `json:"facts,omitempty"`
	Since        time.Time  `json:"since"`
	DueAt        *time.Time `json:"due_at,omitempty"`
	ReminderK    int        `json:"reminder_k,omitempty"`
	ReminderN    int        `json:"reminder_n,omitempty"` // 0: no end
	Why          []string   `json:"why,omitempty"`        // owner lines
	Others       []string   `json:"others,omitempty"`     // names of who else was asked
	OnlyInbox    bool       `json:"only_inbox,omitempty"` // told without a token
	Comment      string     `json:"comment,omitempty"`    // changed: what the change said
}
