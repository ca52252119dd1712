package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"sigs.k8s.io/yaml"
)

// in is a path below the root of the repository.
func in(parts ...string) string {
	return filepath.Join(append([]string{"..", ".."}, parts...)...)
}

func must[T any](t *testing.T, value T, err error) T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func theCatalog(t *testing.T) catalog {
	t.Helper()
	known, err := readCatalog(in("docs", "metrics.md"))
	return must(t, known, err)
}

func theDashboard(t *testing.T) *dashboard {
	t.Helper()
	d, err := readDashboard(in("artifacts", "monitoring", "dashboard.json"))
	return must(t, d, err)
}

func TestEveryQueryOfTheDashboardReadsWhatIsServed(t *testing.T) {
	known, d := theCatalog(t), theDashboard(t)
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			for _, wrong := range known.check(substitute(target.Expr, "x", "1m")) {
				t.Errorf("panel %q, query %s: %s", p.Title, target.RefID, wrong)
			}
		}
	}
	for _, variable := range d.Templating.List {
		if metric := regexp.MustCompile(`^label_values\((\w+), \w+\)$`).FindStringSubmatch(variable.Definition); metric != nil {
			if _, exists := known[metric[1]]; !exists {
				t.Errorf("variable %s: metric %s does not exist", variable.Name, metric[1])
			}
		} else if variable.Type == "query" {
			t.Errorf("variable %s: %q is not understood", variable.Name, variable.Definition)
		}
	}
}

func TestLegendsNameLabelsThatTheQueryKeeps(t *testing.T) {
	known := theCatalog(t)
	for _, p := range theDashboard(t).Panels {
		for _, target := range p.Targets {
			expr, err := parse(substitute(target.Expr, "x", "1m"))
			if err != nil {
				t.Fatal(err)
			}
			labels := known.labelsBelow(expr)
			for _, label := range regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(target.LegendFormat, -1) {
				grouped := !strings.Contains(target.Expr, " by (") || regexp.MustCompile(` by \([^)]*\b`+label[1]+`\b`).MatchString(target.Expr)
				if !labels[label[1]] || !grouped {
					t.Errorf("panel %q: the legend names %s, which the query does not keep", p.Title, label[1])
				}
			}
		}
	}
}

func TestPanelsHaveTitlesIDsAndPlacesOfTheirOwn(t *testing.T) {
	ids, titles, cells := map[int]bool{}, map[string]bool{}, map[string]string{}
	d := theDashboard(t)
	if d.UID == "" || d.Title == "" || d.SchemaVersion == 0 || len(d.Panels) == 0 {
		t.Fatalf("uid %q, title %q, schemaVersion %d, %d panels", d.UID, d.Title, d.SchemaVersion, len(d.Panels))
	}
	for _, p := range d.Panels {
		if ids[p.ID] || titles[p.Title] || p.Title == "" {
			t.Errorf("panel %d %q: its id or title is taken", p.ID, p.Title)
		}
		ids[p.ID], titles[p.Title] = true, true
		if p.Type == "timeseries" && len(p.Targets) == 0 {
			t.Errorf("panel %q shows nothing", p.Title)
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				cell := fmt.Sprintf("%d,%d", x, y)
				if other, taken := cells[cell]; taken {
					t.Fatalf("panel %q lies over %q", p.Title, other)
				}
				cells[cell] = p.Title
			}
		}
		if p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %q is wider than the dashboard", p.Title)
		}
	}
}

func TestEveryAlertReadsWhatIsServedAndSaysWhatItMust(t *testing.T) {
	known := theCatalog(t)
	rules, err := readRules(in("artifacts", "monitoring", "prometheus-rule.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range rules {
		for _, wrong := range known.check(rule.Expr) {
			t.Errorf("%s: %s", rule.Alert, wrong)
		}
		if !slices.Contains([]string{"critical", "warning", "info"}, rule.Labels["severity"]) {
			t.Errorf("%s: severity %q", rule.Alert, rule.Labels["severity"])
		}
		for _, annotation := range []string{"summary", "description"} {
			if rule.Annotations[annotation] == "" {
				t.Errorf("%s has no %s", rule.Alert, annotation)
			}
		}
		if want := "https://github.com/trainjob/controller/blob/main/docs/runbook.md#" + strings.ToLower(rule.Alert); rule.Annotations["runbook_url"] != want {
			t.Errorf("%s: runbook_url %q, want %q", rule.Alert, rule.Annotations["runbook_url"], want)
		}
	}
}

func TestEveryAlertHasItsPartOfTheRunbookAndTheOtherWayRound(t *testing.T) {
	rules, err := readRules(in("artifacts", "monitoring", "prometheus-rule.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var alerts []string
	for _, rule := range rules {
		alerts = append(alerts, rule.Alert)
	}
	headings, sections, err := readRunbook(in("docs", "runbook.md"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(alerts, headings); diff != "" {
		t.Errorf("alerts and headings of docs/runbook.md (-alerts +headings):\n%s", diff)
	}
	for heading, body := range sections {
		for _, part := range []string{"**Means.** ", "**Look at.** ", "**Do.** "} {
			if _, text, found := strings.Cut(body, "\n"+part); !found || len(strings.Fields(text)) < 5 {
				t.Errorf("runbook, %s: there is no paragraph %q", heading, part)
			}
		}
		// What the runbook tells to look at must exist too.
		known := theCatalog(t)
		for _, name := range regexp.MustCompile("`((?:trainjob_controller|workqueue|rest_client|leader_election|process)_[a-z_]+)").FindAllStringSubmatch(body, -1) {
			if _, exists := known[name[1]]; !exists {
				if _, histogram := known[name[1]+"_bucket"]; !histogram {
					t.Errorf("runbook, %s: metric %s does not exist", heading, name[1])
				}
			}
		}
	}
}

func TestTheServiceMonitorIsOne(t *testing.T) {
	text, err := os.ReadFile(in("artifacts", "monitoring", "service-monitor.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var monitor monitoring.ServiceMonitor
	if err := yaml.UnmarshalStrict(text, &monitor); err != nil {
		t.Fatal(err)
	}
	if monitor.Kind != monitoring.ServiceMonitorsKind || monitor.Spec.JobLabel != "app.kubernetes.io/name" || monitor.Spec.Selector.MatchLabels[monitor.Spec.JobLabel] != "trainjob-controller" {
		t.Errorf("rules and dashboard select by job=trainjob-controller, which %s %+v does not set", monitor.Kind, monitor.Spec)
	}
}

func TestTheServiceMonitorFindsTheServiceOfTheDeployment(t *testing.T) {
	text, err := os.ReadFile(in("artifacts", "deploy", "base", "metrics-service.yaml"))
	var service struct {
		Metadata struct {
			Namespace string
			Labels    map[string]string
		}
		Spec struct{ Ports []struct{ Name string } }
	}
	if err := errors.Join(err, yaml.Unmarshal(text, &service)); err != nil {
		t.Fatal(err)
	}
	var monitor monitoring.ServiceMonitor
	text, err = os.ReadFile(in("artifacts", "monitoring", "service-monitor.yaml"))
	if err := errors.Join(err, yaml.UnmarshalStrict(text, &monitor)); err != nil {
		t.Fatal(err)
	}
	for label, value := range monitor.Spec.Selector.MatchLabels {
		if service.Metadata.Labels[label] != value {
			t.Errorf("the monitor selects %s=%s, the Service has %v", label, value, service.Metadata.Labels)
		}
	}
	if port := monitor.Spec.Endpoints[0].Port; len(service.Spec.Ports) != 1 || service.Spec.Ports[0].Name != port {
		t.Errorf("the monitor scrapes port %q, the Service has %v", port, service.Spec.Ports)
	}
	if monitor.Namespace != service.Metadata.Namespace {
		t.Errorf("the monitor is in %s, the Service in %s", monitor.Namespace, service.Metadata.Namespace)
	}
	// Without a selector it looks in its own namespace. kustomize would not move the names in one.
	if selector := monitor.Spec.NamespaceSelector; selector.Any || len(selector.MatchNames) > 0 {
		t.Errorf("the monitor names namespaces to look in: %+v", selector)
	}
}

func TestACheckFindsWhatIsWrongWithAQuery(t *testing.T) {
	known := catalog{
		"up":            {"gauge", set("job", "instance")},
		"done_total":    {"counter", set("job", "queue")},
		"took_s_bucket": {"counter", set("job", "queue", "le")},
	}
	cases := map[string]struct {
		query string
		want  []string
	}{
		"nothing":               {`sum by (queue) (rate(done_total{job="x",queue!="a"}[5m])) > 0`, nil},
		"a quantile":            {`histogram_quantile(0.9, sum by (le) (rate(took_s_bucket{job="x"}[5m])))`, nil},
		"no PromQL":             {`sum(`, []string{"1:5: parse error: unclosed left parenthesis"}},
		"an unknown metric":     {`gone{job="x"}`, []string{"metric gone does not exist"}},
		"an unknown label":      {`up{job="x",queue="a"}`, []string{"metric up has no label queue"}},
		"a label that is lost":  {`sum by (queue) (up{job="x"})`, []string{`by queue: no metric in up{job="x"} has this label`}},
		"series of others":      {`up`, []string{"up: select by job, or series of other programs count too"}},
		"a counter as a gauge":  {`done_total{job="x"}`, []string{"metric done_total is a counter: rate and increase are for counters, and counters need them"}},
		"what a new one has":    {`sum(done_total{job="x"} unless done_total{job="x"} offset 5m)`, nil},
		"what another has not":  {`done_total{job="x"} unless done_total{job="y"} offset 5m`, []string{"metric done_total is a counter: rate and increase are for counters, and counters need them", "metric done_total is a counter: rate and increase are for counters, and counters need them"}},
		"a gauge as a counter":  {`rate(up{job="x"}[1m])`, []string{"metric up is a gauge: rate and increase are for counters, and counters need them"}},
		"changes of a gauge":    {`changes(up{job="x"}[1m])`, nil},
		"a metric in a denomin": {`up{job="x"} / ok{job="x"}`, []string{"metric ok does not exist"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, known.check(tc.query)); diff != "" {
				t.Errorf("wrong (-want +got):\n%s", diff)
			}
		})
	}
}
