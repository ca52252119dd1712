package certificate

import (
	"bytes"
	"crypto/sha256"
	"time"
)

// Situation is everything a decision is made on.
type Situation struct {
	Now time.Time
	// Names the certificate has to be for.
	Names []string
	// Lifetime of certificates that are made.
	Lifetime time.Duration
	// Stored is the content of the Secret, nil if there is no Secret.
	Stored *Stored
	// Bundles are what each webhook of the configurations trusts.
	Bundles [][]byte
	// Serving is the certificate in use, nil before the first.
	Serving *Pair
	// Trusted says since when all webhooks have been seen to trust a certificate.
	Trusted Trust
	// Settle is how long every API server may take to go by a changed configuration.
	Settle time.Duration
}

// Plan is what to do next.
type Plan struct {
	// Issue says why a new certificate is needed, "" if none is.
	Issue string
	// Publish says that a webhook does not trust exactly the stored authorities.
	Publish bool
	// Serve is the certificate to serve, nil if there is none.
	Serve *Pair
	// Settled says that nothing is under way: Serve is the newest, and known everywhere.
	Settled bool
}

// Decide says what to do next.
func Decide(s Situation) Plan {
	p := Plan{Issue: s.Stored.describe(s.Now, s.Names, s.Lifetime), Serve: s.choose()}
	if p.Issue == "" && s.Stored.lacks(s.Bundles, s.Now) {
		p.Issue = "the webhook configurations trust authorities that are not stored, as if an older Secret had been put back"
	}
	if p.Issue != "" {
		return p
	}
	for _, bundle := range s.Bundles {
		if !bytes.Equal(bundle, s.Stored.Authorities) {
			p.Publish = true
		}
	}
	p.Settled = !p.Publish && p.Serve == s.Stored.Current && s.Trusted.settled(p.Serve, s.Now, s.Settle)
	return p
}

// choose picks the newest certificate that the API server has been told to trust.
func (s Situation) choose() *Pair {
	var current, previous *Pair
	if s.Stored != nil {
		current, previous = s.Stored.Current, s.Stored.Previous
	}
	for _, pair := range []*Pair{current, previous} {
		if pair.usable(s.Now) && s.Trusted.settled(pair, s.Now, s.Settle) {
			return pair
		}
	}
	// None has been watched for long, as in a process that has just started. What is
	// served already stays; of the others the older has been trusted for longer.
	for _, pair := range []*Pair{s.Serving, previous, current} {
		if _, trusted := s.Trusted.since(pair); trusted && pair.usable(s.Now) {
			return pair
		}
	}
	for _, pair := range []*Pair{s.Serving, current, previous} {
		if pair.usable(s.Now) {
			return pair
		}
	}
	return nil
}

// Trust says since when certificates have been trusted by all webhooks.
type Trust map[[sha256.Size]byte]time.Time

// Observe notes which of the certificates all bundles trust now. Those that were
// trusted before keep their time.
func (t Trust) Observe(now time.Time, bundles [][]byte, pairs ...*Pair) Trust {
	seen := Trust{}
	for _, pair := range pairs {
		if pair == nil || len(bundles) == 0 || !trustedByAll(pair, bundles, now) {
			continue
		}
		since, before := t.since(pair)
		if !before {
			since = now
		}
		seen[pair.fingerprint()] = since
	}
	return seen
}

func trustedByAll(pair *Pair, bundles [][]byte, now time.Time) bool {
	var last []byte
	for i, bundle := range bundles {
		if i > 0 && bytes.Equal(bundle, last) {
			continue // usually they are all the same
		}
		if !pair.trustedBy(bundle, now) {
			return false
		}
		last = bundle
	}
	return true
}

func (t Trust) since(pair *Pair) (time.Time, bool) {
	if pair == nil {
		return time.Time{}, false
	}
	since, found := t[pair.fingerprint()]
	return since, found
}

func (t Trust) settled(pair *Pair, now time.Time, settle time.Duration) bool {
	since, found := t.since(pair)
	return found && now.Sub(since) >= settle
}
