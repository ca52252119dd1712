package jobset

import (
	"testing"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
)

func TestOnlySoManyJobSetsOfEndedJobsAreDeletedAtOnce(t *testing.T) {
	job := builders.TrainJob("a", builders.Condition("Failed", trainer.ReasonDeadlineExceeded, builders.At(9)))
	f := newFixture(t, job)
	js := builders.JobSetOf(job)
	f.cached("jobsets", js)
	f.live(js)
	for range deletionsAtOnce {
		f.controller.deletions <- struct{}{} // another worker is at it
	}
	result, err := f.sync()
	if err != nil || result.After <= 0 || result.After > deleteLater {
		t.Fatalf("came back with %+v, %v, want another try within %v", result, err, deleteLater)
	}
	f.wantWrites()

	<-f.controller.deletions // the other worker is done
	if result, err = f.sync(); err != nil || result.After != 0 {
		t.Fatalf("came back with %+v, %v, want no more", result, err)
	}
	f.wantWrites("delete jobsets")
	if busy := len(f.controller.deletions); busy != deletionsAtOnce-1 {
		t.Errorf("%d deletions are under way, want %d", busy, deletionsAtOnce-1)
	}
}
