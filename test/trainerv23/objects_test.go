package trainerv23

import (
	"strings"
	"testing"
)

func TestEveryJobIsCompleteAndOwnsWhatIsRecordedWithIt(t *testing.T) {
	for _, job := range []string{Running, Queued, Paused, Finished, MPIRunning, MPIQueued} {
		t.Run(job, func(t *testing.T) {
			objects, err := load(job)
			if err != nil {
				t.Fatal(err)
			}
			kinds := map[string]int{}
			for i, object := range objects {
				kinds[object.GetKind()]++
				owners := object.GetOwnerReferences()
				if i == 0 {
					if object.GetKind() != "TrainJob" || object.Object["status"] == nil {
						t.Errorf("the first object is a %s, want the TrainJob with its status", object.GetKind())
					}
					continue
				}
				if len(owners) != 1 || owners[0].Name != job || !strings.HasPrefix(object.GetName(), job) {
					t.Errorf("%s %s is not owned by the job: %v", object.GetKind(), object.GetName(), owners)
				}
				if len(object.GetLabels()) > 0 {
					t.Errorf("%s %s has labels, which v2.3 does not give it: %v", object.GetKind(), object.GetName(), object.GetLabels())
				}
			}
			if kinds["JobSet"] != 1 || kinds["ConfigMap"] < 1 {
				t.Errorf("objects %v, want a JobSet and a snapshot", kinds)
			}
		})
	}
}

func TestRenameReachesTheOwnerAndTheSuffix(t *testing.T) {
	objects, err := load(MPIQueued)
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		rename(object, MPIQueued, "b")
		if name := object.GetName(); name != "b" && !strings.HasPrefix(name, "b-") {
			t.Errorf("%s is named %s", object.GetKind(), name)
		}
		for _, owner := range object.GetOwnerReferences() {
			if owner.Name != "b" {
				t.Errorf("%s is owned by %s", object.GetKind(), owner.Name)
			}
		}
	}
}
