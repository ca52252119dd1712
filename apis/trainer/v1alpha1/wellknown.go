package v1alpha1

// Values of spec.managedBy.
const (
	// ManagedByTrainJobController is the default: this controller runs the job.
	ManagedByTrainJobController = "trainer.kubeflow.org/trainjob-controller"
	// ManagedByMultiKueue leaves the job to Kueue's MultiKueue; this controller
	// writes nothing at all for it.
	ManagedByMultiKueue = "kueue.x-k8s.io/multikueue"
)

// Labels and annotations, on runtimes and on what is built from them.
const (
	// LabelAncestorStep marks, on a replicatedJob's Job template of a runtime, the
	// step of the TrainJob which that replicatedJob carries out. Values below.
	LabelAncestorStep = "trainer.kubeflow.org/trainjob-ancestor-step"

	// LabelTrainJobName is on every object the controller creates; the value is the
	// name of the TrainJob. Watches on ConfigMaps are restricted to it.
	LabelTrainJobName = "trainer.kubeflow.org/trainjob-name"

	// LabelPreflight is on pods with an init container ContainerPreflight, and on their
	// JobSet; the value is its name. Watches on pods are restricted to it.
	LabelPreflight = "trainer.kubeflow.org/preflight"

	// LabelFramework, on a runtime, names the framework it serves ("torch", …). It is
	// for people and SDKs; the controller decides nothing by it.
	LabelFramework = "trainer.kubeflow.org/framework"

	// LabelSupport, on a runtime, with value SupportDeprecated, announces its end.
	LabelSupport      = "trainer.kubeflow.org/support"
	SupportDeprecated = "deprecated"

	// AnnotationPatchesHash, on a JobSet, is the hash of the spec.runtimePatches that
	// the JobSet was last brought up to date with, `time` left out.
	AnnotationPatchesHash = "trainer.kubeflow.org/runtime-patches-hash"

	// AnnotationRemakeJobs, on a suspended JobSet, lists the replicatedJobs whose child
	// Jobs must be deleted before it may be resumed.
	AnnotationRemakeJobs = "trainer.kubeflow.org/remake-jobs"

	// AnnotationLeftOutJobs, on a JobSet, lists the replicatedJobs of the runtime that
	// its framework does without. Whoever counts by the runtime, as Kueue does, is told
	// that they have succeeded.
	AnnotationLeftOutJobs = "trainer.kubeflow.org/left-out-jobs"
)

// Values of LabelAncestorStep, which are also the names of the main container of
// the two initializer steps.
const (
	StepTrainer            = "trainer"
	StepDatasetInitializer = "dataset-initializer"
	StepModelInitializer   = "model-initializer"
)

// Names of main containers.
const (
	// ContainerNode is the main container of the trainer job.
	ContainerNode = "node"
	// ContainerPreflight is the init container whose report goes into the job's status.
	ContainerPreflight = "preflight"
)
