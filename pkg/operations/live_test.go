package operations

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	jobsetfake "sigs.k8s.io/jobset/client-go/clientset/versioned/fake"

	"github.com/google/go-cmp/cmp"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	trainerfake "github.com/trainjob/controller/generated/clientset/versioned/fake"
	"github.com/trainjob/controller/test/builders"
)

func TestLiveTrainJobIsTheSameJobOrNone(t *testing.T) {
	cached := builders.TrainJob("a")
	cases := map[string]struct {
		live  []runtime.Object
		found bool
	}{
		"the same in a newer version": {[]runtime.Object{builders.TrainJob("a", builders.Suspended(true))}, true},
		"another of the name":         {[]runtime.Object{builders.TrainJob("a", builders.UID("newer"))}, false},
		"gone":                        {nil, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			client := trainerfake.NewClientset(tc.live...)
			got, err := LiveTrainJob(t.Context(), client.TrainerV1alpha1(), cached)
			if err != nil || (got != nil) != tc.found {
				t.Errorf("got %v, %v, want one: %t", got, err, tc.found)
			}
		})
	}
}

func TestLiveTrainJobDoesNotTakeAnErrorForAnAbsence(t *testing.T) {
	client := trainerfake.NewClientset()
	refusal := apierrors.NewForbidden(trainer.Resource("trainjobs"), "a", errors.New("no"))
	client.PrependReactor("get", "trainjobs", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, refusal })
	if _, err := LiveTrainJob(t.Context(), client.TrainerV1alpha1(), builders.TrainJob("a")); !errors.Is(err, refusal) {
		t.Errorf("error %v, want the refusal", err)
	}
}

func TestAJobSetIsDeletedInTheForegroundInTheVersionThatWasRead(t *testing.T) {
	js := builders.JobSetOf(builders.TrainJob("a"))
	js.ResourceVersion = "7"
	client := jobsetfake.NewSimpleClientset(js)
	if err := DeleteJobSet(t.Context(), client.JobsetV1alpha2(), js); err != nil {
		t.Fatal(err)
	}
	foreground := metav1.DeletePropagationForeground
	want := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: new(types.UID(js.UID)), ResourceVersion: new("7")}, PropagationPolicy: &foreground}
	got := client.Actions()[0].(clienttesting.DeleteAction).GetDeleteOptions()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("delete options (-want +got):\n%s", diff)
	}
}

func TestRefusedIsWhatTheAPIServerSaysOfWhatWasSent(t *testing.T) {
	jobs := trainer.Resource("trainjobs")
	terminating := apierrors.NewForbidden(jobs, "a", errors.New("going"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	cases := map[string]struct {
		err  error
		want bool
	}{
		"a quota or a policy":        {apierrors.NewForbidden(jobs, "a", errors.New("exceeded quota")), true},
		"an invalid object":          {apierrors.NewInvalid(trainer.Kind("TrainJob"), "a", nil), true},
		"a webhook that is down":     {apierrors.NewInternalError(errors.New("failed calling webhook")), true},
		"a conflict":                 {apierrors.NewConflict(jobs, "a", errors.New("changed")), false},
		"an object that is gone":     {apierrors.NewNotFound(jobs, "a"), false},
		"a namespace that goes away": {terminating, false},
		"a connection that was lost": {errors.New("connection refused"), false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Refused(fmt.Errorf("create: %w", tc.err)); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}
