package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	goruntime "runtime"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"github.com/trainjob/controller/pkg/metrics"
)

// check is one named question to the process; an error is the answer "no".
type check struct {
	name string
	ask  func(*http.Request) error
}

// newServeMux serves /healthz (should this process be restarted?), /readyz (can it
// do its work?) and /metrics, and with profiling /debug/pprof.
func newServeMux(health, ready []check, profiling bool) *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", serveChecks(health))
	mux.HandleFunc("GET /readyz", serveChecks(ready))
	mux.Handle("GET /metrics", metrics.Handler())
	if profiling {
		profile(mux)
	}
	return mux
}

// profile serves what the Go runtime records. A CPU profile may take longer than the
// server's timeout for writing: the handler moves that for itself.
func profile(mux *http.ServeMux) {
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
}

// recordContention records every wait of a goroutine for a lock or a channel.
func recordContention() {
	goruntime.SetBlockProfileRate(1)
	goruntime.SetMutexProfileFraction(1)
}

func serveChecks(checks []check) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var failed []string
		for _, c := range checks {
			if err := c.ask(r); err != nil {
				failed = append(failed, fmt.Sprintf("%s: %v", c.name, err))
			}
		}
		if len(failed) > 0 {
			http.Error(w, strings.Join(failed, "\n"), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	}
}

// serve answers on the address until ctx ends. It listens before it returns, so that
// an address in use is an error at start and not a line in the log.
func serve(ctx context.Context, address string, handler http.Handler) (stop func(), err error) {
	if address == "0" {
		return func() {}, nil
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--bind-address %q: %w", address, err)
	}
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 1 << 16,
	}
	done := make(chan struct{})
	logger := klog.FromContext(ctx)
	logger.Info("Serving health and metrics", "address", listener.Addr().String())
	go func() {
		defer close(done)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			logger.Error(err, "Serving health and metrics has ended")
		}
	}()
	return func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
		defer cancel()
		if err := server.Shutdown(closing); err != nil {
			_ = server.Close() // connections that did not end by themselves
		}
		<-done
	}, nil
}
