package harness

import (
	"testing"

	"github.com/trainjob/controller/test/cluster"
)

func TestRefusedLeavesOutWhatOthersHaveChangedBefore(t *testing.T) {
	status := cluster.AuditEvent{Verb: "patch", Resource: "trainjobs", Subresource: "status", Namespace: "ns", Name: "a", Code: 404}
	deleted := cluster.AuditEvent{Verb: "delete", Resource: "trainjobs", Namespace: "ns", Name: "a", Code: 200}
	conflict := cluster.AuditEvent{Verb: "patch", Resource: "jobsets", Namespace: "ns", Name: "a", Code: 409}
	twice := cluster.AuditEvent{Verb: "create", Resource: "jobsets", Namespace: "ns", Name: "a", Code: 409}
	const missing, exists = "patch trainjobs ns/a: 404", "create jobsets ns/a: 409"
	for name, tc := range map[string]struct {
		events []cluster.AuditEvent
		want   string
	}{
		"a status after the job's end": {[]cluster.AuditEvent{deleted, status}, ""},
		"one before it":                {[]cluster.AuditEvent{status, deleted}, missing},
		"another job's end":            {[]cluster.AuditEvent{{Verb: "delete", Resource: "trainjobs", Namespace: "ns", Name: "b", Code: 200}, status}, missing},
		"a conflict":                   {[]cluster.AuditEvent{conflict}, ""},
		"what exists already":          {[]cluster.AuditEvent{twice, status}, exists + "; " + missing},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Refused(tc.events); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
