package metrics

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
)

func TestAWriteIsNamedByVerbAndResource(t *testing.T) {
	const jobs = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/team/trainjobs"
	cases := map[string]struct{ method, path, want string }{
		"a read":                        {"GET", jobs, " "},
		"a create":                      {"POST", "/apis/jobset.x-k8s.io/v1alpha2/namespaces/team/jobsets", "create jobsets"},
		"a create in the core group":    {"POST", "/api/v1/namespaces/team/configmaps", "create configmaps"},
		"an update":                     {"PUT", "/apis/coordination.k8s.io/v1/namespaces/system/leases/x", "update leases"},
		"a patch of a status":           {"PATCH", jobs + "/bert/status", "patch trainjobs/status"},
		"a patch of another status":     {"PATCH", "/apis/jobset.x-k8s.io/v1alpha2/namespaces/team/jobsets/bert/status", "patch other"},
		"a deletion":                    {"DELETE", jobs + "/bert", "delete trainjobs"},
		"a deletion of a whole list":    {"DELETE", jobs, "deletecollection trainjobs"},
		"a cluster-wide object":         {"PATCH", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/x", "patch validatingwebhookconfigurations"},
		"a namespace itself":            {"DELETE", "/api/v1/namespaces/team", "delete other"},
		"below the prefix of a proxy":   {"POST", "/k8s/clusters/c-1/api/v1/namespaces/team/events", "create events"},
		"a resource that nobody knows":  {"POST", "/apis/example.com/v1/namespaces/team/surprises", "create other"},
		"a path that is no resource's":  {"POST", "/healthz", "create other"},
		"a path that ends before it":    {"POST", "/apis/example.com", "create other"},
		"a slash too many at the end":   {"POST", "/api/v1/namespaces/team/secrets/", "create secrets"},
		"a job by the name of the api":  {"DELETE", jobs + "/api", "delete trainjobs"},
		"a namespace called namespaces": {"POST", "/api/v1/namespaces/namespaces/secrets", "create secrets"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			verb, resource := written(tc.method, tc.path)
			if diff := cmp.Diff(tc.want, verb+" "+resource); diff != "" {
				t.Errorf("write (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWritesAreCountedByTheCodeOfTheAnswer(t *testing.T) {
	m, registry := New(), metrics.NewKubeRegistry()
	if err := m.Register(registry.Register, registry.CustomRegister); err != nil {
		t.Fatal(err)
	}
	for _, code := range []answer{http.StatusCreated, http.StatusConflict, http.StatusCreated, 0} {
		request := httptest.NewRequest(http.MethodPost, "https://127.0.0.1/api/v1/namespaces/team/configmaps", nil)
		response, err := m.CountWrites(code).RoundTrip(request)
		if err == nil {
			response.Body.Close()
		}
		if (err == nil) == (code == 0) {
			t.Errorf("the answer %d came as error %v", code, err)
		}
	}
	want := `
# HELP trainjob_controller_api_writes_total [ALPHA] Number of write requests to the API server, by verb, resource and status code; none is no answer.
# TYPE trainjob_controller_api_writes_total counter
trainjob_controller_api_writes_total{code="201",resource="configmaps",verb="create"} 2
trainjob_controller_api_writes_total{code="409",resource="configmaps",verb="create"} 1
trainjob_controller_api_writes_total{code="none",resource="configmaps",verb="create"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "trainjob_controller_api_writes_total"); err != nil {
		t.Error(err)
	}
}

func TestPanicsHaveASeriesForEveryQueueFromTheStart(t *testing.T) {
	m, registry := New(), metrics.NewKubeRegistry()
	if err := m.Register(registry.Register, registry.CustomRegister); err != nil {
		t.Fatal(err)
	}
	families := gather(t, registry)
	if got := len(families["trainjob_controller_sync_panics_total"].GetMetric()); got != len(Queues()) {
		t.Errorf("%d series, want one for each of the %d queues", got, len(Queues()))
	}
}
