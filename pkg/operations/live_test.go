package operations

import (
	"errors"
	"testing"

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
