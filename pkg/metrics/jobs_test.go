package metrics

import (
	"strings"
	"testing"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
)

func aCensus() *Census {
	return &Census{
		Jobs:    map[Group]int{{"Running", "torch", "torch"}: 3},
		Pending: map[string]Waiting{"WaitingForPods": {Jobs: 2, Longest: 90 * time.Second}},
	}
}

func TestTheCensusIsTakenAtEachScrapeAndOnlyByTheLeader(t *testing.T) {
	var census *Census
	registry := metrics.NewKubeRegistry()
	if err := registry.CustomRegister(NewJobs(func() *Census { return census })); err != nil {
		t.Fatal(err)
	}
	if families := gather(t, registry); len(families) > 0 {
		t.Errorf("a replica that stands by exports %v", families)
	}
	census = aCensus()
	want := `
# HELP trainjob_controller_trainjobs [ALPHA] Number of TrainJobs by state, by runtime and by its framework. Only the leader exports it.
# TYPE trainjob_controller_trainjobs gauge
trainjob_controller_trainjobs{framework="torch",runtime="torch",state="Running"} 3
# HELP trainjob_controller_trainjobs_pending [ALPHA] Number of TrainJobs that are Pending, by reason. Only the leader exports it.
# TYPE trainjob_controller_trainjobs_pending gauge
trainjob_controller_trainjobs_pending{reason="WaitingForPods"} 2
# HELP trainjob_controller_trainjobs_pending_longest_seconds [ALPHA] How long that TrainJob has been Pending that has been so for longest, by reason. Only the leader exports it.
# TYPE trainjob_controller_trainjobs_pending_longest_seconds gauge
trainjob_controller_trainjobs_pending_longest_seconds{reason="WaitingForPods"} 90
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
