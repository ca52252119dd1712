package trainjob

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
)

// Change is how much a next status differs from the present one.
type Change int

const (
	// Same: there is nothing to write.
	Same Change = iota
	// Details: only counters of jobsStatus or the wording of the message moved, and
	// nothing waits for them.
	Details
	// Rewording: the API refuses what it refused before, in other words.
	Rewording
	// Substantial: anything else, to be written at once.
	Substantial
)

// Compare says how much `next` differs from the status of the job.
func Compare(job *trainer.TrainJob, next *trainer.TrainJobStatus) Change {
	if equality.Semantic.DeepEqual(&job.Status, next) {
		return Same
	}
	rest := *next.DeepCopy()
	rest.JobsStatus = job.Status.JobsStatus
	if job.Status.State == next.State && job.Status.Reason == next.Reason {
		takeWording(&rest, &job.Status)
	}
	if !equality.Semantic.DeepEqual(&job.Status, &rest) {
		return Substantial
	}
	// The last active Job going away is what Kueue waits for to hand out the quota.
	if active(job.Status.JobsStatus) > 0 && active(next.JobsStatus) == 0 {
		return Substantial
	}
	if next.Reason == trainer.ReasonCreationFailed {
		return Rewording
	}
	return Details
}

// takeWording gives a status the message that another one of the same state and reason
// has, in the field and in the condition.
func takeWording(status, from *trainer.TrainJobStatus) {
	status.Message = from.Message
	is := meta.FindStatusCondition(status.Conditions, string(status.State))
	was := meta.FindStatusCondition(from.Conditions, string(status.State))
	if is != nil && was != nil {
		is.Message = was.Message
	}
}

func active(jobs []trainer.JobStatus) (sum int32) {
	for _, j := range jobs {
		sum += j.Active
	}
	return sum
}

// StatusPatch is the JSON merge patch that turns the job's status into `next`. It
// holds only the fields that differ, so that fields of other writers are never sent,
// and the resourceVersion the status was computed from, so that it fails with a
// conflict when the object has moved on. It is nil when nothing differs.
func StatusPatch(job *trainer.TrainJob, next *trainer.TrainJobStatus) ([]byte, error) {
	before, err := fieldsOf(&job.Status)
	if err != nil {
		return nil, err
	}
	after, err := fieldsOf(next)
	if err != nil {
		return nil, err
	}
	changed := map[string]json.RawMessage{}
	for name, value := range after {
		if string(before[name]) != string(value) {
			changed[name] = value
		}
	}
	for name := range before {
		if _, kept := after[name]; !kept {
			changed[name] = json.RawMessage("null")
		}
	}
	if len(changed) == 0 {
		return nil, nil
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": job.ResourceVersion, "uid": job.UID},
		"status":   changed,
	})
}

func fieldsOf(status *trainer.TrainJobStatus) (map[string]json.RawMessage, error) {
	raw, err := json.Marshal(status)
	if err != nil {
		return nil, fmt.Errorf("encode status: %w", err)
	}
	fields := map[string]json.RawMessage{}
	return fields, json.Unmarshal(raw, &fields)
}
