// Package queue is the work queue and the worker loop of every controller.
//
// A controller hands over a sync function and adds keys; this package decides
// when each key is synced, how often and how soon it is tried again, what is
// logged about it and whether the workers are healthy. It is the only package
// that calls Add, AddAfter, AddRateLimited and Forget. It knows nothing about
// the objects behind the keys.
//
// # What happens after a sync
//
// The sync function returns a [Result] and an error; the error's class, decided
// in one place (see classify), selects what follows:
//
//	nil                     forget the failures; sync again after Result.After, if set
//	conflict (409)          forget; once more after a second: the event of the newer
//	                        object normally comes first. Not logged as an error
//	Permanent(err)          forget and wait for a change; Result.After is honoured
//	namespace terminating   forget: its objects are about to go
//	RetryAfter(err, d)      forget; once more after d
//	Quiet(err)              backoff like any error, but not logged as one
//	refused by the API      backoff per key, 5 ms doubling to 45 s, and an error line
//	server (pkg/apierror)   at the 1st, 2nd, 4th, 8th … failure
//	anything else, a panic  the same backoff, and an error line each time
//
// An error that joins several belongs to the class of the part that most needs
// another try. If the API server named a time to wait, a retry comes no sooner.
//
// # Who comes first
//
// Namespaces take turns, so that five thousand jobs of one do not delay the one job of
// another; the keys of one namespace are synced in the order of their arrival. Where Config.Background says that a
// key is in no hurry, it gives way to those that are, three out of four times.
//
// # A wake-up is a hint
//
// The delaying queue of client-go keeps one entry per key, that of the earliest
// time asked for, and Forget does not cancel it. A thousand syncs that ask for
// the same hour therefore leave one entry, and a key may be synced earlier than
// the last call asked for. So a sync function works out everything from
// scratch and returns Result.After each time, as long as there is something to
// wait for. Waits are cut at an hour for the same reason: the entry of an object
// that is long gone stays until its time comes.
//
// Waiting goes by the wall clock where that is ahead: what is due at a time of day comes
// within ten seconds of it after a suspended machine wakes up, too.
package queue
