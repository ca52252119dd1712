package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const sample = `{
 "figures": [
  {"scenario": "burst", "n": 100, "of": "limit", "metric": "time", "value": 0.8},
  {"scenario": "burst", "n": 1000, "of": "limit", "metric": "time", "value": 8},
  {"scenario": "burst", "n": 100, "of": "ours", "metric": "time", "value": 0.9},
  {"scenario": "burst", "n": 1000, "of": "ours", "metric": "time", "value": 9},
  {"scenario": "scale", "n": 1000, "of": "ours", "metric": "resident memory", "value": 40},
  {"scenario": "scale", "n": 10000, "of": "ours", "metric": "resident memory", "value": 180}
 ],
 "series": [
  {"scenario": "burst", "n": 100, "of": "ours", "metric": "create to JobSet", "x": [0.1, 0.2], "y": [0, 1]},
  {"scenario": "steady, 20 a second", "n": 100, "of": "ours", "metric": "queue depth", "x": [1, 2], "y": [0, 3]},
  {"scenario": "steady, 20 a second", "n": 100, "of": "before", "metric": "queue depth", "x": [1, 2], "y": [0, 9]},
  {"scenario": "steady, 20 a second", "n": 100, "of": "ours", "metric": "live heap", "x": [1, 2], "y": [5, 6]}
 ]
}`

func TestRunFillsThePageAndDraws(t *testing.T) {
	dir := t.TempDir()
	page := filepath.Join(dir, "page.md")
	write(t, filepath.Join(dir, "result.json"), sample)
	write(t, filepath.Join(dir, "result.md"), "\n| new |\n")
	write(t, page, "before\n"+begin+"\n| old |\n"+end+"\nafter\n")
	images := filepath.Join(dir, "images")
	for range 2 { // a second time it replaces what it wrote
		if err := run(filepath.Join(dir, "result.json"), images, page); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if want := "before\n" + begin + "\n\n| new |\n\n" + end + "\nafter\n"; string(got) != want {
			t.Errorf("the page is %q, want %q", got, want)
		}
	}
	for name, words := range map[string][]string{
		"bench-latency.svg":       {"ours, 100", "seconds"},
		"bench-memory.svg":        {"ours: resident", "TrainJobs that exist"},
		"bench-growth.svg":        {"limit: burst until the last JobSet", "1 ms each"},
		"bench-steady.svg":        {"ours, 20 a second: queue depth"},
		"bench-steady-memory.svg": {"ours, 20 a second: live heap"},
	} {
		data, err := os.ReadFile(filepath.Join(images, name))
		if err != nil {
			t.Fatal(err)
		}
		wellFormed(t, name, string(data))
		for _, word := range words {
			if !strings.Contains(string(data), word) {
				t.Errorf("%s does not say %q", name, word)
			}
		}
		if !strings.Contains(string(data), "<path") && !strings.Contains(string(data), "<polyline") {
			t.Errorf("%s has no line", name)
		}
		if name != "bench-memory.svg" && strings.Contains(string(data), "before") {
			t.Errorf("%s shows an earlier build, which is for the table", name)
		}
	}
}

func TestRunKeepsAPictureThatNothingWasMeasuredFor(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "result.json"), `{}`)
	write(t, filepath.Join(dir, "result.md"), "")
	write(t, filepath.Join(dir, "page.md"), begin+end)
	write(t, filepath.Join(dir, "bench-memory.svg"), "of an earlier run")
	if err := run(filepath.Join(dir, "result.json"), dir, filepath.Join(dir, "page.md")); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "bench-memory.svg")); err != nil || string(got) != "of an earlier run" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestFillWantsItsMarks(t *testing.T) {
	for _, page := range []string{"", begin, end, end + begin} {
		if _, err := fill(page, "table"); err == nil || !strings.Contains(err.Error(), begin) {
			t.Errorf("of page %q: got %v, want an error that names the marks", page, err)
		}
	}
}

func wellFormed(t *testing.T, name, svg string) {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader(svg))
	for {
		_, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}
