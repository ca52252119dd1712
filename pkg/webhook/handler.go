package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"runtime/debug"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/trainjob/controller/pkg/metrics"
)

const (
	// MaxBody is the most bytes of a request. The API server takes objects of 3 MiB at
	// most, and a review of an update holds two and who asks for it.
	MaxBody = 2*(3<<20) + 1<<18
	// smallBody is what nearly all reviews are smaller than. That much of a request is
	// read whoever sends it, and costs about as much memory as its connection does.
	smallBody = 1 << 16
	// maxWait for a place is as long as the configurations let the API server wait for an
	// answer.
	maxWait = 5 * time.Second
)

// review judges one request. It must not keep or change the request.
type review func(context.Context, *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse

// handler answers the admission reviews of one path.
type handler struct {
	path    string
	review  review
	clock   clock.PassiveClock
	metrics *metrics.Webhook
	limits  *limits
}

// limits bound the memory that requests can take, all paths together.
type limits struct {
	// judged has a place for each review that is decoded and judged at the same time.
	// Nobody holds one while its request is still on the way, so that slow clients keep
	// nobody from being answered.
	judged chan struct{}
	// large has a place for each request of more than smallBody that is in memory, until
	// it is answered. Slow clients can hold these, and then small reviews still pass.
	large chan struct{}
}

func newLimits(judged, large int) *limits {
	return &limits{judged: make(chan struct{}, judged), large: make(chan struct{}, large)}
}

// enter waits for a place. The error says that none became free in time.
func enter(ctx context.Context, places chan struct{}) error {
	select {
	case places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return &httpError{http.StatusServiceUnavailable, "too many reviews at a time: try again"}
	}
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
	ctx, cancel := context.WithTimeout(r.Context(), answerIn(r))
	defer cancel()
	r = r.WithContext(ctx)
	defer func() { h.metrics.Reviewed(h.path, result, h.clock.Since(started)) }()
	asked, leave, err := h.take(w, r)
	defer leave()
	if err != nil {
		if statusOf(err) >= http.StatusInternalServerError {
			result = metrics.ReviewError
		}
		refuseHTTP(w, err)
		return
	}
	var response *admissionv1.AdmissionResponse
	response, result = h.answer(ctx, asked.Request)
	respond(w, response)
}

// answerIn is how long the caller waits: API servers say it in the address. Whoever says
// nothing waits as long as API servers do at most.
func answerIn(r *http.Request) time.Duration {
	const most = 30 * time.Second
	if wait, err := time.ParseDuration(r.URL.Query().Get("timeout")); err == nil && wait > 0 {
		return min(wait, most)
	}
	return most
}

func respond(w http.ResponseWriter, response *admissionv1.AdmissionResponse) {
	body, err := json.Marshal(&admissionv1.AdmissionReview{TypeMeta: reviewType, Response: response})
	if err != nil { // cannot be: all of it is plain values
		refuseHTTP(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	// Whether somebody still listens is not ours to know.
	_, _ = w.Write(body)
}

// answerProbe allows what is a review. It stands outside of the limits: a server that is
// busy is ready all the same.
func answerProbe(w http.ResponseWriter, r *http.Request) {
	if err := checkHead(r); err != nil {
		refuseHTTP(w, err)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, smallBody))
	if err != nil {
		refuseHTTP(w, readError(err))
		return
	}
	asked, err := decodeReview(body)
	if err != nil {
		refuseHTTP(w, err)
		return
	}
	response := allowed()
	response.UID = asked.Request.UID
	respond(w, response)
}

var reviewType = metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"}

// take reads a request, waits until it may be judged, and decodes it, or says what is
// wrong with it. leave, never nil, is to be called when it is answered.
func (h *handler) take(w http.ResponseWriter, r *http.Request) (asked *admissionv1.AdmissionReview, leave func(), err error) {
	var held []chan struct{}
	leave = func() {
		for _, places := range held {
			<-places
		}
	}
	// Not only until the client goes: as long as its body is not read, the server does
	// not notice.
	waiting, cancel := context.WithTimeout(r.Context(), maxWait)
	defer cancel()
	hold := func(places chan struct{}) error {
		err := enter(waiting, places)
		if err == nil {
			held = append(held, places)
		}
		return err
	}
	if err := checkHead(r); err != nil {
		return nil, leave, err
	}
	limited := http.MaxBytesReader(w, r.Body, MaxBody)
	body, err := io.ReadAll(io.LimitReader(limited, smallBody+1))
	if err == nil && len(body) > smallBody {
		if err := hold(h.limits.large); err != nil {
			return nil, leave, err
		}
		// The wait was not the client's fault. What has no deadline, a test's recorder,
		// does without.
		_ = http.NewResponseController(w).SetReadDeadline(h.clock.Now().Add(readTimeout))
		body, err = readOn(body, limited, r.ContentLength)
	}
	if err != nil {
		return nil, leave, readError(err)
	}
	if err := hold(h.limits.judged); err != nil {
		return nil, leave, err
	}
	asked, err = decodeReview(body)
	return asked, leave, err
}

// readOn reads the rest of a large body, whose length is negative if it is not known.
func readOn(start []byte, rest io.Reader, length int64) ([]byte, error) {
	if length < 0 {
		length = MaxBody
	}
	// All the room at once: a buffer that grows would be in memory twice.
	body := bytes.NewBuffer(make([]byte, 0, length+2*bytes.MinRead))
	body.Write(start)
	_, err := body.ReadFrom(rest)
	return body.Bytes(), err
}

// checkHead says what is wrong with a request before its body is read.
func checkHead(r *http.Request) error {
	if r.Method != http.MethodPost {
		return &httpError{http.StatusMethodNotAllowed, "admission reviews come by POST, not " + r.Method}
	}
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return &httpError{http.StatusUnsupportedMediaType, fmt.Sprintf("Content-Type is %q, want application/json", r.Header.Get("Content-Type"))}
	}
	if r.ContentLength > MaxBody {
		return readError(&http.MaxBytesError{Limit: MaxBody})
	}
	return nil
}

func readError(err error) error {
	var over *http.MaxBytesError
	if errors.As(err, &over) {
		return &httpError{http.StatusRequestEntityTooLarge, fmt.Sprintf("the review is larger than %d bytes", over.Limit)}
	}
	return &httpError{http.StatusBadRequest, fmt.Sprintf("read the review: %v", err)}
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

func statusOf(err error) int {
	var known *httpError
	if errors.As(err, &known) {
		return known.status
	}
	return http.StatusInternalServerError
}

func refuseHTTP(w http.ResponseWriter, err error) {
	status := statusOf(err)
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
	if err := ctx.Err(); err != nil { // it has waited for its turn too long
		return failed(http.StatusGatewayTimeout, metav1.StatusReasonTimeout, "the review was not begun in time: try again"), metrics.ReviewError
	}
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
