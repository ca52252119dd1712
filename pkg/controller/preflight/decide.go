package preflight

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/preflight/report"
)

// maxNodes is how many nodes a status names.
const maxNodes = 20

// worst is what the job's status says of its reports: of the worst outcome, the reason and
// message of the first rank, and the nodes of all. Good news is told once every node has
// reported. Nil keeps what the status says.
func worst(all []ranked, nodes int32) *trainer.PreflightStatus {
	var first *ranked
	for i := range all {
		if r := &all[i]; first == nil || r.outcome.Worse(first.outcome) || r.outcome == first.outcome && before(r, first) {
			first = r
		}
	}
	if first == nil || first.outcome == report.Pass && int32(len(all)) < nodes {
		return nil
	}
	status := &trainer.PreflightStatus{
		Outcome: string(first.outcome), Reason: first.reason, Message: first.message, Attempt: first.attempt,
		Time: metav1.NewTime(first.finished).Rfc3339Copy(),
	}
	if first.outcome == report.Pass {
		status.Reason, status.Message = report.ReasonPassed, ""
		return status
	}
	for _, r := range all {
		if r.outcome == first.outcome && r.node != "" {
			status.Nodes = append(status.Nodes, r.node)
		}
	}
	slices.Sort(status.Nodes)
	status.Nodes = slices.Compact(status.Nodes)
	status.Nodes = status.Nodes[:min(len(status.Nodes), maxNodes)]
	return status
}

// before orders reports of one outcome: the earliest first, so that a status does not
// change with every rank that finds the same.
func before(a, b *ranked) bool {
	if !a.finished.Equal(b.finished) {
		return a.finished.Before(b.finished)
	}
	return a.name < b.name
}

// told is the event of one report.
func (r ranked) told() string {
	text := fmt.Sprintf("rank %s on node %q", r.rank, r.node)
	if r.rank == "" {
		text = fmt.Sprintf("pod %s on node %q", r.name, r.node)
	}
	if r.exit == report.ExitPass {
		return fmt.Sprintf("Preflight of %s: %s", text, r.message)
	}
	return fmt.Sprintf("Preflight of %s: %s (exit code %d, %s)", text, r.message, r.exit, r.outcome.Action())
}
