package metrics

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// writtenResources are the values of the label "resource" of api_writes_total: what
// this program writes to. A subresource stands after a slash.
var writtenResources = []string{
	"trainjobs", "trainjobs/status", "jobsets", "jobs", "configmaps", "secrets", "podgroups", "events", "leases",
	"validatingwebhookconfigurations", "mutatingwebhookconfigurations",
}

// noAnswer is the value of the label "code" for a request that got no answer.
const noAnswer = "none"

// CountWrites wraps a client's transport so that every write is counted by verb,
// resource and the status code of the answer. It is for rest.Config.Wrap. Reads are
// counted by the REST client itself, in rest_client_requests_total.
func (m *Metrics) CountWrites(next http.RoundTripper) http.RoundTripper {
	return &writeCounter{metrics: m, next: next}
}

type writeCounter struct {
	metrics *Metrics
	next    http.RoundTripper
}

// RoundTrip sends the request and counts it if it is a write.
func (c *writeCounter) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := c.next.RoundTrip(request)
	verb, resource := written(request.Method, request.URL.Path)
	if verb == "" {
		return response, err
	}
	code := noAnswer
	if err == nil {
		code = strconv.Itoa(response.StatusCode)
	}
	c.metrics.apiWrites.WithLabelValues(verb, resource, code).Inc()
	return response, err
}

// WrappedRoundTripper lets client-go find the transport below.
func (c *writeCounter) WrappedRoundTripper() http.RoundTripper { return c.next }

// written says what a request to the API server writes to; the verb is "" if it is no
// write. Paths are api/VERSION/... or apis/GROUP/VERSION/..., perhaps below the prefix
// of a proxy, then perhaps namespaces/NAME/, then RESOURCE[/NAME[/SUBRESOURCE]].
func written(method, path string) (verb, resource string) {
	rest := strings.Split(strings.Trim(path, "/"), "/")
	switch i := slices.IndexFunc(rest, func(part string) bool { return part == "api" || part == "apis" }); {
	case i >= 0 && rest[i] == "api":
		rest = rest[min(i+2, len(rest)):]
	case i >= 0:
		rest = rest[min(i+3, len(rest)):]
	default:
		rest = nil
	}
	if len(rest) > 2 && rest[0] == "namespaces" {
		rest = rest[2:]
	}
	switch method {
	case http.MethodPost:
		verb = "create"
	case http.MethodPut:
		verb = "update"
	case http.MethodPatch:
		verb = "patch"
	case http.MethodDelete:
		verb = "delete"
		if len(rest) == 1 {
			verb = "deletecollection"
		}
	default:
		return "", ""
	}
	if len(rest) == 0 {
		return verb, other
	}
	resource = rest[0]
	if len(rest) > 2 {
		resource += "/" + rest[2]
	}
	return verb, oneOf(writtenResources, resource)
}
