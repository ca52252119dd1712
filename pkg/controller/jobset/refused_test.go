package jobset

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	componentmetrics "k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"

	"github.com/trainjob/controller/pkg/metrics"
	"github.com/trainjob/controller/test/builders"
)

func TestASnapshotThatCannotBeUsedIsCountedOnce(t *testing.T) {
	f := newFixture(t, builders.TrainJob("a", onNodes("new")))
	registry, measured := componentmetrics.NewKubeRegistry(), metrics.New()
	if err := measured.Register(registry.Register, registry.CustomRegister); err != nil {
		t.Fatal(err)
	}
	f.controller.metrics = measured
	f.cached("jobsets", built(t, builders.TrainJob("a"))) // of before the patch, and its snapshot is gone
	for range 3 {
		if _, err := f.sync(); err != nil {
			t.Fatal(err)
		}
		job, err := f.trainer.TrainerV1alpha1().TrainJobs(theJob.Namespace).Get(t.Context(), theJob.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		f.cached("trainjobs", job)
	}
	got, err := testutil.GetCounterValuesFromGatherer(registry, "trainjob_controller_snapshots_refused_total", nil, "reason")
	if err != nil {
		t.Fatal(err)
	}
	for _, reason := range metrics.Refusals() {
		if want := map[metrics.Refusal]float64{metrics.RefusalInvalid: 1}[reason]; got[string(reason)] != want {
			t.Errorf("%s was counted %v times, want %v", reason, got[string(reason)], want)
		}
	}
}
