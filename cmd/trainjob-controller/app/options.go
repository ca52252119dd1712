package app

import (
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	cliflag "k8s.io/component-base/cli/flag"
	componentbaseconfig "k8s.io/component-base/config"
	"k8s.io/component-base/config/options"
	logsapi "k8s.io/component-base/logs/api/v1"

	"github.com/trainjob/controller/pkg/trainjob"
)

// Options is everything that can be set from the command line.
type Options struct {
	// Kubeconfig is a file; empty means the in-cluster configuration.
	Kubeconfig string
	// KubeAPIQPS and KubeAPIBurst limit the calls to the API server, calls a second.
	KubeAPIQPS   float32
	KubeAPIBurst int32
	// Workers of each queue.
	SnapshotSyncs, JobSetSyncs, LifecycleSyncs int32
	// ActiveDeadlineFrom is what activeDeadlineSeconds counts from.
	ActiveDeadlineFrom string
	// OpaqueRuntimeKinds are left to builders of their own; each is Kind.group.
	OpaqueRuntimeKinds []string
	// PreflightQuarantine is how long a node that a check has found at fault is marked.
	PreflightQuarantine time.Duration
	// BindAddress of /healthz, /readyz and /metrics, host:port; "0" serves nothing.
	BindAddress string
	// Profiling serves /debug/pprof too; ContentionProfiling has locks watched for it.
	Profiling, ContentionProfiling bool

	Webhook        WebhookOptions
	LeaderElection componentbaseconfig.LeaderElectionConfiguration
	Logs           *logsapi.LoggingConfiguration
	// VerbosityOf are components whose verbosity is not that of Logs; each is component=level.
	VerbosityOf []string
}

// NewOptions holds the defaults.
func NewOptions() *Options {
	return &Options{
		KubeAPIQPS: 1000, KubeAPIBurst: 2000,
		SnapshotSyncs: 10, JobSetSyncs: 10, LifecycleSyncs: 20,
		ActiveDeadlineFrom: string(trainjob.FromCreation),
		BindAddress:        ":8080",
		Webhook:            newWebhookOptions(),
		LeaderElection: componentbaseconfig.LeaderElectionConfiguration{
			LeaderElect:       true,
			LeaseDuration:     metav1.Duration{Duration: 15 * time.Second},
			RenewDeadline:     metav1.Duration{Duration: 10 * time.Second},
			RetryPeriod:       metav1.Duration{Duration: 2 * time.Second},
			ResourceLock:      "leases",
			ResourceName:      name,
			ResourceNamespace: "trainjob-system",
		},
		Logs: logsapi.NewLoggingConfiguration(),
	}
}

// Flags are the options as flags, in the sections of --help.
func (o *Options) Flags() cliflag.NamedFlagSets {
	var sections cliflag.NamedFlagSets
	fs := sections.FlagSet("connection")
	fs.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig, "Path of a kubeconfig file. Without it the in-cluster configuration is used.")
	fs.Float32Var(&o.KubeAPIQPS, "kube-api-qps", o.KubeAPIQPS, "Most calls a second to the API server, on average, of all controllers together. Events, the lease and the webhook have limits of their own.")
	fs.Int32Var(&o.KubeAPIBurst, "kube-api-burst", o.KubeAPIBurst, "Most calls to the API server in one burst, likewise.")

	fs = sections.FlagSet("controllers")
	fs.Int32Var(&o.SnapshotSyncs, "concurrent-snapshot-syncs", o.SnapshotSyncs, "Number of TrainJobs whose snapshot is taken at the same time.")
	fs.Int32Var(&o.JobSetSyncs, "concurrent-jobset-syncs", o.JobSetSyncs, "Number of TrainJobs whose JobSet is built or followed at the same time.")
	fs.Int32Var(&o.LifecycleSyncs, "concurrent-lifecycle-syncs", o.LifecycleSyncs, "Number of TrainJobs that are failed at their deadline at the same time, and likewise deleted after their TTL.")
	o.addOpaqueFlags(fs)

	fs.StringVar(&o.ActiveDeadlineFrom, "active-deadline-from", o.ActiveDeadlineFrom, "What activeDeadlineSeconds of a TrainJob counts from: creation, time in suspension included; or resume, the last resume (or creation if there was none), with no deadline while the job is suspended. All replicas must be given the same.")
	fs.DurationVar(&o.PreflightQuarantine, "preflight-quarantine", o.PreflightQuarantine, "How long a node that preflight has found at fault gets the label preflight.trainer.kubeflow.org/quarantined, such as 24h; 0 labels none. The runtimes with preflight keep off nodes with it. Needs the right to list and patch nodes; see docs/preflight.md.")

	fs = sections.FlagSet("serving")
	fs.StringVar(&o.BindAddress, "bind-address", o.BindAddress, "Address, host:port, on which /healthz, /readyz and /metrics are served. 0 serves nothing.")

	o.Webhook.addFlags(sections.FlagSet("webhook"))
	fs = sections.FlagSet("debugging")
	fs.BoolVar(&o.Profiling, "profiling", o.Profiling, "Serve /debug/pprof on --bind-address. Whoever reaches that address can then read the names in this process's memory and make it work, so it is off unless asked for.")
	fs.BoolVar(&o.ContentionProfiling, "contention-profiling", o.ContentionProfiling, "Record where goroutines wait for locks and channels, for /debug/pprof/block and /debug/pprof/mutex. It costs time at each wait. Needs --profiling.")

	options.BindLeaderElectionFlags(&o.LeaderElection, sections.FlagSet("leader election"))
	o.addLogFlags(sections.FlagSet("logs"))
	o.addVerbosityFlag(sections.FlagSet("logs"))
	return sections
}

// addLogFlags adds the flags of the logging library, but for those that demand a feature
// gate, which this program has none of.
func (o *Options) addLogFlags(fs *pflag.FlagSet) {
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	logsapi.AddFlags(o.Logs, all)
	all.VisitAll(func(f *pflag.Flag) {
		if !strings.HasSuffix(f.Name, "-split-stream") && !strings.HasSuffix(f.Name, "-info-buffer-size") {
			fs.AddFlag(f)
		}
	})
}

// Validate names every option that is wrong.
func (o *Options) Validate() []error {
	var errs []error
	wrong := func(flag string, value any, want string) {
		errs = append(errs, fmt.Errorf("--%s: %v: %s", flag, value, want))
	}
	if qps := float64(o.KubeAPIQPS); !(qps > 0) || math.IsInf(qps, 0) { // NaN is not more than anything
		wrong("kube-api-qps", o.KubeAPIQPS, "must be a number of more than 0, such as 500")
	}
	if o.KubeAPIBurst < 1 {
		wrong("kube-api-burst", o.KubeAPIBurst, "must be at least 1")
	}
	for _, syncs := range []struct {
		flag  string
		value int32
	}{
		{"concurrent-jobset-syncs", o.JobSetSyncs}, {"concurrent-lifecycle-syncs", o.LifecycleSyncs}, {"concurrent-snapshot-syncs", o.SnapshotSyncs},
	} {
		if syncs.value < 1 {
			wrong(syncs.flag, syncs.value, "must be at least 1")
		}
	}
	if !slices.Contains(trainjob.DeadlinesFrom(), trainjob.DeadlineFrom(o.ActiveDeadlineFrom)) {
		wrong("active-deadline-from", strconv.Quote(o.ActiveDeadlineFrom), "must be creation or resume")
	}
	if o.PreflightQuarantine != 0 && o.PreflightQuarantine < time.Minute {
		wrong("preflight-quarantine", o.PreflightQuarantine, "must be at least 1m, or 0 for no quarantine")
	}
	errs = append(errs, o.validateOpaque()...)
	if o.BindAddress != "0" {
		if !isAddress(o.BindAddress) {
			wrong("bind-address", o.BindAddress, "must be host:port with a port from 0 to 65535, such as 127.0.0.1:8080 or :8080, or 0")
		}
	}
	if o.ContentionProfiling && !o.Profiling {
		wrong("contention-profiling", o.ContentionProfiling, "needs --profiling, which serves what is recorded")
	}
	if o.Profiling && o.BindAddress == "0" {
		wrong("profiling", o.Profiling, "needs a --bind-address to be served on, such as 127.0.0.1:8080")
	}
	if o.Webhook.Enabled && sameAddress(o.BindAddress, o.Webhook.BindAddress) {
		wrong("bind-address", o.BindAddress, fmt.Sprintf("--webhook-bind-address is %s, and only one can listen there: give one of them another port", o.Webhook.BindAddress))
	}
	errs = append(errs, o.Webhook.validate()...)
	errs = append(errs, o.validateVerbosity()...)
	return append(errs, o.validateLeaderElection()...)
}

// isAddress says whether it is possible to listen there. A port of 0 is any that is free.
func isAddress(address string) bool {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

// sameAddress says whether only one of two servers could listen: they have one port, and
// one host or one that stands for all.
func sameAddress(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	if errA != nil || errB != nil || portA == "0" {
		return false // what is wrong is told elsewhere; 0 is any port that is free
	}
	return portA == portB && (hostA == hostB || everyHost(hostA) || everyHost(hostB))
}

func everyHost(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || (ip != nil && ip.IsUnspecified())
}

func (o *Options) validateLeaderElection() []error {
	le := o.LeaderElection
	if !le.LeaderElect {
		return nil
	}
	var errs []error
	if le.RetryPeriod.Duration <= 0 {
		errs = append(errs, fmt.Errorf("--leader-elect-retry-period: %v: must be more than 0", le.RetryPeriod.Duration))
	}
	// What client-go demands: retries are spread by a factor of 1.2.
	if float64(le.RenewDeadline.Duration) <= 1.2*float64(le.RetryPeriod.Duration) {
		errs = append(errs, fmt.Errorf("--leader-elect-renew-deadline: %v: must be more than 1.2 times --leader-elect-retry-period (%v)",
			le.RenewDeadline.Duration, le.RetryPeriod.Duration))
	}
	if le.LeaseDuration.Duration <= le.RenewDeadline.Duration {
		errs = append(errs, fmt.Errorf("--leader-elect-lease-duration: %v: must be more than --leader-elect-renew-deadline (%v)",
			le.LeaseDuration.Duration, le.RenewDeadline.Duration))
	}
	if le.LeaseDuration.Duration < time.Second || le.LeaseDuration.Duration%time.Second != 0 {
		errs = append(errs, fmt.Errorf("--leader-elect-lease-duration: %v: must be a whole number of seconds, at least 1s: a Lease stores no fractions",
			le.LeaseDuration.Duration))
	}
	if le.ResourceLock != "leases" {
		errs = append(errs, fmt.Errorf("--leader-elect-resource-lock: %q: must be leases", le.ResourceLock))
	}
	if len(validation.IsDNS1123Subdomain(le.ResourceName)) > 0 {
		errs = append(errs, fmt.Errorf("--leader-elect-resource-name: %q: must be the name of a Lease", le.ResourceName))
	}
	if len(validation.IsDNS1123Label(le.ResourceNamespace)) > 0 {
		errs = append(errs, fmt.Errorf("--leader-elect-resource-namespace: %q: must be the name of a namespace", le.ResourceNamespace))
	}
	return errs
}
