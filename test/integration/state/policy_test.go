package state

import (
	"context"
	"fmt"
	"testing"
	"time"

	admission "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
	"github.com/trainjob/controller/test/cluster"
	"github.com/trainjob/controller/test/harness"
)

// forbidJobSets makes the API server refuse an operation on the JobSets of a namespace,
// and returns, when that is in force, the function that allows it again.
func forbidJobSets(t *testing.T, ns string, operation admission.OperationType) (allow func()) {
	t.Helper()
	name := fmt.Sprintf("no-jobsets-in-%s", ns)
	api := env.Core.AdmissionregistrationV1()
	policy := &admission.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admission.ValidatingAdmissionPolicySpec{
			FailurePolicy: ptr.To(admission.Fail),
			MatchConstraints: &admission.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: ns}},
				ResourceRules: []admission.NamedRuleWithOperations{{RuleWithOperations: admission.RuleWithOperations{
					Operations: []admission.OperationType{operation},
					Rule:       admission.Rule{APIGroups: []string{"jobset.x-k8s.io"}, APIVersions: []string{"*"}, Resources: []string{"jobsets"}},
				}}},
			},
			Validations: []admission.Validation{{
				Expression: "false", Message: "JobSets are not for you", Reason: ptr.To(metav1.StatusReasonForbidden),
			}},
		},
	}
	binding := &admission.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       admission.ValidatingAdmissionPolicyBindingSpec{PolicyName: name, ValidationActions: []admission.ValidationAction{admission.Deny}},
	}
	if _, err := api.ValidatingAdmissionPolicies().Create(t.Context(), policy, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := api.ValidatingAdmissionPolicyBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	remove := func(ctx context.Context) {
		for _, err := range []error{
			api.ValidatingAdmissionPolicyBindings().Delete(ctx, name, metav1.DeleteOptions{}),
			api.ValidatingAdmissionPolicies().Delete(ctx, name, metav1.DeleteOptions{}),
		} {
			if err != nil && !apierrors.IsNotFound(err) {
				t.Error(err)
			}
		}
	}
	t.Cleanup(func() { remove(context.Background()) })
	probe := prober(t, ns, operation)
	harness.Eventually(t, soon, func() string {
		if err := probe(); !apierrors.IsForbidden(err) {
			return fmt.Sprintf("the policy is not in force yet: %v", err)
		}
		return nothing
	})
	return func() {
		t.Helper()
		remove(t.Context())
		harness.Eventually(t, soon, func() string {
			if err := probe(); err != nil {
				return fmt.Sprintf("the policy is still in force: %v", err)
			}
			return nothing
		})
	}
}

// prober tries an operation on a JobSet without carrying it out.
func prober(t *testing.T, ns string, operation admission.OperationType) func() error {
	t.Helper()
	js := builders.JobSetOf(newJob(ns, "probe"))
	js.OwnerReferences, js.Spec = nil, builders.TorchSpec().Template.Spec
	dry := []string{metav1.DryRunAll}
	switch operation {
	case admission.Create:
		return func() error {
			_, err := jobSets(ns).Create(t.Context(), js, metav1.CreateOptions{DryRun: dry})
			return err
		}
	case admission.Delete:
		if _, err := jobSets(ns).Create(t.Context(), js, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		return func() error {
			return jobSets(ns).Delete(t.Context(), js.Name, metav1.DeleteOptions{DryRun: dry})
		}
	}
	t.Fatalf("no probe for %s", operation)
	return nil
}

func TestRefusedCreationIsTriedSeldomAndRecoversWithinAMinute(t *testing.T) {
	t.Parallel()
	ns := setUp(t)
	allow := forbidJobSets(t, ns, admission.Create)
	before := env.AuditNow(t)
	env.Create(t, newJob(ns, "a"))
	job := env.AwaitState(t, ns, "a", trainer.TrainJobPending, trainer.ReasonCreationFailed, soon)
	wantMessage(t, job, "JobSets are not for you")
	harness.Consistently(t, time.Minute, func() string {
		if state := env.Job(t, ns, "a").Status.State; state != trainer.TrainJobPending {
			return "the job is " + string(state)
		}
		return nothing
	})
	if tries := requests(t, before, ns, auditCreatesOf("jobsets")); len(tries) > 18 {
		t.Errorf("%d tries in a minute:\n%s", len(tries), listed(tries))
	}
	if writes := requests(t, before, ns, cluster.AuditFilter{Resource: "trainjobs/status", Writes: true}); len(writes) > 3 {
		t.Errorf("%d status writes in a minute in which nothing changed:\n%s", len(writes), listed(writes))
	}
	allow()
	awaitJobSet(t, ns, "a", "", time.Minute)
	env.AwaitState(t, ns, "a", trainer.TrainJobPending, trainer.ReasonWaitingForPods, soon)
}

func TestQuotaHoldsTheJobBackUntilItIsRaised(t *testing.T) {
	t.Parallel()
	ns := setUp(t)
	const counted = "count/jobsets.jobset.x-k8s.io"
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "none"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{counted: resource.MustParse("0")}},
	}
	client := env.Core.CoreV1().ResourceQuotas(ns)
	if _, err := client.Create(t.Context(), quota, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// The quota is enforced once its usage has been counted.
	harness.Eventually(t, time.Minute, func() string {
		var err error
		if quota, err = client.Get(t.Context(), quota.Name, metav1.GetOptions{}); err != nil {
			return err.Error()
		}
		if _, counts := quota.Status.Used[counted]; !counts {
			return "the quota is not in force yet"
		}
		return nothing
	})
	env.Create(t, newJob(ns, "a"))
	job := env.AwaitState(t, ns, "a", trainer.TrainJobPending, trainer.ReasonCreationFailed, soon)
	wantMessage(t, job, "exceeded quota: none", counted+"=1")
	awaitEvent(t, ns, "a", trainer.ReasonCreationFailed)
	quota.Spec.Hard[counted] = resource.MustParse("1")
	if _, err := client.Update(t.Context(), quota, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitJobSet(t, ns, "a", "", time.Minute)
	job = env.AwaitState(t, ns, "a", trainer.TrainJobPending, trainer.ReasonWaitingForPods, soon)
	if job.Status.Message == "" {
		t.Error("the status does not say what is waited for")
	}
}
