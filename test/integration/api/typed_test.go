package api

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
)

// handwritten is a job as people write it: each field that has more than one way of being
// written is in one that Go does not write.
const handwritten = `
metadata: {name: null, generateName: handwritten-}
spec:
  runtimeRef: {name: torch}
  trainer:
    image: ""
    command: []
    env:
    - {name: EMPTY, value: ""}
    - {name: SECRET, valueFrom: {secretKeyRef: {name: s, key: k, optional: false}}}
    - {name: CPUS, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}
    resourcesPerNode:
      limits: {cpu: "0.5", memory: 0.5Gi, nvidia.com/gpu: 1}
      requests: {cpu: 0.25, memory: 100000000}
      claims: []
  initializer:
    dataset: {storageUri: "hf://d", env: [{name: EMPTY, value: ""}], secretRef: {name: s}}
    model: {env: []}
  runtimePatches:
  - manager: example.com/m
    time: "2026-01-01T12:00:00.5+02:00"
    trainingRuntimeSpec:
      template:
        metadata: {labels: {}}
        spec:
          replicatedJobs:
          - name: node
            template:
              spec:
                template:
                  metadata: {labels: {a: b}, annotations: {}}
                  spec:
                    nodeSelector: {}
                    tolerations: [{key: a, operator: "", value: ""}]
                    volumes:
                    - {name: scratch, emptyDir: {sizeLimit: 0.5Gi}}
                    - {name: data, persistentVolumeClaim: {claimName: d, readOnly: false}}
                    containers:
                    - {name: node, env: [{name: EMPTY, value: ""}], volumeMounts: [{name: data, mountPath: /d, readOnly: false, subPath: ""}]}
`

// Kueue, and other programs in Go, read a whole job into Go types, change a field and
// write the whole back.
func TestAWholeJobWrittenBackFromGoTypesIsTheSameJob(t *testing.T) {
	t.Parallel()
	jobs := env.Trainer.TrainerV1alpha1().TrainJobs(namespace)
	for name, c := range map[string]struct {
		before string
		change func(*trainer.TrainJob)
	}{
		"with a label while running":     {`spec: {suspend: false}`, func(job *trainer.TrainJob) { job.Labels = map[string]string{"a": "b"} }},
		"with a finalizer while running": {`spec: {suspend: false}`, func(job *trainer.TrainJob) { job.Finalizers = []string{} }},
		"suspended":                      {`spec: {suspend: false}`, func(job *trainer.TrainJob) { job.Spec.Suspend = new(true) }},
		"resumed":                        {`spec: {suspend: true}`, func(job *trainer.TrainJob) { job.Spec.Suspend = new(false) }},
		"with another patch while suspended": {`spec: {suspend: true}`, func(job *trainer.TrainJob) {
			job.Spec.RuntimePatches = append(job.Spec.RuntimePatches, trainer.RuntimePatch{Manager: "kueue.x-k8s.io/manager"})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			created := create(t, trainJobs, handwritten, c.before)
			job, err := jobs.Get(t.Context(), created.GetName(), metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			c.change(job)
			for range 2 { // the second time it is as Go writes it already
				if job, err = jobs.Update(t.Context(), job, metav1.UpdateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			if got := job.Spec.Trainer.ResourcesPerNode.Limits.Cpu().String(); got != "500m" {
				t.Errorf("the job has %s CPUs, want 500m", got)
			}
		})
	}
}

func TestWhatGoTypesChangeIsStillRefused(t *testing.T) {
	t.Parallel()
	jobs := env.Trainer.TrainerV1alpha1().TrainJobs(namespace)
	created := create(t, trainJobs, handwritten, `spec: {suspend: true}`)
	job, err := jobs.Get(t.Context(), created.GetName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	job.Spec.Trainer.Env[0].Value = "no longer empty"
	_, err = jobs.Update(t.Context(), job, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
	wantRefused(t, err, "spec.trainer.env")
}

// What a rule may cost is limited when it is evaluated too: a job that was accepted must
// not be too large to be changed.
func TestLargeJobsCanBeChanged(t *testing.T) {
	t.Parallel()
	value := strings.Repeat("v", 3000)
	pod := `{nodeSelector: {zone: a}, tolerations: ` + list(8, "{key: k%d, operator: Exists}") + `, containers: [{name: node, env: ` + list(8, `{name: V%d, value: ""}`) + `}]}`
	jobs := list(50, `{name: j%d, template: {spec: {template: {metadata: {labels: {a: b}, annotations: {a: b}}, spec: `+pod+`}}}}`)
	created := create(t, trainJobs, baseJob, `metadata: {name: null, generateName: large-}`,
		`spec: {suspend: true, trainer: {command: `+list(128, value)+`, env: `+list(128, "{name: V%d, value: "+value+"}")+`}}`,
		`spec: {runtimePatches: `+list(8, `{manager: example.com/m%d, trainingRuntimeSpec: {template: {spec: {replicatedJobs: `+strings.ReplaceAll(jobs, "%d", "0")+`}}}}`)+`}`)
	client := env.Trainer.TrainerV1alpha1().TrainJobs(namespace)
	job, err := client.Get(t.Context(), created.GetName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, suspend := range []bool{false, false, true} {
		job.Spec.Suspend = &suspend
		job.Labels = map[string]string{"a": job.ResourceVersion}
		if job, err = client.Update(t.Context(), job, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}
