// Package informer holds what every controller needs between the API server's
// watches and its own queue:
//
//   - transforms that keep the caches small: [Strip], [TrimJobSet], [ShareData], put
//     together with [Transform] and set with [Prepare];
//   - keys out of whatever a handler is given, tombstones included: [Key] for the
//     object itself, [OwnerKey] for its controller;
//   - [Handler], which turns the three kinds of event into one call;
//   - [Notes], which bridges the moment between our own CREATE and its arrival in
//     the cache;
//   - [ConfigMaps], an informer that asks the API server for labelled ConfigMaps only.
//
// It knows object metadata and, of external kinds, what is needed to trim them.
// It must not know this program's own kinds: owners are named by group and kind.
//
// Handlers get three kinds of surprise, all from a watch that was interrupted:
// a deletion as a [cache.DeletedFinalStateUnknown] that holds the last state
// known, or none; a deletion and a re-creation as one update between objects of
// different UID; and updates without any change. Everything here copes with them.
package informer
