// Package tool runs other programs for checks and always comes back: a child that hangs
// is killed with all its descendants, and one that even SIGKILL does not end, because it
// waits for a broken device or file system, is left behind and reported.
//
// It knows nothing of what it runs.
package tool
