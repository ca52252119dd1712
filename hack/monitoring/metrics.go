package main

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// metric is one that the controller serves.
type metric struct {
	kind   string
	labels map[string]bool
}

// catalog is every metric by the name of its series.
type catalog map[string]metric

// targetLabels are put on every series by whoever scrapes it.
var targetLabels = []string{"job", "instance", "namespace", "pod", "service", "endpoint", "container"}

var (
	row    = regexp.MustCompile("^\\| `([a-z_]+)` \\| ([a-z]+) \\| ([^|]*) \\|")
	quoted = regexp.MustCompile("`([a-z_]+)`")
)

// readCatalog reads docs/metrics.md, which the controller's own tests write from what is
// served.
func readCatalog(path string) (catalog, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	all := catalog{"up": {kind: "gauge", labels: set(targetLabels...)}} // Prometheus' own
	for line := range strings.Lines(string(text)) {
		cells := row.FindStringSubmatch(line)
		if cells == nil {
			continue
		}
		names := set(targetLabels...)
		for _, label := range quoted.FindAllStringSubmatch(cells[3], -1) {
			names[label[1]] = true
		}
		if cells[2] != "histogram" {
			all[cells[1]] = metric{cells[2], names}
			continue
		}
		all[cells[1]+"_sum"], all[cells[1]+"_count"] = metric{"counter", names}, metric{"counter", names}
		buckets := maps.Clone(names)
		buckets["le"] = true
		all[cells[1]+"_bucket"] = metric{"counter", buckets}
	}
	if len(all) < 20 {
		return nil, fmt.Errorf("%s: only %d metrics found: its tables have changed", path, len(all))
	}
	return all, nil
}

func set(names ...string) map[string]bool {
	all := map[string]bool{}
	for _, name := range names {
		all[name] = true
	}
	return all
}

// parse reads a PromQL expression as Prometheus does.
func parse(expr string) (parser.Expr, error) {
	return parser.NewParser(parser.Options{}).ParseExpr(expr)
}

// counterFunctions are those that make sense of a counter.
var counterFunctions = []string{"rate", "irate", "increase", "changes", "resets"}

// check says what is wrong with a query: metrics and labels that do not exist, counters
// that are read like gauges and the other way round.
func (c catalog) check(query string) []string {
	expr, err := parse(query)
	if err != nil {
		return []string{err.Error()}
	}
	var wrong []string
	parser.Inspect(expr, func(node parser.Node, path []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			wrong = append(wrong, c.checkSelector(n, path)...)
		case *parser.AggregateExpr:
			known := c.labelsBelow(n.Expr)
			for _, label := range n.Grouping {
				if !known[label] {
					wrong = append(wrong, fmt.Sprintf("by %s: no metric in %s has this label", label, n.Expr))
				}
			}
		}
		return nil
	})
	return wrong
}

func (c catalog) checkSelector(selector *parser.VectorSelector, path []parser.Node) []string {
	known, exists := c[selector.Name]
	if !exists {
		return []string{fmt.Sprintf("metric %s does not exist", selector.Name)}
	}
	var wrong []string
	if !slices.ContainsFunc(selector.LabelMatchers, func(m *labels.Matcher) bool { return m.Name == "job" }) {
		wrong = append(wrong, fmt.Sprintf("%s: select by job, or series of other programs count too", selector))
	}
	for _, matcher := range selector.LabelMatchers {
		if matcher.Name != labels.MetricName && !known.labels[matcher.Name] {
			wrong = append(wrong, fmt.Sprintf("metric %s has no label %s", selector.Name, matcher.Name))
		}
	}
	counted := false
	for _, node := range path {
		if call, ok := node.(*parser.Call); ok && slices.Contains(counterFunctions, call.Func.Name) {
			counted = call.Func.Name != "changes"
			break
		}
		// All that a new series has counted is its increase.
		if binary, ok := node.(*parser.BinaryExpr); ok && isNewSeries(binary) {
			counted = true
			break
		}
	}
	if counted != (known.kind == "counter") {
		wrong = append(wrong, fmt.Sprintf("metric %s is a %s: rate and increase are for counters, and counters need them", selector.Name, known.kind))
	}
	return wrong
}

// isNewSeries says whether an expression is `x unless x offset d`.
func isNewSeries(binary *parser.BinaryExpr) bool {
	now, isNow := binary.LHS.(*parser.VectorSelector)
	before, isBefore := binary.RHS.(*parser.VectorSelector)
	if binary.Op != parser.LUNLESS || !isNow || !isBefore || before.OriginalOffset <= 0 {
		return false
	}
	then := *before
	then.OriginalOffset = 0
	return now.String() == then.String()
}

// labelsBelow are the labels of the metrics in an expression.
func (c catalog) labelsBelow(expr parser.Expr) map[string]bool {
	all := map[string]bool{}
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok {
			maps.Copy(all, c[selector.Name].labels)
		}
		return nil
	})
	return all
}
