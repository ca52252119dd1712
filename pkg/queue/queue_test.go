package queue

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/utils/clock"

	"github.com/trainjob/controller/pkg/metrics"
)

// The tests run in synctest bubbles: time stands still while anything is
// running, so the times of syncs are exact and nobody waits. A bubble that ends
// with a goroutine left over fails, which is how leaks are found.

var (
	keyA = cache.NewObjectName("x", "a")
	keyB = cache.NewObjectName("x", "b")
)

// trial is a running queue whose syncs are recorded.
type trial struct {
	*Queue
	logger klog.Logger
	began  time.Time
	stop   func() // ends Run and waits for it

	mu    sync.Mutex
	tries map[cache.ObjectName][]time.Duration // when each key was synced
}

// try runs a queue until the test ends. The sync function is told which try of
// the key it is, counted from one.
func try(t *testing.T, config Config, sync func(ctx context.Context, key cache.ObjectName, n int) (Result, error)) *trial {
	t.Helper()
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(4)))
	r := &trial{logger: logger, began: time.Now(), tries: map[cache.ObjectName][]time.Duration{}}
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	config.Name = metrics.QueueJobSet
	config.Sync = func(ctx context.Context, key cache.ObjectName) (Result, error) {
		r.mu.Lock()
		r.tries[key] = append(r.tries[key], time.Since(r.began))
		n := len(r.tries[key])
		r.mu.Unlock()
		return sync(ctx, key, n)
	}
	queue, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	r.Queue = queue
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logger))
	done := make(chan struct{})
	go func() {
		defer close(done)
		queue.Run(ctx, 2)
	}()
	r.stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(r.stop)
	return r
}

func (r *trial) triesOf(key cache.ObjectName) []time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]time.Duration(nil), r.tries[key]...)
}

// errorLines are the log entries that are errors.
func (r *trial) errorLines() ktesting.Log {
	var lines ktesting.Log
	for _, entry := range r.logger.GetSink().(ktesting.Underlier).GetBuffer().Data() {
		if entry.Type == ktesting.LogError {
			lines = append(lines, entry)
		}
	}
	return lines
}

func seconds(s ...float64) []time.Duration {
	var ds []time.Duration
	for _, s := range s {
		ds = append(ds, time.Duration(math.Round(s*1e6))*time.Microsecond)
	}
	return ds
}

func TestWhatFollowsASync(t *testing.T) {
	plain := errors.New("connection refused")
	for name, tc := range map[string]struct {
		result Result
		err    error
		tries  []time.Duration // within five seconds
		lines  int             // error lines
	}{
		"a success is the end of it": {
			tries: seconds(0),
		},
		"a success that asks for a wake-up gets it": {
			result: Result{After: 2 * time.Second}, tries: seconds(0, 2, 4),
		},
		"a negative wake-up is none": {
			result: Result{After: -time.Second}, tries: seconds(0),
		},
		"a conflict is tried again each second, without noise and without a growing delay": {
			err: conflict, tries: seconds(0, 1, 2, 3, 4),
		},
		"a permanent error is not tried again": {
			err: Permanent(plain), tries: seconds(0),
		},
		"a permanent error keeps the wake-up that comes with it": {
			result: Result{After: 3 * time.Second}, err: Permanent(plain), tries: seconds(0, 3),
		},
		"a terminating namespace is not tried again": {
			err: terminating(), tries: seconds(0),
		},
		"a caller's own delay does not grow": {
			err: RetryAfter(plain, 2*time.Second), tries: seconds(0, 2, 4),
		},
		"any other error backs off and is logged each time": {
			err:   plain,
			tries: seconds(0, .005, .015, .035, .075, .155, .315, .635, 1.275, 2.555), lines: 10,
		},
		"a wake-up next to an error that is retried does not cut the backoff short": {
			result: Result{After: time.Millisecond}, err: plain,
			tries: seconds(0, .005, .015, .035, .075, .155, .315, .635, 1.275, 2.555), lines: 10,
		},
		"a quiet error backs off without an error line": {
			err:   Quiet(plain),
			tries: seconds(0, .005, .015, .035, .075, .155, .315, .635, 1.275, 2.555),
		},
		"the API server's wish for a pause is longer than the first delays": {
			err: apierrors.NewTooManyRequests("slow down", 2), tries: seconds(0, 2, 4), lines: 3,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := try(t, Config{}, func(context.Context, cache.ObjectName, int) (Result, error) {
					return tc.result, tc.err
				})
				r.Add(keyA)
				time.Sleep(4900 * time.Millisecond)
				r.stop()
				if diff := cmp.Diff(tc.tries, r.triesOf(keyA)); diff != "" {
					t.Errorf("times of the syncs (-want +got):\n%s", diff)
				}
				if got := r.errorLines(); len(got) != tc.lines {
					t.Errorf("got %d error lines, want %d: %v", len(got), tc.lines, got)
				}
			})
		})
	}
}

func TestBackoffOfALastingRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fixed atomic.Bool
		r := try(t, Config{}, func(context.Context, cache.ObjectName, int) (Result, error) {
			if fixed.Load() {
				return Result{}, nil
			}
			return Result{}, forbidden
		})
		r.Add(keyA)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		before := len(r.triesOf(keyA))
		if before < 15 || before > 20 {
			t.Errorf("%d tries in five minutes, want about 20 at most", before)
		}

		fixed.Store(true)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := len(r.triesOf(keyA)); got != before+1 {
			t.Errorf("%d tries in the minute after the fix, want the one that succeeds", got-before)
		}
	})
}

func TestBackoffStartsAnewAfterASuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := try(t, Config{}, func(_ context.Context, _ cache.ObjectName, n int) (Result, error) {
			if n == 5 {
				return Result{}, nil
			}
			return Result{}, Quiet(errors.New("no"))
		})
		r.Add(keyA)
		time.Sleep(time.Second)
		r.Add(keyA)
		time.Sleep(7 * time.Millisecond)
		want := seconds(0, .005, .015, .035, .075, 1, 1.005)
		if diff := cmp.Diff(want, r.triesOf(keyA)); diff != "" {
			t.Errorf("times of the syncs (-want +got):\n%s", diff)
		}
	})
}

// A finished job with a TTL of an hour is synced a thousand times, each sync
// asking to be woken when the hour is over.
func TestWakeUpsDoNotPileUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		due := time.Now().Add(time.Hour)
		r := try(t, Config{}, func(context.Context, cache.ObjectName, int) (Result, error) {
			return Result{After: max(time.Until(due), 0)}, nil
		})
		for range 1000 {
			r.Add(keyA)
			time.Sleep(time.Second)
		}
		if got := len(r.triesOf(keyA)); got != 1000 {
			t.Fatalf("got %d syncs from 1000 events", got)
		}
		time.Sleep(2 * time.Hour)
		tries := r.triesOf(keyA)
		if diff := cmp.Diff(seconds(3600), tries[1000:]); diff != "" {
			t.Errorf("syncs after the events (-want +got):\n%s", diff)
		}
	})
}

func TestWakeUps(t *testing.T) {
	for name, tc := range map[string]struct {
		after map[int]time.Duration // what each try asks for
		until time.Duration
		want  []time.Duration
	}{
		"the earliest time asked for wins, and the sync it brings asks again": {
			// The second try is an event's, half a second in.
			after: map[int]time.Duration{1: 2 * time.Second, 2: time.Minute, 3: 10 * time.Second},
			until: time.Minute - time.Second,
			want:  seconds(0, .5, 2, 12),
		},
		"a later sync can bring a wake-up forward": {
			after: map[int]time.Duration{1: time.Minute, 2: time.Second},
			until: 2 * time.Minute,
			want:  seconds(0, .5, 1.5),
		},
		"a wait of years is cut into hours": {
			after: map[int]time.Duration{2: 68 * 365 * 24 * time.Hour, 3: 67 * 365 * 24 * time.Hour},
			until: 3 * time.Hour,
			want:  seconds(0, .5, 3600.5, 7200.5),
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := try(t, Config{}, func(_ context.Context, _ cache.ObjectName, n int) (Result, error) {
					return Result{After: tc.after[n]}, nil
				})
				r.Add(keyA)
				time.Sleep(500 * time.Millisecond)
				r.Add(keyA)
				time.Sleep(tc.until - 500*time.Millisecond)
				if diff := cmp.Diff(tc.want, r.triesOf(keyA)); diff != "" {
					t.Errorf("times of the syncs (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestPanicOfOneKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := try(t, Config{}, func(_ context.Context, key cache.ObjectName, n int) (Result, error) {
			if key == keyA && n < 3 {
				var missing map[string]int
				missing["x"] = 1
			}
			return Result{}, nil
		})
		r.Add(keyA)
		r.Add(keyB)
		time.Sleep(time.Second)
		if diff := cmp.Diff(seconds(0, .005, .015), r.triesOf(keyA)); diff != "" {
			t.Errorf("syncs of the key that panicked (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(seconds(0), r.triesOf(keyB)); diff != "" {
			t.Errorf("syncs of the other key (-want +got):\n%s", diff)
		}
		lines := r.errorLines()
		if len(lines) != 2 {
			t.Fatalf("got %d error lines, want one per panic: %v", len(lines), lines)
		}
		text := r.logger.GetSink().(ktesting.Underlier).GetBuffer().String()
		for _, want := range []string{"nil map", "TestPanicOfOneKey", "x/a"} {
			if !strings.Contains(text, want) {
				t.Errorf("the log does not mention %q:\n%s", want, text)
			}
		}
	})
}

func TestOneKeyIsNeverSyncedTwiceAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, overlaps atomic.Int32
		r := try(t, Config{}, func(context.Context, cache.ObjectName, int) (Result, error) {
			if running.Add(1) > 1 {
				overlaps.Add(1)
			}
			time.Sleep(time.Second)
			running.Add(-1)
			return Result{}, nil
		})
		for range 5 {
			r.Add(keyA)
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		if got := overlaps.Load(); got != 0 {
			t.Errorf("%d syncs began while another was under way", got)
		}
		if diff := cmp.Diff(seconds(0, 1), r.triesOf(keyA)); diff != "" {
			t.Errorf("events during a sync bring one more (-want +got):\n%s", diff)
		}
	})
}

func TestNewRefusesAWrongConfig(t *testing.T) {
	good := func() Config {
		return Config{
			Name:  metrics.QueueTTL,
			Clock: clock.RealClock{},
			Sync:  func(context.Context, cache.ObjectName) (Result, error) { return Result{}, nil },
		}
	}
	for name, tc := range map[string]struct {
		change func(*Config)
		want   []string
	}{
		"without anything it says all that is missing": {
			change: func(c *Config) { *c = Config{} }, want: []string{"no name", "no sync function", "no clock"},
		},
		"with a base delay above the maximum": {
			change: func(c *Config) { c.BaseDelay = time.Minute }, want: []string{"1m0s is longer than the maximum delay 45s"},
		},
		"with negative times": {
			change: func(c *Config) { c.StuckAfter, c.DrainTimeout = -1, -1 },
			want:   []string{"negative stuck-after time -1ns", "negative drain timeout -1ns"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			config := good()
			tc.change(&config)
			_, err := New(config)
			if err == nil {
				t.Fatal("it was accepted")
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
		})
	}
}
