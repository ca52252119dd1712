package cluster

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// Component names one process of a cluster, and its log file.
type Component string

// The components in the order in which they start.
const (
	Etcd              Component = "etcd"
	APIServer         Component = "kube-apiserver"
	ControllerManager Component = "kube-controller-manager"
	Scheduler         Component = "kube-scheduler"
	JobSet            Component = "jobset"
	Kueue             Component = "kueue"
	Kwok              Component = "kwok"
)

// Options says what a cluster consists of. The zero value is etcd and
// kube-apiserver alone, in a temporary folder, for as long as the caller lives.
type Options struct {
	// Dir holds everything of this cluster: keys, data, logs, its kubeconfig.
	// Empty means a temporary folder which Stop removes.
	Dir string

	// ControllerManager, Scheduler and Kwok add these components.
	ControllerManager bool
	Scheduler         bool
	Kwok              bool

	// JobSetCRD installs the JobSet kind without anything that acts on it, for
	// tests that play the JobSet controller themselves.
	JobSetCRD bool
	// JobSetController runs the JobSet controller and registers its webhooks,
	// without which it does not work: they set defaults that it relies on.
	JobSetController bool

	// Kueue runs Kueue with its integrations of TrainJobs, JobSets and Jobs, its
	// CRDs and its webhooks. The CRDs of TrainJobs belong in CRDDirs then.
	Kueue bool
	// KueuePodsReady is how long Kueue waits for all pods of a job that it has
	// admitted until it evicts the job; without it, Kueue does not wait.
	KueuePodsReady time.Duration

	// CRDDirs are folders (or files) of CRDs to install before
	// kube-controller-manager starts, so that its garbage collector knows them.
	CRDDirs []string

	// AuditLog records every request to the API server; see AuditEvents.
	AuditLog bool

	// EnforceOwnerReferences turns on the admission plugin that real clusters
	// of some distributions have on: who sets blockOwnerDeletion must be
	// allowed to update the owner's finalizers.
	EnforceOwnerReferences bool

	// Address, an IPv4 address of this machine, is where real nodes and their pods
	// reach the API server; it then also lets pods use ServiceAccounts, and kubelets
	// in. Empty means loopback alone, which is all that simulated nodes take.
	Address string

	// APIServerFlags and ControllerManagerFlags are added to the command lines of
	// kube-apiserver and kube-controller-manager, where the last word counts.
	APIServerFlags         []string
	ControllerManagerFlags []string

	// Persistent lets the processes outlive the one that starts them. Dir is
	// then required; Load finds the cluster again.
	Persistent bool

	// Out receives one line for each step of a build or a start. Nil is silent.
	Out io.Writer `json:"-"`

	// SourceDir is the root of this module's source tree, where hack/cluster
	// lies. Empty means to look for it upwards from the working directory.
	SourceDir string `json:"-"`
}

// APIServerOnly is etcd and kube-apiserver: the profile for benchmarks and for
// tests of CRDs and webhooks.
func APIServerOnly() Options { return Options{} }

// WithoutJobSetController has Jobs and garbage collection, and the JobSet kind
// with nobody acting on it.
func WithoutJobSetController() Options {
	return Options{ControllerManager: true, JobSetCRD: true}
}

// FullStack is everything: JobSets run to their end on simulated nodes.
func FullStack() Options {
	return Options{
		ControllerManager: true,
		Scheduler:         true,
		Kwok:              true,
		JobSetCRD:         true,
		JobSetController:  true,
	}
}

// components lists what the options ask for, in starting order.
func (o Options) components() []Component {
	all := []struct {
		name   Component
		wanted bool
	}{
		{Etcd, true},
		{APIServer, true},
		{ControllerManager, o.ControllerManager},
		{Scheduler, o.Scheduler},
		{JobSet, o.JobSetController},
		{Kueue, o.Kueue},
		{Kwok, o.Kwok},
	}
	var names []Component
	for _, c := range all {
		if c.wanted {
			names = append(names, c.name)
		}
	}
	return names
}

// complete checks the options and fills in what follows from others.
func (o Options) complete() (Options, error) {
	if o.Out == nil {
		o.Out = io.Discard
	}
	o.Out = &lineWriter{out: o.Out}
	if o.JobSetController {
		o.JobSetCRD = true
	}
	if o.Persistent && o.Dir == "" {
		return o, fmt.Errorf("a persistent cluster needs Options.Dir, or nobody could find it again")
	}
	o.CRDDirs = slices.Clone(o.CRDDirs)
	for i, dir := range o.CRDDirs {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return o, fmt.Errorf("resolve CRD folder %q: %w", dir, err)
		}
		if _, err := os.Stat(abs); err != nil {
			return o, fmt.Errorf("CRD folder: %w", err)
		}
		o.CRDDirs[i] = abs
	}
	if o.Dir != "" {
		abs, err := filepath.Abs(o.Dir)
		if err != nil {
			return o, fmt.Errorf("resolve cluster folder %q: %w", o.Dir, err)
		}
		o.Dir = abs
	}
	return o, nil
}

// lineWriter lets several components report at once to a writer that is not
// made for it.
type lineWriter struct {
	mu  sync.Mutex
	out io.Writer
}

func (w *lineWriter) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(line)
}
