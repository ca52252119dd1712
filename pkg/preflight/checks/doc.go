// Package checks holds what preflight can look at: one file a check, one table of all.
//
// A check looks once, within the time of its context, and says what it saw. It knows
// nothing of retries, exit codes or of what its finding leads to, beyond the outcome that
// it proposes. It reads the environment and the file system only through Env.
package checks
