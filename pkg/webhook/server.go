package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/trainjob/controller/pkg/metrics"
)

// Paths of the webhooks, as artifacts/webhook names them.
const (
	PathMutateTrainJob   = "/mutate-trainjob"
	PathValidateTrainJob = "/validate-trainjob"
	PathValidateRuntime  = "/validate-runtime"

	// pathProbe is for the server's own readiness check.
	pathProbe = "/probe"
)

// Paths lists the paths of the webhooks.
func Paths() []string { return []string{PathMutateTrainJob, PathValidateTrainJob, PathValidateRuntime} }

const (
	// maxReviews is how many reviews are judged at the same time, and maxLarge how many
	// large ones are in memory; more wait. They bound what requests take to
	// maxReviews × smallBody + maxLarge × MaxBody = 33 MiB, and a few times that once
	// they are decoded, which the memory limit of the Deployment has room for.
	maxReviews = 128
	maxLarge   = 4
	// readTimeout is short: the API server sends what it has at once.
	readTimeout = 3 * time.Second
	// drainTimeout is longer than the API server waits for an answer.
	drainTimeout = 10 * time.Second
)

// Config is what a Server works with.
type Config struct {
	Sources Sources
	// OpaqueKinds are the kinds of runtimes that somebody else builds from.
	OpaqueKinds sets.Set[schema.GroupKind]
	Clock       clock.PassiveClock
	Metrics     *metrics.Webhook
}

// NewHandler answers admission reviews.
func NewHandler(config Config) http.Handler {
	jobs := &trainJobs{sources: config.Sources, opaque: config.OpaqueKinds, clock: config.Clock}
	return newMux(newLimits(maxReviews, maxLarge), map[string]review{
		PathMutateTrainJob:   jobs.fillIn,
		PathValidateTrainJob: jobs.check,
		PathValidateRuntime:  checkRuntime,
	}, config)
}

func newMux(limits *limits, reviews map[string]review, config Config) http.Handler {
	mux := http.NewServeMux()
	for path, review := range reviews {
		mux.Handle(path, &handler{path: path, review: review, clock: config.Clock, metrics: config.Metrics, limits: limits})
	}
	// Not measured: nobody's request waits for it.
	mux.HandleFunc(pathProbe, answerProbe)
	return mux
}

// ProbeRequest makes a review that NewHandler's handler allows whatever it knows.
func ProbeRequest(ctx context.Context, url string) (*http.Request, error) {
	body, err := json.Marshal(&admissionv1.AdmissionReview{TypeMeta: reviewType, Request: &admissionv1.AdmissionRequest{UID: "probe"}})
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+pathProbe, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	return request, nil
}

// CheckProbe says whether an answer is the one that ProbeRequest asks for.
func CheckProbe(response *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<16))
	if err != nil {
		return err
	}
	var answer admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &answer); err != nil || answer.Response == nil || answer.Response.UID != "probe" || !answer.Response.Allowed {
		return fmt.Errorf("the answer is %s: %.100q", response.Status, body)
	}
	return nil
}

// TLS says how the server speaks it.
type TLS struct {
	GetCertificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	MinVersion     uint16
	HTTP2          bool
}

// Server is a running webhook server.
type Server struct {
	http     *http.Server
	draining atomic.Bool
	listener net.Listener
	done     chan struct{}
}

// Serve listens on an address and answers until Stop. An address in use is an error now.
func Serve(ctx context.Context, address string, settings TLS, handler http.Handler) (*Server, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	logger := klog.FromContext(ctx)
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(settings.HTTP2)
	s := &Server{
		listener: listener, done: make(chan struct{}),
		http: &http.Server{
			Protocols:         protocols,
			TLSConfig:         &tls.Config{GetCertificate: settings.GetCertificate, MinVersion: settings.MinVersion},
			ReadHeaderTimeout: readTimeout, ReadTimeout: readTimeout, WriteTimeout: 30 * time.Second,
			// Longer than API servers keep a connection, so that they end it and never
			// send a review into one that is just being closed.
			IdleTimeout: 3 * time.Minute, MaxHeaderBytes: 1 << 16,
			ErrorLog:    log.New(connectionLog{logger}, "", 0),
			BaseContext: func(net.Listener) context.Context { return klog.NewContext(context.Background(), logger) },
		},
	}
	s.http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.draining.Load() {
			w.Header().Set("Connection", "close")
		}
		handler.ServeHTTP(w, r)
	})
	go func() {
		defer close(s.done)
		if err := s.http.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
			logger.Error(err, "Serving webhooks has ended")
		}
	}()
	logger.Info("Serving webhooks", "address", listener.Addr().String())
	return s, nil
}

// Address the server listens on.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Drain goes on answering and makes clients come back over new connections, which lead
// to other replicas once these are all that the Service knows. Connections that are idle
// are left to their clients: one that was closed here could have a review on its way.
func (s *Server) Drain() { s.draining.Store(true) }

// Stop takes no more requests and waits for those that are being answered.
func (s *Server) Stop(ctx context.Context) {
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	if err := s.http.Shutdown(closing); err != nil {
		_ = s.http.Close() // connections that did not end by themselves
	}
	<-s.done
}

// connectionLog takes what net/http says about single connections, mostly failed
// handshakes. Anybody who can reach the port can cause them.
type connectionLog struct{ logger klog.Logger }

func (l connectionLog) Write(line []byte) (int, error) {
	logger := l.logger.V(2)
	logger.Info("Webhook connection", "message", strings.TrimSpace(string(line)))
	return len(line), nil
}
