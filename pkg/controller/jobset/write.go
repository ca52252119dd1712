package jobset

import (
	"context"
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	batchclient "k8s.io/client-go/kubernetes/typed/batch/v1"
	"k8s.io/utils/ptr"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	jobsetclient "sigs.k8s.io/jobset/client-go/clientset/versioned/typed/jobset/v1alpha2"

	"github.com/trainjob/controller/pkg/operations"
	"github.com/trainjob/controller/pkg/render"
	"github.com/trainjob/controller/pkg/trainjob"
)

// jobSetWriter makes the API calls on JobSets and their child Jobs.
type jobSetWriter struct {
	jobSets jobsetclient.JobSetsGetter
	jobs    batchclient.JobsGetter
}

// get reads a JobSet live.
func (w jobSetWriter) get(ctx context.Context, namespace, name string) (*jobset.JobSet, error) {
	return w.jobSets.JobSets(namespace).Get(ctx, name, metav1.GetOptions{})
}

func (w jobSetWriter) create(ctx context.Context, js *jobset.JobSet) (*jobset.JobSet, error) {
	return w.jobSets.JobSets(js.Namespace).Create(ctx, js, metav1.CreateOptions{})
}

// deleteUnended deletes the JobSet of a job that was failed for its deadline, unless it
// has ended: then its pods and their logs are what the user wants to see. Which of the two
// is read live, and the deletion fails with a conflict should it end in between.
func (w jobSetWriter) deleteUnended(ctx context.Context, cached *jobset.JobSet) error {
	live, err := w.get(ctx, cached.Namespace, cached.Name)
	if err == nil && live.UID == cached.UID && live.DeletionTimestamp.IsZero() && trainjob.JobSetEnd(live) == nil {
		err = operations.DeleteJobSet(ctx, w.jobSets, live)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete JobSet: %w", err)
	}
	return nil
}

// suspend fails with a conflict if anything has changed since the JobSet was read. Sent by
// a leader that was replaced before it arrived, it would else end the pods of a job that
// has been resumed since.
func (w jobSetWriter) suspend(ctx context.Context, js *jobset.JobSet) (*jobset.JobSet, error) {
	return w.patch(ctx, js, `{"metadata":{"uid":%q,"resourceVersion":%q},"spec":{"suspend":true}}`, js.UID, js.ResourceVersion)
}

// resume fails with a conflict if anything has changed since the JobSet was read.
func (w jobSetWriter) resume(ctx context.Context, js *jobset.JobSet) (*jobset.JobSet, error) {
	return w.patch(ctx, js, `{"metadata":{"uid":%q,"resourceVersion":%q},"spec":{"suspend":false}}`, js.UID, js.ResourceVersion)
}

// remade takes the note off that child Jobs have to be made anew, unless anything has
// changed since it was read: the note may be a newer one.
func (w jobSetWriter) remade(ctx context.Context, js *jobset.JobSet) (*jobset.JobSet, error) {
	return w.patch(ctx, js, `{"metadata":{"uid":%q,"resourceVersion":%q,"annotations":{%q:null}}}`, js.UID, js.ResourceVersion, annotationRemake)
}

func (w jobSetWriter) patch(ctx context.Context, js *jobset.JobSet, format string, args ...any) (*jobset.JobSet, error) {
	patch := fmt.Appendf(nil, format, args...)
	return w.jobSets.JobSets(js.Namespace).Patch(ctx, js.Name, types.MergePatchType, patch, metav1.PatchOptions{})
}

// refresh sets the fields of a suspended JobSet, read live, that patches may change,
// in one update, and notes on it which child Jobs have to be made anew.
func (w jobSetWriter) refresh(ctx context.Context, live, desired *jobset.JobSet) (*jobset.JobSet, error) {
	updated, removedFrom := render.UpdateSuspended(live, desired)
	if pending := live.Annotations[annotationRemake]; pending != "" {
		removedFrom = append(removedFrom, strings.Split(pending, ",")...)
	}
	if len(removedFrom) > 0 {
		slices.Sort(removedFrom)
		metav1.SetMetaDataAnnotation(&updated.ObjectMeta, annotationRemake, strings.Join(slices.Compact(removedFrom), ","))
	}
	if equality.Semantic.DeepEqual(live, updated) {
		return live, nil // the cache does not show our own update yet
	}
	return w.jobSets.JobSets(live.Namespace).Update(ctx, updated, metav1.UpdateOptions{})
}

// remakeJobs deletes the unfinished child Jobs of the replicatedJobs noted on the
// JobSet; its controller makes them anew from the new template. It says false while
// one of them is not suspended yet, because its pods may still be running.
func (w jobSetWriter) remakeJobs(ctx context.Context, js *jobset.JobSet) (bool, error) {
	children, err := w.unfinishedJobs(ctx, js)
	if err != nil {
		return false, err
	}
	done := true
	noted := strings.Split(js.Annotations[annotationRemake], ",")
	for i := range children {
		child := &children[i]
		if !slices.Contains(noted, child.Labels[jobset.ReplicatedJobNameKey]) {
			continue
		}
		if !ptr.Deref(child.Spec.Suspend, false) {
			done = false
			continue
		}
		err := w.jobs.Jobs(child.Namespace).Delete(ctx, child.Name, metav1.DeleteOptions{
			Preconditions:     metav1.NewUIDPreconditions(string(child.UID)),
			PropagationPolicy: ptr.To(metav1.DeletePropagationBackground),
		})
		if err != nil && !apierrors.IsNotFound(err) {
			return false, fmt.Errorf("delete child Job %q: %w", child.Name, err)
		}
	}
	return done, nil
}

// jobsHeldBack says whether every unfinished child Job is suspended. The JobSet's own
// condition says so too, but can still be that of an earlier suspension.
func (w jobSetWriter) jobsHeldBack(ctx context.Context, js *jobset.JobSet) (bool, error) {
	children, err := w.unfinishedJobs(ctx, js)
	if err != nil {
		return false, err
	}
	return !slices.ContainsFunc(children, func(child batchv1.Job) bool { return !ptr.Deref(child.Spec.Suspend, false) }), nil
}

// unfinishedJobs reads the child Jobs of a JobSet that have not ended, live.
func (w jobSetWriter) unfinishedJobs(ctx context.Context, js *jobset.JobSet) ([]batchv1.Job, error) {
	list, err := w.jobs.Jobs(js.Namespace).List(ctx, metav1.ListOptions{LabelSelector: jobset.JobSetNameKey + "=" + js.Name})
	if err != nil {
		return nil, fmt.Errorf("list child Jobs: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(child batchv1.Job) bool {
		return !metav1.IsControlledBy(&child, js) || jobFinished(&child)
	}), nil
}

func jobFinished(job *batchv1.Job) bool {
	for _, c := range job.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == "True" {
			return true
		}
	}
	return false
}
