// Package lifecycle enforces the two time limits of a TrainJob: it fails a job at its
// deadline, and deletes it when its time to live after finishing has passed.
//
// There are two queues, because the two duties have nothing to do with each other: a
// thousand deletions must not hold up a deadline. A wake-up is only a hint; the
// verdict is computed from timestamps stored on the object, so a restart or a change
// of leader forgets nothing. The verdict is on the cached object, and the write has
// preconditions that fail if that was not the newest. The JobSet, which no precondition
// of that write covers, is read live before a job is failed.
//
// It knows when a job must end or go. It does not stop anything itself: the JobSet of
// a job that has failed is deleted by the jobset controller, and what a deleted
// TrainJob owns by the garbage collector.
package lifecycle
