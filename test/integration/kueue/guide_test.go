package kueue

import (
	"strings"
	"testing"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/harness"
)

func TestTheCommandsOfTheGuideWork(t *testing.T) {
	t.Parallel()
	const namespace = "team-a"
	reader := env.NewReader(t)
	sections := harness.Guide(t, "kueue.md")
	if len(sections) != 2 {
		t.Fatalf("the guide has %d sections with commands, want 2", len(sections))
	}
	var output string
	for _, section := range sections {
		for _, block := range section.Blocks {
			output += reader.Run(t, block)
		}
	}
	for _, job := range []string{"first", "second", "third"} {
		env.AwaitState(t, namespace, job, trainer.TrainJobComplete, "AllJobsCompleted", harness.Soon)
		awaitWorkload(t, namespace, job, "Finished")
		if !strings.Contains(output, "trainjob-"+job) {
			t.Errorf("the guide's commands show no Workload of job %s:\n%s", job, output)
		}
		used := map[string]bool{}
		for _, pod := range env.PodsOf(t, namespace, job, "node") {
			used[pod.Spec.NodeSelector[poolLabel]] = true
		}
		if len(used) != 1 || used[""] {
			t.Errorf("the pods of job %s were sent to the pools %v, want one", job, used)
		}
	}
}
