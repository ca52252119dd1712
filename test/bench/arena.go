package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	jobsetversioned "sigs.k8s.io/jobset/client-go/clientset/versioned"

	"github.com/trainjob/controller/generated/clientset/versioned"
	"github.com/trainjob/controller/test/cluster"
	"github.com/trainjob/controller/test/harness"
)

// systemNamespace is where leader election keeps its lease by default.
const systemNamespace = "trainjob-system"

// arena is a control plane with the benchmark's own clients, which are never limited,
// and what it plays and watches there.
type arena struct {
	bench   *bench
	cluster *cluster.Cluster
	core    kubernetes.Interface
	trainer versioned.Interface
	jobSet  jobsetversioned.Interface

	// seen is what the benchmark's watches show; play is the JobSet controller and the
	// garbage collector.
	seen *observer
	play *player
	stop func()
	// spaces counts the namespaces of the one control plane that is shared.
	spaces int
}

// arena returns an empty control plane with everything running but a controller.
func (b *bench) arena(ctx context.Context) (*arena, error) {
	a := b.shared
	if a == nil {
		var err error
		if a, err = b.newArena(ctx); err != nil {
			return nil, err
		}
		if b.options.oneControlPlane {
			b.shared = a
		}
	} else if err := a.empty(ctx); err != nil {
		return nil, err
	}
	watching, cancel := context.WithCancel(ctx)
	a.seen = newObserver(a)
	a.play = newPlayer(a)
	done := a.watch(watching)
	a.stop = func() { cancel(); <-done }
	if err := a.seen.synced(ctx); err != nil {
		return nil, errors.Join(err, a.close())
	}
	return a, nil
}

func (b *bench) newArena(ctx context.Context) (*arena, error) {
	options := cluster.APIServerOnly()
	options.JobSetCRD, options.AuditLog = true, true
	options.SourceDir = harness.SourceDir()
	options.CRDDirs = []string{filepath.Join(options.SourceDir, "artifacts", "crds")}
	c, err := cluster.Start(ctx, options)
	if err != nil {
		return nil, err
	}
	a := &arena{bench: b, cluster: c}
	config := c.RESTConfig()
	var errs [5]error
	a.core, errs[0] = kubernetes.NewForConfig(config)
	a.trainer, errs[1] = versioned.NewForConfig(config)
	a.jobSet, errs[2] = jobsetversioned.NewForConfig(config)
	if err := errors.Join(errs[:]...); err == nil {
		errs[3] = a.makeRuntimes(ctx)
		errs[4] = a.makeNamespace(ctx, systemNamespace)
	}
	if err := errors.Join(errs[:]...); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return a, nil
}

// close ends what runs here. A shared control plane stays.
func (a *arena) close() error {
	a.stop()
	if a == a.bench.shared {
		return nil
	}
	return a.cluster.Stop()
}

// empty deletes all that was measured on a shared control plane.
func (a *arena) empty(ctx context.Context) error {
	for _, ns := range a.namespaces() {
		if err := errors.Join(
			a.trainer.TrainerV1alpha1().TrainJobs(ns).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}),
			a.jobSet.JobsetV1alpha2().JobSets(ns).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}),
			a.core.CoreV1().ConfigMaps(ns).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}),
			a.core.CoreV1().Pods(ns).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}),
		); err != nil {
			return fmt.Errorf("empty the control plane: %w", err)
		}
	}
	return nil
}

// namespace makes a new namespace.
func (a *arena) namespace(ctx context.Context) (string, error) {
	a.spaces++
	name := fmt.Sprintf("bench-%d", a.spaces)
	return name, a.makeNamespace(ctx, name)
}

func (a *arena) namespaces() []string {
	var names []string
	for i := range a.spaces {
		names = append(names, fmt.Sprintf("bench-%d", i+1))
	}
	return names
}

func (a *arena) makeNamespace(ctx context.Context, name string) error {
	_, err := a.core.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("make namespace %s: %w", name, err)
	}
	return nil
}

// kubeconfig writes one for a user with all rights, by whose name the audit log tells
// its calls from those of others.
func (a *arena) kubeconfig(user string) (string, error) {
	dir, err := os.MkdirTemp(a.bench.dir, "kubeconfig-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "config")
	return path, a.cluster.WriteKubeconfig(path, user, "system:masters")
}

// patience is how long nothing at all may happen before the benchmark gives up.
const patience = time.Minute

// await waits until missing says 0. It gives up when the number has not changed for as
// long as nothing should take, not after a fixed time, because machines differ.
func await(ctx context.Context, what string, missing func() int) error {
	last, since := -1, time.Now()
	for {
		left := missing()
		if left == 0 {
			return nil
		}
		if left != last {
			last, since = left, time.Now()
		}
		if time.Since(since) > patience {
			return fmt.Errorf("%s: %d are missing, and nothing has moved for %v", what, left, patience)
		}
		if err := sleep(ctx, 5*time.Millisecond); err != nil {
			return fmt.Errorf("%s: %d are missing: %w", what, left, err)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
