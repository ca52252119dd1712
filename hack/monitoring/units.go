package main

import (
	"fmt"
	"math"
	"time"
)

// nice is the next higher of 1, 2 and 5 times a power of ten.
func nice(v float64) float64 {
	if v <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, factor := range []float64{1, 2, 5} {
		if v <= factor*power*(1+1e-9) {
			return factor * power
		}
	}
	return 10 * power
}

// niceIn is a distance of ticks that reads well in a unit.
func niceIn(unit string, v float64) float64 {
	switch unit {
	case "bytes":
		const mib = 1 << 20
		return nice(v/mib) * mib
	case "s":
		for _, d := range []time.Duration{
			10 * time.Second, 15 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute,
			30 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour, 10 * 24 * time.Hour,
		} {
			if v > 5 && v <= d.Seconds() {
				return d.Seconds()
			}
		}
	}
	return nice(v)
}

// inUnit writes a value in a unit of Grafana.
func inUnit(unit string, v float64) string {
	switch {
	case unit == "bytes":
		return fmt.Sprintf("%.4g MiB", v/(1<<20))
	case unit == "ops":
		return fmt.Sprintf("%.3g/s", v)
	case unit != "s" || v == 0:
		return fmt.Sprintf("%.4g", v)
	case v < 1e-3:
		return fmt.Sprintf("%.3g µs", v*1e6)
	case v < 1:
		return fmt.Sprintf("%.3g ms", v*1e3)
	case v < 60:
		return fmt.Sprintf("%.3g s", v)
	case v < 3600:
		return fmt.Sprintf("%.3g min", v/60)
	case v < 2*86400:
		return fmt.Sprintf("%.3g h", v/3600)
	}
	return fmt.Sprintf("%.3g d", v/86400)
}
