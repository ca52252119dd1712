package certificate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	admissionclient "k8s.io/client-go/kubernetes/typed/admissionregistration/v1"
)

// Configurations are the two webhook configurations of one name.
type Configurations struct {
	Client admissionclient.AdmissionregistrationV1Interface
	Name   string
}

// configuration is what matters here of either kind.
type configuration struct {
	kind, resourceVersion string
	hooks                 []hook
}

// hook is one webhook of a configuration.
type hook struct {
	Name   string
	Client admissionregistrationv1.WebhookClientConfig
}

// missingError says which configurations of a name do not exist.
type missingError struct {
	kinds []string
	name  string
}

func (e *missingError) Error() string {
	return fmt.Sprintf("there is no %s %q, so that the API server does not ask this webhook: apply artifacts/webhook, or run with --webhook=false", strings.Join(e.kinds, " and no "), e.name)
}

// read returns the configurations there are, and which are missing, nil if none. The
// error is about those that it could not read.
func (c Configurations) read(ctx context.Context) ([]configuration, *missingError, error) {
	var all []configuration
	var missing *missingError
	var errs []error
	note := func(kind string, err error, make func() configuration) {
		switch {
		case err == nil:
			all = append(all, make())
		case apierrors.IsNotFound(err):
			if missing == nil {
				missing = &missingError{name: c.Name}
			}
			missing.kinds = append(missing.kinds, kind)
		default:
			errs = append(errs, fmt.Errorf("read %s %q: %w", kind, c.Name, err))
		}
	}
	mutating, err := c.Client.MutatingWebhookConfigurations().Get(ctx, c.Name, metav1.GetOptions{})
	note("MutatingWebhookConfiguration", err, func() configuration {
		found := configuration{kind: "MutatingWebhookConfiguration", resourceVersion: mutating.ResourceVersion}
		for _, w := range mutating.Webhooks {
			found.hooks = append(found.hooks, hook{w.Name, w.ClientConfig})
		}
		return found
	})
	validating, err := c.Client.ValidatingWebhookConfigurations().Get(ctx, c.Name, metav1.GetOptions{})
	note("ValidatingWebhookConfiguration", err, func() configuration {
		found := configuration{kind: "ValidatingWebhookConfiguration", resourceVersion: validating.ResourceVersion}
		for _, w := range validating.Webhooks {
			found.hooks = append(found.hooks, hook{w.Name, w.ClientConfig})
		}
		return found
	})
	return all, missing, errors.Join(errs...)
}

// publish writes the bundle into the configurations that do not have it. Each write is
// for the version that was read.
func (c Configurations) publish(ctx context.Context, all []configuration, bundle []byte) error {
	var errs []error
	for _, found := range all {
		if !slices.ContainsFunc(found.hooks, func(h hook) bool { return !bytes.Equal(h.Client.CABundle, bundle) }) {
			continue
		}
		patch, err := found.patch(bundle)
		if err == nil && found.kind == "MutatingWebhookConfiguration" {
			_, err = c.Client.MutatingWebhookConfigurations().Patch(ctx, c.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		} else if err == nil {
			_, err = c.Client.ValidatingWebhookConfigurations().Patch(ctx, c.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("write the authority into %s %q: %w", found.kind, c.Name, err))
		}
	}
	return errors.Join(errs...)
}

// patch names the webhooks and changes nothing but what they trust.
func (c configuration) patch(bundle []byte) ([]byte, error) {
	type clientConfig struct {
		CABundle []byte `json:"caBundle"`
	}
	type webhook struct {
		Name         string       `json:"name"`
		ClientConfig clientConfig `json:"clientConfig"`
	}
	var webhooks []webhook
	for _, h := range c.hooks {
		webhooks = append(webhooks, webhook{h.Name, clientConfig{bundle}})
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]string{"resourceVersion": c.resourceVersion},
		"webhooks": webhooks,
	})
}

func bundles(all []configuration) [][]byte {
	var bundles [][]byte
	for _, c := range all {
		for _, h := range c.hooks {
			bundles = append(bundles, h.Client.CABundle)
		}
	}
	return bundles
}

// Endpoint is how the API server calls a webhook: what it trusts, and the name it
// demands of the certificate.
type Endpoint struct {
	ServerName string
	// Bundle of authorities; empty means those of the system.
	Bundle []byte
}

// endpoints are the different ones among those of the configurations' webhooks.
func endpoints(all []configuration) ([]Endpoint, error) {
	var found []Endpoint
	for _, c := range all {
		for _, h := range c.hooks {
			name, err := serverName(h.Client)
			if err != nil {
				return nil, fmt.Errorf("webhook %s of the %s: %w", h.Name, c.kind, err)
			}
			if !slices.ContainsFunc(found, func(e Endpoint) bool { return e.ServerName == name && bytes.Equal(e.Bundle, h.Client.CABundle) }) {
				found = append(found, Endpoint{name, h.Client.CABundle})
			}
		}
	}
	return found, nil
}

func serverName(client admissionregistrationv1.WebhookClientConfig) (string, error) {
	if client.Service != nil {
		return ServiceName(client.Service.Name, client.Service.Namespace), nil
	}
	if client.URL == nil {
		return "", errors.New("it has neither a service nor a url")
	}
	address, err := url.Parse(*client.URL)
	if err != nil {
		return "", err
	}
	return address.Hostname(), nil
}

// ServiceName is the name that the API server demands of the certificate of a webhook
// behind a Service.
func ServiceName(service, namespace string) string {
	return strings.Join([]string{service, namespace, "svc"}, ".")
}
