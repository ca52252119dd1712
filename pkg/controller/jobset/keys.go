package jobset

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"

	"github.com/trainjob/controller/pkg/render"
	"github.com/trainjob/controller/pkg/render/framework"
)

// withKeys is a Secret with new keys in it. They are in nobody else's hands: what is
// created is never read back.
func withKeys(wanted *render.KeySecret) (*corev1.Secret, error) {
	secret := wanted.Secret.DeepCopy()
	switch wanted.Kind {
	case framework.KeysSSH:
		private, public, err := newSSHKey()
		if err != nil {
			return nil, fmt.Errorf("make an SSH key: %w", err)
		}
		secret.Type = corev1.SecretTypeSSHAuth
		secret.Data = map[string][]byte{framework.SSHPrivateKey: private, framework.SSHPublicKey: public}
		return secret, nil
	}
	return nil, fmt.Errorf("no way is known to make keys of kind %q", wanted.Kind)
}

// newSSHKey makes a key pair in the formats that every OpenSSH reads: ECDSA on P-256,
// which systems restricted to approved algorithms accept, too.
func newSSHKey() (private, public []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	authorized, err := ssh.NewPublicKey(&key.PublicKey)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), ssh.MarshalAuthorizedKey(authorized), nil
}
