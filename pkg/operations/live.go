package operations

import (
	"context"
	"fmt"

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
