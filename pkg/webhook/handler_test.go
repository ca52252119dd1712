package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	componentmetrics "k8s.io/component-base/metrics"
	"k8s.io/utils/clock"

	"github.com/trainjob/controller/pkg/metrics"
)

// post sends a body to a handler.
func post(t testing.TB, h http.Handler, path string, body []byte) *httptest.ResponseRecorder {
	t.Helper()
	request := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body))
	request.Header.Set("Content-Type", "application/json; charset=utf-8")
	recorder := httptest.NewRecorder()
	h.ServeHTTP(recorder, request)
	return recorder
}

// answered reads the answer to a review, which must be well formed.
func answered(t testing.TB, recorder *httptest.ResponseRecorder, uid string) *admissionv1.AdmissionResponse {
	t.Helper()
	var review admissionv1.AdmissionReview
	decoder := json.NewDecoder(recorder.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&review); err != nil {
		t.Fatalf("%d: %v", recorder.Code, err)
	}
	response := review.Response
	switch {
	case recorder.Code != http.StatusOK || review.TypeMeta != reviewType || response == nil:
		t.Fatalf("%d: %+v", recorder.Code, review)
	case string(response.UID) != uid:
		t.Fatalf("the answer is to %q, not to %q", response.UID, uid)
	case (response.Patch == nil) != (response.PatchType == nil) || (response.Patch != nil && !response.Allowed):
		t.Fatalf("allowed %v, patch type %v, patch %s", response.Allowed, response.PatchType, response.Patch)
	case !response.Allowed && (response.Result == nil || response.Result.Message == "" || response.Result.Code < 400 || response.Result.Reason == ""):
		t.Fatalf("refused without a reason: %+v", response.Result)
	}
	for _, warning := range response.Warnings {
		if strings.ContainsAny(warning, "\n\r") || utf8.RuneCountInString(warning) > maxWarning {
			t.Fatalf("a warning that API servers cut: %q", warning)
		}
	}
	return response
}

func handlerOf(review review) *handler {
	return &handler{path: "/x", review: review, clock: clock.RealClock{}, metrics: metrics.NewWebhook("/x"), limits: newLimits(1, 1)}
}

func TestWhatIsNoReviewIsRefused(t *testing.T) {
	never := handlerOf(func(context.Context, *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		t.Error("it was judged")
		return allowed()
	})
	large := `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"a","object":"` + strings.Repeat("x", MaxBody) + `"}}`
	cases := map[string]struct {
		method, media, body string
		status              int
		want                string
	}{
		"another method":          {"GET", "application/json", "", 405, "POST"},
		"another media type":      {"POST", "application/yaml", "{}", 415, "application/yaml"},
		"no media type":           {"POST", "", "{}", 415, "want application/json"},
		"nothing":                 {"POST", "application/json", "", 400, "no AdmissionReview"},
		"no JSON":                 {"POST", "application/json", "hello", 400, "no AdmissionReview"},
		"a list":                  {"POST", "application/json", "[]", 400, "no AdmissionReview"},
		"null":                    {"POST", "application/json", "null", 400, `apiVersion ""`},
		"another kind":            {"POST", "application/json", `{"apiVersion":"v1","kind":"Pod"}`, 400, `kind "Pod"`},
		"another version":         {"POST", "application/json", `{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","request":{"uid":"a"}}`, 400, "v1beta1"},
		"keys of another case":    {"POST", "application/json", `{"APIVersion":"admission.k8s.io/v1","Kind":"AdmissionReview","request":{"uid":"a"}}`, 400, `apiVersion ""`},
		"no request":              {"POST", "application/json", `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`, 400, "no request"},
		"a request without a uid": {"POST", "application/json", `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{}}`, 400, "uid"},
		"a uid of another type":   {"POST", "application/json", `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":7}}`, 400, "uid"},
		"too much":                {"POST", "application/json", large, 413, "larger than"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			for _, known := range []bool{true, false} {
				request := httptest.NewRequest(tc.method, "/x", strings.NewReader(tc.body))
				if !known {
					request.ContentLength = -1 // as of a body that comes in chunks
				}
				request.Header.Set("Content-Type", tc.media)
				recorder := httptest.NewRecorder()
				never.ServeHTTP(recorder, request)
				if recorder.Code != tc.status || !strings.Contains(recorder.Body.String(), tc.want) {
					t.Errorf("got %d %q, want %d with %q", recorder.Code, recorder.Body, tc.status, tc.want)
				}
			}
		})
	}
}

const someReview = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"a"}}`

func TestAPanicIsAnsweredAndTheNextReviewToo(t *testing.T) {
	panics := true
	h := handlerOf(func(context.Context, *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		if panics {
			panic("a bug")
		}
		return allowed()
	})
	response := answered(t, post(t, h, "/x", []byte(someReview)), "a")
	if response.Allowed || response.Result.Code != http.StatusInternalServerError || strings.Contains(response.Result.Message, "a bug") {
		t.Errorf("answer %+v", response.Result)
	}
	panics = false
	if !answered(t, post(t, h, "/x", []byte(someReview)), "a").Allowed {
		t.Error("the next one is refused")
	}
}

func TestWhoWaitsInVainIsForgotten(t *testing.T) {
	large := `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"a","name":"` + strings.Repeat("x", smallBody) + `"}}`
	cases := map[string]struct {
		body   string
		places func(*limits) chan struct{}
		media  string
		result string
	}{
		"for being judged":               {someReview, func(l *limits) chan struct{} { return l.judged }, "application/json", "error"},
		"for room in memory":             {large, func(l *limits) chan struct{} { return l.large }, "application/json", "error"},
		"not at all when it is nonsense": {someReview, func(l *limits) chan struct{} { return l.judged }, "text/plain", "malformed"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			h := handlerOf(func(context.Context, *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse { return allowed() })
			registry := componentmetrics.NewKubeRegistry()
			if err := h.metrics.Register(registry.Register); err != nil {
				t.Fatal(err)
			}
			tc.places(h.limits) <- struct{}{}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			request := httptest.NewRequest(http.MethodPost, "/x", strings.NewReader(tc.body)).WithContext(ctx)
			request.Header.Set("Content-Type", tc.media)
			h.ServeHTTP(httptest.NewRecorder(), request) // returns
			families, err := registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			var counted []string
			for _, family := range families {
				for _, series := range family.GetMetric() {
					for _, label := range series.GetLabel() {
						if label.GetName() == "result" {
							counted = append(counted, label.GetValue())
						}
					}
				}
			}
			if diff := cmp.Diff([]string{tc.result}, counted); diff != "" {
				t.Errorf("results (-want +got):\n%s", diff)
			}
			if n := len(h.limits.judged) + len(h.limits.large); n != 1 {
				t.Errorf("%d places are held, want the one of this test", n)
			}
		})
	}
}

func TestALargeReviewIsReadWholeAndLeavesItsPlaces(t *testing.T) {
	name := strings.Repeat("x", 3*smallBody)
	large := `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"a","name":"` + name + `"}}`
	h := handlerOf(func(_ context.Context, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		if request.Name != name {
			t.Errorf("the name has %d bytes, want %d", len(request.Name), len(name))
		}
		return allowed()
	})
	for _, known := range []bool{true, false} {
		request := httptest.NewRequest(http.MethodPost, "/x", strings.NewReader(large))
		if !known {
			request.ContentLength = -1
		}
		request.Header.Set("Content-Type", "application/json")
		recorder := httptest.NewRecorder()
		h.ServeHTTP(recorder, request)
		if !answered(t, recorder, "a").Allowed {
			t.Error("it is refused")
		}
	}
	if n := len(h.limits.judged) + len(h.limits.large); n != 0 {
		t.Errorf("%d places are still held", n)
	}
}

func TestResultsAreCounted(t *testing.T) {
	for want, response := range map[metrics.ReviewResult]*admissionv1.AdmissionResponse{
		metrics.ReviewAllowed: allowed("careful"),
		metrics.ReviewRefused: failed(422, metav1.StatusReasonInvalid, "no"),
		metrics.ReviewError:   failed(500, metav1.StatusReasonInternalError, "broken"),
	} {
		if got := resultOf(response); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestWarningsFitIntoWhatAPIServersPassOn(t *testing.T) {
	long := strings.Repeat("ä", 300)
	cases := map[string]struct{ warnings, want []string }{
		"none":                    {nil, nil},
		"short ones":              {[]string{"one", "two"}, []string{"one", "two"}},
		"several lines":           {[]string{"one\n two\r\n\tthree"}, []string{"one two three"}},
		"a long one":              {[]string{long}, []string{strings.Repeat("ä", 255) + "…"}},
		"more than are shown":     {slices.Repeat([]string{long}, 20), append(slices.Repeat([]string{strings.Repeat("ä", 255) + "…"}, 15), "and 5 more warnings")},
		"as many as can be shown": {slices.Repeat([]string{"x"}, 100), slices.Repeat([]string{"x"}, 100)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, limitWarnings(tc.warnings)); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheProbeIsAnsweredByTheHandler(t *testing.T) {
	server := httptest.NewServer(NewHandler(Config{Clock: clock.RealClock{}, Metrics: metrics.NewWebhook()}))
	defer server.Close()
	request, err := ProbeRequest(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	response, err := server.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if err := CheckProbe(response); err != nil {
		t.Error(err)
	}
	other, err := server.Client().Get(server.URL + "/probe")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Body.Close()
	if err := CheckProbe(other); err == nil || !strings.Contains(err.Error(), fmt.Sprint(http.StatusMethodNotAllowed)) {
		t.Errorf("another answer passes: %v", err)
	}
}

// A review that has waited for its turn until its caller gave up is not judged: the work
// would be for nobody, and others wait for it.
func TestAReviewEndsWithItsRequest(t *testing.T) {
	judged := 0
	h := handlerOf(func(ctx context.Context, _ *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		judged++
		if _, limited := ctx.Deadline(); !limited {
			t.Error("the review may go on for ever")
		}
		return allowed()
	})
	request := func(ctx context.Context, address string) *http.Request {
		r := httptest.NewRequest(http.MethodPost, address, strings.NewReader(someReview)).WithContext(ctx)
		r.Header.Set("Content-Type", "application/json")
		return r
	}
	h.ServeHTTP(httptest.NewRecorder(), request(t.Context(), "/x?timeout=5s"))
	h.ServeHTTP(httptest.NewRecorder(), request(t.Context(), "/x"))
	if judged != 2 {
		t.Fatalf("%d of 2 reviews were judged", judged)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	response, result := h.answer(gone, &admissionv1.AdmissionRequest{UID: "a"})
	if judged != 2 || response.Allowed || response.UID != "a" || result != metrics.ReviewError {
		t.Errorf("a review whose caller has left: judged %d, %+v, %v", judged-2, response, result)
	}
	h.ServeHTTP(httptest.NewRecorder(), request(t.Context(), "/x?timeout=1ns"))
	if judged != 2 {
		t.Error("a review is judged although its time is over")
	}
}

func TestHowLongACallerWaits(t *testing.T) {
	for address, want := range map[string]time.Duration{
		"/x": 30 * time.Second, "/x?timeout=5s": 5 * time.Second, "/x?timeout=1h": 30 * time.Second, "/x?timeout=-1s": 30 * time.Second, "/x?timeout=x": 30 * time.Second,
	} {
		if got := answerIn(httptest.NewRequest(http.MethodPost, address, nil)); got != want {
			t.Errorf("%s: %v, want %v", address, got, want)
		}
	}
}
