//go:build !race

package testkit

// raceFlag is empty: these tests run without the race detector.
const raceFlag = ""
