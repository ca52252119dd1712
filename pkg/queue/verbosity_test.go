package queue

import (
	"context"
	"testing"

	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/utils/clock"

	"github.com/trainjob/controller/pkg/metrics"
	"github.com/trainjob/controller/pkg/verbosity"
)

func TestAQueueAndItsSyncsAreAsVerboseAsTheQueueWasTold(t *testing.T) {
	for name, tc := range map[string]struct {
		levels map[string]int
		want   bool
	}{
		"as the program":                     {nil, false},
		"this queue is to say more":          {map[string]int{"jobset": 3}, true},
		"another queue is to say more":       {map[string]int{"snapshot": 3}, false},
		"both are, of which this one counts": {map[string]int{"jobset": 2, "snapshot": 4}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synced := make(chan bool, 1)
			queue, err := New(Config{Name: metrics.QueueJobSet, Clock: clock.RealClock{}, Sync: func(ctx context.Context, _ cache.ObjectName) (Result, error) {
				synced <- klog.FromContext(ctx).V(3).Enabled()
				return Result{}, nil
			}})
			if err != nil {
				t.Fatal(err)
			}
			logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.Verbosity(0)))
			ctx, cancel := context.WithCancel(klog.NewContext(verbosity.NewContext(t.Context(), tc.levels), logger))
			done := make(chan struct{})
			go func() {
				defer close(done)
				queue.Run(ctx, 1)
			}()
			queue.Add(keyA)
			if got := <-synced; got != tc.want {
				t.Errorf("a line of level 3 is written: %v, want %v", got, tc.want)
			}
			cancel()
			<-done
		})
	}
}
