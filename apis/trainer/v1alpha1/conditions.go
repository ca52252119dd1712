package v1alpha1

// TrainJobState is the one state a TrainJob is in. Suspended, Complete and Failed are
// also the types of the conditions that a TrainJob can have.
// +kubebuilder:validation:Enum=Pending;Suspended;Running;Complete;Failed
type TrainJobState string

// The five states. After the first sync of a TrainJob status.state is one of them.
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

// Reasons of the state Pending.
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

// Reasons of the other states. Complete, and Failed but for these two, have the reason of
// the JobSet's end.
const (
	ReasonSuspended = "Suspended"
	ReasonPodsReady = "PodsReady"

	ReasonDeadlineExceeded            = "DeadlineExceeded"
	ReasonTrainingRuntimeNotSupported = "TrainingRuntimeNotSupported"
)
