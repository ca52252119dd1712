package main

import (
	"cmp"
	"fmt"
	"image/color"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// chart is one picture.
type chart struct {
	title, x, y string
	logarithmic bool
	shares      bool
	lines       []line
}

type line struct {
	name   string
	points plotter.XYs
	marks  bool
	dashed bool
}

// charts are the pictures of the documentation, by file name. One for which nothing was
// measured has no lines.
func charts(r *results) map[string]chart {
	now := r.without("before")
	return map[string]chart{
		"bench-latency.svg": {
			title: "From a TrainJob's creation to its JobSet, all created at once", x: "seconds", y: "share of TrainJobs", shares: true,
			lines: latencies(now),
		},
		"bench-memory.svg": {
			title: "Memory of the controller", x: "TrainJobs that exist", y: "MB",
			lines: overN(r, "scale", map[string]string{"resident memory": "resident", "live heap": "live heap"}),
		},
		"bench-growth.svg": {
			title: "How cost grows", x: "TrainJobs", y: "seconds", logarithmic: true,
			lines: withLinear(slices.Concat(
				overN(now, "burst", map[string]string{"time": "burst until the last JobSet"}),
				overN(now, "scale", map[string]string{"start to ready": "start among as many, to ready", "CPU of the start": "CPU of that start"}))),
		},
		"bench-steady.svg": {
			title: "A steady flow of TrainJobs: what waits", x: "seconds", y: "number",
			lines: courses(now, "TrainJobs without JobSet", "queue depth"),
		},
		"bench-steady-memory.svg": {
			title: "A steady flow of TrainJobs: memory of the controller", x: "seconds", y: "MB",
			lines: courses(now, "resident memory", "live heap"),
		},
	}
}

// latencies are the curves of the bursts, dashed for the limit.
func latencies(r *results) []line {
	var lines []line
	for _, s := range r.Series {
		if s.Scenario == "burst" && s.Metric == "create to JobSet" {
			lines = append(lines, line{name: fmt.Sprintf("%s, %d", s.Of, s.N), points: points(s.X, s.Y), dashed: s.Of == "limit"})
		}
	}
	return lines
}

// courses are the curves of some metrics in the steady flows.
func courses(r *results, metrics ...string) []line {
	var lines []line
	for _, s := range r.Series {
		if rate, steady := strings.CutPrefix(s.Scenario, "steady, "); steady && slices.Contains(metrics, s.Metric) {
			lines = append(lines, line{name: fmt.Sprintf("%s, %s: %s", s.Of, rate, s.Metric), points: points(s.X, s.Y), dashed: s.Of == "limit"})
		}
	}
	return lines
}

// without leaves a contender out.
func (r *results) without(contender string) *results {
	return &results{
		Figures: slices.DeleteFunc(slices.Clone(r.Figures), func(f figure) bool { return f.Of == contender }),
		Series:  slices.DeleteFunc(slices.Clone(r.Series), func(s series) bool { return s.Of == contender }),
	}
}

// overN makes a line of each metric and contender over the number of TrainJobs.
func overN(r *results, scenario string, metrics map[string]string) []line {
	found := map[string]*line{}
	for _, f := range r.Figures {
		name, wanted := metrics[f.Metric]
		if !wanted || f.Scenario != scenario || f.Value <= 0 {
			continue
		}
		key := f.Of + ": " + name
		if found[key] == nil {
			found[key] = &line{name: key, marks: true, dashed: f.Of == "limit"}
		}
		found[key].points = append(found[key].points, plotter.XY{X: float64(f.N), Y: f.Value})
	}
	var lines []line
	for _, l := range found {
		slices.SortFunc(l.points, func(a, b plotter.XY) int { return cmp.Compare(a.X, b.X) })
		lines = append(lines, *l)
	}
	slices.SortFunc(lines, func(a, b line) int { return cmp.Compare(a.name, b.name) })
	return lines
}

// withLinear adds a line of what is proportional to the number, to compare with.
func withLinear(lines []line) []line {
	least, most := math.Inf(1), math.Inf(-1)
	for _, l := range lines {
		for _, p := range l.points {
			least, most = min(least, p.X), max(most, p.X)
		}
	}
	if least >= most {
		return lines
	}
	return append(lines, line{name: "1 ms each", dashed: true, points: points([]float64{least, most}, []float64{least / 1000, most / 1000})})
}

func points(x, y []float64) plotter.XYs {
	all := make(plotter.XYs, min(len(x), len(y)))
	for i := range all {
		all[i] = plotter.XY{X: x[i], Y: y[i]}
	}
	return all
}

// colors that people with any eyesight can tell apart, by Okabe and Ito.
var colors = []color.Color{
	color.RGBA{0, 114, 178, 255}, color.RGBA{213, 94, 0, 255}, color.RGBA{0, 158, 115, 255}, color.RGBA{204, 121, 167, 255},
	color.RGBA{86, 180, 233, 255}, color.RGBA{230, 159, 0, 255}, color.RGBA{0, 0, 0, 255},
}

// save draws a chart. The format is that of the file's extension.
func (c chart) save(path string) error {
	p := plot.New()
	p.BackgroundColor = color.White // also readable on a dark page
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = c.title, c.x, c.y
	p.Title.Padding = vg.Points(6)
	// A curve of shares has room below it, the others get some above.
	p.Legend.Top, p.Legend.Left = !c.shares, !c.shares
	p.Add(plotter.NewGrid())
	if c.logarithmic {
		p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
		p.X.Tick.Marker, p.Y.Tick.Marker = plot.LogTicks{Prec: -1}, plot.LogTicks{Prec: -1}
	} else {
		p.Y.Min = 0
	}
	for i, l := range c.lines {
		drawn, dots, err := plotter.NewLinePoints(l.points)
		if err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
		drawn.Color, drawn.Width = colors[i%len(colors)], vg.Points(1.5)
		if l.dashed {
			drawn.Dashes = []vg.Length{vg.Points(5), vg.Points(3)}
		}
		p.Add(drawn)
		if l.marks {
			dots.Color = drawn.Color
			p.Add(dots)
		}
		p.Legend.Add(l.name, drawn)
	}
	switch {
	case c.logarithmic:
		p.Y.Max *= 30
	case !c.shares:
		p.Y.Max *= 1.4
	}
	return p.Save(18*vg.Centimeter, 11*vg.Centimeter, path)
}
