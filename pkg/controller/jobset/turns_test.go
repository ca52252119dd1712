package jobset

import (
	"fmt"
	"testing"

	"k8s.io/client-go/tools/cache"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
)

func keyOf(i int) cache.ObjectName { return cache.NewObjectName("ns", fmt.Sprint(i)) }

func TestTurnsAreTakenInOrderAndSoManyAtOnce(t *testing.T) {
	const keys = 5
	var turns turns
	for i := range keys {
		mine := turns.take(keyOf(i))
		if want := i < deletionsAtOnce; mine != want {
			t.Errorf("it is the turn of %v: %v, want %v", keyOf(i), mine, want)
		}
	}
	if turns.take(keyOf(keys - 1)) { // who asks again does not wait twice
		t.Error("there is a turn too many")
	}
	for i := deletionsAtOnce; i < keys; i++ {
		if next, ok := turns.done(); !ok || next != keyOf(i) {
			t.Fatalf("next is %v, %v, want %v", next, ok, keyOf(i))
		}
		if !turns.take(keyOf(i)) {
			t.Fatalf("it is not the turn of %v", keyOf(i))
		}
	}
	for range deletionsAtOnce {
		if next, ok := turns.done(); ok {
			t.Errorf("%v is next, but nobody waits", next)
		}
	}
	if turns.busy != 0 || len(turns.known) != 0 {
		t.Errorf("in the end %d are busy and %d wait", turns.busy, len(turns.known))
	}
}

// overdue is a controller with a job that has failed for its deadline and still has its
// JobSet.
func overdue(t *testing.T) *fixture {
	t.Helper()
	job := builders.TrainJob("a", builders.State("Failed", trainer.ReasonDeadlineExceeded, builders.At(9)))
	f := newFixture(t, job)
	js := builders.JobSetOf(job)
	f.cached("jobsets", js)
	f.live(js)
	return f
}

func TestSyncWaitsForItsTurnToDeleteAJobSet(t *testing.T) {
	f := overdue(t)
	for i := range deletionsAtOnce {
		f.controller.deletions.take(keyOf(i)) // other workers are at it
	}
	result, err := f.sync()
	if err != nil || result.After <= 0 || result.After > turnLost {
		t.Fatalf("came back with %+v, %v, want another look within %v", result, err, turnLost)
	}
	f.wantWrites()
	if next, ok := f.controller.deletions.done(); !ok || next != theJob {
		t.Errorf("next is %v, %v, want %v", next, ok, theJob)
	}
}

func TestSyncHandsTheTurnOn(t *testing.T) {
	f := overdue(t)
	for i := range deletionsAtOnce + 1 {
		f.controller.deletions.take(keyOf(i)) // the last one waits
	}
	f.controller.deletions.busy-- // and somebody has just gone
	if result, err := f.sync(); err != nil || result.After != 0 {
		t.Fatalf("came back with %+v, %v, want no other look", result, err)
	}
	f.wantWrites("delete jobsets")
	if waiting := f.controller.queue.Len(); waiting != 1 {
		t.Errorf("%d keys are in the queue, want the one whose turn it is", waiting)
	}
	if busy := f.controller.deletions.busy; busy != deletionsAtOnce-1 {
		t.Errorf("%d deletions are under way, want %d", busy, deletionsAtOnce-1)
	}
}
