// Package e2e holds the end-to-end tests: the real binary, as one process on SQLite
// and as three replicas on PostgreSQL, with a real mail server, real receivers of
// webhooks and a real browser. It has no code of its own.
//
// Only what the world can see is looked at: answers, pages, mails, calls, logs, files;
// and the database once, where the torture test verifies the hashes of the history.
package e2e
