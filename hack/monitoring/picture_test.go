package main

import (
	"fmt"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// recorded writes scrapes of two replicas, ten seconds apart, of which the first leads
// until it is killed: it has then no answer.
func recorded(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for i := range 13 {
		at := 1_700_000_000_000 + int64(i)*10_000
		fmt.Fprintf(&b, "## scrape %d a\n", at)
		if i < 6 {
			fmt.Fprintf(&b, "# HELP x y\n# TYPE trainjob_controller_leader gauge\ntrainjob_controller_leader 1\n"+
				"trainjob_controller_api_writes_total{code=\"201\",resource=\"jobsets\",verb=\"create\"} %d\n", i*20)
		}
		fmt.Fprintf(&b, "## scrape %d b\ntrainjob_controller_leader %d\n", at+1, map[bool]int{true: 1}[i > 8])
	}
	path := filepath.Join(t.TempDir(), "scrapes.txt")
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCurvesAreWhatPrometheusAnswers(t *testing.T) {
	r, err := load(t.Context(), recorded(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.close(); err != nil {
			t.Error(err)
		}
	}()
	e := newEvaluator(r, 10*time.Second, 30*time.Second)
	gap := math.NaN()
	cases := map[string]struct {
		query, legend string
		want          []curve
	}{
		"a replica that has gone leaves a gap": {`trainjob_controller_leader{job="$job"}`, "{{instance}} leads", []curve{
			{"a leads", []float64{1, 1, 1, 1, 1, 1, gap, gap, gap, gap, gap, gap, gap}},
			{"b leads", []float64{gap, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1}},
		}},
		"whether it answers": {`min(up{job="$job"})`, "up", []curve{{"up", []float64{1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0}}}},
		"a rate, of the job of the monitor alone": {`sum by (resource) (rate(trainjob_controller_api_writes_total{job="$job"}[$__rate_interval]))`, "{{resource}}",
			[]curve{{"jobsets", []float64{gap, 0.67, 1.33, 2, 2, 2, 2, gap, gap, gap, gap, gap, gap}}}},
		"another job": {`up{job="x$job"}`, "", nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var p panel
			p.Targets = append(p.Targets, struct {
				RefID        string `json:"refId"`
				Expr         string `json:"expr"`
				LegendFormat string `json:"legendFormat"`
			}{"A", tc.query, tc.legend})
			got, err := e.curves(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			rounded := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 0.01 || math.IsNaN(a) && math.IsNaN(b) })
			if diff := cmp.Diff(tc.want, got, rounded, cmp.AllowUnexported(curve{})); diff != "" {
				t.Errorf("curves (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheShippedDashboardCanBeDrawn(t *testing.T) {
	out := filepath.Join(t.TempDir(), "dashboard.png")
	if err := picture(t.Context(), recorded(t), in("artifacts", "monitoring", "dashboard.json"), out, 10*time.Second, 30*time.Second); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	image, err := png.Decode(file)
	if err != nil {
		t.Fatal(err)
	}
	if size := image.Bounds().Size(); size.X < 1500 || size.Y < size.X {
		t.Errorf("the picture is %v", size)
	}
	colors := map[string]bool{}
	for x := 0; x < image.Bounds().Dx(); x += 3 {
		for y := 0; y < image.Bounds().Dy(); y += 3 {
			r, g, b, _ := image.At(x, y).RGBA()
			colors[fmt.Sprint(r>>8, g>>8, b>>8)] = true
		}
	}
	if !colors[fmt.Sprint(palette[0].R, palette[0].G, palette[0].B)] {
		t.Error("there is no curve in the picture")
	}
}

func TestFilesThatAreNoScrapesAreNamed(t *testing.T) {
	for text, want := range map[string]string{
		"":                          "there is no scrape in it",
		"## scrape soon a\n":        `scrape 1: time "soon"`,
		"## scrape 1000 a\nnot it}": "scrape 1, of a",
	} {
		path := filepath.Join(t.TempDir(), "scrapes.txt")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		r, err := load(t.Context(), path)
		if err == nil {
			t.Errorf("%q was loaded: %v, %v", text, r.start, r.close())
		} else if !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("error %v does not say %s: %s", err, path, want)
		}
	}
}

func TestUnitsReadWell(t *testing.T) {
	for want, got := range map[string]string{
		"250 ms": inUnit("s", 0.25), "12 µs": inUnit("s", 12e-6), "1.5 min": inUnit("s", 90), "2 h": inUnit("s", 7200), "90 d": inUnit("s", 90*86400),
		"0": inUnit("s", 0), "64 MiB": inUnit("bytes", 64<<20), "2.5/s": inUnit("ops", 2.5), "1500": inUnit("short", 1500),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	for _, tc := range []struct{ unit, want, got string }{
		{"s", "30", fmt.Sprint(niceIn("s", 17))}, {"s", "0.05", fmt.Sprint(niceIn("s", 0.03))},
		{"bytes", fmt.Sprint(20 << 20), fmt.Sprint(int(niceIn("bytes", 11<<20)))}, {"short", "1", fmt.Sprint(niceIn("short", 0))},
	} {
		if tc.got != tc.want {
			t.Errorf("ticks of %s are %s apart, want %s", tc.unit, tc.got, tc.want)
		}
	}
}
