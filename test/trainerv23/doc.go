// Package trainerv23 holds what Kubeflow Trainer v2.3.0 leaves in a cluster: objects
// that its controller has written against a local control plane, as they were when it
// was stopped. Tests of the migration start from them. Taken out are what belongs to the
// cluster (UIDs, versions, times of creation) and the content of Secrets.
//
// Its test compares our CRDs with the facts about Trainer's in testdata/schemas.txt.
//
// It knows YAML and clients. It knows nothing of what becomes of the objects.
package trainerv23
