package main

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestOptions(t *testing.T) {
	cases := map[string]struct {
		args  []string
		check func(*options) bool
		wrong string
	}{
		"by default everything is measured": {check: func(o *options) bool {
			return slices.Equal(o.scenarios, scenarios) && slices.Equal(o.burst, []int{100, 1000, 5000}) && o.steady == 5*time.Minute
		}},
		"n replaces all numbers": {args: []string{"-n", "7"}, check: func(o *options) bool {
			return slices.Equal(o.burst, []int{7}) && slices.Equal(o.scale, []int{7}) && o.timers == 7 && o.foreign == 7
		}},
		"an unknown scenario is named with the known ones": {args: []string{"-scenarios", "burst,bursts"}, wrong: `"bursts" is none of burst, timers`},
		"a number that is none is named":                   {args: []string{"-burst", "10,x"}, wrong: `-burst: "x" is not a number`},
		"numbers must grow":                                {args: []string{"-scale", "10,5"}, wrong: "-scale: 10,5 does not grow"},
		"times must be positive":                           {args: []string{"-steady", "0s", "-rate", "-1"}, wrong: "must be more than 0"},
		"there are no arguments":                           {args: []string{"burst"}, wrong: `"burst"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o, err := parse(tc.args)
			if tc.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wrong) {
					t.Fatalf("got %v, want an error with %q", err, tc.wrong)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !tc.check(o) {
				t.Errorf("got %+v", o)
			}
		})
	}
}
