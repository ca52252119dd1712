package lifetime

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestDeadline(t *testing.T) {
	cases := map[string]struct {
		seconds *int64
		now     time.Time
		want    Verdict
	}{
		"without a limit it is never due": {
			seconds: nil, now: start.Add(1000 * time.Hour), want: Verdict{Kind: Never},
		},
		"before the moment it waits for exactly the rest": {
			seconds: ptr.To[int64](30), now: start.Add(12500 * time.Millisecond),
			want: Verdict{Kind: Wait, Wait: 17500 * time.Millisecond},
		},
		"a nanosecond before the moment it waits a nanosecond": {
			seconds: ptr.To[int64](30), now: start.Add(30*time.Second - 1), want: Verdict{Kind: Wait, Wait: 1},
		},
		"at the moment it is expired": {
			seconds: ptr.To[int64](30), now: start.Add(30 * time.Second), want: Verdict{Kind: Expired},
		},
		"after the moment it tells how late it is": {
			seconds: ptr.To[int64](5), now: start.Add(35 * time.Second), want: Verdict{Kind: Expired, Late: 30 * time.Second},
		},
		"a start in the future waits, so a slower clock fails nothing": {
			seconds: ptr.To[int64](10), now: start.Add(-time.Minute), want: Verdict{Kind: Wait, Wait: 70 * time.Second},
		},
		"a start in the far future is looked at again after MaxWait": {
			seconds: ptr.To[int64](10), now: start.AddDate(-500, 0, 0), want: Verdict{Kind: Wait, Wait: MaxWait},
		},
		"a long wait is cut to MaxWait": {
			seconds: ptr.To[int64](1 << 30), now: start, want: Verdict{Kind: Wait, Wait: MaxWait},
		},
		"the largest number of seconds a Duration can hold": {
			seconds: ptr.To[int64](9223372036), now: start.Add(time.Hour), want: Verdict{Kind: Wait, Wait: MaxWait},
		},
		"one second more than a Duration can hold": {
			seconds: ptr.To[int64](9223372037), now: start.Add(time.Hour), want: Verdict{Kind: Wait, Wait: MaxWait},
		},
		"a number of seconds that would wrap to a small positive Duration": {
			seconds: ptr.To[int64](18446744074), now: start.Add(time.Hour), want: Verdict{Kind: Wait, Wait: MaxWait},
		},
		"the largest int64": {
			seconds: ptr.To[int64](math.MaxInt64), now: start.Add(time.Hour), want: Verdict{Kind: Wait, Wait: MaxWait},
		},
		"a negative limit, which the API refuses, is due at once": {
			seconds: ptr.To[int64](math.MinInt64), now: start.Add(time.Second), want: Verdict{Kind: Expired, Late: time.Second},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Deadline(start, tc.seconds, tc.now)); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTTL(t *testing.T) {
	cases := map[string]struct {
		seconds *int32
		now     time.Time
		want    Verdict
	}{
		"without a TTL the job is kept": {
			seconds: nil, now: start.AddDate(10, 0, 0), want: Verdict{Kind: Never},
		},
		"zero is due at once": {
			seconds: ptr.To[int32](0), now: start, want: Verdict{Kind: Expired},
		},
		"zero with a finish time in the future waits for it": {
			seconds: ptr.To[int32](0), now: start.Add(-3 * time.Second), want: Verdict{Kind: Wait, Wait: 3 * time.Second},
		},
		"the largest TTL neither overflows nor spins": {
			seconds: ptr.To[int32](math.MaxInt32), now: start, want: Verdict{Kind: Wait, Wait: MaxWait},
		},
		"the largest TTL is reached after 68 years": {
			seconds: ptr.To[int32](math.MaxInt32), now: start.Add(math.MaxInt32 * time.Second), want: Verdict{Kind: Expired},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, TTL(start, tc.seconds, tc.now)); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
}
