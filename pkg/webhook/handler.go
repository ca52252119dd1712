package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"runtime/debug"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/trainjob/controller/pkg/metrics"
)

// MaxBody is the most bytes of a request. The API server takes objects of 3 MiB at
// most, and a review of an update holds two.
const MaxBody = 8 << 20

// review judges one request. It must not keep or change the request.
type review func(context.Context, *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse

// handler answers the admission reviews of one path.
type handler struct {
	path    string
	review  review
	clock   clock.PassiveClock
	metrics *metrics.Webhook
	// slots bound the number of reviews that are read and judged at the same time.
	slots chan struct{}
}

// httpError is an answer to what is no admission review.
type httpError struct {
	status  int
	message string
}

func (e *httpError) Error() string { return e.message }

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	started := h.clock.Now()
	result := metrics.ReviewMalformed
	defer func() { h.metrics.Reviewed(h.path, result, h.clock.Since(started)) }()
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	case <-r.Context().Done():
		return // nobody waits for an answer any more
	}
	asked, err := read(w, r)
	if err != nil {
		refuseHTTP(w, err)
		return
	}
	var response *admissionv1.AdmissionResponse
	response, result = h.answer(r.Context(), asked.Request)
	body, err := json.Marshal(&admissionv1.AdmissionReview{TypeMeta: reviewType, Response: response})
	if err != nil { // cannot be: all of it is plain values
		refuseHTTP(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	// Whether somebody still listens is not ours to know.
	_, _ = w.Write(body)
}

var reviewType = metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"}

// read takes the review out of a request, or says what is wrong with it.
func read(w http.ResponseWriter, r *http.Request) (*admissionv1.AdmissionReview, error) {
	if r.Method != http.MethodPost {
		return nil, &httpError{http.StatusMethodNotAllowed, "admission reviews come by POST, not " + r.Method}
	}
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return nil, &httpError{http.StatusUnsupportedMediaType, fmt.Sprintf("Content-Type is %q, want application/json", r.Header.Get("Content-Type"))}
	}
	tooLarge := &httpError{http.StatusRequestEntityTooLarge, fmt.Sprintf("the review is larger than %d bytes", MaxBody)}
	if r.ContentLength > MaxBody {
		return nil, tooLarge
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return nil, tooLarge
	case err != nil:
		return nil, &httpError{http.StatusBadRequest, fmt.Sprintf("read the review: %v", err)}
	}
	return decodeReview(body)
}

// decodeReview reads an AdmissionReview with a request in it.
func decodeReview(body []byte) (*admissionv1.AdmissionReview, error) {
	asked := &admissionv1.AdmissionReview{}
	if err := utiljson.Unmarshal(body, asked); err != nil {
		return nil, &httpError{http.StatusBadRequest, fmt.Sprintf("the body is no AdmissionReview: %v", err)}
	}
	if asked.TypeMeta != reviewType {
		return nil, &httpError{http.StatusBadRequest, fmt.Sprintf("the body is apiVersion %q, kind %q; want %s and %s",
			asked.APIVersion, asked.Kind, reviewType.APIVersion, reviewType.Kind)}
	}
	if asked.Request == nil || asked.Request.UID == "" {
		return nil, &httpError{http.StatusBadRequest, "the AdmissionReview has no request with a uid"}
	}
	return asked, nil
}

func refuseHTTP(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	var known *httpError
	if errors.As(err, &known) {
		status = known.status
	}
	if status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", http.MethodPost)
	}
	http.Error(w, err.Error(), status)
}

// panicked is what the user reads after a panic, whose text is not for users.
const panicked = "internal error of trainjob-controller while reviewing the object: please report it, with the controller's log"

// answer judges a request. A panic costs this one answer and not the process.
func (h *handler) answer(ctx context.Context, request *admissionv1.AdmissionRequest) (response *admissionv1.AdmissionResponse, result metrics.ReviewResult) {
	defer func() {
		if cause := recover(); cause != nil {
			klog.FromContext(ctx).Error(nil, "A review has panicked, the request is refused",
				"panic", fmt.Sprint(cause), "path", h.path, "operation", request.Operation, "object", klog.KRef(request.Namespace, request.Name), "stack", string(debug.Stack()))
			response = failed(http.StatusInternalServerError, metav1.StatusReasonInternalError, panicked)
			result = metrics.ReviewPanic
		}
		response.UID = request.UID
	}()
	response = h.review(ctx, request)
	response.Warnings = limitWarnings(response.Warnings)
	return response, resultOf(response)
}

func resultOf(response *admissionv1.AdmissionResponse) metrics.ReviewResult {
	switch {
	case response.Allowed:
		return metrics.ReviewAllowed
	case response.Result != nil && response.Result.Code >= http.StatusInternalServerError:
		return metrics.ReviewError
	}
	return metrics.ReviewRefused
}

func allowed(warnings ...string) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{Allowed: true, Warnings: warnings}
}

func failed(code int32, reason metav1.StatusReason, message string) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{Result: &metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message,
	}}
}
