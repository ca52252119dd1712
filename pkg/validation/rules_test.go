package validation

import (
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/runtimesnapshot"
	"github.com/trainjob/controller/test/builders"
)

// example is a rule with an object just within it and one just beyond it. The page of
// rules in docs shows what is said of the latter.
type example struct {
	// rule is a sentence.
	rule string
	// crd and controller say what they do about it.
	crd, controller string
	within, beyond  Review
}

const (
	refused  = "refuses"
	pending  = "`Pending/RuntimeInvalid`"
	failing  = "the API server refuses the pods"
	nothing  = ""
	refusing = "`Pending/CreationFailed`"
)

// ofJobs are the rules for jobs that are created.
func ofJobs() []example {
	on := func(runtime *runtimesnapshot.Runtime, layers ...string) Review {
		return CreateTrainJob(jobOf(layers...), runtime)
	}
	mpi := func(layers ...string) Review { return on(runtimeOf(builders.MPISpec()), layers...) }
	flux := of(trainer.MLPolicySource{Flux: &trainer.FluxMLPolicySource{}})
	onLong := func(runtime *runtimesnapshot.Runtime) Review {
		job := jobOf(`spec: {trainer: {}}`)
		job.Spec.Trainer.Args = longArguments(14)
		return CreateTrainJob(job, runtime)
	}
	long := func(nodes string) Review {
		return on(torch(), `metadata: {name: `+strings.Repeat("a", 47)+`}`, `spec: {trainer: {numNodes: `+nodes+`}}`)
	}
	return []example{
		{"the runtime exists", nothing, "`Pending/WaitingForRuntime`", on(torch()), on(nil)},
		{"the runtime is of a kind that somebody understands", nothing, "`Failed/TrainingRuntimeNotSupported`",
			OpaqueTrainJob(nil, jobOf(`spec: {runtimeRef: {apiGroup: example.com, kind: Recipe}}`)),
			UnsupportedTrainJob(nil, jobOf(`spec: {runtimeRef: {apiGroup: example.com, kind: Recipe}}`), nil)},
		{"the runtime's name is one that a runtime can have", refused, "`Pending/WaitingForRuntime`",
			on(torch(), `spec: {runtimeRef: {name: torch.v1}}`), on(nil, `spec: {runtimeRef: {name: Torch}}`)},
		{"the runtime can be used", nothing, pending, on(torch()),
			on(torch(func(spec *trainer.TrainingRuntimeSpec) { podOf(spec, "node").Containers[0].Name = "trainer" }))},
		{"spec.trainer is left out where no job of the runtime trains", nothing, pending,
			on(torch()), on(torch(unlabelled), `spec: {trainer: {image: "x:1"}}`)},
		{"the pods' names have room", nothing, pending, long("10"), long("1000")},
		{"a job has at most 100,000 nodes", nothing, failing,
			on(torch(), `metadata: {name: a}`, `spec: {trainer: {numNodes: 100000}}`), on(torch(), `metadata: {name: a}`, `spec: {trainer: {numNodes: 100001}}`)},
		{"resource claims of the nodes are the runtime's", nothing, failing,
			on(torch(claiming("gpus", "gpus")), `spec: {trainer: {resourcesPerNode: {claims: [{name: gpus}]}}}`),
			on(torch(), `spec: {trainer: {resourcesPerNode: {claims: [{name: nope}]}}}`)},
		{"runtime and job together can be stored", nothing, refusing, on(torch(arguments(14))), onLong(torch(arguments(14)))},
		{"the framework's variables are left to it", nothing, "the framework's value wins",
			on(torch(), `spec: {trainer: {env: [{name: PET_MAX_RESTARTS, value: "3"}]}}`),
			on(torch(), `spec: {trainer: {env: [{name: A}, {name: PET_NNODES, value: "3"}]}}`)},
		{"the framework's variables are left to it in patches", nothing, "the framework's value wins",
			on(torch(withInit("check")), inPod("node", `{initContainers: [{name: check, env: [{name: PET_NNODES, value: "3"}]}]}`)),
			on(torch(withInit("check"), injecting("node", "check")), inPod("node", `{initContainers: [{name: check, env: [{name: PET_NNODES, value: "3"}]}]}`))},
		{"the runtime has the step of an initializer", nothing, pending,
			on(runtimeOf(builders.InitializerSpec()), `spec: {initializer: {model: {storageUri: "hf://org/m"}}}`),
			on(torch(), `spec: {initializer: {model: {storageUri: "hf://org/m"}}}`)},
		{"`STORAGE_URI` is given once", refused, "storageUri wins",
			on(runtimeOf(builders.InitializerSpec()), `spec: {initializer: {model: {env: [{name: STORAGE_URI, value: /m}]}}}`),
			on(runtimeOf(builders.InitializerSpec()), `spec: {initializer: {model: {storageUri: "hf://m", env: [{name: STORAGE_URI, value: /m}]}}}`)},
		{"an initializer's Secret has a possible name", "refuses an empty one", failing,
			on(runtimeOf(builders.InitializerSpec()), `spec: {initializer: {dataset: {secretRef: {name: s3}}}}`),
			on(runtimeOf(builders.InitializerSpec()), `spec: {initializer: {dataset: {secretRef: {name: ""}}}}`)},
		{"MPI has a node", nothing, pending, mpi(`spec: {trainer: {numNodes: 1}}`), mpi(`spec: {trainer: {numNodes: 0}}`)},
		{"Flux has a node", nothing, pending, on(flux, `spec: {trainer: {numNodes: 1}}`), on(flux, `spec: {trainer: {numNodes: 0}}`)},
		{"a patched replicatedJob exists", nothing, pending, on(torch(), inPod("node", `{}`)), on(torch(), inPod("worker", `{}`))},
		{"a patched container exists", nothing, pending,
			on(torch(), inPod("node", `{containers: [{name: node}]}`)), on(torch(), inPod("node", `{containers: [{name: trainer}]}`))},
		{"a patched init container exists", nothing, pending,
			on(torch(withInit("check")), inPod("node", `{initContainers: [{name: check}]}`)), on(torch(), inPod("node", `{initContainers: [{name: check}]}`))},
		{"a volume claim is mounted", nothing, refusing, on(torch(mount, claim)), on(torch(claim))},
		{"a mounted volume exists", nothing, failing,
			on(torch(withVolume("data")), inPod("node", `{containers: [{name: node, volumeMounts: [{name: data, mountPath: /d}]}]}`)),
			on(torch(withVolume("data")), inPod("node", `{containers: [{name: node, volumeMounts: [{name: date, mountPath: /d}]}]}`))},
		{"a patch leaves the steps to the runtime", nothing, pending,
			on(torch(), `spec: {runtimePatches: [{manager: example.com/m, trainingRuntimeSpec: {template: {spec: {replicatedJobs: [{name: node, template: {metadata: {labels: {a: b}}}}]}}}}]}`),
			on(torch(), `spec: {runtimePatches: [{manager: example.com/m, trainingRuntimeSpec: {template: {spec: {replicatedJobs: [{name: node, template: {metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: dataset-initializer}}}}]}}}}]}`)},
		{"a node selector can match a node", nothing, failing,
			on(torch(), inPod("node", `{nodeSelector: {zone: a-1}}`)), on(torch(), inPod("node", `{nodeSelector: {zone: "a 1"}}`))},
		{"a toleration can match a taint", refused, failing,
			on(torch(), inPod("node", `{tolerations: [{key: gpu, operator: Exists}]}`)), on(torch(), inPod("node", `{tolerations: [{key: gpu, operator: Exists, value: "yes"}]}`))},
		{"a toleration without a key tolerates all", refused, failing,
			on(torch(), inPod("node", `{tolerations: [{operator: Exists}]}`)), on(torch(), inPod("node", `{tolerations: [{value: a}]}`))},
		{"a toleration's key is one that a taint can have", nothing, failing,
			on(torch(), inPod("node", `{tolerations: [{key: nvidia.com/gpu}]}`)), on(torch(), inPod("node", `{tolerations: [{key: "n v"}]}`))},
		{"a label has a key", nothing, failing,
			on(torch(), inPod("node", `{nodeSelector: {topology.kubernetes.io/zone: a}}`)), on(torch(), inPod("node", `{nodeSelector: {"/zone": a}}`))},
		{"an annotation has a key", nothing, failing,
			on(torch(), `spec: {runtimePatches: [{manager: example.com/m, trainingRuntimeSpec: {template: {metadata: {annotations: {example.com/a: "b c"}}}}}]}`),
			on(torch(), `spec: {runtimePatches: [{manager: example.com/m, trainingRuntimeSpec: {template: {metadata: {annotations: {"a b": c}}}}}]}`)},
		{"a label is one that a pod can have", nothing, failing,
			on(torch(), `spec: {runtimePatches: [{manager: example.com/m, trainingRuntimeSpec: {template: {metadata: {labels: {a: b}}}}}]}`),
			on(torch(), `spec: {runtimePatches: [{manager: example.com/m, trainingRuntimeSpec: {template: {metadata: {labels: {a: "b c"}}}}}]}`)},
		{"a variable has a name", refused, failing,
			on(torch(), `spec: {trainer: {env: [{name: A}]}}`), on(torch(), `spec: {trainer: {env: [{name: ""}]}}`)},
		{"a variable's name is one that a process can have", refused, failing,
			on(torch(), `spec: {trainer: {env: [{name: A.b-c}]}}`), on(torch(), `spec: {trainer: {env: [{name: A=B}]}}`)},
		{"a variable has a value or a source", "refuses, except in patches", failing,
			on(torch(), `spec: {trainer: {env: [{name: A, value: "", valueFrom: {fieldRef: {fieldPath: metadata.name}}}]}}`),
			on(torch(), `spec: {trainer: {env: [{name: A, value: "1", valueFrom: {fieldRef: {fieldPath: metadata.name}}}]}}`)},
		{"a variable has one source", refused, failing,
			on(torch(), `spec: {trainer: {env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}]}}`),
			on(torch(), `spec: {trainer: {env: [{name: A, valueFrom: {}}]}}`)},
		{"a request is within its limit", nothing, failing,
			on(torch(), `spec: {trainer: {resourcesPerNode: {limits: {cpu: 2}, requests: {cpu: 1500m}}}}`),
			on(torch(), `spec: {trainer: {resourcesPerNode: {limits: {cpu: 2}, requests: {cpu: 3}}}}`)},
		{"a quantity is not negative", refused, failing,
			on(torch(), `spec: {trainer: {resourcesPerNode: {limits: {memory: 0}}}}`),
			on(torch(), `spec: {trainer: {resourcesPerNode: {limits: {memory: -1Gi}}}}`)},
		{"devices are asked for by their full name", nothing, failing,
			on(torch(), `spec: {trainer: {resourcesPerNode: {limits: {nvidia.com/gpu: 8}}}}`),
			on(torch(), `spec: {trainer: {resourcesPerNode: {limits: {gpu: 8}}}}`)},
		{"devices are whole", nothing, failing,
			on(torch(), `spec: {trainer: {resourcesPerNode: {limits: {nvidia.com/gpu: "1.0"}}}}`),
			on(torch(), `spec: {trainer: {resourcesPerNode: {limits: {nvidia.com/gpu: "0.5"}}}}`)},
		{"devices are requested as they are limited", nothing, failing,
			on(torch(), `spec: {trainer: {resourcesPerNode: {requests: {nvidia.com/gpu: 2}}}}`),
			on(torch(), `spec: {trainer: {resourcesPerNode: {limits: {nvidia.com/gpu: 2}, requests: {nvidia.com/gpu: 1}}}}`)},
		{"a request of Kubernetes' own needs no limit, but is within it", nothing, failing,
			on(torch(), `spec: {trainer: {resourcesPerNode: {limits: {example.kubernetes.io/a: 2}, requests: {example.kubernetes.io/a: "1.5", kubernetes.io/b: 1}}}}`),
			on(torch(), `spec: {trainer: {resourcesPerNode: {limits: {example.kubernetes.io/a: 2}, requests: {example.kubernetes.io/a: 3}}}}`)},
		{"the training container has an image", nothing, failing,
			on(torch(func(spec *trainer.TrainingRuntimeSpec) { podOf(spec, "node").Containers[0].Image = "" }), `spec: {trainer: {image: mine}}`),
			on(torch(func(spec *trainer.TrainingRuntimeSpec) { podOf(spec, "node").Containers[0].Image = "" }))},
	}
}

// warningsOfJobs are what is accepted with a warning.
func warningsOfJobs() []example {
	on := func(runtime *runtimesnapshot.Runtime, layers ...string) Review {
		return CreateTrainJob(jobOf(layers...), runtime)
	}
	deprecated := torch()
	deprecated.Metadata.Labels = map[string]string{trainer.LabelSupport: trainer.SupportDeprecated}
	jax := func(spec *trainer.TrainingRuntimeSpec) {
		spec.MLPolicy.Torch, spec.MLPolicy.JAX = nil, &trainer.JAXMLPolicySource{}
	}
	const queued = `metadata: {labels: {kueue.x-k8s.io/queue-name: q}}`
	const foreign = `spec: {managedBy: kueue.x-k8s.io/multikueue, runtimeRef: {apiGroup: example.com, kind: Recipe}}`
	gpus := torch(withLimits("nvidia.com/gpu", "4", "cpu", "2"))
	apart := runtimeOf(builders.InitializerSpec(), func(spec *trainer.TrainingRuntimeSpec) { podOf(spec, "node").Containers[0].VolumeMounts = nil })
	both := func(zone string) Review {
		return on(torch(), `spec: {runtimePatches: [`+entry("a", "node", `{nodeSelector: {zone: x}, tolerations: [{key: x}]}`)+`,`+
			entry("b", "node", `{nodeSelector: {zone: `+zone+`}, tolerations: [{key: y}]}`)+`]}`)
	}
	const entryOfKueue = `spec: {runtimePatches: [{manager: kueue.x-k8s.io/manager}]}`
	queueing := func(after string, before ...string) Review {
		old := jobOf(append(before, queued, `spec: {suspend: true, trainer: {command: [tune, run]}}`)...)
		job := old.DeepCopy()
		job.Spec.RuntimePatches = jobOf(after).Spec.RuntimePatches
		if changed := jobOf(after).Spec.Trainer; changed != nil {
			job.Spec.Trainer = changed
		}
		return Review{Warnings: DefaultTrainJob(old, job, now)}
	}
	back := func(layer string) Review {
		return Review{Warnings: DefaultTrainJob(jobOf(`spec: {ttlSecondsAfterFinished: 600}`), jobOf(layer), now)}
	}
	return []example{
		{"a finished job can be looked at", nothing, "", on(torch(), `spec: {ttlSecondsAfterFinished: 60}`), on(torch(), `spec: {ttlSecondsAfterFinished: 59}`)},
		{"a time limit that a client has dropped is put back", "accepts the absence", "enforces what `status.lifecycle` says", back(`spec: {ttlSecondsAfterFinished: 600}`), back(`spec: {}`)},
		{"what is fixed in a job of a queue is put back", "refuses the change", "–",
			queueing(`spec: {trainer: {command: [tune, run]}}`), queueing(`spec: {trainer: {command: [tune, run, full]}}`)},
		{"Kueue's entry of a job of a queue is put back", "accepts the absence while suspended", "the job runs without Kueue's choice",
			queueing(entryOfKueue), queueing(`spec: {}`, entryOfKueue)},
		{"the runtime is not deprecated", nothing, "", on(torch()), on(deprecated)},
		{"one job of the runtime trains", nothing, "runs the template as it stands", on(torch()), on(torch(unlabelled), `spec: {trainer: {numNodes: 2}}`)},
		{"a number of processes has an effect", nothing, "passed over",
			on(torch(), `spec: {trainer: {numProcPerNode: 2}}`), on(torch(jax), `spec: {trainer: {numProcPerNode: 2}}`)},
		{"Kueue counts the devices that the pods get", nothing, "",
			on(gpus, queued, `spec: {trainer: {resourcesPerNode: {limits: {cpu: 4, nvidia.com/gpu: 4}}}}`),
			on(gpus, queued, `spec: {trainer: {resourcesPerNode: {limits: {cpu: 4}}}}`)},
		{"managers agree about a field", nothing, "the later one wins", both("x"), both("y")},
		{"what an initializer fetches reaches the training", nothing, "",
			on(runtimeOf(builders.InitializerSpec()), `spec: {initializer: {dataset: {storageUri: "hf://d"}}}`), on(apart, `spec: {initializer: {dataset: {storageUri: "hf://d"}}}`)},
		{"a job of another controller has a runtime here", nothing, "",
			on(torch(), `spec: {managedBy: kueue.x-k8s.io/multikueue}`), on(nil, `spec: {managedBy: kueue.x-k8s.io/multikueue}`)},
		{"a job of another controller has a runtime of a kind that somebody here understands", nothing, "",
			OpaqueTrainJob(nil, jobOf(foreign)), UnsupportedTrainJob(nil, jobOf(foreign), nil)},
	}
}

// ofUpdates are the rules for jobs that are changed.
func ofUpdates() []example {
	change := func(before, after string, layers ...string) Review {
		return UpdateTrainJob(jobOf(append([]string{before}, layers...)...), jobOf(append([]string{after}, layers...)...), torch(withVolume("data")))
	}
	const suspended = `spec: {suspend: true}`
	selector := func(zone string) string { return inPod("node", `{nodeSelector: {zone: `+zone+`}}`) }
	affinity := func(name string) string {
		return inPod("node", `{nodeSelector: {zone: `+name+`}, affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: `+name+`, operator: Exists}]}]}}}}`)
	}
	return []example{
		{"the runtime is fixed", refused, "the snapshot stays as it is",
			change(`spec: {runtimeRef: {kind: ClusterTrainingRuntime}}`, suspended), change(`spec: {}`, `spec: {runtimeRef: {name: other}}`)},
		{"trainer is fixed", "refuses, except for quantities", "a JobSet that exists stays as it is",
			change(`spec: {trainer: {resourcesPerNode: {limits: {cpu: "0.5"}}, env: [{name: A, value: ""}]}}`, `spec: {trainer: {resourcesPerNode: {limits: {cpu: 500m}}, env: [{name: A}]}}`),
			change(`spec: {trainer: {resourcesPerNode: {limits: {cpu: "0.5"}}}}`, `spec: {trainer: {resourcesPerNode: {limits: {cpu: "0.6"}}}}`)},
		{"initializer is fixed", refused, "a JobSet that exists stays as it is",
			change(`spec: {initializer: {model: {storageUri: "hf://a", env: []}}}`, `spec: {initializer: {model: {storageUri: "hf://a"}}}`),
			change(`spec: {initializer: {model: {storageUri: "hf://a"}}}`, `spec: {initializer: {model: {storageUri: "hf://b"}}}`)},
		{"managedBy is fixed", refused, "the job is left alone from then on",
			change(`spec: {managedBy: trainer.kubeflow.org/trainjob-controller}`, suspended), change(`spec: {}`, `spec: {managedBy: kueue.x-k8s.io/multikueue}`)},
		{"ttlSecondsAfterFinished is fixed", refused, "enforces what `status.lifecycle` says",
			change(`spec: {ttlSecondsAfterFinished: 60}`, suspended), change(`spec: {ttlSecondsAfterFinished: 60}`, `spec: {ttlSecondsAfterFinished: 90}`)},
		{"activeDeadlineSeconds is fixed", refused, "enforces what `status.lifecycle` says",
			change(suspended, `spec: {activeDeadlineSeconds: 60}`, `status: {lifecycle: {activeDeadlineSeconds: 60}}`), change(`spec: {}`, `spec: {activeDeadlineSeconds: 60}`)},
		{"patches change in suspension only", refused, "event `PatchNotApplied`",
			change(selector("a"), selector("b"), suspended), change(selector("a"), selector("b"))},
		{"a JobSet that exists takes only some fields of patches", "refuses the most of it", "event `PatchNotApplied`",
			change(selector("a"), selector("b"), suspended, started), change(selector("a"), affinity("a"), suspended, started)},
		{"a JobSet that exists keeps what patches have set", nothing, "event `PatchNotApplied`",
			change(affinity("a"), selector("a"), suspended), change(affinity("a"), selector("a"), suspended, started)},
		{"a change brings no fault", nothing, "`Pending/RuntimeInvalid`",
			change(selector("a"), `spec: {runtimePatches: [`+entry("m", "node", `{nodeSelector: {zone: a}}`)+`, `+entry("n", "node", `{}`)+`]}`, suspended),
			change(selector("a"), `spec: {runtimePatches: [`+entry("m", "node", `{nodeSelector: {zone: a}}`)+`, `+entry("n", "worker", `{}`)+`]}`, suspended)},
	}
}

// ofRuntimes are the rules for runtimes of both kinds.
func ofRuntimes() []example {
	plain, torchSpec, mpiSpec := builders.PlainSpec, builders.TorchSpec, builders.MPISpec
	on := func(spec func() trainer.TrainingRuntimeSpec, changes ...specChange) Review {
		return reviewRuntime("torch", spec(), changes...)
	}
	node := func(change func(*jobset.ReplicatedJob)) specChange {
		return func(spec *trainer.TrainingRuntimeSpec) { change(rjobOf(spec, "node")) }
	}
	add := func(rjob jobset.ReplicatedJob) specChange {
		return func(spec *trainer.TrainingRuntimeSpec) {
			spec.Template.Spec.ReplicatedJobs = append(spec.Template.Spec.ReplicatedJobs, rjob)
		}
	}
	mode := func(mode batchv1.CompletionMode) specChange {
		return node(func(rjob *jobset.ReplicatedJob) { rjob.Template.Spec.CompletionMode = &mode })
	}
	waiting := func(name string) specChange {
		return func(spec *trainer.TrainingRuntimeSpec) {
			waiter := builders.ReplicatedJob("last", "", "c")
			waiter.DependsOn = []jobset.DependsOn{{Name: name, Status: jobset.DependencyReady}}
			add(waiter)(spec)
		}
	}
	targets := func(name string) specChange {
		return func(spec *trainer.TrainingRuntimeSpec) {
			spec.Template.Spec.SuccessPolicy = &jobset.SuccessPolicy{Operator: jobset.OperatorAny, TargetReplicatedJobs: []string{name}}
		}
	}
	rule := func(name string) specChange {
		return func(spec *trainer.TrainingRuntimeSpec) {
			spec.Template.Spec.FailurePolicy = &jobset.FailurePolicy{Rules: []jobset.FailurePolicyRule{{Name: "r", Action: jobset.FailJobSet, TargetReplicatedJobs: []string{name}}}}
		}
	}
	coordinator := func(name string) specChange {
		return func(spec *trainer.TrainingRuntimeSpec) {
			spec.Template.Spec.Coordinator = &jobset.Coordinator{ReplicatedJob: name}
		}
	}
	subdomain := func(name string) specChange {
		return func(spec *trainer.TrainingRuntimeSpec) { spec.Template.Spec.Network = &jobset.Network{Subdomain: name} }
	}
	flux := func() trainer.TrainingRuntimeSpec {
		return changed(plain(), func(spec *trainer.TrainingRuntimeSpec) {
			spec.MLPolicy = &trainer.MLPolicy{MLPolicySource: trainer.MLPolicySource{Flux: &trainer.FluxMLPolicySource{}}}
		})
	}
	renamed := func(name string) specChange { return node(func(rjob *jobset.ReplicatedJob) { rjob.Name = name }) }
	return []example{
		{"the template has jobs", refused, pending, on(plain), on(plain, func(spec *trainer.TrainingRuntimeSpec) { spec.Template.Spec.ReplicatedJobs = nil })},
		{"only one job trains", refused, pending, on(plain, add(builders.ReplicatedJob("more", "", "c"))), on(plain, add(builders.ReplicatedJob("more", trainer.StepTrainer, "node")))},
		{"the training container is `node`", nothing, pending, on(plain), on(plain, func(spec *trainer.TrainingRuntimeSpec) { podOf(spec, "node").Containers[0].Name = "main" })},
		{"a step's container has the step's name", nothing, "`Pending/RuntimeInvalid` of jobs that use it",
			on(plain, add(builders.ReplicatedJob("data", trainer.StepDatasetInitializer, trainer.StepDatasetInitializer))),
			on(plain, add(builders.ReplicatedJob("data", trainer.StepDatasetInitializer, "loader")))},
		{"a step has one replica", refused, "makes it one",
			on(plain, add(func() jobset.ReplicatedJob { r := builders.ReplicatedJob("more", "", "c"); r.Replicas = 2; return r }())),
			on(plain, node(func(rjob *jobset.ReplicatedJob) { rjob.Replicas = 2 }))},
		{"there is one framework", refused, pending, on(torchSpec), on(torchSpec, func(spec *trainer.TrainingRuntimeSpec) { spec.MLPolicy.JAX = &trainer.JAXMLPolicySource{} })},
		{"there is one gang scheduler", refused, pending,
			on(torchSpec, func(spec *trainer.TrainingRuntimeSpec) {
				spec.PodGroupPolicy = &trainer.PodGroupPolicy{PodGroupPolicySource: trainer.PodGroupPolicySource{Volcano: &trainer.VolcanoPodGroupPolicySource{}}}
			}),
			on(torchSpec, func(spec *trainer.TrainingRuntimeSpec) {
				spec.PodGroupPolicy = &trainer.PodGroupPolicy{PodGroupPolicySource: trainer.PodGroupPolicySource{
					Volcano: &trainer.VolcanoPodGroupPolicySource{}, Coscheduling: &trainer.CoschedulingPodGroupPolicySource{}}}
			})},
		{"a job with injected variables exists", nothing, pending, on(torchSpec, withInit("check"), injecting("node", "check")), on(torchSpec, withInit("check"), injecting("worker", "check"))},
		{"a container with injected variables exists", nothing, pending, on(torchSpec, withInit("check"), injecting("node", "check")), on(torchSpec, withInit("check"), injecting("node", "czech"))},
		{"nodes are numbered", refused, pending, on(torchSpec, mode(batchv1.IndexedCompletion)), on(torchSpec, mode(batchv1.NonIndexedCompletion))},
		{"nodes have host names", nothing, pending,
			on(torchSpec, func(spec *trainer.TrainingRuntimeSpec) {
				spec.Template.Spec.Network = &jobset.Network{EnableDNSHostnames: ptr.To(true)}
			}),
			on(torchSpec, func(spec *trainer.TrainingRuntimeSpec) {
				spec.Template.Spec.Network = &jobset.Network{EnableDNSHostnames: ptr.To(false)}
			})},
		{"MPI has workers", nothing, pending, on(mpiSpec), on(mpiSpec, renamed("worker"))},
		{"MPI's launcher is not a worker", nothing, pending, on(mpiSpec), on(mpiSpec, func(spec *trainer.TrainingRuntimeSpec) {
			rjobOf(spec, "launcher").Template.Labels, rjobOf(spec, "node").Template.Labels = nil, rjobOf(spec, "launcher").Template.Labels
		})},
		{"MPI's workers have a container `node`", nothing, pending, on(mpiSpec), on(mpiSpec, func(spec *trainer.TrainingRuntimeSpec) { podOf(spec, "node").Containers[0].Name = "sshd" })},
		{"MPI is OpenMPI", refused, pending, on(mpiSpec), on(mpiSpec, func(spec *trainer.TrainingRuntimeSpec) {
			spec.MLPolicy.MPI.MPIImplementation = ptr.To(trainer.MPIImplementation("MPICH"))
		})},
		{"Flux's init container is not the runtime's", nothing, pending, on(flux, withInit("check")), on(flux, withInit("flux-installer"))},
		{"the pods' names have room", nothing, pending, on(plain, renamed(strings.Repeat("n", 51))), on(plain, renamed(strings.Repeat("n", 52)))},
		{"a job waits for one before it", nothing, refusing, on(plain, waiting("node")), on(plain, waiting("other"))},
		{"the success policy names jobs", nothing, refusing, on(plain, targets("node")), on(plain, targets("other"))},
		{"the failure policy names jobs", nothing, refusing, on(plain, rule("node")), on(plain, rule("other"))},
		{"the coordinator is a job", nothing, refusing, on(plain, coordinator("node")), on(plain, coordinator("other"))},
		{"the subdomain is the name of a Service", refused, refusing, on(plain), on(plain, subdomain("my.mesh"))},
		{"a volume claim is no volume", nothing, refusing, on(plain, mount, claim), on(plain, mount, claim, withVolume("data"))},
		{"one volume is mounted at a path", refused, failing, on(plain, withVolume("data"), mount), on(plain, withVolume("data"), mount, func(spec *trainer.TrainingRuntimeSpec) {
			node := &podOf(spec, "node").Containers[0]
			node.VolumeMounts = append(node.VolumeMounts, node.VolumeMounts[0])
		})},
		{"a container has an image", nothing, failing, on(plain, withInit("check")), on(plain, withInit("check"), func(spec *trainer.TrainingRuntimeSpec) { podOf(spec, "node").InitContainers[0].Image = "" })},
		{"pods that have failed are judged when they are not restarted", nothing, failing, on(plain, judged, restarting(corev1.RestartPolicyNever)), on(plain, judged, restarting(""))},
		{"the pods of a Job end", nothing, failing, on(plain, restarting(corev1.RestartPolicyOnFailure)), on(plain, restarting(corev1.RestartPolicyAlways))},
		{"a Job has at most 100,000 pods", nothing, failing, on(plain, parallel(100_000)), on(plain, parallel(100_001))},
		{"a container's resource claims are the pod's", nothing, failing, on(plain, claiming("gpus", "gpus")), on(plain, claiming("gpus", "nope"))},
		{"a JobSet can be stored", nothing, refusing, on(plain, arguments(14)), on(plain, arguments(28))},
		{"resources can be asked for", nothing, failing, on(plain, withLimits("amd.com/gpu", "1")), on(plain, withLimits("gpu", "1"))},
	}
}

// judged gives the training job a policy about failed pods.
func judged(spec *trainer.TrainingRuntimeSpec) {
	rjobOf(spec, "node").Template.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{}
}

func restarting(policy corev1.RestartPolicy) specChange {
	return func(spec *trainer.TrainingRuntimeSpec) { podOf(spec, "node").RestartPolicy = policy }
}

// parallel sets the number of pods of the training job, in a runtime that says no other.
func parallel(pods int32) specChange {
	return func(spec *trainer.TrainingRuntimeSpec) {
		spec.MLPolicy = nil
		rjobOf(spec, "node").Template.Spec.Parallelism = &pods
	}
}

// claiming gives the pods a resource claim, and has the training container ask for one.
func claiming(has, asks string) specChange {
	return func(spec *trainer.TrainingRuntimeSpec) {
		pod := podOf(spec, "node")
		pod.ResourceClaims = []corev1.PodResourceClaim{{Name: has, ResourceClaimTemplateName: ptr.To("eight")}}
		pod.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: asks}}
	}
}

// arguments adds a container with so many arguments of 60 kB.
func arguments(count int) specChange {
	return func(spec *trainer.TrainingRuntimeSpec) {
		pod := podOf(spec, "node")
		pod.Containers = append(pod.Containers, corev1.Container{Name: "more", Image: "more", Args: longArguments(count)})
	}
}

func longArguments(count int) []string {
	return slices.Repeat([]string{strings.Repeat("x", 60_000)}, count)
}

// mount mounts the volume `data` in the training container.
func mount(spec *trainer.TrainingRuntimeSpec) {
	podOf(spec, "node").Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/d"}}
}

// unlabelled takes away the label that says which job trains.
func unlabelled(spec *trainer.TrainingRuntimeSpec) { rjobOf(spec, "node").Template.Labels = nil }

// claim has JobSet make a volume claim `data`.
func claim(spec *trainer.TrainingRuntimeSpec) {
	spec.Template.Spec.VolumeClaimPolicies = []jobset.VolumeClaimPolicy{{Templates: []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}}}}}
}

// warningsOfRuntimes are what is accepted with a warning.
func warningsOfRuntimes() []example {
	on := func(changes ...specChange) Review { return reviewRuntime("torch", builders.PlainSpec(), changes...) }
	tune := func(spec *trainer.TrainingRuntimeSpec) {
		podOf(spec, "node").Containers[0].Command = []string{"tune", "run"}
	}
	return []example{
		{"the JobSet's time to live is the TrainJob's", nothing, "left out", on(), on(func(spec *trainer.TrainingRuntimeSpec) { spec.Template.Spec.TTLSecondsAfterFinished = ptr.To[int32](5) })},
		{"a Job's time to live is the TrainJob's", nothing, "left out", on(), on(func(spec *trainer.TrainingRuntimeSpec) {
			rjobOf(spec, "node").Template.Spec.TTLSecondsAfterFinished = ptr.To[int32](5)
		})},
		{"a Job's deadline is the TrainJob's", nothing, "left out", on(), on(func(spec *trainer.TrainingRuntimeSpec) {
			rjobOf(spec, "node").Template.Spec.ActiveDeadlineSeconds = ptr.To[int64](5)
		})},
		{"a step's label names a step", nothing, "", on(), on(func(spec *trainer.TrainingRuntimeSpec) {
			extra := builders.ReplicatedJob("data", "data-initializer", "c")
			spec.Template.Spec.ReplicatedJobs = append(spec.Template.Spec.ReplicatedJobs, extra)
		})},
		{"one job trains", nothing, "runs the template as it stands", on(), on(unlabelled)},
		{"each job has a Service of its own", nothing, "the second of two jobs has no addresses", on(), on(func(spec *trainer.TrainingRuntimeSpec) {
			spec.Template.Spec.Network = &jobset.Network{Subdomain: "train"}
		})},
		{"a mounted volume exists", nothing, "the API server refuses the pods of jobs that do not add it", on(mount, withVolume("data")), on(mount)},
		{"a volume claim is mounted", nothing, "`Pending/CreationFailed` of jobs that do not mount it", on(mount, claim), on(claim)},
		{"a recipe is found for torchtune", nothing, "`Pending/RuntimeInvalid` of jobs that do not",
			reviewRuntime("torchtune-llama3.2-1b", changed(builders.TorchSpec(), one), tune), reviewRuntime("my-tune", changed(builders.TorchSpec(), one), tune)},
	}
}

// one makes a runtime of a single node.
func one(spec *trainer.TrainingRuntimeSpec) { spec.MLPolicy.NumNodes = ptr.To[int32](1) }

// chapters of the page, in order.
func chapters() []struct {
	title    string
	warnings bool
	examples []example
} {
	return []struct {
		title    string
		warnings bool
		examples []example
	}{
		{"A TrainJob is created", false, ofJobs()},
		{"A TrainJob is changed", false, ofUpdates()},
		{"A TrainJob is accepted with a warning", true, warningsOfJobs()},
		{"A runtime is created or changed", false, ofRuntimes()},
		{"A runtime is accepted with a warning", true, warningsOfRuntimes()},
	}
}

func TestEachRuleAcceptsWhatIsWithinItAndSaysOneThingOfWhatIsBeyond(t *testing.T) {
	for _, chapter := range chapters() {
		for _, example := range chapter.examples {
			t.Run(chapter.title+": "+example.rule, func(t *testing.T) {
				mustPass(t, "within the rule", example.within)
				errors, warnings := 1, 0
				if chapter.warnings {
					errors, warnings = 0, 1
				}
				if len(example.beyond.Errors) != errors || len(example.beyond.Warnings) != warnings {
					t.Errorf("beyond the rule: %d errors and %d warnings, want %d and %d: %q",
						len(example.beyond.Errors), len(example.beyond.Warnings), errors, warnings, texts(example.beyond))
				}
			})
		}
	}
}

// Both kinds are the same to the rules.
func TestBothKindsOfRuntimesAreReviewedAlike(t *testing.T) {
	spec := builders.PlainSpec()
	spec.Template.Spec.ReplicatedJobs = nil
	cluster := Runtime(&metav1.ObjectMeta{Name: "r"}, &spec)
	namespaced := Runtime(&metav1.ObjectMeta{Name: "r", Namespace: "n"}, &spec)
	if len(cluster.Errors) != 1 || len(namespaced.Errors) != 1 || cluster.Errors[0].Error() != namespaced.Errors[0].Error() {
		t.Errorf("cluster %v, namespaced %v", cluster.Errors, namespaced.Errors)
	}
}
