package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/runtimesnapshot"
)

// children checks that every job of a namespace has exactly its JobSet and its snapshot,
// that they are its own and say what they must, and that nothing else is there. It reads
// the API server, not what was watched.
func (a *arena) children(ctx context.Context, namespace string, jobs []*trainer.TrainJob, snapshots bool) error {
	live, err := a.trainer.TrainerV1alpha1().TrainJobs(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if len(live.Items) != len(jobs) {
		return fmt.Errorf("%d TrainJobs exist, %d were created", len(live.Items), len(jobs))
	}
	jobSets, err := a.jobSet.JobsetV1alpha2().JobSets(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	configs, err := a.core.CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	byName := map[string]*jobset.JobSet{}
	for i := range jobSets.Items {
		byName[jobSets.Items[i].Name] = &jobSets.Items[i]
	}
	snapshotOf := map[string]*corev1.ConfigMap{}
	for i := range configs.Items {
		snapshotOf[configs.Items[i].Name] = &configs.Items[i]
	}
	var errs []error
	for i := range live.Items {
		job := &live.Items[i]
		errs = append(errs, rightJobSet(job, byName[job.Name]))
		if snapshots {
			errs = append(errs, rightSnapshot(job, snapshotOf[runtimesnapshot.Name(job.Name)]))
		}
		delete(byName, job.Name)
	}
	if len(byName) > 0 {
		errs = append(errs, fmt.Errorf("JobSets without a TrainJob: %v", slices.Sorted(maps.Keys(byName))))
	}
	return errors.Join(append(errs, a.seen.faults(), a.play.trouble())...)
}

// rightJobSet says what is wrong with a job's JobSet.
func rightJobSet(job *trainer.TrainJob, js *jobset.JobSet) error {
	if js == nil {
		return fmt.Errorf("TrainJob %s has no JobSet", job.Name)
	}
	if !metav1.IsControlledBy(js, job) {
		return fmt.Errorf("JobSet %s does not belong to its TrainJob", js.Name)
	}
	i := slices.IndexFunc(js.Spec.ReplicatedJobs, func(r jobset.ReplicatedJob) bool { return r.Name == "node" })
	if i < 0 {
		return fmt.Errorf("JobSet %s has no job %q", js.Name, "node")
	}
	spec := js.Spec.ReplicatedJobs[i].Template.Spec
	if ptr.Deref(spec.Parallelism, 0) != jobNodes || ptr.Deref(spec.Completions, 0) != jobNodes {
		return fmt.Errorf("JobSet %s has not the %d nodes of its TrainJob", js.Name, jobNodes)
	}
	node := spec.Template.Spec.Containers[0]
	if node.Image != jobImage || !slices.Equal(node.Args, job.Spec.Trainer.Args) {
		return fmt.Errorf("JobSet %s runs %s %v", js.Name, node.Image, node.Args)
	}
	for name, value := range map[string]string{
		"PET_NNODES": strconv.Itoa(jobNodes), "LEARNING_RATE": "0.0003", "NCCL_DEBUG": "WARN",
	} {
		if !slices.Contains(node.Env, corev1.EnvVar{Name: name, Value: value}) {
			return fmt.Errorf("JobSet %s lacks %s=%s", js.Name, name, value)
		}
	}
	return nil
}

// rightSnapshot says what is wrong with a job's snapshot.
func rightSnapshot(job *trainer.TrainJob, cm *corev1.ConfigMap) error {
	if cm == nil {
		return fmt.Errorf("TrainJob %s has no snapshot", job.Name)
	}
	if !metav1.IsControlledBy(cm, job) {
		return fmt.Errorf("ConfigMap %s does not belong to its TrainJob", cm.Name)
	}
	frozen, err := runtimesnapshot.Decode(cm)
	if err == nil && frozen.Metadata.Name != job.Spec.RuntimeRef.Name {
		err = fmt.Errorf("ConfigMap %s holds runtime %s", cm.Name, frozen.Metadata.Name)
	}
	return err
}

// endedAs checks that every job of a namespace is there and has ended for a reason.
func (a *arena) endedAs(ctx context.Context, namespace string, n int, reason string) error {
	live, err := a.trainer.TrainerV1alpha1().TrainJobs(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if len(live.Items) != n {
		return fmt.Errorf("%d TrainJobs exist, %d were created", len(live.Items), n)
	}
	for i := range live.Items {
		job := &live.Items[i]
		if !slices.ContainsFunc(job.Status.Conditions, func(c metav1.Condition) bool {
			return c.Type == string(trainer.TrainJobFailed) && c.Status == metav1.ConditionTrue && c.Reason == reason
		}) {
			return fmt.Errorf("TrainJob %s has not failed for %s: %+v", job.Name, reason, job.Status.Conditions)
		}
	}
	return errors.Join(a.seen.faults(), a.play.trouble())
}

// empties checks that nothing is left in a namespace.
func (a *arena) empties(ctx context.Context, namespace string) error {
	jobs, err := a.trainer.TrainerV1alpha1().TrainJobs(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	jobSets, err := a.jobSet.JobsetV1alpha2().JobSets(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if len(jobs.Items)+len(jobSets.Items) > 0 {
		return fmt.Errorf("%d TrainJobs and %d JobSets are left", len(jobs.Items), len(jobSets.Items))
	}
	return errors.Join(a.seen.faults(), a.play.trouble())
}
