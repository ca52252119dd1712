package app

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/component-base/version"
	jobsetversioned "sigs.k8s.io/jobset/client-go/clientset/versioned"

	"github.com/trainjob/controller/generated/clientset/versioned"
)

// clients of the API server. The controllers' share one limit. Events, the leader's lease
// and the webhook have limits of their own, so that a burst of work neither delays them nor is delayed by them.
type clients struct {
	core     kubernetes.Interface
	events   kubernetes.Interface
	election kubernetes.Interface
	trainer  versioned.Interface
	jobSet   jobsetversioned.Interface
	dynamic  dynamic.Interface

	webhook        kubernetes.Interface
	webhookTrainer versioned.Interface
}

// restConfig reads the connection to the API server.
func restConfig(o *Options) (*rest.Config, error) {
	if o.Kubeconfig == "" {
		config, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("read the in-cluster configuration: %w (outside a cluster, pass --kubeconfig)", err)
		}
		return config, nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read --kubeconfig %q: %w", o.Kubeconfig, err)
	}
	return config, nil
}

func newClients(config *rest.Config, o *Options) (*clients, error) {
	config = rest.CopyConfig(config)
	config.UserAgent = fmt.Sprintf("%s/%s", name, version.Get().GitVersion)
	config.QPS, config.Burst = o.KubeAPIQPS, int(o.KubeAPIBurst)
	own := rest.CopyConfig(config)
	own.RateLimiter = nil // each client makes one
	if config.RateLimiter == nil {
		config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(config.QPS, config.Burst)
	}
	core := rest.CopyConfig(config)
	core.ContentType = runtime.ContentTypeProtobuf
	core.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	ownCore := rest.CopyConfig(core)
	ownCore.RateLimiter = nil
	events := rest.CopyConfig(ownCore)
	events.QPS, events.Burst = 30, 100
	election := rest.CopyConfig(ownCore)
	election.Timeout = o.LeaderElection.RenewDeadline.Duration / 2

	var c clients
	var err error
	for _, make := range []func() error{
		func() error { c.core, err = kubernetes.NewForConfig(core); return err },
		func() error { c.events, err = kubernetes.NewForConfig(events); return err },
		func() error { c.election, err = kubernetes.NewForConfig(election); return err },
		func() error { c.trainer, err = versioned.NewForConfig(config); return err },
		func() error { c.webhook, err = kubernetes.NewForConfig(ownCore); return err },
		func() error { c.webhookTrainer, err = versioned.NewForConfig(own); return err },
		func() error { c.jobSet, err = jobsetversioned.NewForConfig(config); return err },
		func() error { c.dynamic, err = dynamic.NewForConfig(config); return err },
	} {
		if err := make(); err != nil {
			return nil, fmt.Errorf("make a client: %w", err)
		}
	}
	return &c, nil
}
