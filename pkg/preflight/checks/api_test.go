package checks

import (
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/trainjob/controller/pkg/preflight/report"
)

// apiServer answers every question with one status, over TLS; returns the environment that
// a pod would have, and a file with its certificate.
func apiServer(t *testing.T, status int) ([]string, string) {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			t.Errorf("asked for %s", r.URL.Path)
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(server.Close)
	host, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	ca := filepath.Join(t.TempDir(), "ca.crt")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(ca, block, 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"KUBERNETES_SERVICE_HOST=" + host, "KUBERNETES_SERVICE_PORT=" + port}, ca
}

func TestAnyAnswerOfTheAPIShowsThatItIsReached(t *testing.T) {
	for status, want := range map[int]string{200: "Passed", 401: "Passed", 403: "Passed", 404: "Passed", 429: "APINotReady", 500: "APINotReady", 503: "APINotReady"} {
		variables, ca := apiServer(t, status)
		got := within(t, 5*time.Second, made(t, apiSpec, "--api-ca-file="+ca), here(t, nil, variables...))
		if got.Reason != want || want != "Passed" && got.Outcome != report.Retryable {
			t.Errorf("%d: %+v", status, got)
		}
	}
}

func TestTheCertificateOfTheAPI(t *testing.T) {
	variables, _ := apiServer(t, 200)
	broken := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(broken, []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := here(t, nil, variables...)
	expect(t, within(t, 5*time.Second, made(t, apiSpec, "--api-ca-file="+filepath.Join(t.TempDir(), "none")), env), report.StatusWarn, "APICertificateUnverified")
	expect(t, within(t, 5*time.Second, made(t, apiSpec, "--api-ca-file="+broken), env), report.StatusWarn, "APICertificateUnverified")
	expect(t, within(t, 5*time.Second, made(t, apiSpec, "--api-ca-file="+unrelatedCA(t)), env), report.StatusFail, "APICertificateInvalid")
}

func TestAnAPIThatIsNotReached(t *testing.T) {
	expect(t, within(t, 5*time.Second, made(t, apiSpec), here(t, nil)), report.StatusSkipped, "NotInCluster")
	closed := closedAddress(t)
	host, port, err := net.SplitHostPort(closed)
	if err != nil {
		t.Fatal(err)
	}
	env := here(t, nil, "KUBERNETES_SERVICE_HOST="+host, "KUBERNETES_SERVICE_PORT="+port)
	expect(t, within(t, 5*time.Second, made(t, apiSpec), env), report.StatusFail, "APIUnreachable")
	silent := silentListener(t)
	expect(t, within(t, 300*time.Millisecond, made(t, apiSpec, "--api-url=https://"+silent+"/readyz"), env), report.StatusFail, "APIUnreachable")
}

// closedAddress is one of loopback where nobody listens.
func closedAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// silentListener accepts connections and says nothing.
func silentListener(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { conn.Close() })
		}
	}()
	return listener.Addr().String()
}
