package operations

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	trainerclient "github.com/trainjob/controller/generated/clientset/versioned/typed/trainer/v1alpha1"
)

// LiveTrainJob reads a job that was found in a cache from the API server, for what must
// not be done on the word of a cache that may be a moment old. It is nil if the job is
// gone, or is another one of the same name by now: its event is on the way.
func LiveTrainJob(ctx context.Context, client trainerclient.TrainJobsGetter, cached *trainer.TrainJob) (*trainer.TrainJob, error) {
	job, err := client.TrainJobs(cached.Namespace).Get(ctx, cached.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read TrainJob: %w", err)
	}
	if job.UID != cached.UID {
		return nil, nil
	}
	return job, nil
}

// Refused says whether an error is the API server's word on what was sent: a quota, an
// admission policy, an invalid object, a webhook that does not answer. That is for the
// user to know. A conflict, an object that is gone, a namespace that goes away, and a
// connection that was lost are not.
func Refused(err error) bool {
	switch apierrors.ReasonForError(err) {
	case metav1.StatusReasonUnknown, metav1.StatusReasonConflict, metav1.StatusReasonNotFound:
		return false
	}
	return !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}
