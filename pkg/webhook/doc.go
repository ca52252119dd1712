// Package webhook serves admission: it answers the API server's questions whether a
// TrainJob or a runtime may be stored, and fills in what admission sets.
//
// It knows HTTP, admission reviews, JSON patches, and where to read the objects that a
// verdict needs. What is right and wrong about an object is decided in package
// validation, and which certificate is served in package certificate below this one.
//
// It answers from caches. Since a cache may be a moment old, nothing is refused on its
// word alone: before a refusal that depends on another object, that object is read from
// the API server.
package webhook
