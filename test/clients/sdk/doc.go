// Package sdk plays the Kubeflow SDK, version 0.5, for tests: it sends the requests that
// TrainerClient sends and reads the answers by the rules by which TrainerClient reads them,
// so that a test learns what a user of the SDK would be told, or that the SDK would raise
// an exception.
//
// It knows the API's wire format as Kubeflow Trainer v2.3's Python models have it: which
// fields must be there, and which types they refuse. It must not know this project's own
// types (apis, generated): a mistake in them must not be repeated on the reading side. It
// does not wait for what a test expects either, except where the SDK itself polls.
package sdk
