//go:build race

package harness

// Race says whether this program carries the race detector; the controller it
// builds then does too.
const Race = true
