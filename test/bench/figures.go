package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// figure is one number that was measured.
type figure struct {
	Scenario string  `json:"scenario"`
	N        int     `json:"n"`
	Of       string  `json:"of"` // limit, before, ours or peer
	Metric   string  `json:"metric"`
	Unit     string  `json:"unit,omitempty"`
	Value    float64 `json:"value"`
}

// series is a line of a plot.
type series struct {
	Scenario string    `json:"scenario"`
	N        int       `json:"n"`
	Of       string    `json:"of"`
	Metric   string    `json:"metric"`
	X        []float64 `json:"x"`
	Y        []float64 `json:"y"`
}

// results of one run, as they are written to the file.
type results struct {
	Time time.Time `json:"time"`
	Go   string    `json:"go"`
	CPUs int       `json:"cpus"`
	// Load is the load average of one minute before the run: what else the machine did.
	Load    string   `json:"loadAverage,omitempty"`
	Version string   `json:"version,omitempty"`
	Peer    string   `json:"peer,omitempty"`
	Figures []figure `json:"figures"`
	Series  []series `json:"series"`
}

func newResults(o *options) *results {
	r := &results{Time: time.Now().UTC().Truncate(time.Second), Go: runtime.Version(), CPUs: runtime.NumCPU(), Peer: o.peer}
	if info, ok := debug.ReadBuildInfo(); ok {
		r.Version = info.Main.Version
	}
	if load, err := os.ReadFile("/proc/loadavg"); err == nil { // there is none on other systems than Linux
		r.Load, _, _ = strings.Cut(string(load), " ")
	}
	return r
}

// page collects the figures of one contender in one scenario.
type page struct {
	results      *results
	scenario, of string
	n            int
}

func (r *results) page(scenario, of string, n int) *page {
	return &page{results: r, scenario: scenario, of: of, n: n}
}

func (p *page) add(metric, unit string, value float64) {
	p.results.Figures = append(p.results.Figures, figure{Scenario: p.scenario, N: p.n, Of: p.of, Metric: metric, Unit: unit, Value: value})
}

// duration adds a time in the unit that people read it in.
func (p *page) duration(metric string, d time.Duration) {
	p.add(metric, "s", d.Seconds())
}

// delays adds the percentiles of sorted times, and all of them as a curve.
func (p *page) delays(metric string, sorted []time.Duration) {
	if len(sorted) == 0 {
		return
	}
	for _, q := range []struct {
		name string
		q    float64
	}{{"p50", 0.5}, {"p99", 0.99}, {"max", 1}} {
		p.duration(metric+" "+q.name, quantile(sorted, q.q))
	}
	const points = 200
	curve := series{Scenario: p.scenario, N: p.n, Of: p.of, Metric: metric}
	for i := range points + 1 {
		q := float64(i) / points
		curve.X, curve.Y = append(curve.X, quantile(sorted, q).Seconds()), append(curve.Y, q)
	}
	p.results.Series = append(p.results.Series, curve)
}

// course adds how a number went with time.
func (p *page) course(metric string, x, y []float64) {
	p.results.Series = append(p.results.Series, series{Scenario: p.scenario, N: p.n, Of: p.of, Metric: metric, X: x, Y: y})
}

// quantile of sorted times: the smallest that a share q of them does not exceed.
func quantile(sorted []time.Duration, q float64) time.Duration {
	i := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[max(i, 0)]
}

// checked keeps the figures of a measurement only if all that it checks is right.
func (r *results) checked(measure func() error) error {
	figures, series := len(r.Figures), len(r.Series)
	err := measure()
	if err != nil {
		r.Figures, r.Series = r.Figures[:figures], r.Series[:series]
	}
	return err
}

// find returns a figure.
func (r *results) find(scenario, of string, n int, metric string) (float64, bool) {
	for _, f := range r.Figures {
		if f.Scenario == scenario && f.Of == of && f.N == n && f.Metric == metric {
			return f.Value, true
		}
	}
	return 0, false
}

// ratio adds, for everyone who has a figure of this page's scenario, its ratio to the
// limit's figure.
func (b *bench) ratio(scenario string, n int, metric, of, to string, inverse bool) {
	limit, ok := b.results.find(scenario, limitName, n, to)
	if !ok {
		return
	}
	for _, c := range b.controllers {
		if value, ok := b.results.find(scenario, c.name, n, of); ok && value > 0 && limit > 0 {
			ratio := value / limit
			if inverse {
				ratio = limit / value
			}
			b.results.page(scenario, c.name, n).add(metric, "×", ratio)
		}
	}
}

// write writes the figures as JSON, and beside them the table.
func (r *results) write(path string) error {
	data, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path, append(data, '\n'), 0o644); err != nil {
		return err
	}
	var table strings.Builder
	r.table(&table)
	return os.WriteFile(strings.TrimSuffix(path, ".json")+".md", []byte(table.String()), 0o644)
}

// table prints all figures, a table for each scenario and number, in Markdown.
func (r *results) table(out io.Writer) {
	fmt.Fprintf(out, "\n%d CPUs, %s", r.CPUs, r.Go)
	if r.Load != "" {
		fmt.Fprintf(out, "; load average when it began: %s", r.Load)
	}
	fmt.Fprintln(out, ".")
	type heading struct {
		scenario string
		n        int
	}
	var headings []heading
	rows := map[heading][]string{}
	cells := map[heading]map[string]map[string]string{}
	columns := []string{limitName, ourName, peerName}
	if slices.ContainsFunc(r.Figures, func(f figure) bool { return f.Of == beforeName }) {
		columns = slices.Insert(columns, 1, beforeName)
	}
	for _, f := range r.Figures {
		h := heading{f.Scenario, f.N}
		if cells[h] == nil {
			headings, cells[h] = append(headings, h), map[string]map[string]string{}
		}
		if cells[h][f.Metric] == nil {
			rows[h], cells[h][f.Metric] = append(rows[h], f.Metric), map[string]string{}
		}
		cells[h][f.Metric][f.Of] = strings.TrimSpace(readable(f.Value) + " " + f.Unit)
	}
	row := func(name string, cell func(column string) string) {
		fmt.Fprintf(out, "| %-58s |", name)
		for _, column := range columns {
			fmt.Fprintf(out, " %-14s |", cell(column))
		}
		fmt.Fprintln(out)
	}
	for _, h := range headings {
		fmt.Fprintln(out)
		row(fmt.Sprintf("**%s, %d TrainJobs**", h.scenario, h.n), func(column string) string { return column })
		fmt.Fprintln(out, "|"+strings.Repeat("-", 60)+"|"+strings.Repeat("---|", len(columns)))
		for _, metric := range rows[h] {
			row(metric, func(column string) string { return cells[h][metric][column] })
		}
	}
}

// readable rounds to what a reader can use: three digits that say something.
func readable(v float64) string {
	switch a := math.Abs(v); {
	case v == math.Trunc(v) && a < 1e7:
		return fmt.Sprintf("%.0f", v)
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	case a >= 1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3f", v)
}
