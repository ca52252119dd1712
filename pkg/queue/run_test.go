package queue

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/cache"
	kmetrics "k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/trainjob/controller/pkg/metrics"
)

func TestShutdown(t *testing.T) {
	for name, tc := range map[string]struct {
		needs    time.Duration // how long the sync under way goes on, if it is let
		took     time.Duration // how long Run takes to return
		finished bool
	}{
		"a sync under way finishes with a live context":         {needs: 3 * time.Second, took: 3 * time.Second, finished: true},
		"a sync that takes too long is canceled and waited for": {needs: time.Hour, took: DefaultDrainTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var finished bool
				r := try(t, Config{}, func(ctx context.Context, key cache.ObjectName, _ int) (Result, error) {
					if key != keyA {
						time.Sleep(time.Second)
						return Result{After: time.Second}, nil
					}
					select {
					case <-time.After(tc.needs):
						finished = true
						return Result{}, nil
					case <-ctx.Done():
						return Result{}, ctx.Err()
					}
				})
				r.Add(keyA)
				r.Add(keyB)
				synctest.Wait() // both workers are busy now
				waiting := cache.NewObjectName("x", "waiting")
				r.Add(waiting)

				before := time.Now()
				r.stop()
				if took := time.Since(before); took != tc.took {
					t.Errorf("Run returned after %s, want %s", took, tc.took)
				}
				if finished != tc.finished {
					t.Errorf("the sync finished: %v, want %v", finished, tc.finished)
				}
				if diff := cmp.Diff(seconds(0), r.triesOf(keyB)); diff != "" {
					t.Errorf("no wake-up survives the shutdown (-want +got):\n%s", diff)
				}
				if got := r.triesOf(waiting); got != nil {
					t.Errorf("a key that waited was begun during the shutdown, at %v", got)
				}
				if lines := r.errorLines(); len(lines) != 0 {
					t.Errorf("error lines during the shutdown: %v", lines)
				}
				r.Add(keyA)
				if r.Len() != 0 {
					t.Error("a key was accepted after the shutdown")
				}
			})
		})
	}
}

func TestKeysAddedBeforeRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		synced := make(chan cache.ObjectName, 10)
		q, err := New(Config{Name: metrics.QueueJobSet, Clock: clock.RealClock{},
			Sync: func(_ context.Context, key cache.ObjectName) (Result, error) {
				synced <- key
				return Result{}, nil
			}})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			q.Add(keyA)
			q.Add(keyB)
		}
		if got := q.Len(); got != 2 {
			t.Errorf("%d keys wait, want each of two once", got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			q.Run(ctx, 0) // fewer than one worker means one
		}()
		synctest.Wait()
		if diff := cmp.Diff([]cache.ObjectName{keyA, keyB}, []cache.ObjectName{<-synced, <-synced}); diff != "" {
			t.Errorf("syncs (-want +got):\n%s", diff)
		}
		cancel()
		<-done
	})
}

func TestDelaysFollowTheGivenClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := clocktesting.NewFakeClock(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
		r := try(t, Config{Clock: fake}, func(context.Context, cache.ObjectName, int) (Result, error) {
			return Result{After: 30 * time.Minute}, nil
		})
		r.Add(keyA)
		for _, step := range []struct {
			by   time.Duration
			want int
		}{{0, 1}, {29 * time.Minute, 1}, {time.Minute, 2}, {30 * time.Minute, 3}} {
			fake.Step(step.by)
			synctest.Wait()
			if got := len(r.triesOf(keyA)); got != step.want {
				t.Errorf("after another %s: %d syncs, want %d", step.by, got, step.want)
			}
		}
	})
}

func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		r := try(t, Config{StuckAfter: time.Minute}, func(_ context.Context, key cache.ObjectName, _ int) (Result, error) {
			if key == keyB {
				time.Sleep(30 * time.Second)
			}
			<-release
			return Result{}, nil
		})
		if got := r.Name(); got != "jobset" {
			t.Errorf("the health check is called %q", got)
		}
		r.Add(keyB)
		time.Sleep(10 * time.Second)
		r.Add(keyA)
		time.Sleep(50 * time.Second)
		if err := r.Check(nil); err != nil {
			t.Errorf("after a minute exactly: %v", err)
		}
		time.Sleep(time.Second)
		err := r.Check(nil)
		if err == nil || !strings.Contains(err.Error(), "x/b for 1m1s") {
			t.Errorf("after more than a minute: %v, want an error that names the key", err)
		}
		close(release)
		synctest.Wait()
		if err := r.Healthy(time.Now().Add(time.Hour)); err != nil {
			t.Errorf("once the workers are free: %v", err)
		}
	})
}

func TestSyncsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, registry := metrics.New(), kmetrics.NewKubeRegistry()
		if err := m.Register(registry.Register, registry.CustomRegister); err != nil {
			t.Fatal(err)
		}
		outcomes := map[cache.ObjectName][]error{
			keyA: {errors.New("no"), Quiet(errors.New("no")), nil},
			keyB: {nil, conflict, nil},
		}
		r := try(t, Config{Metrics: m}, func(_ context.Context, key cache.ObjectName, n int) (Result, error) {
			if key == keyB && n == 1 {
				panic("boom")
			}
			return Result{}, outcomes[key][n-1]
		})
		r.Add(keyA)
		r.Add(keyB)
		time.Sleep(10 * time.Second)

		want := map[string]uint64{"error": 1, "retry": 1, "success": 2, "panic": 1, "conflict": 1}
		got := map[string]uint64{}
		for _, result := range metrics.Results() {
			h, err := testutil.GetHistogramVecFromGatherer(registry, "trainjob_controller_sync_duration_seconds",
				map[string]string{"queue": "jobset", "result": string(result)})
			if err != nil {
				t.Fatal(err)
			}
			if n := h.GetAggregatedSampleCount(); n > 0 {
				got[string(result)] = n
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("syncs by result (-want +got):\n%s", diff)
		}
		panics, err := testutil.GetCounterValuesFromGatherer(registry, "trainjob_controller_sync_panics_total", nil, "queue")
		if err != nil {
			t.Fatal(err)
		}
		maps.DeleteFunc(panics, func(_ string, n float64) bool { return n == 0 }) // every queue has a series from the start
		if diff := cmp.Diff(map[string]float64{"jobset": 1}, panics); diff != "" {
			t.Errorf("panics (-want +got):\n%s", diff)
		}
	})
}
