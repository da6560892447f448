package fsm

import (
	"strings"
	"time"
)

// Markers stand in a frozen request for what is made only at delivery. They hold a
// NUL character, which no data can contain.
const (
	MarkerLink        = "\x00link\x00"         // the decision link of Frozen.Assignee
	MarkerCallbackURL = "\x00callback.url\x00" // the callback URL of Frozen.Callback
)

// verifyPrefix marks a callback row whose caller must also sign as a webhook source.
const verifyPrefix = "verify "

// VerifySource is the webhook source whose signature a callback row asks for, "" for none.
func VerifySource(a *Assignee) string {
	if a.Kind != AssigneeCallback || len(a.Lines) != 1 {
		return ""
	}
	source, ok := strings.CutPrefix(a.Lines[0], verifyPrefix)
	if !ok {
		return ""
	}
	return source
}

// MarkerCallbackEvent stands for callback.urls.EVENT.
func MarkerCallbackEvent(event string) string { return "\x00callback.urls." + event + "\x00" }

// Frozen is the request of a queued effect, JSON in QueuedEffect.Request. Exactly
// one of the pointers is set.
type Frozen struct {
	Webhook  *FrozenWebhook  `json:"webhook,omitempty"`
	Email    *FrozenEmail    `json:"email,omitempty"`
	TaskMail *FrozenTaskMail `json:"task_mail,omitempty"`
	Start    *FrozenStart    `json:"start,omitempty"`
	Raise    *FrozenRaise    `json:"raise,omitempty"`
	Stop     *FrozenStop     `json:"stop,omitempty"`
	Manual   *FrozenManual   `json:"manual,omitempty"`
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

	Attachments []FrozenAttachment `json:"attachments,omitempty"`
}

// FrozenAttachment is the reference of a document that goes with a mail.
type FrozenAttachment struct {
	Name      string `json:"name"`
	MediaType string `json:"media_type"`
	Size      int64  `json:"size"`
	SHA256    string `json:"sha256"` // hex
	URI       string `json:"uri"`
}

// FrozenStart starts children; the list is complete and in order.
type FrozenStart struct {
	Definition string           `json:"definition"`
	Version    int              `json:"version,omitempty"` // 0: the newest when each is started
	Items      []map[string]any `json:"items"`             // data of each child
	All        bool             `json:"all,omitempty"`     // all must end well
	Need       int              `json:"need,omitempty"`    // how many must end well; any: 1
	Detach     bool             `json:"detach,omitempty"`  // nobody waits and nobody stops them
	Requester  string           `json:"requester"`         // of the children: the parent's
	Depth      int              `json:"depth"`             // of the children
}

// FrozenRaise raises an event of another instance.
type FrozenRaise struct {
	Definition string `json:"definition"`
	Key        string `json:"key"`
	Event      string `json:"event"`
	Input      any    `json:"input,omitempty"`
	As         string `json:"as"` // system:NAME, NAME the sender's definition
}

// FrozenStop cancels the live children that start effects of one wait made.
type FrozenStop struct {
	Wait   int    `json:"wait"`
	Reason string `json:"reason"`
}

// FrozenManual is work that a person does by hand and then says so.
type FrozenManual struct {
	Name string   `json:"name"` // the effect to undo
	Of   EffectID `json:"of"`
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
