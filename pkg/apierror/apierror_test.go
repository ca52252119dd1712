package apierror

import (
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var update = flag.Bool("update", false, "write the table of docs/api-answers.md anew")

const page = "../../docs/api-answers.md"

var jobSets = schema.GroupResource{Group: "jobset.x-k8s.io", Resource: "jobsets"}

// example is an answer as a Kubernetes 1.37 API server gives it.
type example struct {
	err  *apierrors.StatusError
	want Meaning
}

// bare is an answer with nothing but a code and a message.
func bare(code int32, message string) *apierrors.StatusError {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Message: message}}
}

// denied is an answer whose code and reason a webhook has chosen.
func denied(code int32, reason metav1.StatusReason) *apierrors.StatusError {
	err := bare(code, `admission webhook "quota.example.com" denied the request: no GPUs left for team a`)
	err.ErrStatus.Reason = reason
	return err
}

func withCause(err *apierrors.StatusError, cause metav1.CauseType) *apierrors.StatusError {
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Type: cause})
	return err
}

// page404 is what client-go makes of the plain text that a path without a handler yields.
func page404(verb, name string) *apierrors.StatusError {
	return apierrors.NewGenericServerResponse(http.StatusNotFound, verb, jobSets, name, "404 page not found", 0, true)
}

// examples of the rules, in their order, at least one of each.
func examples() []example {
	no := errors.New("exceeded quota: gpus, requested: 8, used: 8, limited: 8")
	return []example{
		{denied(http.StatusBadRequest, ""), Invalid},
		{denied(http.StatusForbidden, metav1.StatusReasonForbidden), Invalid},
		{denied(http.StatusNotFound, metav1.StatusReasonNotFound), Invalid},
		{denied(http.StatusConflict, metav1.StatusReasonConflict), Invalid},
		{denied(http.StatusConflict, metav1.StatusReasonAlreadyExists), Invalid},
		{denied(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests), Invalid},
		{withCause(apierrors.NewForbidden(jobSets, "a", errors.New("unable to create new content in namespace x because it is being terminated")), corev1.NamespaceTerminatingCause), Terminating},
		{apierrors.NewNotFound(corev1.Resource("namespaces"), "x"), Terminating},
		{page404("POST", ""), MissingKind},
		{page404("PATCH", "a"), MissingKind},
		{apierrors.NewNotFound(jobSets, "a"), Gone},
		{apierrors.NewAlreadyExists(jobSets, "a"), Exists},
		{apierrors.NewConflict(jobSets, "a", errors.New("the object has been modified; please apply your changes to the latest version and try again")), Conflict},
		{apierrors.NewConflict(corev1.Resource("resourcequotas"), "gpus", errors.New("the object has been modified; please apply your changes to the latest version and try again")), Conflict},
		{apierrors.NewRequestEntityTooLargeError("limit is 3145728"), TooLarge},
		{bare(http.StatusInternalServerError, "etcdserver: request is too large"), TooLarge},
		{bare(http.StatusInternalServerError, "rpc error: code = ResourceExhausted desc = trying to send message larger than max (2211862 vs. 2097152)"), TooLarge},
		{bare(http.StatusInternalServerError, "etcdserver: leader changed"), Passing},
		{bare(http.StatusInternalServerError, "etcdserver: request timed out"), Passing},
		{apierrors.NewInvalid(schema.GroupKind{Group: jobSets.Group, Kind: "JobSet"}, "a", nil), Invalid},
		{apierrors.NewBadRequest("strict decoding error: unknown field"), Invalid},
		{apierrors.NewForbidden(jobSets, "a", no), Refused},
		{apierrors.NewUnauthorized("Unauthorized"), Refused},
		{apierrors.NewMethodNotSupported(jobSets, "create"), Refused},
		{apierrors.NewTooManyRequests("too many requests, please try again later", 1), Passing},
		{apierrors.NewServiceUnavailable("apiserver is shutting down"), Passing},
		{apierrors.NewTimeoutError("request did not complete within requested timeout", 0), Passing},
		{apierrors.NewServerTimeout(jobSets, "create", 2), Passing},
		{apierrors.NewInternalError(errors.New(`failed calling webhook "mjobset.kb.io": connection refused`)), Refused},
		{bare(http.StatusInternalServerError, "etcdserver: mvcc: database space exceeded"), Refused},
		{bare(http.StatusTeapot, "a gateway's own opinion"), Refused},
	}
}

func TestEveryAnswerHasItsMeaning(t *testing.T) {
	for _, e := range examples() {
		status := e.err.Status()
		t.Run(fmt.Sprintf("%d %s %s", status.Code, status.Reason, status.Message), func(t *testing.T) {
			if got := Of(fmt.Errorf("create JobSet: %w", e.err)); got != e.want {
				t.Errorf("got %s by the rule %q, want %s", got, ruleFor(status).answer, e.want)
			}
		})
	}
}

func TestWhatIsNoAnswer(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want Meaning
	}{
		"no error":                     {nil, None},
		"a connection that was lost":   {errors.New("dial tcp 10.0.0.1:443: connect: connection refused"), NoAnswer},
		"a kind that discovery denies": {&meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "X"}}, MissingKind},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Of(tc.err); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestRetryAfterIsWhatTheAPIServerAsksFor(t *testing.T) {
	for want, err := range map[time.Duration]error{
		7 * time.Second: fmt.Errorf("create: %w", apierrors.NewTooManyRequests("busy", 7)),
		0:               errors.New("connection refused"),
	} {
		if got := RetryAfter(err); got != want {
			t.Errorf("%v: got %s, want %s", err, got, want)
		}
	}
}

// does is what this controller does after an error of each meaning.
var does = map[Meaning]string{
	Gone:        "nothing: the event of the deletion is on its way. What was to be created and cannot for it is a refusal",
	Exists:      "reads the object live and sees whose it is",
	Conflict:    "tries again with the newer object; no error is logged",
	Terminating: "nothing: the job is about to go with its namespace",
	MissingKind: "tells the job's user, as `CreationFailed`, and tries again within a minute",
	TooLarge:    "tells the job's user, as `CreationFailed`, and tries again within a minute",
	Invalid:     "tells the job's user, as `CreationFailed`, and tries again within a minute",
	Refused:     "tells the job's user, as `CreationFailed`, and tries again within a minute",
	Passing:     "tries again with growing delay, not before the time that the answer names; each error is logged",
	NoAnswer:    "tries again with growing delay; each error is logged",
}

// TestThePageHasEveryRule holds the table in the docs against the rules.
func TestThePageHasEveryRule(t *testing.T) {
	const begin, end = "<!-- Written by `go test ./pkg/apierror -update`. -->\n", "<!-- The tables end here. -->"
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(data), begin)
	got, after, ends := strings.Cut(rest, end)
	if !found || !ends {
		t.Fatal("the page has lost the comments around the tables")
	}
	var want strings.Builder
	want.WriteString("\n| answer | for example: code, reason | and message | means |\n|---|---|---|---|\n")
	for _, r := range rules {
		example := exampleOf(t, r).Status()
		fmt.Fprintf(&want, "| %s | %d %s | `%s` | %s |\n", r.answer, example.Code, example.Reason, example.Message, r.meaning)
	}
	fmt.Fprintf(&want, "| no answer: connection refused, cut or timed out | – | – | %s |\n\n| means | the controller |\n|---|---|\n", NoAnswer)
	for _, m := range []Meaning{Gone, Exists, Conflict, Terminating, MissingKind, TooLarge, Invalid, Refused, Passing, NoAnswer} {
		fmt.Fprintf(&want, "| %s | %s |\n", m, does[m])
	}
	want.WriteString("\n")
	if *update {
		if err := os.WriteFile(page, []byte(before+begin+want.String()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		got = want.String()
	}
	if diff := gocmp.Diff(got, want.String()); diff != "" {
		t.Errorf("run the test with -update and read the difference before committing it (-page +code):\n%s", diff)
	}
}

// exampleOf is the first example that a rule decides.
func exampleOf(t *testing.T, r rule) *apierrors.StatusError {
	t.Helper()
	for _, e := range examples() {
		if ruleFor(e.err.Status()).answer == r.answer {
			return e.err
		}
	}
	t.Fatalf("no example of the rule %q", r.answer)
	return nil
}
