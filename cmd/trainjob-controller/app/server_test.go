package app

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestChecksAnswerWithEveryReason(t *testing.T) {
	fine := check{"fine", func(*http.Request) error { return nil }}
	late := check{"late", func(*http.Request) error { return errors.New("not yet") }}
	stuck := check{"stuck", func(*http.Request) error { return errors.New("for ever") }}
	mux := newServeMux([]check{fine}, []check{late, fine, stuck}, false)
	cases := map[string]struct {
		path   string
		status int
		body   string
	}{
		"healthy":              {"/healthz", http.StatusOK, "ok\n"},
		"not ready, two ways":  {"/readyz", http.StatusServiceUnavailable, "late: not yet\nstuck: for ever\n"},
		"an unknown path":      {"/debug/pprof/", http.StatusNotFound, "404 page not found\n"},
		"metrics are exported": {"/metrics", http.StatusOK, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			recorder := httptest.NewRecorder()
			mux.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, tc.path, nil))
			if recorder.Code != tc.status || !strings.HasPrefix(recorder.Body.String(), tc.body) {
				t.Errorf("got %d %q, want %d %q", recorder.Code, recorder.Body, tc.status, tc.body)
			}
		})
	}
}

func TestProfilesAreServedOnlyWhenAskedFor(t *testing.T) {
	for _, profiling := range []bool{true, false} {
		mux := newServeMux(nil, nil, profiling)
		for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/cmdline"} {
			recorder := httptest.NewRecorder()
			mux.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
			if served := recorder.Code == http.StatusOK; served != profiling {
				t.Errorf("--profiling=%t: %s answers %d", profiling, path, recorder.Code)
			}
		}
	}
}

func TestAnAddressInUseIsAnErrorAtStart(t *testing.T) {
	taken := httptest.NewServer(http.NotFoundHandler())
	defer taken.Close()
	address := strings.TrimPrefix(taken.URL, "http://")
	_, err := serve(context.Background(), address, http.NotFoundHandler())
	if err == nil || !strings.Contains(err.Error(), address) {
		t.Errorf("error %v does not name the address", err)
	}
}
