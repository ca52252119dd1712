package jobset

import (
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/binary"
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
	case framework.KeysCurve:
		certificate, err := newCurveCertificate(wanted.Secret.Name)
		if err != nil {
			return nil, fmt.Errorf("make a CURVE certificate: %w", err)
		}
		secret.Data = map[string][]byte{framework.CurveCertificate: certificate}
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

// newCurveCertificate makes a certificate of ZeroMQ, which is a Curve25519 key pair.
func newCurveCertificate(name string) ([]byte, error) {
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "metadata\n    name = %q\ncurve\n    public-key = \"%s\"\n    secret-key = \"%s\"\n",
		name, z85(key.PublicKey().Bytes()), z85(key.Bytes())), nil
}

// z85 writes bytes, a multiple of four, as ZeroMQ does: four bytes are one number, and
// that is five digits to the base 85.
func z85(data []byte) string {
	const digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
	out := make([]byte, 0, len(data)/4*5)
	for ; len(data) >= 4; data = data[4:] {
		number := binary.BigEndian.Uint32(data)
		var five [5]byte
		for i := range five {
			five[4-i] = digits[number%85]
			number /= 85
		}
		out = append(out, five[:]...)
	}
	return string(out)
}
