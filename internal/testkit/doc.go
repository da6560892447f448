// Package testkit holds what tests of several packages need from the world:
// databases, a mail server, a receiver of webhooks, a browser, the real binary.
//
// Everything it hands out is real, fresh for the test that asked and gone when
// that test ends. What cannot be had fails the test with the line to run; no
// test is ever skipped. Only tests import it.
package testkit
