package web

import "vobo/internal/fault"

// englishProblems explains every code: its name, what it means, the way out.
var englishProblems = map[fault.Code][3]string{
	fault.InvalidToken:        {"This link or token is not valid", "The token is not one of ours, is cut short, or its key is gone. Every such token gets this one answer.", "Copy the whole address from the newest mail. Or log in and decide in the inbox."},
	fault.NotFound:            {"There is nothing here", "Nothing of this name exists, or you may not read it.", "Check the address. From the inbox you reach everything that is yours."},
	fault.Unauthorized:        {"You are not logged in", "The request came without a valid session or API key.", "Log in and do it again. Programs send “Authorization: Bearer” with a live API key."},
	fault.Forbidden:           {"You may not do this", "Your roles do not allow this action, or the form did not come from your own session.", "Load the page again and send it once more. If it stays so, ask an administrator for the role."},
	fault.AlreadyDecided:      {"This is already decided", "Somebody's decision left the wait, or your own did. The answer says who, what and when.", "Read the request's history. A decision that stands is changed only by the steps that the process offers next."},
	fault.TokenRevoked:        {"This link was withdrawn", "The request was given to somebody else, the person left, or a newer link replaced this one.", "Use the newest mail about the request, or decide in the inbox."},
	fault.TokenExpired:        {"The time is over", "The deadline that ends this wait has passed.", "Ask the person who made the request to make it again if it still matters."},
	fault.Suspended:           {"The request is paused", "An operator paused it. Nobody's events are taken until it goes on.", "Wait for the resumption; your link keeps working and the deadline moves. Or ask the operator."},
	fault.EventNotAllowed:     {"This token does not allow this event", "The token was made for other events of this wait.", "Choose one of the events that the page or the task offers."},
	fault.NotPermitted:        {"A rule keeps you from this", "Four eyes, group or role: this event is not yours to raise here.", "Leave it to the people whom the request names. “explain” says who they are and by which rule."},
	fault.EventNotAllowedHere: {"The request does not know this event now", "The present state has no such event.", "Load the request again and choose one of the events that its state offers."},
	fault.ContentChanged:      {"What was shown has changed", "The decision was made on an older version of what is asked.", "Read the new version and decide again, with its digest."},
	fault.InvalidInput:        {"Something is missing or ill-formed", "Input, comment or documents do not fit the form. Each error names its field.", "Correct the fields named and send it again. Nothing was used up."},
	fault.GuardRejected:       {"A rule of the process is in the way", "No way that this event may take is open with the present data.", "Read what is in the way, change it if you can, or choose another event."},
	fault.AssuranceRequired:   {"This needs a surer log-in", "The event asks for more than you came with.", "Log in and decide in the inbox."},
	fault.KeyInUse:            {"There is already a live request for this", "The business key belongs to a request that is still open.", "Use that request, or wait until it has ended."},
	fault.RevisionMismatch:    {"The request has moved on", "If-Match named another revision than the present one.", "Read it again and decide on what it says now."},
	fault.IdempotencyMismatch: {"The same key came with another body", "An Idempotency-Key was used before for something else.", "Use a new key for a new request."},
	fault.InProgress:          {"The first call is still running", "A call with the same Idempotency-Key has not been answered yet.", "Wait a moment and send the same again: you get the first answer."},
	fault.VersionExists:       {"This version is published with other content", "A published version never changes.", "Raise the version number and publish again."},
	fault.InvalidDefinition:   {"The definition has errors", "Each error names its line, its column and a hint.", "Correct them; “vobo definitions lint FILE” shows them all at once."},
	fault.Conflict:            {"This cannot be done now", "The present state of the thing does not allow it.", "Load it again and look at how it stands."},
	fault.TooLarge:            {"This is too large", "A body may have 1 MiB.", "Shorten it, or hand documents over by reference."},
	fault.Malformed:           {"This could not be read", "It is not well-formed: bad JSON, a NUL character, text that is not UTF-8, or a cursor that is not ours.", "Correct the place that the message names and send it again."},
	fault.Unsupported:         {"This kind of content is not taken", "The Content-Type is not one that this address reads.", "Send JSON to the API and forms to the pages."},
	fault.MethodNotAllowed:    {"This address does not take that method", "The page exists, but not for this kind of request.", "Go back and use the page's own links and buttons."},
	fault.RateLimited:         {"Too many requests", "Too many tries came from you in a short time. Valid links are never counted.", "Wait as long as Retry-After says, then try again."},
	fault.Unavailable:         {"The service is busy for a moment", "The database did not answer in time. Nothing is half done.", "Send the same again in a few seconds."},
	fault.Internal:            {"Something went wrong on our side", "The service failed. Its cause is in the log; nothing is half done.", "Try again with the same key. If it stays so, tell an operator the time."},
	fault.LimitExceeded:       {"A limit is reached", "The definition or the product sets a limit that this would pass.", "Read which limit it is. An operator can say whether the request should go on in another way."},
}
