package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
)

// runtimeNames are the runtimes that jobs refer to in turn: a cluster has a few.
var runtimeNames = []string{"bench-a", "bench-b", "bench-c"}

const (
	jobNodes = 2
	jobImage = "registry.example.com/team/training:2026.11"
)

// runtimeOf is a runtime of the size that people write.
func runtimeOf(name string) *trainer.ClusterTrainingRuntime {
	spec := builders.TorchSpec()
	template := &spec.Template.Spec.ReplicatedJobs[0].Template
	template.Spec.BackoffLimit = ptr.To[int32](3)
	pod := &template.Spec.Template
	pod.Labels = map[string]string{"app.kubernetes.io/part-of": "training", "team": name}
	pod.Annotations = map[string]string{"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
	pod.Spec.PriorityClassName = "batch-training"
	pod.Spec.NodeSelector = map[string]string{"accelerator": "h200"}
	pod.Spec.Tolerations = []corev1.Toleration{{Key: "nvidia.com/gpu", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}}
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "shm", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: ptr.To(resource.MustParse("32Gi"))}}},
		{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "datasets", ReadOnly: true}}},
	}
	node := &pod.Spec.Containers[0]
	node.Env = []corev1.EnvVar{
		{Name: "NCCL_DEBUG", Value: "WARN"}, {Name: "NCCL_IB_DISABLE", Value: "0"}, {Name: "HF_HOME", Value: "/data/huggingface"},
		{Name: "POD_IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}},
	}
	node.VolumeMounts = []corev1.VolumeMount{{Name: "shm", MountPath: "/dev/shm"}, {Name: "data", MountPath: "/data", ReadOnly: true}}
	node.Resources = corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("64Gi"),
	}}
	return builders.ClusterTrainingRuntime(name, spec)
}

func (a *arena) makeRuntimes(ctx context.Context) error {
	for _, name := range runtimeNames {
		_, err := a.trainer.TrainerV1alpha1().ClusterTrainingRuntimes().Create(ctx, runtimeOf(name), metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("create runtime %s: %w", name, err)
		}
	}
	return nil
}

// jobOf is the i-th TrainJob of a namespace, as a user would apply it.
func jobOf(namespace, prefix string, i int) *trainer.TrainJob {
	job := &trainer.TrainJob{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: fmt.Sprintf("%s-%05d", prefix, i),
			Labels:      map[string]string{"team": "vision", "experiment": fmt.Sprintf("sweep-%03d", i/100)},
			Annotations: map[string]string{},
		},
		Spec: trainer.TrainJobSpec{
			RuntimeRef: trainer.RuntimeRef{Name: runtimeNames[i%len(runtimeNames)]},
			Trainer: &trainer.Trainer{
				Image: ptr.To(jobImage), Command: []string{"torchrun", "train.py"},
				Args:     []string{"--epochs=10", "--batch-size=256", fmt.Sprintf("--seed=%d", i)},
				Env:      []corev1.EnvVar{{Name: "WANDB_MODE", Value: "offline"}, {Name: "LEARNING_RATE", Value: "0.0003"}},
				NumNodes: ptr.To[int32](jobNodes),
				ResourcesPerNode: &corev1.ResourceRequirements{Limits: corev1.ResourceList{
					"nvidia.com/gpu": resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("512Gi"),
				}},
			},
		},
	}
	// What kubectl apply leaves on an object is as long as the object.
	job.Annotations[corev1.LastAppliedConfigAnnotation] = fmt.Sprintf(
		`{"apiVersion":"trainer.kubeflow.org/v1alpha1","kind":"TrainJob","metadata":{"annotations":{},"labels":{"experiment":"sweep-%03d","team":"vision"},"name":%q,"namespace":%q},"spec":{"runtimeRef":{"name":%q},"trainer":{"args":["--epochs=10","--batch-size=256","--seed=%d"],"command":["torchrun","train.py"],"image":%q,"numNodes":%d,"resourcesPerNode":{"limits":{"memory":"512Gi","nvidia.com/gpu":"8"}}}}}`,
		i/100, job.Name, namespace, job.Spec.RuntimeRef.Name, i, jobImage, jobNodes)
	return job
}

// jobsOf are the first n.
func jobsOf(namespace, prefix string, n int) []*trainer.TrainJob {
	jobs := make([]*trainer.TrainJob, n)
	for i := range jobs {
		jobs[i] = jobOf(namespace, prefix, i)
	}
	return jobs
}

// create creates jobs with all clients at once and hands each to `then`, which may be
// nil. The observer learns when each was begun.
func (a *arena) create(ctx context.Context, jobs []*trainer.TrainJob, then func(*trainer.TrainJob)) error {
	return a.each(ctx, len(jobs), func(ctx context.Context, i int) error { return a.createOne(ctx, jobs[i], then) })
}

func (a *arena) createOne(ctx context.Context, job *trainer.TrainJob, then func(*trainer.TrainJob)) error {
	a.seen.creating(job)
	created, err := a.trainer.TrainerV1alpha1().TrainJobs(job.Namespace).Create(ctx, job, metav1.CreateOptions{})
	if err == nil && then != nil {
		then(created)
	}
	return err
}

// each does n pieces of work with all clients at once, in order. It stops at the first
// error.
func (a *arena) each(ctx context.Context, n int, work func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int)
	var busy sync.WaitGroup
	for range a.bench.options.clients {
		busy.Go(func() {
			for i := range next {
				if err := work(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	for i := 0; i < n && ctx.Err() == nil; i++ {
		next <- i
	}
	close(next)
	busy.Wait()
	return context.Cause(ctx)
}

func never() bool { return false }

// paced begins work at a fixed rate, in order, for a time or until it is enough, and does
// not wait for it: who is slow does not slow down what comes. It returns when all has
// ended, and counts how much was begun.
func paced(ctx context.Context, rate float64, during time.Duration, enough func() bool, work func(ctx context.Context, i int) error, begun *int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var busy sync.WaitGroup
	begin := time.Now()
	for i := range int(rate * during.Seconds()) {
		if enough() {
			break
		}
		due := begin.Add(time.Duration(float64(i) / rate * float64(time.Second)))
		if sleep(ctx, time.Until(due)) != nil {
			break
		}
		*begun = i + 1
		busy.Go(func() {
			if err := work(ctx, i); err != nil {
				cancel(err)
			}
		})
	}
	busy.Wait()
	return context.Cause(ctx)
}
