package v1alpha1

// TrainJobState is the one state a TrainJob is in. It is also the type of the one
// state condition which is True.
// +kubebuilder:validation:Enum=Pending;Suspended;Running;Complete;Failed
type TrainJobState string

// The five states. After the first sync of a TrainJob exactly one of the
// conditions of these types is True and status.state names it.
const (
	// TrainJobPending: not running yet, either waiting or blocked. Clears itself.
	TrainJobPending TrainJobState = "Pending"
	// TrainJobSuspended: spec.suspend is true.
	TrainJobSuspended TrainJobState = "Suspended"
	// TrainJobRunning: at least one job of the JobSet has all its pods ready.
	TrainJobRunning TrainJobState = "Running"
	// TrainJobComplete: finished with success. Terminal.
	TrainJobComplete TrainJobState = "Complete"
	// TrainJobFailed: finished without success. Terminal.
	TrainJobFailed TrainJobState = "Failed"
)

// Reasons of the Pending condition.
const (
	ReasonWaitingForRuntime = "WaitingForRuntime"
	ReasonRuntimeInvalid    = "RuntimeInvalid"
	ReasonSnapshotConflict  = "SnapshotConflict"
	ReasonSnapshotTooLarge  = "SnapshotTooLarge"
	ReasonSnapshotInvalid   = "SnapshotInvalid"
	ReasonJobSetConflict    = "JobSetConflict"
	ReasonCreationFailed    = "CreationFailed"
	ReasonWaitingForPods    = "WaitingForPods"
	ReasonExternalRuntime   = "ExternalRuntime"
)

// Reasons of the other state conditions. A condition which is False because
// another state took its place carries that state's name as its reason, but for
// Suspended, which goes False with ReasonResumed.
const (
	ReasonSuspended = "Suspended"
	ReasonResumed   = "Resumed"
	ReasonPodsReady = "PodsReady"

	ReasonDeadlineExceeded            = "DeadlineExceeded"
	ReasonTrainingRuntimeNotSupported = "TrainingRuntimeNotSupported"
)
