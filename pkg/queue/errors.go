package queue

import (
	"context"
	"errors"
	"time"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/trainjob/controller/pkg/apierror"
	"github.com/trainjob/controller/pkg/metrics"
)

// conflictDelay is how long a key waits after a conflict. The object that won
// is on its way to the cache and its event brings the key back before that;
// the delay only covers events that never come.
const conflictDelay = time.Second

// class says what is to be done about a sync that returned an error. The
// order is the order in which the parts of a joined error win: whatever needs
// another try most.
type class int

const (
	classCanceled    class = iota // cut short by the shutdown
	classPermanent                // no use in trying again before something changes
	classTerminating              // the namespace is going away
	classConflict                 // the cache is behind
	classDelayed                  // the caller named the time of the next try
	classRetry                    // backoff, expected to pass: no error line
	classRefused                  // backoff, an error line now and then
	classError                    // backoff, an error line each time
	classPanic                    // backoff, a bug
)

// result is the label value that a class is counted under.
func (c class) result() metrics.Result {
	return map[class]metrics.Result{
		classCanceled:    metrics.ResultCanceled,
		classPermanent:   metrics.ResultPermanent,
		classTerminating: metrics.ResultTerminating,
		classConflict:    metrics.ResultConflict,
		classDelayed:     metrics.ResultDelayed,
		classRetry:       metrics.ResultRetry,
		classRefused:     metrics.ResultError,
		classError:       metrics.ResultError,
		classPanic:       metrics.ResultPanic,
	}[c]
}

// verdict is the class of an error and the time that goes with it: the delay
// of classConflict and classDelayed, the least delay of those with backoff.
type verdict struct {
	class class
	after time.Duration
}

// classifiedError is an error whose class the sync function has chosen.
type classifiedError struct {
	err     error
	verdict verdict
}

func (e *classifiedError) Error() string { return e.err.Error() }
func (e *classifiedError) Unwrap() error { return e.err }

// Permanent marks an error that no retry can help, for example an object that
// the API server calls invalid. The caller has already told the user, in a
// condition; the key rests until an event or Result.After brings it back.
// Permanent(nil) is nil.
func Permanent(err error) error {
	return classified(err, verdict{class: classPermanent})
}

// RetryAfter marks an error whose next try makes sense after d and not before,
// without counting as a failure: the delay does not grow. RetryAfter(nil, d) is nil.
func RetryAfter(err error, d time.Duration) error {
	return classified(err, verdict{class: classDelayed, after: d})
}

// Quiet marks an error that is expected to pass by itself: it is retried with
// the usual backoff but leaves no error line in the log. Quiet(nil) is nil.
func Quiet(err error) error {
	return classified(err, verdict{class: classRetry})
}

func classified(err error, v verdict) error {
	if err == nil {
		return nil
	}
	return &classifiedError{err: err, verdict: v}
}

// panicError is what a sync that panicked is turned into.
type panicError struct {
	value any
	stack []byte
}

func (*panicError) Error() string { return "sync panicked" }

// classify is the one place where it is decided what is done after an error. stopping
// says that the workers are being shut down, which makes a canceled call
// the expected end of a sync instead of a failure.
func classify(err error, stopping bool) verdict {
	var (
		chosen   *classifiedError
		panicked *panicError
	)
	if parts := joined(err); len(parts) > 0 {
		return worst(parts, stopping)
	}
	switch {
	case errors.As(err, &panicked):
		return verdict{class: classPanic}
	case errors.As(err, &chosen):
		return chosen.verdict
	case stopping && errors.Is(err, context.Canceled):
		return verdict{class: classCanceled}
	}
	// Zero when the API server suggests nothing; the backoff decides then.
	after := apierror.RetryAfter(err)
	switch meaning := apierror.Of(err); {
	case meaning == apierror.Terminating:
		return verdict{class: classTerminating}
	case meaning == apierror.Conflict:
		return verdict{class: classConflict, after: conflictDelay}
	case meaning.Refusal():
		return verdict{class: classRefused, after: after}
	}
	return verdict{class: classError, after: after}
}

// worst is the verdict on the part that most needs another try. Parts of the
// same class wait for the last of them.
func worst(parts []error, stopping bool) verdict {
	var result verdict
	for _, part := range parts {
		if part == nil {
			continue
		}
		v := classify(part, stopping)
		if v.class > result.class || v.class == result.class && v.after > result.after {
			result = v
		}
	}
	return result
}

// joined returns the parts of an error made of several, below any wrapping by
// fmt.Errorf but not below a class chosen for the whole.
func joined(err error) []error {
	for ; err != nil; err = errors.Unwrap(err) {
		switch e := err.(type) {
		case *classifiedError:
			return nil
		case interface{ Unwrap() []error }:
			return e.Unwrap()
		case utilerrors.Aggregate:
			return e.Errors()
		}
	}
	return nil
}
