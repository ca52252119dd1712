package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/utils/clock"

	"github.com/trainjob/controller/pkg/metrics"
)

// serving starts a server at a free port, and makes a client that trusts it.
func serving(t *testing.T, settings TLS, handler http.Handler) (*Server, *http.Client, *tls.Config) {
	t.Helper()
	certPEM, keyPEM, err := certutil.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	settings.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &pair, nil }
	server, err := Serve(t.Context(), "127.0.0.1:0", settings, handler)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Stop(context.Background()) })
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certPEM)
	config := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}, Timeout: 20 * time.Second}
	t.Cleanup(client.CloseIdleConnections)
	return server, client, config
}

func hello(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }

func TestOnlyTheTLSThatWasAskedForIsSpoken(t *testing.T) {
	cases := map[string]struct {
		settings TLS
		client   uint16
		accepted bool
		protocol string
	}{
		"1.3 for 1.3":        {TLS{MinVersion: tls.VersionTLS13}, tls.VersionTLS13, true, "HTTP/1.1"},
		"1.3 not for 1.2":    {TLS{MinVersion: tls.VersionTLS13}, tls.VersionTLS12, false, ""},
		"1.2 for 1.2":        {TLS{MinVersion: tls.VersionTLS12}, tls.VersionTLS12, true, "HTTP/1.1"},
		"HTTP/2 if asked to": {TLS{MinVersion: tls.VersionTLS13, HTTP2: true}, tls.VersionTLS13, true, "HTTP/2.0"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			server, client, config := serving(t, tc.settings, http.HandlerFunc(hello))
			config.MaxVersion = tc.client
			response, err := client.Get("https://" + server.Address())
			if (err == nil) != tc.accepted {
				t.Fatalf("got %v, want an answer: %v", err, tc.accepted)
			}
			if err != nil {
				return
			}
			defer response.Body.Close()
			if response.Proto != tc.protocol {
				t.Errorf("it speaks %s, want %s", response.Proto, tc.protocol)
			}
		})
	}
}

func TestStopWaitsForWhatIsBeingAnswered(t *testing.T) {
	arrived, goOn := make(chan struct{}), make(chan struct{})
	server, client, _ := serving(t, TLS{MinVersion: tls.VersionTLS13}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-goOn
		hello(w, r)
	}))
	answer := make(chan string)
	go func() {
		response, err := client.Get("https://" + server.Address())
		if err != nil {
			answer <- err.Error()
			return
		}
		defer response.Body.Close()
		body, _ := io.ReadAll(response.Body)
		answer <- string(body)
	}()
	<-arrived
	stopped := make(chan struct{})
	go func() { defer close(stopped); server.Stop(context.Background()) }()
	close(goOn)
	if got := <-answer; got != "hello" {
		t.Errorf("the answer is %q", got)
	}
	<-stopped
	if response, err := client.Get("https://" + server.Address()); err == nil {
		response.Body.Close()
		t.Error("it still answers")
	}
}

func TestWhileDrainingItAnswersAndSendsClientsElsewhere(t *testing.T) {
	server, client, _ := serving(t, TLS{MinVersion: tls.VersionTLS13}, http.HandlerFunc(hello))
	for _, draining := range []bool{false, true} {
		if draining {
			server.Drain()
		}
		response, err := client.Get("https://" + server.Address())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, response.Body)
		response.Body.Close()
		if response.Close != draining {
			t.Errorf("draining %v: the connection is closed: %v", draining, response.Close)
		}
	}
}

func TestAnAddressInUseIsAnErrorAtTheStart(t *testing.T) {
	server, _, _ := serving(t, TLS{MinVersion: tls.VersionTLS13}, http.HandlerFunc(hello))
	if _, err := Serve(t.Context(), server.Address(), TLS{}, http.HandlerFunc(hello)); err == nil || !strings.Contains(err.Error(), server.Address()) {
		t.Errorf("got %v, want an error that names the address", err)
	}
}

func TestAReviewThatIsTooLargeIsAnsweredOverTheWire(t *testing.T) {
	server, client, _ := serving(t, TLS{MinVersion: tls.VersionTLS13}, world{}.start(t).handler)
	response, err := client.Post("https://"+server.Address()+PathValidateTrainJob, "application/json", bytes.NewReader(make([]byte, MaxBody+1)))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("got %s", response.Status)
	}
}

// stalled opens connections whose requests never arrive whole.
func stalled(t *testing.T, n int, server *Server, config *tls.Config, path string, length int, sent string) {
	t.Helper()
	for range n {
		connection, err := tls.Dial("tcp", server.Address(), config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = connection.Close() })
		if _, err := fmt.Fprintf(connection, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, length, sent); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSlowClientsKeepNobodyFromAnAnswer(t *testing.T) {
	cases := map[string]struct {
		clients, length int
		sent            string
	}{
		"with small requests": {maxReviews, 1000, "{"},
		"with large requests": {2 * maxLarge, MaxBody, strings.Repeat(" ", 2*smallBody)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			judged := handlerOf(func(context.Context, *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse { return allowed() })
			judged.limits = newLimits(maxReviews, maxLarge)
			server, client, config := serving(t, TLS{MinVersion: tls.VersionTLS13}, judged)
			stalled(t, tc.clients, server, config, "/x", tc.length, tc.sent)
			for range 20 { // among them some after all the slow ones have been taken up
				if n := len(judged.limits.judged); n != 0 {
					t.Errorf("%d requests that have not arrived hold a place", n)
				}
				response, err := client.Post("https://"+server.Address()+"/x", "application/json", strings.NewReader(someReview))
				if err != nil {
					t.Fatal(err)
				}
				if response.StatusCode != http.StatusOK {
					t.Errorf("got %s", response.Status)
				}
				_, _ = io.Copy(io.Discard, response.Body)
				response.Body.Close()
			}
		})
	}
}

func TestABusyServerIsReady(t *testing.T) {
	release, judging := make(chan struct{}), make(chan struct{}, maxReviews)
	full := newLimits(1, 1)
	mux := newMux(full, map[string]review{"/x": func(context.Context, *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		judging <- struct{}{}
		<-release
		return allowed()
	}}, Config{Clock: clock.RealClock{}, Metrics: metrics.NewWebhook()})
	server, client, _ := serving(t, TLS{MinVersion: tls.VersionTLS13}, mux)
	t.Cleanup(func() { close(release) })
	go func() {
		if response, err := client.Post("https://"+server.Address()+"/x", "application/json", strings.NewReader(someReview)); err == nil {
			response.Body.Close()
		}
	}()
	<-judging
	full.large <- struct{}{}
	request, err := ProbeRequest(t.Context(), "https://"+server.Address())
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if err := CheckProbe(response); err != nil {
		t.Error(err)
	}
}
