package main

import (
	"fmt"
	"log/slog"
	"os"
	"strings"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

// readRules reads a PrometheusRule as the operator does, and what is in it as Prometheus
// does.
func readRules(path string) ([]rulefmt.Rule, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var object monitoring.PrometheusRule
	if err := yaml.UnmarshalStrict(text, &object); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	spec, err := yaml.Marshal(object.Spec)
	if err != nil {
		return nil, err
	}
	groups, errs := rulefmt.Parse(spec, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	if len(errs) > 0 {
		return nil, fmt.Errorf("%s: %v", path, errs)
	}
	var all []rulefmt.Rule
	for _, group := range groups.Groups {
		all = append(all, group.Rules...)
	}
	return all, nil
}

// runbook is the paragraphs of docs/runbook.md by their headings, in their order.
func readRunbook(path string) (headings []string, sections map[string]string, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	sections = map[string]string{}
	for _, part := range strings.Split(string(text), "\n## ")[1:] {
		heading, body, _ := strings.Cut(part, "\n")
		headings = append(headings, heading)
		sections[heading] = body
	}
	return headings, sections, nil
}
