package render

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/trainjob/controller/apis/trainer/v1alpha1"
)

// PatchesHash is the hash of spec.runtimePatches that is kept on a JobSet: equal
// hashes mean that suspending and resuming need not touch the pod templates. It is
// taken of the input, so that a newer controller sees no change where the user made
// none.
//
// `time` does not count, nor do entries that change nothing: a manager that empties
// its entry and one that removes it say the same. The order counts, because the
// patches are applied in it.
func PatchesHash(patches []v1alpha1.RuntimePatch) string {
	effective := make([]v1alpha1.RuntimePatch, 0, len(patches))
	for i := range patches {
		if !isEmptyPatch(&patches[i]) {
			patch := patches[i]
			patch.Time = nil
			effective = append(effective, patch)
		}
	}
	// encoding/json sorts the keys of maps, so equal patches give equal bytes. It has no
	// error for these types: they are plain data.
	data, _ := json.Marshal(effective)
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
