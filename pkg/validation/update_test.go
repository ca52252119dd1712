package validation

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/runtimesnapshot"
	"github.com/trainjob/controller/test/builders"
)

// unusable are snapshots of which no job can be built any more.
func unusable() map[string]*runtimesnapshot.Runtime {
	return map[string]*runtimesnapshot.Runtime{
		"no snapshot and no runtime":  nil,
		"a runtime without jobs":      torch(func(spec *trainer.TrainingRuntimeSpec) { spec.Template.Spec.ReplicatedJobs = nil }),
		"a runtime without a trainer": torch(func(spec *trainer.TrainingRuntimeSpec) { rjobOf(spec, "node").Template.Labels = nil }),
		"a runtime of two frameworks": torch(func(spec *trainer.TrainingRuntimeSpec) { spec.MLPolicy.JAX = &trainer.JAXMLPolicySource{} }),
		"a runtime that fits":         torch(),
	}
}

// faulty is a job in which everything is wrong that a job can be accepted with by the CRD
// alone.
const faulty = `
spec:
  trainer: {numProcPerNode: 2, env: [{name: PET_NNODES, value: "1"}, {name: A=B}], resourcesPerNode: {limits: {gpu: 1, cpu: 1}, requests: {cpu: 2}}}
  initializer: {model: {storageUri: "hf://m"}}
  runtimePatches:
  - manager: m
    trainingRuntimeSpec: {template: {spec: {replicatedJobs: [{name: nowhere}, {name: node, template: {spec: {template: {spec: {nodeSelector: {"a b": c}}}}}}]}}}
`

func TestNoJobIsLocked(t *testing.T) {
	deleted := func(job *trainer.TrainJob) { job.DeletionTimestamp = &metav1.Time{Time: now} }
	finished := builders.State(trainer.TrainJobComplete, "AllJobsCompleted", now)
	for name, c := range map[string]struct {
		before, after string
		both, change  builders.JobOption
	}{
		"suspended":                    {before: `spec: {suspend: false}`, after: `spec: {suspend: true}`},
		"resumed":                      {before: `spec: {suspend: true}`, after: `spec: {suspend: false}`},
		"resumed after it has run":     {before: `spec: {suspend: true}` + "\n" + started, after: `spec: {suspend: false}` + "\n" + started},
		"suspended for the first time": {before: `spec: {suspend: null}`, after: `spec: {suspend: true}`},
		"labelled":                     {change: func(job *trainer.TrainJob) { job.Labels = map[string]string{"a": "b"} }},
		"without its finalizer":        {both: deleted, change: func(job *trainer.TrainJob) { job.Finalizers = []string{} }},
		"changed while being deleted":  {both: deleted, change: func(job *trainer.TrainJob) { job.Spec.RuntimePatches = nil }},
		"with a new status":            {change: finished},
		"patched when it has finished": {both: finished, before: `spec: {suspend: true}`, after: `spec: {suspend: true}`,
			change: func(job *trainer.TrainJob) { job.Spec.RuntimePatches[0].Manager = "other" }},
		"without the time limits that an old client drops": {before: `spec: {ttlSecondsAfterFinished: 1, activeDeadlineSeconds: 1}`},
		"freed of its faulty patch":                        {before: `spec: {suspend: true}`, after: `spec: {suspend: true}`, change: func(job *trainer.TrainJob) { job.Spec.RuntimePatches = nil }},
		"with an innocent patch besides": {before: `spec: {suspend: true}`, after: `spec: {suspend: true}`, change: func(job *trainer.TrainJob) {
			job.Spec.RuntimePatches = append([]trainer.RuntimePatch{{Manager: "kueue.x-k8s.io/manager"}}, job.Spec.RuntimePatches...)
		}},
		"with only the time of a patch changed": {change: func(job *trainer.TrainJob) { job.Spec.RuntimePatches[0].Time = &metav1.Time{Time: now} }},
	} {
		for what, snapshot := range unusable() {
			t.Run("a faulty job on "+what+", "+name, func(t *testing.T) {
				old, job := jobOf(faulty, c.before), jobOf(faulty, c.after)
				for _, option := range []builders.JobOption{c.both} {
					if option != nil {
						option(old)
						option(job)
					}
				}
				if c.change != nil {
					c.change(job)
				}
				mustPass(t, "update", UpdateTrainJob(old, job, snapshot))
				mustPass(t, "update of an opaque runtime's job", OpaqueTrainJob(old, job))
				mustPass(t, "update of an unknown runtime's job", UnsupportedTrainJob(old, job, nil))
			})
		}
	}
}

func TestAnUpdateIsRefusedForTheFaultsThatItBrings(t *testing.T) {
	const suspended = `spec: {suspend: true}`
	patches := func(entries ...string) string { return `spec: {runtimePatches: [` + strings.Join(entries, ",") + `]}` }
	for name, c := range map[string]struct {
		before, after string
		layers        []string
		snapshot      *runtimesnapshot.Runtime
		want          []string
	}{
		"a fault that moves up in the list is an old one": {
			patches(entry("a", "node", `{}`), entry("b", "nowhere", `{}`)), patches(entry("b", "nowhere", `{}`)), []string{suspended}, torch(), nil},
		"another fault of the same entry": {
			patches(entry("b", "nowhere", `{}`)), patches(entry("b", "elsewhere", `{}`)), []string{suspended}, torch(),
			[]string{"runtimePatches[0]", `"elsewhere"`}},
		"a volume is taken away that another manager mounts": {
			patches(entry("a", "node", `{volumes: [{name: v, emptyDir: {}}]}`), entry("b", "node", `{containers: [{name: node, volumeMounts: [{name: v, mountPath: /v}]}]}`)),
			patches(entry("b", "node", `{containers: [{name: node, volumeMounts: [{name: v, mountPath: /v}]}]}`)), []string{suspended}, torch(),
			[]string{"spec.runtimePatches[0]", "volumeMounts[0].name", `"v"`}},
		"without a snapshot and a runtime, what needs neither": {
			patches(entry("a", "node", `{}`)), patches(entry("a", "node", `{nodeSelector: {"a b": c}}`)), []string{suspended}, nil,
			[]string{"nodeSelector", "a b"}},
		"a field of a patch after the start, in the update that suspends": {
			patches(entry("a", "node", `{serviceAccountName: a}`)) + "\nstatus: {jobsStatus: [{name: node}]}", patches(entry("a", "node", `{serviceAccountName: b}`)), []string{`spec: {suspend: true}`}, torch(),
			[]string{"replicatedJobs[node].serviceAccountName cannot be changed any more"}},
		"a field of a patch before the start": {
			patches(entry("a", "node", `{serviceAccountName: a}`)), patches(entry("a", "node", `{serviceAccountName: b}`)), []string{suspended}, torch(), nil},
		"an image":                     {`spec: {trainer: {image: a, numNodes: 1}}`, `spec: {trainer: {image: b, numNodes: 1}}`, nil, torch(), []string{"spec.trainer.image", `cannot become "b"`}},
		"a long command":               {`spec: {trainer: {}}`, `spec: {trainer: {command: [` + strings.Repeat("c", 90) + `, d, e]}}`, nil, torch(), []string{`cannot become ["ccc`, `…: create the job anew`}},
		"a trainer that was not there": {`spec: {}`, `spec: {trainer: {}}`, nil, torch(), []string{"spec.trainer:"}},
		"a Secret":                     {`spec: {initializer: {dataset: {secretRef: {name: a}}}}`, `spec: {initializer: {dataset: {secretRef: {name: b}}}}`, nil, torch(), []string{"spec.initializer.dataset.secretRef"}},
		"a dataset that was not there": {`spec: {initializer: {}}`, `spec: {initializer: {dataset: {}}}`, nil, torch(), []string{"spec.initializer.dataset:"}},
		"an initializer taken away":    {`spec: {initializer: {model: {}}}`, `spec: {}`, nil, torch(), []string{"spec.initializer:", "cannot be removed"}},
		"a time limit other than the recorded one": {
			`status: {lifecycle: {ttlSecondsAfterFinished: 60}}`, `spec: {ttlSecondsAfterFinished: 61}`, nil, torch(), []string{"spec.ttlSecondsAfterFinished", "61", "with 60"}},
	} {
		t.Run(name, func(t *testing.T) {
			review := UpdateTrainJob(jobOf(append(c.layers, c.before)...), jobOf(append(c.layers, c.after)...), c.snapshot)
			if len(c.want) == 0 {
				mustPass(t, "update", review)
				return
			}
			if len(review.Errors) != 1 {
				t.Fatalf("%d errors, want 1: %q", len(review.Errors), texts(review))
			}
			for _, want := range c.want {
				if text := review.Errors[0].Error(); !strings.Contains(text, want) {
					t.Errorf("%s\ndoes not say %s", text, want)
				}
			}
		})
	}
}

// The steps in which Kueue admits a job, evicts it and admits it again.
func TestKueuesUpdatesPass(t *testing.T) {
	const manager = "kueue.x-k8s.io/manager"
	empty := `spec: {runtimePatches: [{manager: ` + manager + `, trainingRuntimeSpec: {template: {spec: {}}}}]}`
	assigned := `spec: {runtimePatches: [{manager: ` + manager + `, trainingRuntimeSpec: {template: {spec: {replicatedJobs: [{name: node, template: {spec: {template: {
		metadata: {labels: {kueue.x-k8s.io/podset: node}, annotations: {kueue.x-k8s.io/workload: w}},
		spec: {nodeSelector: {zone: a}, tolerations: [{key: spot, operator: Exists}], schedulingGates: [{name: kueue.x-k8s.io/topology}]}}}}}]}}}}]}`
	steps := []string{
		`spec: {suspend: true}` + "\n---\n" + empty,
		`spec: {suspend: true}` + "\n---\n" + assigned,
		`spec: {suspend: false}` + "\n---\n" + assigned,
		`spec: {suspend: true}` + "\n---\n" + assigned,
		`spec: {suspend: true}` + "\n---\n" + empty,
		`spec: {suspend: true}` + "\n---\n" + assigned,
		`spec: {suspend: false}` + "\n---\n" + assigned,
	}
	before := jobOf(strings.Split(steps[0], "\n---\n")...)
	mustPass(t, "create", CreateTrainJob(before, torch()))
	for i, step := range steps[1:] {
		after := jobOf(append(strings.Split(step, "\n---\n"), started)...)
		mustPass(t, "step "+step, UpdateTrainJob(before, after, torch()))
		if i >= 1 {
			before = after
			continue
		}
		before = jobOf(strings.Split(step, "\n---\n")...) // has not started yet
	}
}
