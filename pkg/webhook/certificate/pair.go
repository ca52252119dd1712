package certificate

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"slices"
	"time"
)

// Pair is a serving certificate with its key.
type Pair struct {
	CertPEM, KeyPEM []byte

	certificate tls.Certificate
}

// ParsePair reads a certificate, with those that lead to its authority if there are
// any, and its key.
func ParsePair(certPEM, keyPEM []byte) (*Pair, error) {
	certificate, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, err
	}
	return &Pair{CertPEM: certPEM, KeyPEM: keyPEM, certificate: certificate}, nil
}

func (p *Pair) leaf() *x509.Certificate { return p.certificate.Leaf }

// fingerprint tells certificates apart.
func (p *Pair) fingerprint() [sha256.Size]byte { return sha256.Sum256(p.leaf().Raw) }

// NotAfter is when the certificate expires.
func (p *Pair) NotAfter() time.Time { return p.leaf().NotAfter }

// Names are the DNS names and addresses the certificate is for.
func (p *Pair) Names() []string {
	names := slices.Clone(p.leaf().DNSNames)
	for _, ip := range p.leaf().IPAddresses {
		names = append(names, ip.String())
	}
	return names
}

// usable says whether a client whose clock shows now would accept the dates.
func (p *Pair) usable(now time.Time) bool {
	return p != nil && !now.Before(p.leaf().NotBefore) && now.Before(p.leaf().NotAfter)
}

// rotateAt is when a certificate that was made to live for so long has had two thirds of
// its life. One whose dates were stretched ends no earlier for it.
func (p *Pair) rotateAt(lifetime time.Duration) time.Time {
	life := p.leaf().NotAfter.Sub(p.leaf().NotBefore)
	return p.leaf().NotAfter.Add(-min(life, lifetime+lead(lifetime)) / 3)
}

// lead is how long before it is made a certificate begins to be valid: clocks of clients
// that are behind must accept it at once.
func lead(lifetime time.Duration) time.Duration { return min(lifetime/10, time.Hour) }

// validity is the time for which a certificate is made now. The clock of the replica that
// made the one before may be another: where that one begins or ends says so, and the new
// one is valid by both clocks, so that neither replaces what the other has made again and
// again. A clock is believed as far as one lifetime.
func validity(now time.Time, lifetime time.Duration, before *Pair) (from, until time.Time) {
	from, until = now.Add(-lead(lifetime)), now.Add(lifetime)
	if before == nil {
		return from, until
	}
	if begin := before.leaf().NotBefore; begin.Before(from) {
		from = latest(begin, from.Add(-lifetime))
	} else if begin.After(now) {
		if end := before.leaf().NotAfter; end.After(until) {
			until = until.Add(min(end.Sub(until), lifetime))
		}
	}
	return from, until
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// missing are those of the names the certificate is not for.
func (p *Pair) missing(names []string) []string {
	var missing []string
	for _, name := range names {
		if p.leaf().VerifyHostname(name) != nil {
			missing = append(missing, name)
		}
	}
	return missing
}

// trustedBy says whether a client that trusts the bundle accepts the certificate.
func (p *Pair) trustedBy(bundle []byte, now time.Time) bool {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(bundle) {
		return false
	}
	between := x509.NewCertPool()
	for _, der := range p.certificate.Certificate[1:] {
		if certificate, err := x509.ParseCertificate(der); err == nil {
			between.AddCert(certificate)
		}
	}
	_, err := p.leaf().Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: now})
	return err == nil
}

// commonName is the subject of every authority made here.
const commonName = "trainjob-controller webhook authority"

// issue makes a serving certificate for the names and the authority that signs it. The
// authority's key is not kept: nobody can sign anything else with it.
func issue(from, until time.Time, names []string) (*Pair, *x509.Certificate, error) {
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make the authority's key: %w", err)
	}
	authority := &x509.Certificate{
		Subject: pkix.Name{CommonName: commonName}, NotBefore: from, NotAfter: until,
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	authority, _, err = sign(authority, authority, &signer.PublicKey, signer)
	if err != nil {
		return nil, nil, fmt.Errorf("make the authority: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make the key: %w", err)
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "trainjob-controller webhook"}, NotBefore: from, NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	_, certPEM, err := sign(template, authority, &key.PublicKey, signer)
	if err != nil {
		return nil, nil, fmt.Errorf("make the certificate: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("encode the key: %w", err)
	}
	pair, err := ParsePair(certPEM, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}))
	return pair, authority, err
}

func sign(template, parent *x509.Certificate, key *ecdsa.PublicKey, signer *ecdsa.PrivateKey) (*x509.Certificate, []byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, nil, err
	}
	template.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key, signer)
	if err != nil {
		return nil, nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	return certificate, encode(der), err
}

func encode(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// parseAuthorities reads the certificates of a bundle and passes over what is none.
func parseAuthorities(bundle []byte) []*x509.Certificate {
	var all []*x509.Certificate
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		if certificate, err := x509.ParseCertificate(block.Bytes); err == nil {
			all = append(all, certificate)
		}
	}
	return all
}

func encodeAuthorities(all []*x509.Certificate) []byte {
	var bundle bytes.Buffer
	for _, authority := range all {
		bundle.Write(encode(authority.Raw))
	}
	return bundle.Bytes()
}
