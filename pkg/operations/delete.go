package operations

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	jobsetclient "sigs.k8s.io/jobset/client-go/clientset/versioned/typed/jobset/v1alpha2"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	trainerclient "github.com/trainjob/controller/generated/clientset/versioned/typed/trainer/v1alpha1"
)

// DeleteTrainJob deletes exactly the object that a verdict was made on: any change
// since then makes it fail with a conflict. What the job owns follows in the
// background.
func DeleteTrainJob(ctx context.Context, client trainerclient.TrainJobsGetter, job *trainer.TrainJob) error {
	return client.TrainJobs(job.Namespace).Delete(ctx, job.Name, metav1.DeleteOptions{
		Preconditions:     &metav1.Preconditions{UID: &job.UID, ResourceVersion: &job.ResourceVersion},
		PropagationPolicy: ptr.To(metav1.DeletePropagationBackground),
	})
}

// DeleteJobSet deletes a JobSet in the foreground, so that it is gone only when its
// Jobs and their pods are: exactly the version that was read.
func DeleteJobSet(ctx context.Context, client jobsetclient.JobSetsGetter, js *jobset.JobSet) error {
	return client.JobSets(js.Namespace).Delete(ctx, js.Name, metav1.DeleteOptions{
		Preconditions:     &metav1.Preconditions{UID: &js.UID, ResourceVersion: &js.ResourceVersion},
		PropagationPolicy: ptr.To(metav1.DeletePropagationForeground),
	})
}
