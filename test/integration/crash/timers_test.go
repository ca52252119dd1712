package crash

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	admission "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
	"github.com/trainjob/controller/test/harness"
)

// forbidDeletion makes the API server refuse to delete JobSets in a namespace, and returns
// when it does.
func forbidDeletion(t *testing.T, s *story) {
	t.Helper()
	meta := metav1.ObjectMeta{Name: "keep-jobsets-in-" + s.namespace}
	api := env.Core.AdmissionregistrationV1()
	_, err := api.ValidatingAdmissionPolicies().Create(t.Context(), &admission.ValidatingAdmissionPolicy{ObjectMeta: meta, Spec: admission.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admission.MatchResources{
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: s.namespace}},
			ResourceRules: []admission.NamedRuleWithOperations{{RuleWithOperations: admission.RuleWithOperations{
				Operations: []admission.OperationType{admission.Delete},
				Rule:       admission.Rule{APIGroups: []string{jobset.GroupVersion.Group}, APIVersions: []string{"*"}, Resources: []string{"jobsets"}},
			}}},
		},
		Validations: []admission.Validation{{Expression: "false", Message: "keep it", Reason: ptr.To(metav1.StatusReasonForbidden)}},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { allowDeletion(t, s) })
	_, err = api.ValidatingAdmissionPolicyBindings().Create(t.Context(), &admission.ValidatingAdmissionPolicyBinding{
		ObjectMeta: meta, Spec: admission.ValidatingAdmissionPolicyBindingSpec{PolicyName: meta.Name, ValidationActions: []admission.ValidationAction{admission.Deny}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	client := env.JobSet.JobsetV1alpha2().JobSets(s.namespace)
	if _, err := client.Create(t.Context(), &jobset.JobSet{ObjectMeta: metav1.ObjectMeta{Name: "probe"}, Spec: builders.PlainSpec().Template.Spec}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, patience, func() string {
		if err := client.Delete(t.Context(), "probe", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}); !apierrors.IsForbidden(err) {
			return fmt.Sprintf("JobSets can still be deleted: %v", err)
		}
		return ""
	})
}

func allowDeletion(t *testing.T, s *story) {
	t.Helper()
	api := env.Core.AdmissionregistrationV1()
	for _, err := range []error{
		api.ValidatingAdmissionPolicyBindings().Delete(context.Background(), "keep-jobsets-in-"+s.namespace, metav1.DeleteOptions{}),
		api.ValidatingAdmissionPolicies().Delete(context.Background(), "keep-jobsets-in-"+s.namespace, metav1.DeleteOptions{}),
	} {
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	}
}

var refusedDeletion = scenario{
	once: true,
	before: func(t *testing.T, s *story) {
		torch(t, s)
		forbidDeletion(t, s)
	},
	during: func(t *testing.T, s *story) {
		const deadline = 30
		env.NewJob(t, s.namespace, "a", builders.Deadline(deadline))
		jobSetOf(t, s, "a")
		play(t, s, "a", builders.Jobs(builders.Ready("node")))
		job := await(t, s, "a", trainer.TrainJobFailed, trainer.ReasonDeadlineExceeded)
		if at := job.Status.CompletionTime.Time; at.Before(job.CreationTimestamp.Add(deadline * time.Second)) {
			t.Errorf("failed at %v, before its deadline", at)
		}
		harness.Eventually(t, patience, func() string {
			if n := tried(t, s.since, s.namespace, "delete", "jobsets"); n < 2 {
				return fmt.Sprintf("%d attempts to delete the JobSet", n)
			}
			return ""
		})
		allowDeletion(t, s)
		harness.Eventually(t, patience, func() string {
			if env.JobSetOf(t, s.namespace, "a") != nil {
				return "the JobSet is still there"
			}
			return ""
		})
	},
	after: func(t *testing.T, s *story) {
		if job := env.Job(t, s.namespace, "a"); terminal(job) != 1 || job.Status.State != trainer.TrainJobFailed {
			t.Errorf("the job is %s with %d terminal conditions, want Failed with one", job.Status.State, terminal(job))
		}
		atMost(t, counted(t, s.since, s.namespace), map[string]int{"create configmaps": 1, "create jobsets": 1, "delete jobsets": 1})
	},
}

var farDeadlines = scenario{
	before: torch,
	during: func(t *testing.T, s *story) {
		far := []int64{9223372036, 9223372037, 18446744074, math.MaxInt64}
		for i, seconds := range far {
			env.NewJob(t, s.namespace, named(i), builders.Deadline(seconds))
		}
		for i := range far {
			jobSetOf(t, s, named(i))
			await(t, s, named(i), trainer.TrainJobPending, trainer.ReasonWaitingForPods)
		}
	},
	after: func(t *testing.T, s *story) {
		for i := range 4 {
			if job := env.Job(t, s.namespace, named(i)); job.Status.State != trainer.TrainJobPending {
				t.Errorf("the job with the deadline %d is %s", *job.Spec.ActiveDeadlineSeconds, job.Status.State)
			}
		}
		atMost(t, counted(t, s.since, s.namespace), map[string]int{"create configmaps": 4, "create jobsets": 4, "delete jobsets": 0})
	},
}

var overdueAtStart = scenario{
	once: true,
	before: func(t *testing.T, s *story) {
		torch(t, s)
		var last *trainer.TrainJob
		for i := range 20 {
			last = env.NewJob(t, s.namespace, named(i), builders.Deadline(2))
		}
		select {
		case <-t.Context().Done():
		case <-time.After(time.Until(last.CreationTimestamp.Add(3 * time.Second))):
		}
	},
	during: func(t *testing.T, s *story) {
		for i := range 20 {
			await(t, s, named(i), trainer.TrainJobFailed, trainer.ReasonDeadlineExceeded)
		}
	},
	after: func(t *testing.T, s *story) {
		if n := tried(t, s.since, s.namespace, "create", ""); n > 0 {
			t.Errorf("%d objects were created for jobs that were overdue", n)
		}
		// A status that a kill has cut off is not written again when it has arrived.
		atMost(t, counted(t, s.since, s.namespace), map[string]int{"patch trainjobs/status": 20})
	},
}

const finishing = 5

// finishAndGo follows the jobs through a watch: they may be gone when one looks.
var finishAndGo = scenario{
	before: torch,
	during: func(t *testing.T, s *story) {
		events, err := env.Trainer.TrainerV1alpha1().TrainJobs(s.namespace).Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer events.Stop()
		for i := range finishing {
			env.NewJob(t, s.namespace, named(i), builders.TTL(3))
		}
		for i := range finishing {
			jobSetOf(t, s, named(i))
			play(t, s, named(i), completed()...)
		}
		gone, limit := map[string]*trainer.TrainJob{}, time.After(patience)
		for len(gone) < finishing {
			select {
			case event, open := <-events.ResultChan():
				if !open {
					t.Fatal("the watch has ended")
				}
				if event.Type == watch.Deleted {
					job := event.Object.(*trainer.TrainJob)
					gone[job.Name] = job
				}
			case <-limit:
				t.Fatalf("%d of %d jobs were deleted", len(gone), finishing)
			}
		}
		for name, job := range gone {
			if job.Status.State != trainer.TrainJobComplete || terminal(job) != 1 {
				t.Errorf("job %s was %s with %d terminal conditions when it was deleted", name, job.Status.State, terminal(job))
			}
		}
	},
	after: func(t *testing.T, s *story) {
		atMost(t, counted(t, s.since, s.namespace), map[string]int{
			"create configmaps": finishing, "create jobsets": finishing, "delete trainjobs": finishing, "delete jobsets": 0,
		})
	},
}
