package sdk

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// Client sends what TrainerClient sends, for one namespace and with the rights of one user.
type Client struct {
	http      *http.Client
	server    string
	namespace string
}

// New makes a client for a namespace.
func New(config *rest.Config, namespace string) (*Client, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	return &Client{http: client, server: strings.TrimSuffix(config.Host, "/"), namespace: namespace}, nil
}

// StatusError is an answer of the API server that is no success.
type StatusError struct {
	Request string // verb and path
	Code    int
	Message string
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("%s: %d: %s", e.Request, e.Code, e.Message)
}

const groupVersion = "trainer.kubeflow.org/v1alpha1"

// cluster and namespaced are the paths of custom objects; a name may be "".
func cluster(plural, name string) string {
	return joined("/apis/"+groupVersion, plural, name)
}

func (c *Client) namespaced(plural, name string) string {
	return joined("/apis/"+groupVersion+"/namespaces/"+c.namespace, plural, name)
}

func joined(parts ...string) string {
	return strings.TrimSuffix(strings.Join(parts, "/"), "/")
}

// get reads an object into a model.
func (c *Client) get(ctx context.Context, path string, query url.Values, into any) error {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	data, err := c.send(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	if err := decode(data, into); err != nil {
		return fmt.Errorf("GET %s: the SDK cannot read the answer: %w", path, err)
	}
	return nil
}

// send makes one request with a body of JSON, or none.
func (c *Client) send(ctx context.Context, method, path string, body any) ([]byte, error) {
	var content io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encode a request: %w", err)
		}
		content = bytes.NewReader(data)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.server+path, content)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json")
	request.Header.Set("Content-Type", "application/json")
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		var status metav1.Status
		message := string(data)
		if json.Unmarshal(data, &status) == nil && status.Message != "" {
			message = status.Message
		}
		return nil, &StatusError{Request: method + " " + path, Code: response.StatusCode, Message: message}
	}
	return data, nil
}
