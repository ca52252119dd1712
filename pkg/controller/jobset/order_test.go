package jobset

import (
	"testing"

	"k8s.io/client-go/tools/cache"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
)

func TestJobsThatHaveEndedGiveWayToOthers(t *testing.T) {
	f := newFixture(t, builders.TrainJob("a"))
	f.cached("trainjobs",
		builders.TrainJob("failed", builders.State(trainer.TrainJobFailed, trainer.ReasonDeadlineExceeded, builders.At(1))),
		builders.TrainJob("complete", builders.State(trainer.TrainJobComplete, "AllJobsCompleted", builders.At(1))),
		builders.TrainJob("running", builders.State(trainer.TrainJobRunning, trainer.ReasonPodsReady, builders.At(1))),
	)
	for name, want := range map[string]bool{"a": false, "running": false, "failed": true, "complete": true, "gone": true} {
		if got := f.controller.ended(cache.ObjectName{Namespace: theJob.Namespace, Name: name}); got != want {
			t.Errorf("job %s gives way: %t, want %t", name, got, want)
		}
	}
}
