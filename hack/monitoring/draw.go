package main

import (
	"fmt"
	"image/color"
	"math"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

var (
	paper = color.NRGBA{0xf4, 0xf5, 0xf5, 0xff}
	card  = color.White
	ink   = color.NRGBA{0x22, 0x2b, 0x35, 0xff}
	faint = color.NRGBA{0xdd, 0xe0, 0xe4, 0xff}
	gray  = color.NRGBA{0x6b, 0x72, 0x80, 0xff}
)

// palette of curves that have no color of their own.
var palette = []color.NRGBA{
	{0x32, 0x74, 0xd9, 0xff}, {0xe0, 0x8b, 0x2d, 0xff}, {0x37, 0x87, 0x2d, 0xff}, {0xa3, 0x52, 0xcc, 0xff},
	{0xc4, 0x16, 0x2a, 0xff}, {0x1f, 0x9e, 0xa8, 0xff}, {0x8a, 0x6d, 0x3b, 0xff}, {0xd6, 0x5f, 0x9c, 0xff},
	{0x5b, 0x6b, 0x7b, 0xff}, {0x9a, 0xa8, 0x1f, 0xff},
}

// colors of what has a good or bad meaning.
var colors = map[string]color.NRGBA{
	"Running": {0x37, 0x87, 0x2d, 0xff}, "Complete": {0x32, 0x74, 0xd9, 0xff}, "Failed": {0xc4, 0x16, 0x2a, 0xff},
	"Pending": {0xe0, 0x8b, 0x2d, 0xff}, "Suspended": {0x8a, 0x94, 0xa0, 0xff}, "Unknown": {0x22, 0x2b, 0x35, 0xff},
	"success": {0x37, 0x87, 0x2d, 0xff}, "error": {0xc4, 0x16, 0x2a, 0xff},
}

// colorOf the n-th curve of a panel.
func colorOf(name string, n int) color.NRGBA {
	if c, known := colors[name]; known {
		return c
	}
	return palette[n%len(palette)]
}

func style(size float64, bold bool, c color.Color) text.Style {
	f := font.From(plot.DefaultFont, vg.Points(size))
	f.Variant = "Sans"
	if bold {
		f.Weight = 2
	}
	return text.Style{Color: c, Font: f, Handler: plot.DefaultTextHandler}
}

const (
	margin       = vg.Length(8)
	titleHeight  = vg.Length(20)
	legendHeight = vg.Length(14)
)

// drawPanel draws one panel as a card: its title, its curves, and their names.
func drawPanel(c draw.Canvas, p panel, curves []curve, step time.Duration) error {
	c.FillPolygon(card, rectangle(c))
	c.StrokeLines(draw.LineStyle{Color: faint, Width: vg.Points(0.7)}, append(rectangle(c), c.Min))
	inner := draw.Crop(c, margin, -margin, margin, -margin)
	inner.FillText(style(10, true, ink), vg.Point{X: inner.Min.X, Y: inner.Max.Y - 11}, p.Title)
	var shown []curve
	for _, c := range curves {
		if hasValue(c) {
			shown = append(shown, c)
		}
	}
	if len(shown) == 0 {
		none := style(10, false, gray)
		none.XAlign = text.XCenter
		none.YAlign = text.YCenter
		inner.FillText(none, inner.Center(), "No data")
		return nil
	}
	lines := layOut(inner, shown)
	below := vg.Length(len(lines)) * legendHeight
	for i, line := range lines {
		drawLegend(inner, line, inner.Min.Y+below-vg.Length(i+1)*legendHeight)
	}
	graph, err := newGraph(p, shown, step)
	if err != nil {
		return fmt.Errorf("panel %q: %w", p.Title, err)
	}
	graph.Draw(draw.Crop(inner, 0, 0, below+4, -titleHeight))
	return nil
}

func rectangle(c draw.Canvas) []vg.Point {
	return []vg.Point{c.Min, {X: c.Max.X, Y: c.Min.Y}, c.Max, {X: c.Min.X, Y: c.Max.Y}}
}

func hasValue(c curve) bool {
	for _, v := range c.values {
		if !math.IsNaN(v) {
			return true
		}
	}
	return false
}

// entry is a name in the legend and where on its line it begins.
type entry struct {
	name  string
	color color.NRGBA
	x     vg.Length
}

const swatch = vg.Length(10)

// layOut puts the names of curves on as few lines as they need.
func layOut(c draw.Canvas, curves []curve) [][]entry {
	lines := [][]entry{nil}
	x := c.Min.X
	for n, one := range curves {
		width := swatch + 4 + style(8, false, ink).Width(one.name) + 12
		if x+width > c.Max.X && x > c.Min.X {
			lines, x = append(lines, nil), c.Min.X
		}
		lines[len(lines)-1] = append(lines[len(lines)-1], entry{one.name, colorOf(one.name, n), x})
		x += width
	}
	return lines
}

func drawLegend(c draw.Canvas, line []entry, y vg.Length) {
	for _, e := range line {
		c.StrokeLine2(draw.LineStyle{Color: e.color, Width: vg.Points(3)}, e.x, y+4, e.x+swatch, y+4)
		c.FillText(style(8, false, ink), vg.Point{X: e.x + swatch + 4, Y: y + 1}, e.name)
	}
}

// newGraph makes axes and curves, one upon the other if the panel is stacked.
func newGraph(p panel, curves []curve, step time.Duration) (*plot.Plot, error) {
	graph := plot.New()
	graph.BackgroundColor = color.Transparent
	stacked := p.FieldConfig.Defaults.Custom.Stacking.Mode == "normal"
	if stacked {
		if err := stack(graph, curves, step); err != nil {
			return nil, err
		}
	}
	highest := 0.0
	base := make([]float64, len(curves[0].values))
	for n, c := range curves {
		values := c.values
		if stacked {
			values = sum(base, values)
			base = values
		}
		for _, v := range values {
			if v > highest { // never true of a gap
				highest = v
			}
		}
		if stacked {
			continue
		}
		for _, part := range unbroken(values, step) {
			line, err := plotter.NewLine(part)
			if err != nil {
				return nil, err
			}
			line.Color, line.Width = colorOf(c.name, n), vg.Points(1.2)
			graph.Add(line)
		}
	}
	if highest == 0 {
		highest = 1
	}
	graph.X.Min, graph.X.Max = 0, (time.Duration(len(base)-1) * step).Minutes()
	graph.Y.Min, graph.Y.Max = 0, highest*1.08
	dress(graph, p.FieldConfig.Defaults.Unit)
	return graph, nil
}

// dress gives the axes the look of the rest and ticks in the unit of the panel.
func dress(graph *plot.Plot, unit string) {
	for _, axis := range []*plot.Axis{&graph.X, &graph.Y} {
		axis.Tick.Label.Font = style(8, false, gray).Font
		axis.Tick.Label.Color = gray
		axis.LineStyle.Color, axis.Tick.LineStyle.Color = faint, faint
		axis.Padding = 0
	}
	graph.X.Tick.Marker = plot.TickerFunc(func(low, high float64) []plot.Tick {
		every := nice((high - low) / 5)
		var ticks []plot.Tick
		for v := 0.0; v <= high+1e-9; v += every {
			ticks = append(ticks, plot.Tick{Value: v, Label: fmt.Sprintf("%g min", math.Round(v*100)/100)})
		}
		return ticks
	})
	graph.Y.Tick.Marker = plot.TickerFunc(func(low, high float64) []plot.Tick {
		every := niceIn(unit, (high-low)/4)
		var ticks []plot.Tick
		for n := 0; float64(n)*every <= high; n++ {
			ticks = append(ticks, plot.Tick{Value: float64(n) * every, Label: inUnit(unit, float64(n)*every)})
		}
		return ticks
	})
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = color.Transparent, faint
	graph.Add(grid)
}

// stack fills the area below the sum of all curves up to each, the last one first.
func stack(graph *plot.Plot, curves []curve, step time.Duration) error {
	sums := make([][]float64, len(curves))
	base := make([]float64, len(curves[0].values))
	for n, c := range curves {
		base = sum(base, c.values)
		sums[n] = base
	}
	for n := len(curves) - 1; n >= 0; n-- {
		outline := plotter.XYs{{X: 0, Y: 0}}
		for i, v := range sums[n] {
			outline = append(outline, plotter.XY{X: (time.Duration(i) * step).Minutes(), Y: v})
		}
		outline = append(outline, plotter.XY{X: (time.Duration(len(base)-1) * step).Minutes(), Y: 0})
		area, err := plotter.NewPolygon(outline)
		if err != nil {
			return err
		}
		c := colorOf(curves[n].name, n)
		area.Color, area.LineStyle.Width = mix(c, 0.55), 0
		graph.Add(area)
		line, err := plotter.NewLine(outline[1 : len(outline)-1])
		if err != nil {
			return err
		}
		line.Color, line.Width = c, vg.Points(0.8)
		graph.Add(line)
	}
	return nil
}

// mix lightens a color: areas that lie over each other must not shine through.
func mix(c color.NRGBA, part float64) color.NRGBA {
	lighten := func(v uint8) uint8 { return uint8(255 - part*(255-float64(v))) }
	return color.NRGBA{lighten(c.R), lighten(c.G), lighten(c.B), 0xff}
}

// sum adds values, a gap counting as zero.
func sum(base, values []float64) []float64 {
	total := make([]float64, len(base))
	for i := range base {
		total[i] = base[i]
		if !math.IsNaN(values[i]) {
			total[i] += values[i]
		}
	}
	return total
}

// unbroken cuts a curve at its gaps.
func unbroken(values []float64, step time.Duration) []plotter.XYs {
	var parts []plotter.XYs
	var part plotter.XYs
	for i, v := range values {
		if math.IsNaN(v) {
			if part != nil {
				parts, part = append(parts, part), nil
			}
			continue
		}
		part = append(part, plotter.XY{X: (time.Duration(i) * step).Minutes(), Y: v})
	}
	if part != nil {
		parts = append(parts, part)
	}
	return parts
}
