package certificate

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Keys of the Secret. The first three are those of a Secret of type kubernetes.io/tls
// as others write it too.
const (
	keyCert         = corev1.TLSCertKey
	keyKey          = corev1.TLSPrivateKeyKey
	keyAuthorities  = corev1.ServiceAccountRootCAKey // ca.crt
	keyPreviousCert = "previous-tls.crt"
	keyPreviousKey  = "previous-tls.key"
)

// maxAuthorities is far more than rotations need (two). It bounds what somebody who
// deletes the Secret over and over leaves in the webhook configurations.
const maxAuthorities = 8

// Stored is what the Secret holds.
type Stored struct {
	// Current is the newest certificate, nil if it cannot be read.
	Current *Pair
	// Previous is the one before, nil if there was none.
	Previous *Pair
	// Authorities is a bundle of those that signed the certificates that may be in use.
	Authorities []byte
	// Broken says why Current is nil.
	Broken error
}

// parseStored reads a Secret, whoever has written it.
func parseStored(data map[string][]byte) *Stored {
	s := &Stored{Authorities: data[keyAuthorities]}
	if s.Current, s.Broken = ParsePair(data[keyCert], data[keyKey]); s.Broken != nil {
		s.Current = nil
	}
	if previous, err := ParsePair(data[keyPreviousCert], data[keyPreviousKey]); err == nil {
		s.Previous = previous
	}
	return s
}

// into writes the content into a Secret's data and leaves other keys alone.
func (s *Stored) into(data map[string][]byte) map[string][]byte {
	data = maps.Clone(data)
	if data == nil {
		data = map[string][]byte{}
	}
	delete(data, keyPreviousCert)
	delete(data, keyPreviousKey)
	data[keyCert], data[keyKey], data[keyAuthorities] = s.Current.CertPEM, s.Current.KeyPEM, s.Authorities
	if s.Previous != nil {
		data[keyPreviousCert], data[keyPreviousKey] = s.Previous.CertPEM, s.Previous.KeyPEM
	}
	return data
}

// succeed makes the content that follows on old (nil if there is none): a new
// certificate, the one that is served now, and the authorities of both and of all that
// the bundles of the webhook configurations trust, by which other replicas may be serving.
// before is the certificate that the Secret holds, however useless; nil if there is none.
func succeed(old *Stored, before, serving *Pair, bundles [][]byte, now time.Time, lifetime time.Duration, names []string) (*Stored, error) {
	var known [][]byte
	var previous *Pair
	names = slices.Clone(names)
	if old != nil {
		// Names that another replica has asked for stay until the next rotation: two
		// versions of a Deployment with different flags would else go on replacing
		// each other's certificate.
		if old.Current != nil && len(old.Current.missing(names)) > 0 {
			names = append(names, old.Current.Names()...)
		}
		known = append(known, old.Authorities)
		previous = old.Current
	}
	if serving.usable(now) {
		previous = serving
	}
	if !previous.usable(now) {
		previous = nil
	}
	slices.Sort(names)
	from, until := validity(now, lifetime, before)
	current, authority, err := issue(from, until, slices.Compact(names))
	if err != nil {
		return nil, err
	}
	authorities := ownAuthorities(now, append(known, bundles...))
	// Those that are cut off are the oldest.
	slices.SortStableFunc(authorities, func(a, b *x509.Certificate) int { return b.NotAfter.Compare(a.NotAfter) })
	authorities = slices.Insert(authorities, 0, authority)
	return &Stored{
		Current: current, Previous: previous,
		Authorities: encodeAuthorities(authorities[:min(len(authorities), maxAuthorities)]),
	}, nil
}

// ownAuthorities are those in bundles that were made here and have not expired.
func ownAuthorities(now time.Time, bundles [][]byte) []*x509.Certificate {
	var own []*x509.Certificate
	for i, bundle := range bundles {
		if i > 0 && bytes.Equal(bundle, bundles[i-1]) {
			continue // usually they are all the same
		}
		for _, authority := range parseAuthorities(bundle) {
			if authority.Subject.CommonName == commonName && now.Before(authority.NotAfter) && !slices.ContainsFunc(own, authority.Equal) {
				own = append(own, authority)
			}
		}
	}
	return own
}

// lacks says whether the bundles trust an authority made here that the content does not
// have. Whoever is served by it must not lose its trust. Content that is full is left
// alone: it would lack something again after every change.
func (s *Stored) lacks(bundles [][]byte, now time.Time) bool {
	stored := parseAuthorities(s.Authorities)
	return len(stored) < maxAuthorities && slices.ContainsFunc(ownAuthorities(now, bundles), func(authority *x509.Certificate) bool {
		return !slices.ContainsFunc(stored, authority.Equal)
	})
}

// describe says what is wrong with the content, "" if it can be used for the names.
func (s *Stored) describe(now time.Time, names []string, lifetime time.Duration) string {
	switch {
	case s == nil:
		return "there is none yet"
	case s.Current == nil:
		return fmt.Sprintf("the stored one cannot be read: %v", s.Broken)
	case !s.Current.usable(now):
		return fmt.Sprintf("the stored one is valid from %s to %s", s.Current.leaf().NotBefore.Format(time.RFC3339), s.Current.NotAfter().Format(time.RFC3339))
	case !s.Current.trustedBy(s.Authorities, now):
		return "the stored one was not signed by the stored authorities"
	}
	if missing := s.Current.missing(names); len(missing) > 0 {
		return "the stored one is not for " + strings.Join(missing, ", ")
	}
	if !now.Before(s.Current.rotateAt(lifetime)) {
		return "the stored one has had two thirds of its life"
	}
	return ""
}
