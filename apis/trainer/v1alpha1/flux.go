package v1alpha1

import "encoding/json"

// UnmarshalJSON reads what is configured for Flux. Runtimes and snapshots of before the
// number of processes was a number hold a word instead, such as "auto". One of them must
// not keep clients from reading the list of all runtimes, so it counts as left out.
func (f *FluxMLPolicySource) UnmarshalJSON(data []byte) error {
	var stored struct {
		NumProcPerNode json.RawMessage `json:"numProcPerNode"`
	}
	if err := json.Unmarshal(data, &stored); err != nil {
		return err
	}
	f.NumProcPerNode = nil
	if number := stored.NumProcPerNode; len(number) > 0 && number[0] != '"' {
		return json.Unmarshal(number, &f.NumProcPerNode)
	}
	return nil
}
