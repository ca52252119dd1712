package builders

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
)

// Namespace of every namespaced object that does not say otherwise.
const Namespace = "default"

// Epoch is when every object was created that does not say otherwise.
var Epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// At is the time a number of seconds after Epoch.
func At(seconds int) time.Time {
	return Epoch.Add(time.Duration(seconds) * time.Second)
}

// JobOption changes a TrainJob under construction.
type JobOption = func(*trainer.TrainJob)

// TrainJob makes an unsuspended job of the ClusterTrainingRuntime "torch".
func TrainJob(name string, opts ...JobOption) *trainer.TrainJob {
	return with(&trainer.TrainJob{
		TypeMeta:   typeMeta(trainer.TrainJobKind),
		ObjectMeta: objectMeta(Namespace, name),
		Spec: trainer.TrainJobSpec{
			RuntimeRef: runtimeRef(trainer.ClusterTrainingRuntimeKind, "torch"),
			Suspend:    ptr.To(false),
			ManagedBy:  ptr.To(trainer.ManagedByTrainJobController),
		},
	}, opts)
}

// Runtime names the runtime of a job.
func Runtime(kind, name string) JobOption {
	return func(job *trainer.TrainJob) { job.Spec.RuntimeRef = runtimeRef(kind, name) }
}

// OpaqueRuntime names a runtime of a kind that has a builder of its own.
func OpaqueRuntime(group, kind, name string) JobOption {
	return func(job *trainer.TrainJob) {
		job.Spec.RuntimeRef = trainer.RuntimeRef{APIGroup: &group, Kind: &kind, Name: name}
	}
}

// UID tells a job from others of the same name.
func UID(uid types.UID) JobOption {
	return func(job *trainer.TrainJob) { job.UID = uid }
}

// Suspended sets spec.suspend.
func Suspended(suspended bool) JobOption {
	return func(job *trainer.TrainJob) { job.Spec.Suspend = &suspended }
}

// ManagedBy sets spec.managedBy.
func ManagedBy(controller string) JobOption {
	return func(job *trainer.TrainJob) { job.Spec.ManagedBy = &controller }
}

// Deadline sets spec.activeDeadlineSeconds.
func Deadline(seconds int64) JobOption {
	return func(job *trainer.TrainJob) { job.Spec.ActiveDeadlineSeconds = &seconds }
}

// TTL sets spec.ttlSecondsAfterFinished.
func TTL(seconds int32) JobOption {
	return func(job *trainer.TrainJob) { job.Spec.TTLSecondsAfterFinished = &seconds }
}

// Trainer sets spec.trainer.
func Trainer(t trainer.Trainer) JobOption {
	return func(job *trainer.TrainJob) { job.Spec.Trainer = &t }
}

// Patches appends to spec.runtimePatches.
func Patches(patches ...trainer.RuntimePatch) JobOption {
	return func(job *trainer.TrainJob) { job.Spec.RuntimePatches = append(job.Spec.RuntimePatches, patches...) }
}

// State puts the job into one of the five states, for a reason and since a moment, as the
// controller does: with a condition only where there is one of the state.
func State(state trainer.TrainJobState, reason string, since time.Time) JobOption {
	return func(job *trainer.TrainJob) {
		stamp := metav1.NewTime(since)
		job.Status.State, job.Status.Reason, job.Status.Message = state, reason, reason+"."
		job.Status.LastTransitionTime = &stamp
		if state != trainer.TrainJobPending && state != trainer.TrainJobRunning {
			Condition(string(state), reason, since)(job)
		}
	}
}

// Condition appends a condition that is True since `since`, and nothing else.
func Condition(conditionType, reason string, since time.Time) JobOption {
	return func(job *trainer.TrainJob) {
		job.Status.Conditions = append(job.Status.Conditions, metav1.Condition{
			Type: conditionType, Status: metav1.ConditionTrue, Reason: reason, Message: reason + ".",
			LastTransitionTime: metav1.NewTime(since),
		})
	}
}

// ClusterTrainingRuntime makes a runtime of all namespaces.
func ClusterTrainingRuntime(name string, spec trainer.TrainingRuntimeSpec, opts ...func(*trainer.ClusterTrainingRuntime)) *trainer.ClusterTrainingRuntime {
	return with(&trainer.ClusterTrainingRuntime{
		TypeMeta: typeMeta(trainer.ClusterTrainingRuntimeKind), ObjectMeta: objectMeta("", name), Spec: spec,
	}, opts)
}

// TrainingRuntime makes a runtime of one namespace.
func TrainingRuntime(name string, spec trainer.TrainingRuntimeSpec, opts ...func(*trainer.TrainingRuntime)) *trainer.TrainingRuntime {
	return with(&trainer.TrainingRuntime{
		TypeMeta: typeMeta(trainer.TrainingRuntimeKind), ObjectMeta: objectMeta(Namespace, name), Spec: spec,
	}, opts)
}

// JobSetOption changes a JobSet under construction.
type JobSetOption = func(*jobset.JobSet)

// JobSetOf makes the JobSet of a job: owned by it, suspended like it, and without
// anything in its status.
func JobSetOf(job *trainer.TrainJob, opts ...JobSetOption) *jobset.JobSet {
	meta := objectMeta(job.Namespace, job.Name)
	meta.UID = "jobset-of-" + job.UID
	meta.Labels = map[string]string{trainer.LabelTrainJobName: job.Name}
	meta.OwnerReferences = []metav1.OwnerReference{
		*metav1.NewControllerRef(job, trainer.SchemeGroupVersion.WithKind(trainer.TrainJobKind)),
	}
	return with(&jobset.JobSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: jobset.GroupVersion.String(), Kind: "JobSet"},
		ObjectMeta: meta,
		Spec:       jobset.JobSetSpec{Suspend: ptr.To(ptr.Deref(job.Spec.Suspend, false))},
	}, opts)
}

// ToldToHoldBack sets the JobSet's own spec.suspend to true; its controller has not
// suspended its Jobs yet.
func ToldToHoldBack() JobSetOption {
	return func(js *jobset.JobSet) { js.Spec.Suspend = ptr.To(true) }
}

// HeldBack sets the JobSet's own spec.suspend, and the condition with which its
// controller says that it has suspended or resumed the Jobs.
func HeldBack(suspended bool) JobSetOption {
	return func(js *jobset.JobSet) {
		js.Spec.Suspend = &suspended
		status := metav1.ConditionFalse
		if suspended {
			status = metav1.ConditionTrue
		}
		js.Status.Conditions = append(js.Status.Conditions, metav1.Condition{
			Type: string(jobset.JobSetSuspended), Status: status, Reason: "Test", LastTransitionTime: metav1.NewTime(Epoch),
		})
	}
}

// Jobs sets the counters of the JobSet; NotStarted and its neighbours make them.
func Jobs(counters ...jobset.ReplicatedJobStatus) JobSetOption {
	return func(js *jobset.JobSet) { js.Status.ReplicatedJobsStatus = counters }
}

// NotStarted counts a replicatedJob whose Job has not been made.
func NotStarted(name string) jobset.ReplicatedJobStatus {
	return jobset.ReplicatedJobStatus{Name: name}
}

// Waiting counts a Job with pods that are not all ready.
func Waiting(name string) jobset.ReplicatedJobStatus {
	return jobset.ReplicatedJobStatus{Name: name, Active: 1}
}

// Ready counts a Job whose pods are all ready.
func Ready(name string) jobset.ReplicatedJobStatus {
	return jobset.ReplicatedJobStatus{Name: name, Active: 1, Ready: 1}
}

// Succeeded counts a Job that has completed.
func Succeeded(name string) jobset.ReplicatedJobStatus {
	return jobset.ReplicatedJobStatus{Name: name, Succeeded: 1}
}

// Ended gives the JobSet a condition: jobset.JobSetCompleted or jobset.JobSetFailed.
func Ended(how jobset.JobSetConditionType, reason, message string) JobSetOption {
	return func(js *jobset.JobSet) {
		js.Status.TerminalState = string(how)
		js.Status.Conditions = append(js.Status.Conditions, metav1.Condition{
			Type: string(how), Status: metav1.ConditionTrue, Reason: reason, Message: message,
			LastTransitionTime: metav1.NewTime(Epoch),
		})
	}
}

func with[T any](object *T, opts []func(*T)) *T {
	for _, opt := range opts {
		opt(object)
	}
	return object
}

func typeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: trainer.SchemeGroupVersion.String(), Kind: kind}
}

func objectMeta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID(name + "-uid"), Generation: 1,
		CreationTimestamp: metav1.NewTime(Epoch),
	}
}

func runtimeRef(kind, name string) trainer.RuntimeRef {
	return trainer.RuntimeRef{Name: name, APIGroup: ptr.To(trainer.GroupName), Kind: ptr.To(kind)}
}
