package certificate

import (
	"testing"
	"time"
)

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const (
	name     = "hook.ns.svc"
	lifetime = 90 * 24 * time.Hour
	settle   = 10 * time.Second
)

// made is the content that follows on another, as it would be read from the Secret.
func made(t *testing.T, old *Stored, now time.Time, names ...string) *Stored {
	t.Helper()
	var before *Pair
	if old != nil {
		before = old.Current
	}
	next, err := succeed(old, before, nil, nil, now, lifetime, names)
	if err != nil {
		t.Fatal(err)
	}
	return parseStored(next.into(nil))
}

// trusting is a Trust of certificates since a time.
func trusting(since time.Time, pairs ...*Pair) Trust {
	trust := Trust{}
	for _, pair := range pairs {
		trust[pair.fingerprint()] = since
	}
	return trust
}
