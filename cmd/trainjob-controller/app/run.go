package app

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/component-base/version"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/trainjob/controller/generated/clientset/versioned/scheme"
)

// Run runs the controller until ctx ends. It returns nil after a stop that was asked
// for, and an error when it could not start or has lost its leadership.
func Run(ctx context.Context, o *Options) error {
	ctx = withVerbosities(ctx, o)
	logger := klog.FromContext(ctx)
	logger.Info("Starting", "version", version.Get().GitVersion)
	config, err := restConfig(o)
	if err != nil {
		return err
	}
	measured, err := newMeasurements()
	if err != nil {
		return err
	}
	config.Wrap(measured.CountWrites)
	config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(o.KubeAPIQPS, int(o.KubeAPIBurst)) // of the leader's clients, too
	clients, err := newClients(config, o)
	if err != nil {
		return err
	}
	watches, err := newWatches(clients, clock.RealClock{})
	if err != nil {
		return fmt.Errorf("prepare the informers: %w", err)
	}
	if err := measured.countJobs(watches); err != nil {
		return err
	}
	recorder, stopEvents := newRecorder(ctx, clients)
	defer stopEvents()
	fence := &fence{clock: clock.RealClock{}, lease: o.LeaderElection.LeaseDuration.Duration}
	leaders := clients // what only the leader does is done with these
	if o.LeaderElection.LeaderElect {
		if leaders, err = newClients(fence.wrap(config), o); err != nil {
			return err
		}
	}
	controllers, err := newControllers(leaders, watches, recorder, measured.Metrics, o)
	if err != nil {
		return err
	}
	return run(ctx, o, clients, watches, controllers, measured, fence)
}

// run starts everything and stops it in the opposite order: first the workers, then
// the lease, then the webhooks, then the informers and the server.
func run(ctx context.Context, o *Options, c *clients, w *watches, controllers []staffed, measured *measurements, fence *fence) error {
	if o.ContentionProfiling {
		recordContention()
	}
	watchDog := leaderelection.NewLeaderHealthzAdaptor(20 * time.Second)
	ready := readyChecks(w)
	stopAdmission := func(context.Context) {}
	if o.Webhook.Enabled {
		a, err := startAdmission(admissionContext(ctx), o, c, w)
		if err != nil {
			return err
		}
		ready, stopAdmission = append(ready, check{"webhook", a.check}), a.stop
	}
	stopServing, err := serve(ctx, o.BindAddress, newServeMux(healthChecks(controllers, watchDog), ready, o.Profiling))
	if err != nil {
		return err
	}
	defer stopServing()

	watching, stopWatching := context.WithCancel(context.WithoutCancel(ctx))
	watched := make(chan struct{})
	go func() { defer close(watched); w.run(watching) }()
	defer func() { stopWatching(); <-watched }()
	defer stopAdmission(ctx)

	var hasSynced []cache.InformerSynced
	for _, i := range w.all {
		hasSynced = append(hasSynced, i.HasSynced)
	}
	if !cache.WaitForCacheSync(ctx.Done(), hasSynced...) {
		return nil // told to stop before it began
	}
	klog.FromContext(ctx).Info("Caches are filled")
	work := func(ctx context.Context) {
		klog.FromContext(ctx).Info("Working")
		measured.leading(true)
		defer measured.leading(false)
		runControllers(ctx, controllers)
		klog.FromContext(ctx).Info("Drained")
	}
	if !o.LeaderElection.LeaderElect {
		work(ctx)
		return nil
	}
	lock, err := newLock(ctx, c, o.LeaderElection)
	if err != nil {
		return err
	}
	return lead(ctx, lock, o.LeaderElection, watchDog, fence, work)
}

// newRecorder sends events to the API server until stop, which waits for none. It does
// not end with ctx: what is finished while the process drains is told too.
func newRecorder(ctx context.Context, c *clients) (record.EventRecorder, func()) {
	broadcaster := record.NewBroadcaster(record.WithContext(context.WithoutCancel(ctx)))
	broadcaster.StartRecordingToSink(&corev1client.EventSinkImpl{Interface: c.events.CoreV1().Events("")})
	return broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: name}), broadcaster.Shutdown
}

func healthChecks(controllers []staffed, watchDog *leaderelection.HealthzAdaptor) []check {
	checks := []check{{"leader-election", watchDog.Check}}
	for _, c := range controllers {
		for _, q := range c.Queues() {
			checks = append(checks, check{"queue-" + q.Name(), q.Check})
		}
	}
	return checks
}

func readyChecks(w *watches) []check {
	return []check{{"caches", func(*http.Request) error {
		if waiting := w.waiting(); len(waiting) > 0 {
			return fmt.Errorf("the first list of %s has not arrived yet", strings.Join(waiting, ", "))
		}
		return nil
	}}}
}
