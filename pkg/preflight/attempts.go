package preflight

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/trainjob/controller/pkg/preflight/report"
)

// stateFile outlives the container in a volume of its pod.
const stateFile = "preflight-attempts.json"

type state struct {
	Attempts int `json:"attempts"`
}

// count finds the number of this run. Where a pod restarts its container there is nobody
// else who counts; where a failed pod restarts the job, JobSet does. It returns a note if
// the state folder cannot be used: then nothing is tried again, or it would be for ever.
func (r Run) count(rules *report.Rules) string {
	if r.Settings.StateDir == "" {
		rules.Attempt = max(0, rules.Restarts) + 1
		return ""
	}
	attempt, err := counted(filepath.Join(r.Settings.StateDir, stateFile))
	if err != nil {
		rules.Forgetful = true
		return fmt.Sprintf("attempts cannot be counted, so none is repeated: %v", err)
	}
	rules.Attempt = attempt
	return ""
}

// counted adds one to the number in a file, before anything can go wrong.
func counted(path string) (int, error) {
	var s state
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return 0, err
	default:
		if err := json.Unmarshal(data, &s); err != nil || s.Attempts < 0 {
			return 0, fmt.Errorf("%s holds no count of attempts", path)
		}
	}
	s.Attempts++
	if data, err = json.Marshal(s); err != nil {
		return 0, err
	}
	// Renamed into place: a kill in the middle must not leave half a number.
	partial := path + ".partial"
	if err := os.WriteFile(partial, data, 0o600); err != nil {
		return 0, err
	}
	return s.Attempts, os.Rename(partial, path)
}
