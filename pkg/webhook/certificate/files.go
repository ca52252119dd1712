package certificate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// Names of the files, those of a mounted Secret of type kubernetes.io/tls.
const (
	certFile        = "tls.crt"
	keyFile         = "tls.key"
	authoritiesFile = "ca.crt"
)

// FilesConfig is what Files works with.
type FilesConfig struct {
	Configurations Configurations
	// Dir holds tls.crt, tls.key and perhaps ca.crt.
	Dir string
	// Names that the API server is expected to demand, for when its configurations
	// cannot be read.
	Names  []string
	Holder *Holder
	Clock  clock.Clock
}

// Files serves a certificate that somebody else keeps in files, such as those of a
// Secret of cert-manager. Whom the API server trusts is that somebody's business too.
type Files struct {
	FilesConfig
	watch

	// refused says why the files could not be used, to complain of it only once.
	refused string
}

// NewFiles reads the files once, so that a wrong folder is an error at the start.
func NewFiles(config FilesConfig) (*Files, error) {
	f := &Files{FilesConfig: config}
	pair, err := f.read()
	if err != nil {
		return nil, err
	}
	f.Holder.set(pair)
	return f, nil
}

// Run follows the files until ctx ends.
func (f *Files) Run(ctx context.Context) { run(ctx, f.Clock, f.step) }

func (f *Files) step(ctx context.Context) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	logger := klog.FromContext(ctx)
	f.reload(logger)
	all, missing, err := f.Configurations.read(ctx)
	if errors.Is(err, context.Canceled) {
		return busyInterval
	}
	if apierrors.IsForbidden(err) {
		// Not needed for anything but the readiness check, which makes do without.
		f.assume()
		return steadyInterval
	}
	err = f.observed(all, troubles(all, missing, err))
	f.note(logger, err)
	if err != nil && !isMissing(err) {
		return busyInterval
	}
	return f.wait(logger, all, missing, busyInterval, steadyInterval)
}

// reload serves what the files hold now. While they are being replaced, certificate and
// key may not fit; then what was served before is served on.
func (f *Files) reload(logger klog.Logger) {
	pair, err := f.read()
	if err != nil {
		if reason := err.Error(); reason != f.refused {
			f.refused = reason
			logger.Error(err, "Cannot use the webhook's certificate files, serving the certificate from before")
		}
		return
	}
	f.refused = ""
	if f.Holder.set(pair) {
		logger.Info("Serving a certificate from files", "dir", f.Dir, "expires", pair.NotAfter().UTC().Format(time.RFC3339))
	}
}

func (f *Files) read() (*Pair, error) {
	cert, err := os.ReadFile(filepath.Join(f.Dir, certFile))
	if err != nil {
		return nil, fmt.Errorf("--webhook-cert-dir: %w", err)
	}
	key, err := os.ReadFile(filepath.Join(f.Dir, keyFile))
	if err != nil {
		return nil, fmt.Errorf("--webhook-cert-dir: %w", err)
	}
	pair, err := ParsePair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("--webhook-cert-dir %q: %s and %s: %w", f.Dir, certFile, keyFile, err)
	}
	return pair, nil
}

// assume takes the API server to trust ca.crt, or else the authorities of the system.
func (f *Files) assume() {
	bundle, err := os.ReadFile(filepath.Join(f.Dir, authoritiesFile))
	if err != nil {
		bundle = nil
	}
	var assumed []Endpoint
	for _, name := range f.Names {
		assumed = append(assumed, Endpoint{ServerName: name, Bundle: bundle})
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.endpoints, f.seen, f.trouble = assumed, true, nil
}
