package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

func main() {
	scrapes := flag.String("scrapes", "", "`file` with scrapes, as test/record writes it")
	board := flag.String("dashboard", filepath.Join("..", "..", "artifacts", "monitoring", "dashboard.json"), "`file` with the dashboard")
	out := flag.String("out", "", "`file` to write, a PNG")
	step := flag.Duration("step", 3*time.Second, "time between two points of a curve")
	interval := flag.Duration("interval", 20*time.Second, "what stands for $__rate_interval")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := picture(ctx, *scrapes, *board, *out, *step, *interval); err != nil {
		fmt.Fprintln(os.Stderr, "monitoring:", err)
		os.Exit(1)
	}
}

// picture evaluates every query of a dashboard over the scrapes and draws the panels.
func picture(ctx context.Context, scrapes, board, out string, step, interval time.Duration) (err error) {
	d, err := readDashboard(board)
	if err != nil {
		return err
	}
	r, err := load(ctx, scrapes)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	canvas, err := render(ctx, d, newEvaluator(r, step, interval))
	if err != nil {
		return err
	}
	file, err := os.Create(out)
	if err != nil {
		return err
	}
	_, err = vgimg.PngCanvas{Canvas: canvas}.WriteTo(io.Writer(file))
	return errors.Join(err, file.Close())
}

// Sizes of the picture, in points: a cell of Grafana's grid, the space between cards.
const (
	cellWidth  = vg.Length(42)
	cellHeight = vg.Length(25)
	rowHeight  = vg.Length(26)
	gap        = vg.Length(4)
	dpi        = 110
)

// render draws all panels where the dashboard has them.
func render(ctx context.Context, d *dashboard, e *evaluator) (*vgimg.Canvas, error) {
	tops, height := layers(d)
	canvas := vgimg.NewWith(vgimg.UseWH(24*cellWidth+2*gap, height+2*gap), vgimg.UseDPI(dpi), vgimg.UseBackgroundColor(paper))
	whole := draw.New(canvas)
	for _, p := range d.Panels {
		top := whole.Max.Y - gap - tops[p.GridPos.Y]
		left := whole.Min.X + gap + vg.Length(p.GridPos.X)*cellWidth
		if p.Type == "row" {
			whole.FillText(style(12, true, ink), vg.Point{X: left + gap, Y: top - rowHeight + 8}, p.Title)
			continue
		}
		curves, err := e.curves(ctx, p)
		if err != nil {
			return nil, err
		}
		area := draw.Canvas{Canvas: whole.Canvas, Rectangle: vg.Rectangle{
			Min: vg.Point{X: left + gap/2, Y: top - vg.Length(p.GridPos.H)*cellHeight + gap/2},
			Max: vg.Point{X: left + vg.Length(p.GridPos.W)*cellWidth - gap/2, Y: top - gap/2},
		}}
		if err := drawPanel(area, p, curves, e.step); err != nil {
			return nil, err
		}
	}
	return canvas, nil
}

// layers is how far from the top each line of the grid begins, and the height of all. A
// line with a heading is lower than the others.
func layers(d *dashboard) (map[int]vg.Length, vg.Length) {
	headings, last := map[int]bool{}, 0
	for _, p := range d.Panels {
		last = max(last, p.GridPos.Y+p.GridPos.H)
		if p.Type == "row" {
			headings[p.GridPos.Y] = true
		}
	}
	tops, y := map[int]vg.Length{}, vg.Length(0)
	for line := range last {
		tops[line] = y
		if headings[line] {
			y += rowHeight
		} else {
			y += cellHeight
		}
	}
	return tops, y
}
