package metrics

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
)

// The table for users names every metric, its type, its labels, and every value of a
// label.
func TestEveryMetricIsDocumented(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for line := range strings.Lines(string(raw)) {
		if name, rest, ok := strings.Cut(strings.TrimPrefix(line, "| `"), "` | "); ok && strings.HasPrefix(line, "| `") {
			rows[name] = rest
		}
	}
	m, registry := registered(t)
	exercise(m)
	for name, family := range gather(t, registry) {
		var labels []string
		for _, label := range family.GetMetric()[0].GetLabel() {
			labels = append(labels, label.GetName())
		}
		row := rows[name]
		cells := strings.Split(row, "|")
		if len(cells) < 3 {
			t.Errorf("%s has no row in the table, only %q", name, row)
			continue
		}
		if want := strings.ToLower(dto.MetricType_name[int32(family.GetType())]); strings.TrimSpace(cells[0]) != want {
			t.Errorf("%s is a %s, and documented as %s", name, want, cells[0])
		}
		documented := strings.FieldsFunc(strings.ReplaceAll(cells[1], "`", ""), func(r rune) bool { return r == ',' || r == ' ' })
		slices.Sort(labels)
		slices.Sort(documented)
		if !slices.Equal(labels, documented) {
			t.Errorf("%s has the labels %v, and documented are %v", name, labels, documented)
		}
		delete(rows, name)
	}
	for name := range rows {
		if strings.HasPrefix(name, namespace+"_") {
			t.Errorf("%s is documented and does not exist", name)
		}
	}
	for label, values := range map[string][]string{
		labelQueue: strs(Queues()), labelResult: strs(Results()), labelReason: strs(Refusals()), labelTimer: strs(Timers()),
	} {
		for _, value := range values {
			if !strings.Contains(rows[label], fmt.Sprintf("`%s`", value)) {
				t.Errorf("the value %q of label %q is not documented", value, label)
			}
		}
	}
}
