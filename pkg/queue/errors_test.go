package queue

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

var (
	jobSets   = schema.GroupResource{Group: "jobset.x-k8s.io", Resource: "jobsets"}
	conflict  = apierrors.NewConflict(jobSets, "a", errors.New("the object has been modified"))
	forbidden = apierrors.NewForbidden(jobSets, "a", errors.New("no"))
)

// terminating is what NamespaceLifecycle answers to a create in a namespace that
// is being deleted.
func terminating() error {
	err := apierrors.NewForbidden(jobSets, "a", errors.New("unable to create new content"))
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
		Type: corev1.NamespaceTerminatingCause, Message: "namespace x is being terminated", Field: "metadata.namespace",
	})
	return err
}

func TestClassify(t *testing.T) {
	plain := errors.New("connection refused")
	for name, tc := range map[string]struct {
		err      error
		stopping bool
		want     verdict
	}{
		"an error of no known kind is retried with backoff": {
			err: plain, want: verdict{class: classError},
		},
		"a refusal may end by itself, so it is retried with backoff": {
			err: forbidden, want: verdict{class: classRefused},
		},
		"a conflict waits for the newer object": {
			err: conflict, want: verdict{class: classConflict, after: time.Second},
		},
		"a wrapped conflict is a conflict": {
			err: fmt.Errorf("update the JobSet: %w", conflict), want: verdict{class: classConflict, after: time.Second},
		},
		"that an object exists already is not a conflict, although it has the same code": {
			err: apierrors.NewAlreadyExists(jobSets, "a"), want: verdict{class: classError},
		},
		"a permanent error stays one when wrapped": {
			err: fmt.Errorf("render: %w", Permanent(plain)), want: verdict{class: classPermanent},
		},
		"the caller's choice outranks what the error itself says": {
			err: Permanent(conflict), want: verdict{class: classPermanent},
		},
		"the caller's choice for several errors covers them all": {
			err: Permanent(errors.Join(conflict, plain)), want: verdict{class: classPermanent},
		},
		"the caller may name the time of the next try": {
			err: RetryAfter(plain, time.Minute), want: verdict{class: classDelayed, after: time.Minute},
		},
		"the caller may expect an error to pass": {
			err: Quiet(plain), want: verdict{class: classRetry},
		},
		"a create in a namespace that is going away has no future": {
			err: fmt.Errorf("create: %w", terminating()), want: verdict{class: classTerminating},
		},
		"a create in a namespace that is gone has none either": {
			err: apierrors.NewNotFound(corev1.Resource("namespaces"), "x"), want: verdict{class: classTerminating},
		},
		"another object that is not found is an error": {
			err: apierrors.NewNotFound(jobSets, "a"), want: verdict{class: classError},
		},
		"the API server's wish for a pause is kept": {
			err: apierrors.NewTooManyRequests("slow down", 7), want: verdict{class: classError, after: 7 * time.Second},
		},
		"the pause is found in a wrapped error": {
			err:  fmt.Errorf("list: %w", apierrors.NewServerTimeout(jobSets, "list", 3)),
			want: verdict{class: classError, after: 3 * time.Second},
		},
		"a canceled call during shutdown is no failure": {
			err: fmt.Errorf("get: %w", context.Canceled), stopping: true, want: verdict{class: classCanceled},
		},
		"a canceled call at any other time is one": {
			err: context.Canceled, want: verdict{class: classError},
		},
		"a call that ran out of time is retried even during shutdown": {
			err: context.DeadlineExceeded, stopping: true, want: verdict{class: classError},
		},
		"a panic is a class of its own": {
			err: &panicError{value: "boom"}, want: verdict{class: classPanic},
		},
		"of a conflict and a failure the failure decides": {
			err: errors.Join(conflict, forbidden), want: verdict{class: classRefused},
		},
		"of a permanent error and a conflict the conflict decides": {
			err: fmt.Errorf("two: %w, %w", Permanent(plain), conflict), want: verdict{class: classConflict, after: time.Second},
		},
		"parts of the same class wait for the last": {
			err:  errors.Join(RetryAfter(plain, time.Second), RetryAfter(plain, time.Hour)),
			want: verdict{class: classDelayed, after: time.Hour},
		},
		"an aggregate is judged by its parts, under any wrapping": {
			err:  fmt.Errorf("clean up: %w", utilerrors.NewAggregate([]error{Permanent(plain), Quiet(plain)})),
			want: verdict{class: classRetry},
		},
		"an error without a status is no hint of a namespace": {
			err:  &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound}},
			want: verdict{class: classRefused},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, classify(tc.err, tc.stopping), cmp.AllowUnexported(verdict{})); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWorstSkipsNilParts(t *testing.T) {
	got := worst([]error{nil, conflict, nil}, false)
	if want := (verdict{class: classConflict, after: time.Second}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestMarkedErrors(t *testing.T) {
	for name, mark := range map[string]func(error) error{
		"permanent":   Permanent,
		"quiet":       Quiet,
		"retry after": func(err error) error { return RetryAfter(err, time.Second) },
	} {
		t.Run(name+" keeps the error underneath and its text", func(t *testing.T) {
			if err := mark(forbidden); !apierrors.IsForbidden(err) || err.Error() != forbidden.Error() {
				t.Errorf("got %v", err)
			}
		})
		t.Run(name+" of nil is nil", func(t *testing.T) {
			if err := mark(nil); err != nil {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestEveryClassHasAResult(t *testing.T) {
	for c := classCanceled; c <= classPanic; c++ {
		if c.result() == "" {
			t.Errorf("class %d is not counted under any result", c)
		}
	}
}
