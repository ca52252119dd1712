package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
)

func TestWebhookMetricsHaveFixedLabels(t *testing.T) {
	m, registry := NewWebhook("/a", "/b"), metrics.NewKubeRegistry()
	if err := m.Register(registry.Register); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/a", "/b", "/somebody/asked/this"} {
		for _, result := range append(ReviewResults(), "exploded") {
			m.Reviewed(path, result, time.Millisecond)
		}
	}
	const expiry = "trainjob_controller_webhook_certificate_expiration_timestamp_seconds"
	if family, found := gather(t, registry)[expiry]; found {
		t.Errorf("before there is a certificate it expires: %v", family)
	}
	expires := time.Unix(1800000000, 0)
	m.CertificateExpires(expires)

	families := gather(t, registry)
	got := map[string]uint64{}
	for _, series := range families["trainjob_controller_webhook_request_duration_seconds"].GetMetric() {
		var labels []string
		for _, label := range series.GetLabel() {
			labels = append(labels, label.GetValue())
		}
		got[strings.Join(labels, " ")] = series.GetHistogram().GetSampleCount()
	}
	want := map[string]uint64{}
	for _, path := range []string{"/a", "/b", "other"} {
		for _, result := range []string{"allowed", "refused", "error", "panic", "malformed", "other"} {
			want[path+" "+result] = 1
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
	if got := families[expiry].GetMetric()[0].GetGauge().GetValue(); got != float64(expires.Unix()) {
		t.Errorf("expiry %v", got)
	}
	problems, err := testutil.NewPromLinter(strings.NewReader(text(t, families))).Lint()
	if err != nil || len(problems) != 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
}

func TestUnregisteredWebhookMetricsAreNoOps(t *testing.T) {
	m := NewWebhook("/a")
	m.Reviewed("/a", ReviewAllowed, time.Second)
	m.CertificateExpires(time.Unix(1, 0))
}
