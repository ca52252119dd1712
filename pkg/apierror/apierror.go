package apierror

import (
	"errors"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Meaning is what an error says about the call that got it.
type Meaning string

const (
	// None: there was no error.
	None Meaning = "None"
	// Gone: the object that was named is not there.
	Gone Meaning = "Gone"
	// Exists: there is an object of that name already.
	Exists Meaning = "Exists"
	// Conflict: the object has changed since it was read, or is another one.
	Conflict Meaning = "Conflict"
	// Terminating: the namespace is going away, or gone.
	Terminating Meaning = "Terminating"
	// MissingKind: the API server does not serve the kind, at all or in that version.
	MissingKind Meaning = "MissingKind"
	// TooLarge: what was sent is more than the API server or its storage takes.
	TooLarge Meaning = "TooLarge"
	// Invalid: somebody who has looked at what was sent does not take it as it is.
	Invalid Meaning = "Invalid"
	// Refused: what was sent is not taken now, whatever is in it.
	Refused Meaning = "Refused"
	// Passing: nothing was decided, the API server is busy with itself.
	Passing Meaning = "Passing"
	// NoAnswer: nothing was decided, there was no answer of the API server.
	NoAnswer Meaning = "NoAnswer"
)

// Refusal says whether the API server has decided against what was sent, and will again
// until somebody does something: the user is to be told.
func (m Meaning) Refusal() bool {
	return m == MissingKind || m == TooLarge || m == Invalid || m == Refused
}

// Content says whether it is for what is in it that the object was not taken.
func (m Meaning) Content() bool { return m == TooLarge || m == Invalid }

// rule is a kind of answer, and what it means.
type rule struct {
	answer  string
	fits    func(answer metav1.Status) bool
	meaning Meaning
}

// rules are tried in this order. The last takes every answer: one that is not known is a
// refusal, since silence about it could last for ever.
var rules = []rule{
	// First, because a webhook may choose any code and reason for its denial.
	{"an admission webhook denies it, with whatever code and reason", deniedByWebhook, Invalid},
	{"the namespace is being deleted", cause(corev1.NamespaceTerminatingCause), Terminating},
	{"the namespace does not exist", namespaceMissing, Terminating},
	{"the path is not served: the CRD, or its version, is away", pathMissing, MissingKind},
	{"the object does not exist", is(404, metav1.StatusReasonNotFound), Gone},
	{"an object of the name exists", reason(metav1.StatusReasonAlreadyExists), Exists},
	{"the object, or the quota it counts towards, has changed meanwhile; a precondition does not hold", is(409, metav1.StatusReasonConflict), Conflict},
	{"the request is larger than the API server takes", is(413, metav1.StatusReasonRequestEntityTooLarge), TooLarge},
	{"the object is larger than etcd takes", text("etcdserver: request is too large", "larger than max"), TooLarge},
	{"etcd has no leader, is slow or busy", text("etcdserver: leader changed", "etcdserver: no leader", "etcdserver: request timed out", "etcdserver: too many requests", "code = Unavailable"), Passing},
	{"the object breaks a rule of its schema, of validation or of an admission policy", is(422, metav1.StatusReasonInvalid), Invalid},
	{"the request cannot be understood", is(400, metav1.StatusReasonBadRequest), Invalid},
	{"a quota, a right or a policy does not allow it", is(403, metav1.StatusReasonForbidden), Refused},
	{"the credentials are not known", is(401, metav1.StatusReasonUnauthorized), Refused},
	{"the kind does not take such requests now: its CRD is being deleted", is(405, metav1.StatusReasonMethodNotAllowed), Refused},
	{"too many requests", is(429, metav1.StatusReasonTooManyRequests), Passing},
	{"the API server is starting, stopping or overloaded", is(503, metav1.StatusReasonServiceUnavailable), Passing},
	{"the API server, or a part of it, did not get to it in time", is(504, metav1.StatusReasonTimeout, metav1.StatusReasonServerTimeout), Passing},
	{"a webhook could not be called", text("failed calling webhook", "conversion webhook"), Refused},
	{"any other answer", func(metav1.Status) bool { return true }, Refused},
}

// Of says what an error means. Of errors that wrap one another it is the first answer of
// the API server that counts.
func Of(err error) Meaning {
	if err == nil {
		return None
	}
	var answer apierrors.APIStatus
	switch {
	case errors.As(err, &answer):
		return ruleFor(answer.Status()).meaning
	case meta.IsNoMatchError(err):
		return MissingKind
	}
	return NoAnswer
}

// RetryAfter is the time that the API server asks to wait before another try; 0 is none.
func RetryAfter(err error) time.Duration {
	seconds, _ := apierrors.SuggestsClientDelay(err)
	return time.Duration(seconds) * time.Second
}

func ruleFor(answer metav1.Status) rule {
	return rules[slices.IndexFunc(rules, func(r rule) bool { return r.fits(answer) })]
}

// is fits a code without a reason, and any of the reasons.
func is(code int32, reasons ...metav1.StatusReason) func(metav1.Status) bool {
	return func(answer metav1.Status) bool {
		return slices.Contains(reasons, answer.Reason) || answer.Reason == metav1.StatusReasonUnknown && answer.Code == code
	}
}

func reason(reason metav1.StatusReason) func(metav1.Status) bool {
	return func(answer metav1.Status) bool { return answer.Reason == reason }
}

func cause(kind metav1.CauseType) func(metav1.Status) bool {
	return func(answer metav1.Status) bool {
		return answer.Details != nil &&
			slices.ContainsFunc(answer.Details.Causes, func(c metav1.StatusCause) bool { return c.Type == kind })
	}
}

// text fits answers that nothing but their text tells apart.
func text(parts ...string) func(metav1.Status) bool {
	return func(answer metav1.Status) bool {
		return answer.Code == 500 &&
			slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(answer.Message, part) })
	}
}

// deniedByWebhook goes by the words that the API server puts before those of the webhook:
// the rest of the answer is the webhook's.
func deniedByWebhook(answer metav1.Status) bool {
	name, found := strings.CutPrefix(answer.Message, `admission webhook "`)
	return found && strings.Contains(name, `" denied the request`)
}

func namespaceMissing(answer metav1.Status) bool {
	return answer.Reason == metav1.StatusReasonNotFound && answer.Details != nil && answer.Details.Kind == "namespaces"
}

// pathMissing fits what is no answer about an object: it comes from nobody who knows the
// kind, or it names no object.
func pathMissing(answer metav1.Status) bool {
	return answer.Reason == metav1.StatusReasonNotFound &&
		(cause(metav1.CauseTypeUnexpectedServerResponse)(answer) || answer.Details == nil || answer.Details.Name == "")
}
