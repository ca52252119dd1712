package harness

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/trainjob/controller/test/cluster"
)

// ControllerAgent begins the user agent of every request of the controller.
const ControllerAgent = "trainjob-controller/"

// AuditNow is the place in the audit log after everything answered so far.
func (e *Env) AuditNow(t *testing.T) cluster.AuditPosition {
	t.Helper()
	position, err := e.Cluster.AuditNow(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return position
}

// Audit returns the requests after a position that the filter selects.
func (e *Env) Audit(t *testing.T, after cluster.AuditPosition, filter cluster.AuditFilter) []cluster.AuditEvent {
	t.Helper()
	events, err := e.Cluster.AuditEvents(t.Context(), after, filter)
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// Writes are the controller's writes after a position, in a namespace or (with "") in
// all, without the events it records for people.
func (e *Env) Writes(t *testing.T, after cluster.AuditPosition, namespace string) []cluster.AuditEvent {
	t.Helper()
	return e.Audit(t, after, cluster.AuditFilter{
		UserAgentPrefix: ControllerAgent, Writes: true, Namespace: namespace,
		Match: func(event cluster.AuditEvent) bool { return event.Resource != "events" },
	})
}

// Summary counts requests by what they did: "create configmaps": 1.
func Summary(events []cluster.AuditEvent) map[string]int {
	counts := map[string]int{}
	for _, event := range events {
		what := event.Verb + " " + event.Resource
		if event.Subresource != "" {
			what += "/" + event.Subresource
		}
		if event.Code >= 400 {
			what += fmt.Sprintf(" (%d)", event.Code)
		}
		counts[what]++
	}
	return counts
}

// Refused are those of the requests that the API server did not grant, but for conflicts
// with what others wrote at the same moment, and for statuses of TrainJobs that were
// deleted before: the end of a JobSet can be seen before that of its TrainJob.
func Refused(events []cluster.AuditEvent) string {
	var all []string
	deleted := map[string]bool{}
	for _, event := range events {
		name := event.Namespace + "/" + event.Name
		if event.Resource == "trainjobs" && event.Verb == "delete" && event.Code < 300 {
			deleted[name] = true
		}
		conflict := event.Code == http.StatusConflict && event.Verb != "create"
		late := event.Code == http.StatusNotFound && event.Resource == "trainjobs" && event.Subresource == "status" && deleted[name]
		if event.Code >= 400 && !conflict && !late {
			all = append(all, fmt.Sprintf("%s %s %s/%s: %d", event.Verb, event.Resource, event.Namespace, event.Name, event.Code))
		}
	}
	return strings.Join(all, "; ")
}
