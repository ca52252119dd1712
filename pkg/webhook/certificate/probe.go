package certificate

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"k8s.io/utils/clock"
)

// Prober calls the webhook server of this process as the API server would: over TLS,
// trusting what the configurations say, demanding the name they say.
type Prober struct {
	// Address the server listens on.
	Address string
	// Request makes the request to send, and Check judges the answer.
	Request func(ctx context.Context, url string) (*http.Request, error)
	Check   func(*http.Response) error
	Clock   clock.PassiveClock
}

// probeHost stands in the URL of a probe; where it goes is the Prober's Address.
const probeHost = "webhook"

// Probe returns why the API server would not get an answer, nil if it would.
func (p Prober) Probe(ctx context.Context, endpoints []Endpoint) error {
	if len(endpoints) == 0 {
		return errors.New("the webhook configurations list no webhooks")
	}
	for _, endpoint := range endpoints {
		if err := p.probe(ctx, endpoint); err != nil {
			return fmt.Errorf("calling the webhook as %s: %w", endpoint.ServerName, err)
		}
	}
	return nil
}

func (p Prober) probe(ctx context.Context, endpoint Endpoint) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: endpoint.ServerName, Time: p.Clock.Now}
	if len(endpoint.Bundle) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(endpoint.Bundle) {
			return errors.New("caBundle of the webhook configuration holds no certificate")
		}
	}
	transport := &http.Transport{
		TLSClientConfig:   config,
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			// A literal unspecified address means this machine.
			return (&net.Dialer{}).DialContext(ctx, network, p.Address)
		},
	}
	defer transport.CloseIdleConnections()
	request, err := p.Request(ctx, "https://"+probeHost)
	if err != nil {
		return err
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	return p.Check(response)
}
