package api

import (
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
      requests: {cpu: "0.25", memory: 100000000}
      claims: []
  initializer:
    dataset: {storageUri: /d, env: [{name: EMPTY, value: ""}], secretRef: {name: s}}
    model: {env: []}
  runtimePatches:
  - manager: m
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
