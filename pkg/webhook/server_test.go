package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	certutil "k8s.io/client-go/util/cert"
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
