package cluster

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// auditLines is what kube-apiserver writes, shortened by fields nobody reads.
const auditLines = `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","stage":"ResponseComplete","requestURI":"/apis/jobset.x-k8s.io/v1alpha2/namespaces/ns/jobsets","verb":"create","user":{"username":"ann","groups":["dev"]},"userAgent":"controller/v1","objectRef":{"resource":"jobsets","namespace":"ns","apiGroup":"jobset.x-k8s.io","apiVersion":"v1alpha2"},"responseStatus":{"code":201},"requestReceivedTimestamp":"2026-01-02T03:04:05.000006Z"}
{"stage":"ResponseComplete","requestURI":"/version?audit-barrier-X","verb":"get","user":{"username":"local-admin"},"responseStatus":{"code":200},"requestReceivedTimestamp":"2026-01-02T03:04:06Z"}
{"stage":"ResponseComplete","requestURI":"/apis/jobset.x-k8s.io/v1alpha2/namespaces/ns/jobsets/a/status","verb":"update","user":{"username":"bob"},"userAgent":"jobset/v0","objectRef":{"resource":"jobsets","subresource":"status","namespace":"ns","name":"a","apiGroup":"jobset.x-k8s.io"},"responseStatus":{"code":409},"requestReceivedTimestamp":"2026-01-02T03:04:07Z"}
{"stage":"ResponseStarted","requestURI":"/api/v1/pods?watch=true","verb":"watch","user":{"username":"ann"},"userAgent":"controller/v1","objectRef":{"resource":"pods"},"responseStatus":{"code":200},"requestReceivedTimestamp":"2026-01-02T03:04:08Z"}
{"stage":"ResponseComplete","requestURI":"/healthz","verb":"get","user":{"username":"ann"},"userAgent":"controller/v1","responseStatus":{"code":200},"requestReceivedTimestamp":"2026-01-02T03:04:09Z"}
`

func TestAuditLineIsDecoded(t *testing.T) {
	got, err := decodeAudit(strings.NewReader(auditLines), AuditFilter{Verbs: []string{"create"}})
	if err != nil {
		t.Fatal(err)
	}
	want := []AuditEvent{{
		Stage: "ResponseComplete", Verb: "create", User: "ann", UserAgent: "controller/v1",
		Group: "jobset.x-k8s.io", Resource: "jobsets", Namespace: "ns",
		RequestURI: "/apis/jobset.x-k8s.io/v1alpha2/namespaces/ns/jobsets", Code: 201,
		Received: time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC),
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("event (-want +got):\n%s", diff)
	}
}

func TestAuditFilterSelects(t *testing.T) {
	tests := map[string]struct {
		filter AuditFilter
		want   []string
	}{
		"everything but this package's own marks": {AuditFilter{}, []string{"create jobsets", "update jobsets/status", "watch pods", "get"}},
		"by user":                                {AuditFilter{User: "bob"}, []string{"update jobsets/status"}},
		"by the beginning of the user agent":     {AuditFilter{UserAgentPrefix: "controller/"}, []string{"create jobsets", "watch pods", "get"}},
		"by any of several verbs":                {AuditFilter{Verbs: []string{"watch", "update"}}, []string{"update jobsets/status", "watch pods"}},
		"by resource, its subresources included": {AuditFilter{Resource: "jobsets"}, []string{"create jobsets", "update jobsets/status"}},
		"by subresource":                         {AuditFilter{Resource: "jobsets/status"}, []string{"update jobsets/status"}},
		"by the resource without subresources":   {AuditFilter{Resource: "jobsets/"}, []string{"create jobsets"}},
		"by group":                               {AuditFilter{Group: "apps"}, nil},
		"by namespace and name":                  {AuditFilter{Namespace: "ns", Name: "a"}, []string{"update jobsets/status"}},
		"writes alone":                           {AuditFilter{Writes: true}, []string{"create jobsets", "update jobsets/status"}},
		"by a condition of the caller's own":     {AuditFilter{Match: func(e AuditEvent) bool { return e.Code == 409 }}, []string{"update jobsets/status"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			events, err := decodeAudit(strings.NewReader(auditLines), test.filter)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range events {
				what := strings.TrimSuffix(e.Resource+"/"+e.Subresource, "/")
				got = append(got, strings.TrimSpace(e.Verb+" "+what))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAuditLogThatIsCutOffIsAnError(t *testing.T) {
	if _, err := decodeAudit(strings.NewReader(`{"verb":"ge`), AuditFilter{}); err == nil {
		t.Error("no error")
	}
}
