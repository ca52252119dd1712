package jobset

import (
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
)

func bare(code int32, reason metav1.StatusReason, message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message}}
}

// Each of these was once taken for something that passes, or that an event tells of.
func TestTheUserHearsOfEveryRefusalOfTheJobSet(t *testing.T) {
	jobSets := schema.GroupResource{Group: "jobset.x-k8s.io", Resource: "jobsets"}
	for name, tc := range map[string]struct {
		err  error
		says string
	}{
		"a webhook that gives nothing but a message": {
			bare(http.StatusBadRequest, "", `admission webhook "a.b" denied the request: not on Fridays`), "not on Fridays"},
		"a webhook that says not found": {
			bare(http.StatusNotFound, metav1.StatusReasonNotFound, `admission webhook "a.b" denied the request: no budget`), "no budget"},
		"a webhook that says already exists": {
			bare(http.StatusConflict, metav1.StatusReasonAlreadyExists, `admission webhook "a.b" denied the request: one a day`), "one a day"},
		"too large for etcd": {
			bare(http.StatusInternalServerError, "", "etcdserver: request is too large"), "request is too large"},
		"no CRD": {
			apierrors.NewGenericServerResponse(http.StatusNotFound, "POST", jobSets, "", "404 page not found", 0, true), "could not find the requested resource"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, builders.TrainJob("a"))
			f.cached("configmaps", snapshotOf(t, builders.TrainJob("a")))
			f.refuse("create", tc.err)
			if _, err := f.sync(); err == nil {
				t.Error("nothing is tried again")
			}
			if reason, message := f.pending(); reason != trainer.ReasonCreationFailed || !strings.Contains(message, tc.says) {
				t.Errorf("the job is Pending for %s: %q, want %s and %q", reason, message, trainer.ReasonCreationFailed, tc.says)
			}
		})
	}
}
