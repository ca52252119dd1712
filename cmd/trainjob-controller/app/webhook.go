package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/utils/clock"

	"github.com/trainjob/controller/pkg/metrics"
	"github.com/trainjob/controller/pkg/webhook"
	"github.com/trainjob/controller/pkg/webhook/certificate"
)

// admission is the webhook server and what keeps its certificate.
type admission struct {
	server *webhook.Server
	keeper certificateKeeper
	prober certificate.Prober

	ready    atomic.Bool // it was once
	stopping atomic.Bool
	// drain begins to stop; what it returns is told when the Service has forgotten us.
	drain   func() <-chan time.Time
	stops   context.CancelFunc
	stopped chan struct{}
}

// certificateKeeper keeps the certificate until ctx ends, and knows how the API server
// calls the webhooks.
type certificateKeeper interface {
	Run(ctx context.Context)
	Endpoints() ([]certificate.Endpoint, error)
}

// startAdmission serves the webhooks. It listens before it returns.
func startAdmission(ctx context.Context, o *Options, c *clients, w *watches) (*admission, error) {
	measured := metrics.NewWebhook(webhook.Paths()...)
	if err := measured.Register(legacyregistry.Register); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	now := clock.RealClock{}
	holder := &certificate.Holder{Changed: measured.CertificateExpires}
	keeper, err := newCertificateKeeper(&o.Webhook, c, holder, now)
	if err != nil {
		return nil, err
	}
	handler := webhook.NewHandler(webhook.Config{
		Sources: admissionSources(c, w), OpaqueKinds: o.opaqueKinds(), Clock: now, Metrics: measured,
	})
	server, err := webhook.Serve(ctx, o.Webhook.BindAddress, webhook.TLS{
		GetCertificate: holder.GetCertificate, MinVersion: tlsVersions[o.Webhook.MinTLSVersion], HTTP2: o.Webhook.HTTP2,
	}, handler)
	if err != nil {
		return nil, fmt.Errorf("--webhook-bind-address %q: %w", o.Webhook.BindAddress, err)
	}
	keeping, stop := context.WithCancel(context.WithoutCancel(ctx))
	a := &admission{
		server: server, keeper: keeper, stops: stop, stopped: make(chan struct{}),
		prober: certificate.Prober{Address: server.Address(), Request: webhook.ProbeRequest, Check: webhook.CheckProbe, Clock: now},
	}
	a.drain = sync.OnceValue(func() <-chan time.Time {
		a.stopping.Store(true)
		server.Drain()
		return now.After(o.Webhook.ShutdownDelay)
	})
	context.AfterFunc(ctx, func() { a.drain() })
	go func() { defer close(a.stopped); keeper.Run(keeping) }()
	return a, nil
}

func newCertificateKeeper(o *WebhookOptions, c *clients, holder *certificate.Holder, now clock.Clock) (certificateKeeper, error) {
	namespace := o.namespace()
	configurations := certificate.Configurations{Client: c.webhook.AdmissionregistrationV1(), Name: o.ConfigurationName}
	demanded := certificate.ServiceName(o.ServiceName, namespace)
	if o.CertDir != "" {
		return certificate.NewFiles(certificate.FilesConfig{
			Configurations: configurations, Dir: o.CertDir, Names: []string{demanded}, Holder: holder, Clock: now,
		})
	}
	return certificate.NewKeeper(certificate.KeeperConfig{
		Configurations: configurations, Secrets: c.webhook.CoreV1().Secrets(namespace), SecretName: o.SecretName,
		Names: append([]string{demanded}, o.ExtraSANs...), Lifetime: o.CertLifetime, Holder: holder, Clock: now,
	}), nil
}

func admissionSources(c *clients, w *watches) webhook.Sources {
	api := w.trainer.Trainer().V1alpha1()
	return webhook.Sources{
		ClusterRuntimes: api.ClusterTrainingRuntimes().Lister(), Runtimes: api.TrainingRuntimes().Lister(),
		Snapshots: corelisters.NewConfigMapLister(w.configs.GetIndexer()),
		Live:      c.webhookTrainer.TrainerV1alpha1(), LiveConfigMaps: c.webhook.CoreV1(),
	}
}

// check is the readiness check: would the API server get an answer?
func (a *admission) check(r *http.Request) error {
	if a.stopping.Load() {
		return errors.New("shutting down")
	}
	endpoints, err := a.keeper.Endpoints()
	if err != nil {
		return err
	}
	if err := a.prober.Probe(r.Context(), endpoints); err != nil {
		return err
	}
	a.ready.Store(true)
	return nil
}

// stop answers until the Service has forgotten this replica, if it ever knew it, and then
// until no request is left.
func (a *admission) stop(ctx context.Context) {
	forgotten := a.drain()
	if a.ready.Load() {
		<-forgotten
	}
	a.server.Stop(ctx)
	a.stops()
	<-a.stopped
}
