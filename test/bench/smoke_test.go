package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// The benchmark must not rot. That it checks what it measures makes this a test of the
// controller, too: every JobSet exists, once, and is right; every timer has run off.
// Figures are nobody's promise here, only that they are there.
func TestSmoke(t *testing.T) {
	o, err := parse([]string{
		"-n=50", "-scenarios=burst,timers,scale,foreign,steady", "-one-control-plane",
		"-spread=0", "-quiet=300ms", "-idle=500ms", "-foreign-for=1s", "-rate=20", "-steady=1s", "-run-for=500ms", "-ttl=1",
		"-out=" + filepath.Join(t.TempDir(), "bench", "result.json"),
	})
	if err != nil {
		t.Fatal(err)
	}
	results, err := run(t.Context(), o, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	results.table(os.Stderr)
	for _, want := range []struct {
		scenario string
		n        int
		of       string
		metric   string
		value    float64 // what is no figure but a promise; 0 is any
	}{
		{"burst", 50, limitName, "rate", 0},
		{"burst", 50, ourName, "rate", 0},
		{"burst", 50, ourName, "creates, all but events", 2},
		{"burst", 50, ourName, "calls: create jobsets", 1},
		{"timers", 50, limitName, "deadline in one second p99", 0},
		{"timers", 50, ourName, "deadline in one second p99", 0},
		{"timers", 50, ourName, "TTL in one second p99", 0},
		{"scale", 50, ourName, "live heap per job", 0},
		{"scale", 50, ourName, "writes of the start, for the one job that waited", 0},
		{"foreign", 50, ourName, "CPU", 0},
		{"steady, 20 a second", 20, limitName, "create to end p99", 0},
		{"steady, 20 a second", 20, ourName, "create to end p99", 0},
	} {
		got, found := results.find(want.scenario, want.of, want.n, want.metric)
		if !found {
			t.Errorf("no figure %q of %s in %s", want.metric, want.of, want.scenario)
		}
		if want.value != 0 && got != want.value {
			t.Errorf("%s of %s in %s is %v, want %v", want.metric, want.of, want.scenario, got, want.value)
		}
	}
	for _, most := range []struct {
		metric string
		value  float64
	}{
		{"status writes until Running, the most of any", 4},
		{"status writes over life, the most of any", 7},
	} {
		if got, found := results.find("burst", ourName, 50, most.metric); !found || got > most.value {
			t.Errorf("%s is %v, want at most %v", most.metric, got, most.value)
		}
	}
	for _, n := range []int{len(mix), 50} {
		if writes, found := results.find("scale", ourName, n, "idle: writes but the Lease's"); !found || writes != 0 {
			t.Errorf("%v writes (found: %v) of the idle controller among %d jobs", writes, found, n)
		}
	}
	if !slices.ContainsFunc(results.Series, func(s series) bool { return s.Of == ourName && s.Metric == "create to JobSet" }) {
		t.Error("there is no curve of latencies")
	}
	if _, err := os.Stat(o.out); err != nil {
		t.Error(err)
	}
}
