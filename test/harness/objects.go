package harness

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
)

// Soon is how long anything may take that only needs the machine to get round to it.
const Soon = 20 * time.Second

// RuntimeName is the name of the runtime that NewRuntime makes and NewJob uses.
const RuntimeName = "torch"

// Merge patches of spec.suspend.
const (
	Suspend = `{"spec":{"suspend":true}}`
	Resume  = `{"spec":{"suspend":false}}`
)

// NewRuntime makes a TrainingRuntime in a namespace.
func (e *Env) NewRuntime(t *testing.T, namespace string, spec trainer.TrainingRuntimeSpec) *trainer.TrainingRuntime {
	t.Helper()
	runtime := builders.TrainingRuntime(RuntimeName, spec)
	runtime.Namespace = namespace
	created, err := e.Trainer.TrainerV1alpha1().TrainingRuntimes(namespace).Create(t.Context(), runtime, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created
}

// NewJob makes a job of that runtime.
func (e *Env) NewJob(t *testing.T, namespace, name string, opts ...builders.JobOption) *trainer.TrainJob {
	t.Helper()
	opts = append([]builders.JobOption{builders.Runtime(trainer.TrainingRuntimeKind, RuntimeName)}, opts...)
	job := builders.TrainJob(name, opts...)
	job.Namespace = namespace
	return e.Create(t, job)
}

// PatchJob changes a job by a JSON merge patch.
func (e *Env) PatchJob(t *testing.T, namespace, name, patch string) *trainer.TrainJob {
	t.Helper()
	job, err := e.Trainer.TrainerV1alpha1().TrainJobs(namespace).Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return job
}

// DeleteJob deletes a job, in the background.
func (e *Env) DeleteJob(t *testing.T, namespace, name string) {
	t.Helper()
	if err := e.Trainer.TrainerV1alpha1().TrainJobs(namespace).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// SnapshotOf is the ConfigMap with the name of a job's snapshot, nil if there is none.
func (e *Env) SnapshotOf(t *testing.T, namespace, job string) *corev1.ConfigMap {
	t.Helper()
	cm, err := e.Core.CoreV1().ConfigMaps(namespace).Get(t.Context(), job+"-runtime-snapshot", metav1.GetOptions{})
	return found(t, cm, err)
}

// JobSetOf is the JobSet with the name of a job, nil if there is none.
func (e *Env) JobSetOf(t *testing.T, namespace, job string) *jobset.JobSet {
	t.Helper()
	js, err := e.JobSet.JobsetV1alpha2().JobSets(namespace).Get(t.Context(), job, metav1.GetOptions{})
	return found(t, js, err)
}

func found[T any](t *testing.T, object *T, err error) *T {
	t.Helper()
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return object
}

// AwaitSnapshot waits until a job has a snapshot of its own.
func (e *Env) AwaitSnapshot(t *testing.T, job *trainer.TrainJob) *corev1.ConfigMap {
	t.Helper()
	var cm *corev1.ConfigMap
	Eventually(t, Soon, func() string {
		if cm = e.SnapshotOf(t, job.Namespace, job.Name); cm == nil {
			return "job " + job.Name + " has no snapshot"
		}
		return ownedBy(cm, job)
	})
	return cm
}

// AwaitJobSet waits until a job has a JobSet of its own that is suspended or not.
func (e *Env) AwaitJobSet(t *testing.T, job *trainer.TrainJob, suspended bool) *jobset.JobSet {
	t.Helper()
	var js *jobset.JobSet
	Eventually(t, Soon, func() string {
		if js = e.JobSetOf(t, job.Namespace, job.Name); js == nil {
			return "job " + job.Name + " has no JobSet"
		}
		if is := ptr.Deref(js.Spec.Suspend, false); is != suspended {
			return fmt.Sprintf("suspend of JobSet %s is %v, want %v", js.Name, is, suspended)
		}
		return ownedBy(js, job)
	})
	return js
}

func ownedBy(object metav1.Object, job *trainer.TrainJob) string {
	if metav1.IsControlledBy(object, job) {
		return ""
	}
	return fmt.Sprintf("%s does not belong to job %s (%s) but to %v", object.GetName(), job.Name, job.UID, object.GetOwnerReferences())
}

// AwaitGone waits until a job and what the controller made for it are gone.
func (e *Env) AwaitGone(t *testing.T, namespace, name string) {
	t.Helper()
	Eventually(t, Soon, func() string {
		_, err := e.Trainer.TrainerV1alpha1().TrainJobs(namespace).Get(t.Context(), name, metav1.GetOptions{})
		switch {
		case !apierrors.IsNotFound(err):
			return "the TrainJob is still there"
		case e.SnapshotOf(t, namespace, name) != nil:
			return "the snapshot is still there"
		case e.JobSetOf(t, namespace, name) != nil:
			return "the JobSet is still there"
		}
		return ""
	})
}

// DeleteNamespace deletes a namespace and waits until nothing is left of it.
func (e *Env) DeleteNamespace(t *testing.T, namespace string) {
	t.Helper()
	namespaces := e.Core.CoreV1().Namespaces()
	if err := namespaces.Delete(t.Context(), namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	Eventually(t, 2*Soon, func() string {
		left, err := namespaces.Get(t.Context(), namespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return ""
		}
		if err != nil {
			return err.Error()
		}
		return fmt.Sprintf("the namespace is still there: %+v", left.Status)
	})
}

// AwaitEvent waits until an event, written "Type/Reason", tells of a job. Events are sent
// one after the other and not too fast, so that behind a burst of jobs one may come late.
func (e *Env) AwaitEvent(t *testing.T, namespace, job, event string) {
	t.Helper()
	Eventually(t, 2*time.Minute, func() string {
		list, err := e.Core.CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + job})
		if err != nil {
			return err.Error()
		}
		var all []string
		for _, item := range list.Items {
			all = append(all, item.Type+"/"+item.Reason)
		}
		if told := strings.Join(all, " "); !strings.Contains(told, event) {
			return fmt.Sprintf("no event %s of job %s, only %s", event, job, told)
		}
		return ""
	})
}
