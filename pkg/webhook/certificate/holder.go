package certificate

import (
	"crypto/tls"
	"errors"
	"sync/atomic"
	"time"
)

// Holder holds the certificate that is served at the moment.
type Holder struct {
	// Changed, if set, is told the expiry of each new certificate.
	Changed func(notAfter time.Time)

	pair atomic.Pointer[Pair]
}

// errNone is what clients of a server without a certificate make it say.
var errNone = errors.New("there is no certificate to serve yet")

// GetCertificate is made for tls.Config.
func (h *Holder) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if pair := h.pair.Load(); pair != nil {
		return &pair.certificate, nil
	}
	return nil, errNone
}

// Current is the certificate in use, nil if there is none.
func (h *Holder) Current() *Pair { return h.pair.Load() }

// set serves a certificate from now on and says whether it is another than before. Only
// one goroutine calls it.
func (h *Holder) set(pair *Pair) bool {
	before := h.pair.Swap(pair)
	if before != nil && before.fingerprint() == pair.fingerprint() {
		return false
	}
	if h.Changed != nil {
		h.Changed(pair.NotAfter())
	}
	return true
}
