package main

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/promql"
)

// curve is one line of a panel. Its gaps are NaN.
type curve struct {
	name   string
	values []float64
}

// evaluator answers the queries of panels over a recording.
type evaluator struct {
	recording *recording
	engine    *promql.Engine
	step      time.Duration
	interval  string // in the place of $__rate_interval
}

func newEvaluator(r *recording, step, interval time.Duration) *evaluator {
	return &evaluator{recording: r, step: step, interval: interval.String(), engine: promql.NewEngine(promql.EngineOpts{
		MaxSamples: 50_000_000, Timeout: time.Minute, LookbackDelta: 5 * time.Minute,
	})}
}

// times are the points on the time axis.
func (e *evaluator) times() int { return int(e.recording.end.Sub(e.recording.start)/e.step) + 1 }

// curves are the lines of a panel, those of the first query first.
func (e *evaluator) curves(ctx context.Context, p panel) ([]curve, error) {
	var all []curve
	for _, target := range p.Targets {
		found, err := e.run(ctx, substitute(target.Expr, job, e.interval), target.LegendFormat)
		if err != nil {
			return nil, fmt.Errorf("panel %q, query %s: %w", p.Title, target.RefID, err)
		}
		all = append(all, found...)
	}
	return all, nil
}

func (e *evaluator) run(ctx context.Context, expr, legend string) ([]curve, error) {
	query, err := e.engine.NewRangeQuery(ctx, e.recording.db, nil, expr, e.recording.start, e.recording.end, e.step)
	if err != nil {
		return nil, err
	}
	defer query.Close()
	result := query.Exec(ctx)
	matrix, err := result.Matrix()
	if err != nil {
		return nil, err
	}
	var all []curve
	for _, series := range matrix {
		c := curve{name: named(legend, series), values: make([]float64, e.times())}
		for i := range c.values {
			c.values[i] = math.NaN()
		}
		for _, point := range series.Floats {
			at := time.UnixMilli(point.T).Sub(e.recording.start)
			if i := int(math.Round(float64(at) / float64(e.step))); i < len(c.values) && !math.IsInf(point.F, 0) {
				c.values[i] = point.F
			}
		}
		all = append(all, c)
	}
	slices.SortStableFunc(all, func(a, b curve) int { return strings.Compare(a.name, b.name) })
	return all, nil
}

var placeholder = regexp.MustCompile(`\{\{(\w+)\}\}`)

// named fills the legend of a query with the labels of a series.
func named(legend string, series promql.Series) string {
	return placeholder.ReplaceAllStringFunc(legend, func(p string) string {
		return series.Metric.Get(placeholder.FindStringSubmatch(p)[1])
	})
}
