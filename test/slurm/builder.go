package main

import (
	"context"
	"crypto/sha256"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	batchlisters "k8s.io/client-go/listers/batch/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

type builder struct {
	dynamic   dynamic.Interface
	core      kubernetes.Interface
	trainJobs cache.GenericLister
	jobs      batchlisters.JobLister
}

// sync brings the Job of a TrainJob to what that wants, and the TrainJob's status to what
// the Job says.
func (b *builder) sync(ctx context.Context, key cache.ObjectName) error {
	object, err := b.trainJobs.ByNamespace(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		return nil // the Job goes with its owner
	}
	if err != nil {
		return err
	}
	trainJob := object.(*unstructured.Unstructured)
	if !ours(trainJob) || trainJob.GetDeletionTimestamp() != nil {
		return nil
	}
	job, err := b.jobs.Jobs(key.Namespace).Get(key.Name)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if err != nil || !metav1.IsControlledBy(job, trainJob) {
		job = nil
	}
	if finished(trainJob) {
		return b.stop(ctx, job)
	}
	if _, handedOver, _ := unstructured.NestedString(trainJob.Object, "status", "startTime"); !handedOver {
		return nil // not our turn yet
	}
	suspended, _, _ := unstructured.NestedBool(trainJob.Object, "spec", "suspend")
	switch {
	case job == nil && suspended:
	case job == nil:
		return b.build(ctx, trainJob)
	case ptr.Deref(job.Spec.Suspend, false) != suspended:
		return b.suspend(ctx, job, suspended)
	}
	return b.report(ctx, trainJob, job, suspended)
}

// ours says whether a TrainJob has a SlurmRuntime and is run in this cluster.
func ours(trainJob *unstructured.Unstructured) bool {
	group, _, _ := unstructured.NestedString(trainJob.Object, "spec", "runtimeRef", "apiGroup")
	kind, _, _ := unstructured.NestedString(trainJob.Object, "spec", "runtimeRef", "kind")
	manager, _, _ := unstructured.NestedString(trainJob.Object, "spec", "managedBy")
	return group == "slurm.example.com" && kind == "SlurmRuntime" && manager == "trainer.kubeflow.org/trainjob-controller"
}

// slurmRuntime is what this builder understands of a runtime.
type slurmRuntime struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		Image   string   `json:"image"`
		Command []string `json:"command"`
		Nodes   int32    `json:"nodes"`
	} `json:"spec"`
}

// frozen reads the runtime from the job's snapshot, and never from anywhere else.
func (b *builder) frozen(ctx context.Context, trainJob *unstructured.Unstructured) (*slurmRuntime, error) {
	ref, _, _ := unstructured.NestedStringMap(trainJob.Object, "status", "runtimeSnapshot")
	cm, err := b.core.CoreV1().ConfigMaps(trainJob.GetNamespace()).Get(ctx, ref["name"], metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	data := cm.Data["runtime"]
	if digest := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(data))); digest != ref["digest"] {
		return nil, fmt.Errorf("ConfigMap %s has digest %s, the job's status says %s", cm.Name, digest, ref["digest"])
	}
	runtime := &slurmRuntime{}
	return runtime, yaml.Unmarshal([]byte(data), runtime)
}

// build makes the Job.
func (b *builder) build(ctx context.Context, trainJob *unstructured.Unstructured) error {
	runtime, err := b.frozen(ctx, trainJob)
	if err != nil {
		return err
	}
	labels := map[string]string{labelTrainJob: trainJob.GetName()}
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name: trainJob.GetName(), Namespace: trainJob.GetNamespace(), Labels: labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(trainJob, trainJob.GroupVersionKind())},
		},
		Spec: batchv1.JobSpec{
			Parallelism: &runtime.Spec.Nodes, Completions: &runtime.Spec.Nodes,
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyNever,
					Containers:    []corev1.Container{{Name: "main", Image: runtime.Spec.Image, Command: runtime.Spec.Command}},
				},
			},
		},
	}
	_, err = b.core.BatchV1().Jobs(job.Namespace).Create(ctx, job, metav1.CreateOptions{})
	return err
}

func (b *builder) suspend(ctx context.Context, job *batchv1.Job, suspended bool) error {
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q},"spec":{"suspend":%t}}`, job.UID, suspended)
	_, err := b.core.BatchV1().Jobs(job.Namespace).Patch(ctx, job.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// stop deletes the Job of a TrainJob that has failed at its deadline.
func (b *builder) stop(ctx context.Context, job *batchv1.Job) error {
	if job == nil || job.DeletionTimestamp != nil || jobHas(job, batchv1.JobComplete) || jobHas(job, batchv1.JobFailed) {
		return nil
	}
	err := b.core.BatchV1().Jobs(job.Namespace).Delete(ctx, job.Name, metav1.DeleteOptions{
		Preconditions: metav1.NewUIDPreconditions(string(job.UID)), PropagationPolicy: ptr.To(metav1.DeletePropagationForeground),
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
