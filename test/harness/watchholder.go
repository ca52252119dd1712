package harness

import (
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path"
	"path/filepath"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// WatchHolder stands between a client and the API server and can hold back what watches of
// a resource tell, while everything else goes through: a cache that lags behind.
type WatchHolder struct {
	server *httptest.Server

	mu   sync.Mutex
	held map[string]chan struct{} // by resource, closed when it is let go
}

// NewWatchHolder listens at a free loopback address until the test ends.
func NewWatchHolder(t *testing.T, api *rest.Config) *WatchHolder {
	t.Helper()
	target, err := url.Parse(api.Host)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(rest.AnonymousClientConfig(api)) // requests bring their own credentials
	if err != nil {
		t.Fatal(err)
	}
	h := &WatchHolder{held: map[string]chan struct{}{}}
	h.server = httptest.NewUnstartedServer(&httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:      transport,
		FlushInterval:  -1, // watches have no end to wait for
		ModifyResponse: h.gate,
		ErrorLog:       log.New(io.Discard, "", 0), // of clients that went away
	})
	h.server.EnableHTTP2 = true
	h.server.StartTLS() // client-go sends no token without
	t.Cleanup(func() {
		h.releaseAll()
		h.server.CloseClientConnections()
		h.server.Close()
	})
	return h
}

// Kubeconfig writes one like that of a file, but through the holder.
func (h *WatchHolder) Kubeconfig(t *testing.T, like string) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(like)
	if err != nil {
		t.Fatal(err)
	}
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.server.Certificate().Raw})
	for name := range config.Clusters {
		config.Clusters[name] = &clientcmdapi.Cluster{Server: h.server.URL, CertificateAuthorityData: ca}
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// Hold keeps back what watches of a resource, such as "jobsets", tell from now on.
func (h *WatchHolder) Hold(resource string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.held[resource] == nil {
		h.held[resource] = make(chan struct{})
	}
}

// Release lets them tell what was kept back, and all that follows.
func (h *WatchHolder) Release(resource string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if gate := h.held[resource]; gate != nil {
		close(gate)
		delete(h.held, resource)
	}
}

func (h *WatchHolder) releaseAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for resource, gate := range h.held {
		close(gate)
		delete(h.held, resource)
	}
}

// wait returns when nothing of the resource is kept back.
func (h *WatchHolder) wait(resource string) {
	h.mu.Lock()
	gate := h.held[resource]
	h.mu.Unlock()
	if gate != nil {
		<-gate
	}
}

// gate makes the answer to a watch wait while its resource is held.
func (h *WatchHolder) gate(response *http.Response) error {
	request := response.Request
	if request.URL.Query().Get("watch") == "" {
		return nil
	}
	resource := path.Base(request.URL.Path)
	response.Body = &gatedBody{ReadCloser: response.Body, wait: func() { h.wait(resource) }}
	return nil
}

// gatedBody passes on what it has read when it may.
type gatedBody struct {
	io.ReadCloser
	wait func()
}

func (b *gatedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.wait()
	return n, err
}
