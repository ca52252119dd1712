package cluster

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// authority is the certificate authority of one cluster. Servers and clients
// trust it alone, which also keeps clusters apart: whoever reaches the wrong
// port, because two clusters raced for it, gets a failed handshake and no answer.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// pair is a certificate and its key in PEM.
type pair struct{ cert, key []byte }

const (
	validBefore = time.Hour // for clocks that are set back
	validAfter  = 10 * 365 * 24 * time.Hour
)

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("create the authority's key: %w", err)
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "local-control-plane"},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := signCertificate(template, nil, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("parse the authority's certificate: %w", err)
	}
	return &authority{cert: cert, key: key, pem: pemBlock("CERTIFICATE", der)}, nil
}

// server issues a certificate for loopback, the API server's service, and an address
// for real nodes unless that is empty.
func (a *authority) server(address string) (pair, error) {
	addresses := []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 0, 0, 1)}
	if address != "" {
		addresses = append(addresses, net.ParseIP(address))
	}
	return a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "localhost"},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		IPAddresses: addresses,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
}

// client issues a certificate that the API server reads as a user with groups.
func (a *authority) client(user string, groups ...string) (pair, error) {
	return a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

func (a *authority) issue(template *x509.Certificate) (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, fmt.Errorf("create a key for %s: %w", template.Subject, err)
	}
	der, err := signCertificate(template, a.cert, key.Public(), a.key)
	if err != nil {
		return pair{}, err
	}
	keyPEM, err := privateKeyPEM(key)
	if err != nil {
		return pair{}, err
	}
	return pair{cert: pemBlock("CERTIFICATE", der), key: keyPEM}, nil
}

// signCertificate completes the template; without a parent it is self-signed.
func signCertificate(template, parent *x509.Certificate, key crypto.PublicKey, signer crypto.Signer) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("choose a serial number: %w", err)
	}
	now := time.Now()
	template.SerialNumber = serial
	template.NotBefore, template.NotAfter = now.Add(-validBefore), now.Add(validAfter)
	if parent == nil {
		parent = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key, signer)
	if err != nil {
		return nil, fmt.Errorf("sign the certificate of %s: %w", template.Subject, err)
	}
	return der, nil
}

func privateKeyPEM(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode a key: %w", err)
	}
	return pemBlock("EC PRIVATE KEY", der), nil
}

func pemBlock(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// serviceAccountKeys makes the pair with which service account tokens are
// signed and checked.
func serviceAccountKeys() (private, public []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("create the service account key: %w", err)
	}
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return nil, nil, fmt.Errorf("encode the service account key: %w", err)
	}
	if private, err = privateKeyPEM(key); err != nil {
		return nil, nil, err
	}
	return private, pemBlock("PUBLIC KEY", der), nil
}

// createPKI makes all key material of a new cluster in dir.
func createPKI(dir, address string) (*authority, error) {
	ca, err := newAuthority()
	if err != nil {
		return nil, err
	}
	server, err := ca.server(address)
	if err != nil {
		return nil, err
	}
	caKey, err := privateKeyPEM(ca.key)
	if err != nil {
		return nil, err
	}
	saKey, saPub, err := serviceAccountKeys()
	if err != nil {
		return nil, err
	}
	// The server pair has the names that webhook servers look for.
	for name, data := range map[string][]byte{
		"ca.crt": ca.pem, "ca.key": caKey,
		"tls.crt": server.cert, "tls.key": server.key,
		"sa.key": saKey, "sa.pub": saPub,
	} {
		if err := writeFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return nil, err
		}
	}
	return ca, nil
}

// loadAuthority reads back the authority of a cluster started earlier.
func loadAuthority(dir string) (*authority, error) {
	certPEM, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		return nil, fmt.Errorf("read the cluster's authority: %w", err)
	}
	keyPEM, err := os.ReadFile(filepath.Join(dir, "ca.key"))
	if err != nil {
		return nil, fmt.Errorf("read the cluster's authority: %w", err)
	}
	certBlock, _ := pem.Decode(certPEM)
	keyBlock, _ := pem.Decode(keyPEM)
	if certBlock == nil || keyBlock == nil {
		return nil, fmt.Errorf("the authority in %s is not PEM: remove the cluster's folder and start it anew", dir)
	}
	cert, err := x509.ParseCertificate(certBlock.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parse the authority in %s: %w", dir, err)
	}
	key, err := x509.ParseECPrivateKey(keyBlock.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parse the authority's key in %s: %w", dir, err)
	}
	return &authority{cert: cert, key: key, pem: certPEM}, nil
}
