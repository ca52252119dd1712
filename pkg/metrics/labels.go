package metrics

import "slices"

// Label names.
const (
	labelQueue  = "queue"
	labelResult = "result"
	labelTimer  = "timer"
	labelReason = "reason"
)

// Queue names one of the work queues. It is the value of the label "queue" here
// and of the label "name" of client-go's own queue metrics.
type Queue string

// The queues of this program.
const (
	QueueSnapshot Queue = "snapshot"
	QueueJobSet   Queue = "jobset"
	QueueDeadline Queue = "deadline"
	QueueTTL      Queue = "ttl"
	// QueuePreflight lifts what preflight reports.
	QueuePreflight Queue = "preflight"
)

// Queues lists every queue name.
func Queues() []Queue {
	return []Queue{QueueSnapshot, QueueJobSet, QueueDeadline, QueueTTL, QueuePreflight}
}

// Result says how one sync of a key ended.
type Result string

// The ways a sync can end. What the queue does with each is decided in pkg/queue.
const (
	ResultSuccess     Result = "success"
	ResultConflict    Result = "conflict"
	ResultPermanent   Result = "permanent"
	ResultTerminating Result = "terminating"
	ResultDelayed     Result = "delayed"
	ResultRetry       Result = "retry"
	ResultError       Result = "error"
	ResultPanic       Result = "panic"
	ResultCanceled    Result = "canceled"
)

// Results lists every result.
func Results() []Result {
	return []Result{
		ResultSuccess, ResultConflict, ResultPermanent, ResultTerminating,
		ResultDelayed, ResultRetry, ResultError, ResultPanic, ResultCanceled,
	}
}

// other stands for every value outside a fixed set, so that a caller's mistake
// costs one series and not one per value.
const other = "other"

func oneOf[T ~string](known []T, value T) string {
	if slices.Contains(known, value) {
		return string(value)
	}
	return other
}

// strs are the values of a fixed set as strings.
func strs[T ~string](known []T) []string {
	all := make([]string, 0, len(known))
	for _, value := range known {
		all = append(all, string(value))
	}
	return all
}
