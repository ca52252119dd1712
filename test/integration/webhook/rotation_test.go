package webhook

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
	"github.com/trainjob/controller/test/harness"
)

// paceEnv is the time between two creates in the test of rotations. Certificates live as
// many times longer whatever it is, so that there are as many rotations.
const (
	paceEnv     = "TRAINJOB_ROTATION_PACE"
	defaultPace = 160 * time.Millisecond
	perLifetime = 125 // creates
)

func pace(t *testing.T) time.Duration {
	t.Helper()
	given := os.Getenv(paceEnv)
	if given == "" {
		return defaultPace
	}
	pace, err := time.ParseDuration(given)
	if err != nil || pace < defaultPace {
		t.Fatalf("%s=%s: must be a time of at least %v, such as 1s", paceEnv, given, defaultPace)
	}
	return pace
}

// replica starts one more controller with webhooks, beside none of the package's own.
func replica(t *testing.T, name string, flags ...string) (*harness.Controller, string) {
	t.Helper()
	address, err := harness.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	flags = append(harness.WebhookFlags(address), flags...)
	c, err := harness.StartController(t.Context(), env.Binary, env.ControllerKubeconfig(), filepath.Join(t.TempDir(), name+".log"), flags...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
		if troubles, err := harness.Troubles(c.LogFile); err != nil || len(troubles) > 0 {
			t.Errorf("the log of %s: %v %v", name, err, troubles)
		}
	})
	return c, address
}

// behindProxy makes the proxy lead to other servers for the time of a test.
func behindProxy(t *testing.T, addresses ...string) {
	t.Helper()
	proxy.SetBackends(addresses...)
	proxy.Cut()
}

func bundle(ctx context.Context) ([]byte, error) {
	found, err := env.Core.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, harness.WebhookName, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return found.Webhooks[0].ClientConfig.CABundle, nil
}

// handshake returns the serial number of the certificate that an address serves, if a
// client that trusts the bundle accepts it.
func handshake(ctx context.Context, address string, bundle []byte) (string, error) {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	dialer := tls.Dialer{Config: &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots, ServerName: "127.0.0.1"}}
	connection, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return "", err
	}
	defer connection.Close()
	return connection.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.String(), nil
}

// watcher shakes hands with servers over and over, trusting what the configurations say.
type watcher struct {
	// trusted is how long a configuration has to hold before a server may go by it, and
	// so how old one may be that is used to judge a server.
	trusted time.Duration

	mu      sync.Mutex
	serials map[string]map[string]bool // by address
	errs    []error
}

func (w *watcher) run(ctx context.Context, addresses []string) {
	for ctx.Err() == nil {
		read := time.Now()
		known, err := bundle(ctx)
		for _, address := range addresses {
			var serial string
			if err == nil {
				serial, err = handshake(ctx, address, known)
			}
			var untrusted *tls.CertificateVerificationError
			if errors.As(err, &untrusted) && time.Since(read) > w.trusted {
				break // a slow machine: look again
			}
			w.mu.Lock()
			switch {
			case err == nil:
				if w.serials[address] == nil {
					w.serials[address] = map[string]bool{}
				}
				w.serials[address][serial] = true
			case ctx.Err() == nil:
				w.errs = append(w.errs, fmt.Errorf("%s: %w", address, err))
			}
			w.mu.Unlock()
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Two hundred jobs are created across two rotations by two replicas, and none is refused.
func TestCertificatesRotateUnnoticed(t *testing.T) {
	namespace := env.Namespace(t)
	env.NewRuntime(t, namespace, builders.TorchSpec())
	withoutServer(t)
	// The shipped roles name the Secret. What is in it lives too long for this test.
	secrets := env.Core.CoreV1().Secrets(harness.SystemNamespace)
	if err := secrets.Delete(t.Context(), "trainjob-controller-webhook-cert", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	pace := pace(t)
	lifetime := perLifetime * pace
	flags := []string{"--webhook-cert-lifetime=" + lifetime.String(), "--leader-elect=true"}
	own := proxy.Backends()
	t.Cleanup(func() { behindProxy(t, own...) })
	_, first := replica(t, "first", flags...)
	_, second := replica(t, "second", flags...)
	behindProxy(t, first, second)
	if err := env.AwaitWebhooks(t.Context()); err != nil {
		t.Fatal(err)
	}

	watching, stop := context.WithCancel(t.Context())
	seen := &watcher{trusted: lifetime / 30, serials: map[string]map[string]bool{}}
	var running sync.WaitGroup
	running.Go(func() { seen.run(watching, []string{first, second}) })
	const jobs = 200
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	for i := range jobs {
		job := builders.TrainJob(fmt.Sprintf("job-%d", i), builders.Runtime(trainer.TrainingRuntimeKind, harness.RuntimeName), builders.Suspended(true))
		job.Namespace = namespace
		if _, err := env.Trainer.TrainerV1alpha1().TrainJobs(namespace).Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
			t.Errorf("job %d: %v", i, err)
		}
		<-ticker.C
	}
	stop()
	running.Wait()
	for _, err := range seen.errs {
		t.Error(err)
	}
	for _, address := range []string{first, second} {
		if n := len(seen.serials[address]); n < 3 {
			t.Errorf("%s has served %d certificates, want 3: two rotations", address, n)
		}
	}
	served := proxy.Served()
	if served[first] == 0 || served[second] == 0 {
		t.Errorf("connections by replica: %v, want some for each", served)
	}
	t.Logf("certificates by replica: %d, %d; connections: %v", len(seen.serials[first]), len(seen.serials[second]), served)
}
