// Command benchplot puts the results of a benchmark into the documentation: it draws the
// plots as SVG and writes the table into a page, between two marks.
//
// It knows the benchmark's JSON and nothing else. It is in this module so that what it
// draws with is no dependency of the controller.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// figure and series are as the benchmark writes them.
type figure struct {
	Scenario string
	N        int
	Of       string
	Metric   string
	Value    float64
}

type series struct {
	Scenario string
	N        int
	Of       string
	Metric   string
	X, Y     []float64
}

type results struct {
	Figures []figure
	Series  []series
}

func main() {
	in := flag.String("in", "", "`file` with the results, JSON; the table is beside it")
	images := flag.String("images", "", "`folder` for the plots")
	page := flag.String("page", "", "`file` in which the table goes between its marks")
	flag.Parse()
	if err := run(*in, *images, *page); err != nil {
		fmt.Fprintln(os.Stderr, "benchplot:", err)
		os.Exit(1)
	}
}

func run(in, images, page string) error {
	data, err := os.ReadFile(in)
	if err != nil {
		return fmt.Errorf("%w (make bench writes it)", err)
	}
	var r results
	if err := json.Unmarshal(data, &r); err != nil {
		return fmt.Errorf("%s: %w", in, err)
	}
	table, err := os.ReadFile(strings.TrimSuffix(in, ".json") + ".md")
	if err != nil {
		return err
	}
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	filled, err := fill(string(text), string(table))
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	if err := os.MkdirAll(images, 0o755); err != nil {
		return err
	}
	for name, chart := range charts(&r) {
		if len(chart.lines) == 0 {
			fmt.Fprintf(os.Stderr, "benchplot: nothing was measured for %s, which stays as it is\n", name)
			continue
		}
		if err := chart.save(filepath.Join(images, name)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return os.WriteFile(page, []byte(filled), 0o644)
}

// Marks around the table.
const (
	begin = "<!-- figures: written by make bench-docs -->"
	end   = "<!-- end of figures -->"
)

// fill replaces what is between the marks of a page.
func fill(page, table string) (string, error) {
	head, rest, found := strings.Cut(page, begin)
	_, tail, ended := strings.Cut(rest, end)
	if !found || !ended {
		return "", errors.New("the marks are missing: " + begin + " and " + end)
	}
	return head + begin + "\n\n" + strings.TrimSpace(table) + "\n\n" + end + tail, nil
}
