// Package certificate keeps the webhook server's certificate: its own, made and
// rotated through a Secret that all replicas share, or one from files that somebody
// else keeps.
//
// It knows X.509, that Secret, the two webhook configurations, and when which
// certificate may be served. It knows nothing about TrainJobs and admission reviews.
//
// No moment of a rotation leaves the API server without a webhook it trusts:
//
//   - Every certificate has an authority of its own, whose key is thrown away once it
//     has signed. A new certificate goes into the Secret together with the authorities
//     of those before it, and all of them go into the webhook configurations.
//   - A replica serves a new certificate only after it has seen, for a while, that every
//     webhook of the configurations trusts it. Until then it serves the one before, which
//     is still valid for a third of its life and which the Secret holds too, for
//     replicas that start in between.
//   - Writes carry the resourceVersion that the decision was made on. The configurations
//     are read before the Secret: whoever sees an authority in them then sees the Secret
//     it came from, and never takes it out again because of what it read earlier.
//
// What to do is decided in one pure function, Decide.
package certificate
