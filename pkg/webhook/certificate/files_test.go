package certificate

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"crypto/tls"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
)

// write puts a certificate into a folder.
func write(t *testing.T, dir string, files map[string][]byte) {
	t.Helper()
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func filesOf(s *Stored) map[string][]byte {
	return map[string][]byte{"tls.crt": s.Current.CertPEM, "tls.key": s.Current.KeyPEM, "ca.crt": s.Authorities}
}

func (w *world) files(dir string) (*Files, error) {
	return NewFiles(FilesConfig{
		Configurations: Configurations{Client: w.client.AdmissionregistrationV1(), Name: configurationName},
		Dir:            dir, Names: []string{name}, Holder: &Holder{}, Clock: w.clock,
	})
}

func TestFilesAreReadAgainAndHalfWrittenOnesAreNotServed(t *testing.T) {
	w := newWorld(t, mutatingConfiguration(), validatingConfiguration())
	dir, first := t.TempDir(), made(t, nil, epoch, name)
	second := made(t, first, epoch, name)
	write(t, dir, filesOf(first))
	f, err := w.files(dir)
	if err != nil {
		t.Fatal(err)
	}
	serves := func(want *Stored) {
		t.Helper()
		f.step(t.Context())
		if f.Holder.Current().fingerprint() != want.Current.fingerprint() {
			t.Error("another certificate is served")
		}
	}
	serves(first)
	write(t, dir, map[string][]byte{"tls.crt": second.Current.CertPEM}) // the key is still that of the first
	serves(first)
	write(t, dir, filesOf(second))
	serves(second)
	if err := os.Remove(filepath.Join(dir, "tls.key")); err != nil {
		t.Fatal(err)
	}
	serves(second)
	for _, action := range w.client.Actions() {
		if action.GetVerb() != "get" {
			t.Errorf("%s %s: whom the API server trusts is not ours to say", action.GetVerb(), action.GetResource().Resource)
		}
	}
	if endpoints, err := f.Endpoints(); err != nil || len(endpoints) != 1 {
		t.Errorf("endpoints %v, %v", endpoints, err)
	}
}

func TestFilesThatCannotBeUsedAreAnErrorAtTheStart(t *testing.T) {
	first, second := made(t, nil, epoch, name), made(t, nil, epoch, name)
	cases := map[string]struct {
		files map[string][]byte
		want  string
	}{
		"no certificate":          {map[string][]byte{"tls.key": first.Current.KeyPEM}, "tls.crt: no such file"},
		"no key":                  {map[string][]byte{"tls.crt": first.Current.CertPEM}, "tls.key: no such file"},
		"a key of another":        {map[string][]byte{"tls.crt": first.Current.CertPEM, "tls.key": second.Current.KeyPEM}, "private key does not match"},
		"what is no certificate":  {map[string][]byte{"tls.crt": []byte("hello"), "tls.key": first.Current.KeyPEM}, "failed to find any PEM data"},
		"files that hold nothing": {map[string][]byte{"tls.crt": nil, "tls.key": nil}, "failed to find any PEM data"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, tc.files)
			_, err := newWorld(t).files(dir)
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "--webhook-cert-dir") {
				t.Errorf("got %v, want %q and the flag", err, tc.want)
			}
		})
	}
}

func TestWithoutTheRightToReadConfigurationsTheFilesAuthorityCounts(t *testing.T) {
	w := newWorld(t)
	dir, first := t.TempDir(), made(t, nil, epoch, name)
	write(t, dir, filesOf(first))
	f, err := w.files(dir)
	if err != nil {
		t.Fatal(err)
	}
	w.client.PrependReactor("get", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: action.GetResource().Resource}, configurationName, errors.New("no right"))
	})
	f.step(t.Context())
	endpoints, err := f.Endpoints()
	if err != nil || len(endpoints) != 1 || endpoints[0].ServerName != name || string(endpoints[0].Bundle) != string(first.Authorities) {
		t.Errorf("got %v, %v, want the Service with the authority in ca.crt", endpoints, err)
	}
}

func TestProbe(t *testing.T) {
	now := time.Now() // the standard library's server and client compare with it
	stored := made(t, nil, now, name)
	stranger := made(t, nil, now, name)
	holder := &Holder{}
	answer := http.StatusOK
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(answer) }))
	server.TLS = &tls.Config{GetCertificate: holder.GetCertificate}
	server.StartTLS()
	defer server.Close()
	w := newWorld(t)
	w.clock.SetTime(now)
	prober := Prober{
		Address: server.Listener.Addr().String(), Clock: w.clock,
		Request: func(ctx context.Context, url string) (*http.Request, error) {
			return http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		},
		Check: func(response *http.Response) error {
			if response.StatusCode != http.StatusOK {
				return errors.New(response.Status)
			}
			return nil
		},
	}
	holder.set(stored.Current)
	cases := map[string]struct {
		endpoints []Endpoint
		answer    int
		want      string
	}{
		"trusted, of the right name":      {[]Endpoint{{name, stored.Authorities}}, http.StatusOK, ""},
		"trusted by one of two":           {[]Endpoint{{name, stored.Authorities}, {name, stranger.Authorities}}, http.StatusOK, "unknown authority"},
		"trusted by nobody":               {[]Endpoint{{name, nil}}, http.StatusOK, "unknown authority"},
		"called by another name":          {[]Endpoint{{"other.ns.svc", stored.Authorities}}, http.StatusOK, "other.ns.svc"},
		"a bundle that is none":           {[]Endpoint{{name, []byte("nonsense")}}, http.StatusOK, "holds no certificate"},
		"an answer that is not the right": {[]Endpoint{{name, stored.Authorities}}, http.StatusTeapot, "418"},
		"no webhooks":                     {nil, http.StatusOK, "list no webhooks"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			answer = tc.answer
			err := prober.Probe(t.Context(), tc.endpoints)
			if (tc.want == "") != (err == nil) || (err != nil && !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
	t.Run("an expired certificate", func(t *testing.T) {
		w.clock.SetTime(now.Add(lifetime))
		if err := prober.Probe(t.Context(), []Endpoint{{name, stored.Authorities}}); err == nil || !strings.Contains(err.Error(), "expired") {
			t.Errorf("got %v", err)
		}
	})
}

func TestWithoutACertificateClientsAreTold(t *testing.T) {
	if _, err := (&Holder{}).GetCertificate(nil); !errors.Is(err, errNone) {
		t.Errorf("got %v", err)
	}
}
