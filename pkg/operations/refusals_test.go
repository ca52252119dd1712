package operations

import (
	"testing"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/metrics"
	"github.com/trainjob/controller/pkg/trainjob"
	"github.com/trainjob/controller/test/builders"
)

func TestARefusedSnapshotIsCountedWhenItsCauseIsNews(t *testing.T) {
	after := func(job *trainer.TrainJob, cause trainjob.Cause) *trainer.TrainJob {
		job.Status = *trainjob.Next(job, trainjob.Observed{Blocked: &cause}, builders.At(1))
		return job
	}
	conflict := trainjob.Cause{Reason: trainer.ReasonSnapshotConflict, Message: "in the way"}
	fresh := func() *trainer.TrainJob { return builders.TrainJob("a") }
	held := func() *trainer.TrainJob { return builders.TrainJob("a", builders.Suspended(true)) }
	cases := map[string]struct {
		before *trainer.TrainJob
		reason string
		want   metrics.Refusal
	}{
		"a fresh job":                                   {fresh(), trainer.ReasonSnapshotConflict, metrics.RefusalConflict},
		"a suspended job":                               {held(), trainer.ReasonSnapshotTooLarge, metrics.RefusalTooLarge},
		"a job that was refused for it before":          {after(fresh(), conflict), trainer.ReasonSnapshotConflict, ""},
		"a suspended job that was refused for it":       {after(held(), conflict), trainer.ReasonSnapshotConflict, ""},
		"a job that was refused for something else":     {after(fresh(), conflict), trainer.ReasonRuntimeInvalid, metrics.RefusalRuntimeInvalid},
		"a suspended job refused for something else":    {after(held(), conflict), trainer.ReasonSnapshotInvalid, metrics.RefusalInvalid},
		"a kind nobody understands":                     {fresh(), trainer.ReasonTrainingRuntimeNotSupported, metrics.RefusalUnsupported},
		"a quota":                                       {fresh(), trainer.ReasonCreationFailed, metrics.RefusalCreation},
		"a runtime that is missing is waited for":       {fresh(), trainer.ReasonWaitingForRuntime, ""},
		"a JobSet in the way is not about the snapshot": {fresh(), trainer.ReasonJobSetConflict, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, ok := SnapshotRefusal(tc.before, &trainjob.Cause{Reason: tc.reason, Message: "again"})
			if ok != (tc.want != "") || (ok && got != tc.want) {
				t.Errorf("got %q, %t, want %q", got, ok, tc.want)
			}
		})
	}
	if _, ok := SnapshotRefusal(fresh(), nil); ok {
		t.Error("counted nothing at all")
	}
}
