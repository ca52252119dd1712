package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	jobsetversioned "sigs.k8s.io/jobset/client-go/clientset/versioned"
	"sigs.k8s.io/yaml"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/generated/clientset/versioned"
	"github.com/trainjob/controller/pkg/runtimesnapshot"
)

// story tells the life of one TrainJob as it happens.
type story struct {
	namespace, name string
	jobs            versioned.Interface
	jobSets         jobsetversioned.Interface
	core            kubernetes.Interface

	begin time.Time
	told  map[string]bool
}

func newStory(config *rest.Config, example string) (*story, error) {
	raw, err := os.ReadFile(example)
	if err != nil {
		return nil, err
	}
	var job trainer.TrainJob
	if err := yaml.UnmarshalStrict(raw, &job); err != nil {
		return nil, fmt.Errorf("%s is not a TrainJob: %w", example, err)
	}
	s := &story{namespace: job.Namespace, name: job.Name, told: map[string]bool{}}
	if s.namespace == "" {
		s.namespace = metav1.NamespaceDefault
	}
	var errs [3]error
	s.jobs, errs[0] = versioned.NewForConfig(config)
	s.jobSets, errs[1] = jobsetversioned.NewForConfig(config)
	s.core, errs[2] = kubernetes.NewForConfig(config)
	return s, errors.Join(errs[:]...)
}

// clear removes the job of an earlier demo, and waits until its children are gone.
func (s *story) clear(ctx context.Context) error {
	err := s.jobs.TrainerV1alpha1().TrainJobs(s.namespace).Delete(ctx, s.name,
		metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationForeground)})
	for ; err == nil; err = s.pause(ctx) {
		if _, err := s.jobs.TrainerV1alpha1().TrainJobs(s.namespace).Get(ctx, s.name, metav1.GetOptions{}); err != nil {
			return ignoreNotFound(err)
		}
	}
	return ignoreNotFound(err)
}

// tell prints what happens until the job has finished. It is an error if the job
// fails or takes too long.
func (s *story) tell(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("the job has not finished after %v", timeout))
	defer cancel()
	s.begin = time.Now()
	for {
		job, err := s.look(ctx)
		switch {
		case err != nil && ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return err
		case job.Status.State == trainer.TrainJobComplete:
			return nil
		case job.Status.State == trainer.TrainJobFailed:
			return errors.New("the job failed")
		}
		if err := s.pause(ctx); err != nil {
			return context.Cause(ctx)
		}
	}
}

func (s *story) pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(50 * time.Millisecond):
		return nil
	}
}

// look reads everything that belongs to the job once. The job is read first and told
// last, so that what is told is in the order of cause and effect.
func (s *story) look(ctx context.Context) (*trainer.TrainJob, error) {
	job, err := s.jobs.TrainerV1alpha1().TrainJobs(s.namespace).Get(ctx, s.name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	cm, err := s.core.CoreV1().ConfigMaps(s.namespace).Get(ctx, runtimesnapshot.Name(s.name), metav1.GetOptions{})
	if err == nil {
		s.say("snapshot", "ConfigMap %s holds the runtime", cm.Name)
	} else if !apierrors.IsNotFound(err) {
		return nil, err
	}
	js, err := s.jobSets.JobsetV1alpha2().JobSets(s.namespace).Get(ctx, s.name, metav1.GetOptions{})
	if err == nil {
		s.say("JobSet", "%s created", js.Name)
	} else if !apierrors.IsNotFound(err) {
		return nil, err
	}
	pods, err := s.core.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{LabelSelector: jobset.JobSetNameKey + "=" + s.name})
	if err != nil {
		return nil, err
	}
	for i := range pods.Items {
		s.say("pod", "%s %s", pods.Items[i].Name, podState(&pods.Items[i]))
	}
	if job.Status.State != "" {
		s.say("TrainJob", "%s: %s (%s)", job.Status.State, job.Status.Reason, job.Status.Message)
	}
	return job, nil
}

func podState(pod *corev1.Pod) string {
	if pod.Status.Phase == corev1.PodPending && pod.Spec.NodeName != "" {
		return "scheduled on " + pod.Spec.NodeName
	}
	return string(pod.Status.Phase)
}

// say prints a line once.
func (s *story) say(what, format string, args ...any) {
	line := fmt.Sprintf("%-9s %s", what, fmt.Sprintf(format, args...))
	if s.told[line] {
		return
	}
	s.told[line] = true
	fmt.Printf("%7.2fs  %s\n", time.Since(s.begin).Seconds(), line)
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
