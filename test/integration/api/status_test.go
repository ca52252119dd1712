package api

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
)

const (
	condition = `{type: T%d, status: "True", reason: R, message: m, lastTransitionTime: "2026-01-01T00:00:00Z"}`
	jobCounts = `{name: j%d, ready: 0, succeeded: 0, failed: 0, active: 0, suspended: 0}`
)

var statusRules = map[string]rule{
	"a state is one of five": {
		`status: {state: Pending}`, `status: {state: Starting}`, "status.state"},
	"a state is written as in the conditions": {
		`status: {state: Complete}`, `status: {state: complete}`, "status.state"},
	"a condition's type is there once": {
		`status: {conditions: ` + list(2, condition) + `}`,
		`status: {conditions: [{type: A, status: "True", reason: R, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}, {type: A, status: "False", reason: R, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}]}`,
		"status.conditions[1]"},
	"conditions are at most 32": {
		`status: {conditions: ` + list(32, condition) + `}`, `status: {conditions: ` + list(33, condition) + `}`, "status.conditions"},
	"zeros are counts, and must be written": {
		`status: {jobsStatus: ` + list(1, jobCounts) + `}`, `status: {jobsStatus: [{name: a, ready: 0, succeeded: 0, failed: 0, active: 0}]}`, "status.jobsStatus[0].suspended"},
	"a job is counted once": {
		`status: {jobsStatus: ` + list(2, jobCounts) + `}`, `status: {jobsStatus: ` + list(2, `{name: a, ready: 0, succeeded: 0, failed: 0, active: 0, suspended: 0}`) + `}`, "status.jobsStatus[1]"},
	"progress is a percentage": {
		`status: {trainerStatus: {progressPercentage: 100, lastUpdatedTime: "2026-01-01T00:00:00Z"}}`,
		`status: {trainerStatus: {progressPercentage: 101, lastUpdatedTime: "2026-01-01T00:00:00Z"}}`, "status.trainerStatus.progressPercentage"},
	"progress has a time": {
		`status: {trainerStatus: {lastUpdatedTime: "2026-01-01T00:00:00Z"}}`, `status: {trainerStatus: {progressPercentage: 1}}`, "lastUpdatedTime"},
	"metrics are at most 256": {
		`status: {trainerStatus: {lastUpdatedTime: "2026-01-01T00:00:00Z", metrics: ` + list(256, `{name: m%d, value: "1"}`) + `}}`,
		`status: {trainerStatus: {lastUpdatedTime: "2026-01-01T00:00:00Z", metrics: ` + list(257, `{name: m%d, value: "1"}`) + `}}`, "status.trainerStatus.metrics"},
	"a snapshot has a digest": {
		`status: {runtimeSnapshot: {name: a, digest: "sha256:0"}}`, `status: {runtimeSnapshot: {name: a}}`, "status.runtimeSnapshot.digest"},
}

func TestStatusBeyondALimitIsRefused(t *testing.T) {
	t.Parallel()
	for name, rule := range statusRules {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job := create(t, trainJobs, baseJob, "metadata: {name: null, generateName: status-}").GetName()
			if err := rehearsePatch(t, trainJobs, job, rule.within, "status"); err != nil {
				t.Errorf("within the limit: %v", err)
			}
			wantRefused(t, rehearsePatch(t, trainJobs, job, rule.beyond, "status"), rule.names)
		})
	}
}

// fullJob has every field of a spec.
const fullJob = `
spec:
  suspend: false
  ttlSecondsAfterFinished: 0
  activeDeadlineSeconds: 10
  initializer: {dataset: {storageUri: "hf://d", env: [{name: A, value: ""}], secretRef: {name: s}}, model: {storageUri: "hf://m"}}
  trainer:
    image: i
    command: [c]
    args: [a]
    env: [{name: A, value: ""}, {name: B, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
    numNodes: 2
    numProcPerNode: 3
    resourcesPerNode: {limits: {cpu: "0.5", memory: 1024Mi, nvidia.com/gpu: 1}}
`

const (
	finished = `status: {state: Complete, completionTime: "2026-01-01T00:00:00Z", conditions: [
		{type: Complete, status: "True", reason: R, message: m, lastTransitionTime: "2026-01-01T00:00:00Z"}]}`
	recorded = `status: {lifecycle: {ttlSecondsAfterFinished: 5, activeDeadlineSeconds: 9}}`
)

// A job whose own validation refused a change of something else could neither be
// labelled nor freed from a finalizer, and so never be deleted.
func TestNoTrainJobIsLockedByItsOwnRules(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		layers []string
		status []string
	}{
		"the shortest":                          {},
		"with every field":                      {layers: []string{fullJob, atPod(heldPod)}},
		"with every field, suspended":           {layers: []string{fullJob, atPod(heldPod), `spec: {suspend: true}`}},
		"with every field, finished":            {layers: []string{fullJob, atPod(heldPod)}, status: []string{finished}},
		"with an empty patch":                   {layers: []string{`spec: {runtimePatches: [{manager: example.com/m}]}`}},
		"with limits other than those recorded": {layers: []string{fullJob}, status: []string{recorded, finished}},
		"with limits recorded and dropped":      {status: []string{recorded}},
		"of another controller":                 {layers: []string{`spec: {managedBy: kueue.x-k8s.io/multikueue}`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job := create(t, trainJobs, append([]string{baseJob, "metadata: {name: null, generateName: free-, finalizers: [example.com/hold]}"}, c.layers...)...).GetName()
			for _, status := range c.status {
				patch(t, trainJobs, job, status, "status")
			}
			patch(t, trainJobs, job, `metadata: {labels: {a: b}, annotations: {c: d}}`)
			patch(t, trainJobs, job, `status: {nodes: 3, jobsStatus: `+list(1, jobCounts)+`}`, "status")
			whole, err := client(trainJobs).Get(t.Context(), job, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := client(trainJobs).Update(t.Context(), whole, metav1.UpdateOptions{}); err != nil {
				t.Errorf("a whole update without a change: %v", err)
			}
			if err := client(trainJobs).Delete(t.Context(), job, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			patch(t, trainJobs, job, `status: {nodes: 4}`, "status")
			patch(t, trainJobs, job, `metadata: {finalizers: null}`)
		})
	}
}

// Clients written in Go, Kueue among them, read a job into structs and write it back
// whole.
func TestAGoClientMayWriteBackWhatItRead(t *testing.T) {
	t.Parallel()
	job := builders.TrainJob("typed", builders.Suspended(true), builders.TTL(5), builders.Deadline(6), builders.Trainer(trainer.Trainer{
		Env: []corev1.EnvVar{{Name: "A"}, {Name: "B", Value: "b"}},
		ResourcesPerNode: &corev1.ResourceRequirements{Limits: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("0.5"), corev1.ResourceMemory: resource.MustParse("1024Mi"), "nvidia.com/gpu": resource.MustParse("1"),
		}},
	}), builders.Patches(trainer.RuntimePatch{Manager: "example.com/m"}, trainer.RuntimePatch{
		Manager: "example.com/n", TrainingRuntimeSpec: &trainer.TrainingRuntimeSpecPatch{Template: &trainer.JobSetTemplatePatch{
			Metadata: &metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}, Spec: &trainer.JobSetSpecPatch{},
		}},
	}))
	env.Create(t, job)
	jobs := env.Trainer.TrainerV1alpha1().TrainJobs(namespace)
	for _, change := range []func(*trainer.TrainJob){
		func(*trainer.TrainJob) {},
		func(job *trainer.TrainJob) { *job.Spec.Suspend = false },
		func(job *trainer.TrainJob) { job.Labels = map[string]string{"a": "b"} },
		func(job *trainer.TrainJob) {
			job.Spec.TTLSecondsAfterFinished, job.Spec.ActiveDeadlineSeconds = nil, nil
		},
		func(job *trainer.TrainJob) { *job.Spec.Suspend = true },
		func(job *trainer.TrainJob) { job.Spec.RuntimePatches = nil },
	} {
		read := env.Job(t, namespace, job.Name)
		change(read)
		if _, err := jobs.Update(t.Context(), read, metav1.UpdateOptions{}); err != nil {
			t.Error(err)
		}
	}
}
