package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TrainJobStatus is what the controller has seen and decided.
type TrainJobStatus struct {
	// state is the one state the job is in.
	// +optional
	State TrainJobState `json:"state,omitempty"`

	// reason says in one CamelCase word why the job is in its state.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Reason string `json:"reason,omitempty"`

	// message says it in a sentence.
	// +kubebuilder:validation:MaxLength=32768
	// +optional
	Message string `json:"message,omitempty"`

	// lastTransitionTime is when the job came into its state.
	// +optional
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitempty"`

	// conditions: Suspended while the job is, Complete or Failed once it is, and those of
	// others. There are none while a job waits or runs: clients take any for not running.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// jobsStatus counts the child Jobs of each replicatedJob, also after the end. There is
	// no limit: a status that was too long could never say that the job has ended.
	// +listType=map
	// +listMapKey=name
	// +optional
	JobsStatus []JobStatus `json:"jobsStatus,omitempty"`

	// trainerStatus is reported by the training code itself through others; this
	// controller never writes it.
	// +optional
	TrainerStatus *TrainerStatus `json:"trainerStatus,omitempty"`

	// preflight is the worst that the checks of the job's nodes have found in their latest
	// run. It is no condition: clients take any for not running.
	// +optional
	Preflight *PreflightStatus `json:"preflight,omitempty"`

	// startTime is when the JobSet was first found unsuspended; of a job whose runtime
	// has a builder of its own, when the job was first left to that builder.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// firstRunningTime is when the job was first seen Running.
	// +optional
	FirstRunningTime *metav1.Time `json:"firstRunningTime,omitempty"`

	// resumeTime is when the job was last seen resumed; unset if it never was suspended.
	// +optional
	ResumeTime *metav1.Time `json:"resumeTime,omitempty"`

	// restarts is how many times JobSet has restarted the job after failures.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Restarts int32 `json:"restarts,omitempty"`

	// completionTime is when the job became Complete or Failed.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// nodes is the number of training nodes the job was resolved to.
	// +optional
	Nodes *int32 `json:"nodes,omitempty"`

	// runtimeSnapshot is the snapshot the job is built from.
	// +optional
	RuntimeSnapshot *RuntimeSnapshotReference `json:"runtimeSnapshot,omitempty"`

	// lifecycle holds the limits found at the first sync. They are the ones enforced,
	// whatever a later write of the spec has dropped.
	// +optional
	Lifecycle *LifecycleLimits `json:"lifecycle,omitempty"`
}

// PreflightStatus is what preflight has found on the nodes of a job.
type PreflightStatus struct {
	// outcome is the worst: Pass and Warning let the job train, Retryable is tried again,
	// Reschedule restarts the job, Fatal stops it.
	// +kubebuilder:validation:Enum=Pass;Warning;Retryable;Reschedule;Fatal
	// +required
	Outcome string `json:"outcome"`

	// reason of the first report of that outcome, one CamelCase word.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	Reason string `json:"reason,omitempty"`

	// message of that report.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Message string `json:"message,omitempty"`

	// nodes that have reported that outcome, at most twenty; none where it is Pass.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	// +optional
	Nodes []string `json:"nodes,omitempty"`

	// attempt is how many times JobSet had restarted the job before.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Attempt int32 `json:"attempt,omitempty"`

	// time at which that report was made.
	// +optional
	Time metav1.Time `json:"time,omitzero"`
}

// RuntimeSnapshotReference names the snapshot ConfigMap in use.
type RuntimeSnapshotReference struct {
	// name of the ConfigMap in the job's namespace.
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`

	// uid of the ConfigMap.
	// +optional
	UID types.UID `json:"uid,omitempty"`

	// digest is "sha256:" and the hexadecimal digest of the snapshot's data.runtime.
	// +kubebuilder:validation:MaxLength=128
	// +required
	Digest string `json:"digest"`
}

// LifecycleLimits are the time limits of a job.
type LifecycleLimits struct {
	// ttlSecondsAfterFinished as it was in the spec at the first sync.
	// +optional
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`

	// activeDeadlineSeconds as it was in the spec at the first sync.
	// +optional
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`
}

// JobStatus counts the child Jobs of one replicatedJob. Zeros are written.
type JobStatus struct {
	// name of the replicatedJob.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`

	// ready is the number of Jobs whose pods are all ready or completed.
	// +kubebuilder:validation:Minimum=0
	// +required
	Ready int32 `json:"ready"`

	// succeeded is the number of Jobs that completed.
	// +kubebuilder:validation:Minimum=0
	// +required
	Succeeded int32 `json:"succeeded"`

	// failed is the number of Jobs that failed.
	// +kubebuilder:validation:Minimum=0
	// +required
	Failed int32 `json:"failed"`

	// active is the number of Jobs with at least one pod pending or running.
	// +kubebuilder:validation:Minimum=0
	// +required
	Active int32 `json:"active"`

	// suspended is the number of Jobs that are suspended.
	// +kubebuilder:validation:Minimum=0
	// +required
	Suspended int32 `json:"suspended"`
}

// TrainerStatus is progress reported by the training code.
// +kubebuilder:validation:XValidation:rule="has(self.lastUpdatedTime)",message="lastUpdatedTime is required when trainerStatus is present: give the time at which the values were observed"
type TrainerStatus struct {
	// progressPercentage is an estimate between 0 and 100.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	ProgressPercentage *int32 `json:"progressPercentage,omitempty"`

	// estimatedRemainingSeconds is an estimate of the time to the end.
	// +kubebuilder:validation:Minimum=0
	// +optional
	EstimatedRemainingSeconds *int32 `json:"estimatedRemainingSeconds,omitempty"`

	// metrics of the model, as the training code names them.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	// +optional
	Metrics []Metric `json:"metrics,omitempty"`

	// lastUpdatedTime is when these values were observed.
	// +optional
	LastUpdatedTime metav1.Time `json:"lastUpdatedTime,omitzero"`
}

// Metric is one value reported by the training code.
type Metric struct {
	// name of the metric, such as "loss".
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +required
	Name string `json:"name,omitempty"`

	// value of the metric, as a string.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +required
	Value string `json:"value,omitempty"`
}
