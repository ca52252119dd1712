// Package crash kills the controller again and again, in the middle of whatever it is
// doing, while jobs go through what can happen to them. Nothing may be lost and nothing
// done twice; the audit log of the API server counts what was done.
//
// Etcd, kube-apiserver and kube-controller-manager are the real ones. The tests play the
// JobSet controller, so that each moment comes about when they want it.
package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/trainjob/controller/test/cluster"
	"github.com/trainjob/controller/test/harness"
)

var env harness.Env

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, cluster.WithoutJobSetController(), &env))
}

// killer lets the controller live until it has written some times, and then kills it with
// SIGKILL and starts it again, until it is told to stop.
type killer struct {
	stop  chan struct{}
	done  sync.WaitGroup
	mu    sync.Mutex
	kills int
	// midFlight counts the kills that came right after a write.
	midFlight int
	err       error
}

// lives are the numbers of writes after which the controller is killed, in turn. Each life
// has at least one, so that all goes on; some have many, so that the test ends.
var lives = []int{1, 2, 1, 3, 2, 5, 1, 8, 3, 20}

// longest is how long the controller lives that has nothing to write.
const longest = 1500 * time.Millisecond

// startKiller begins with starting the controller.
func startKiller() *killer {
	k := &killer{stop: make(chan struct{})}
	k.done.Go(func() {
		for life := 0; ; life++ {
			if err := env.StartController(context.Background()); err != nil {
				k.fail(err)
				return
			}
			wrote, stopped := k.watch(lives[life%len(lives)])
			if stopped {
				return
			}
			// The kill comes at any point of what follows the write.
			time.Sleep(time.Duration(rand.IntN(8000)) * time.Microsecond)
			if err := env.KillController(); err != nil {
				k.fail(err)
				return
			}
			k.mu.Lock()
			k.kills++
			if wrote {
				k.midFlight++
			}
			k.mu.Unlock()
		}
	})
	return k
}

// watch waits until the controller has tried n writes since it was started, or has lived
// for long.
func (k *killer) watch(n int) (wrote, stopped bool) {
	ctx := context.Background()
	since, err := env.Cluster.AuditNow(ctx)
	if err != nil {
		k.fail(err)
		return false, true
	}
	for end := time.Now().Add(longest); time.Now().Before(end); {
		select {
		case <-k.stop:
			return false, true
		case <-time.After(10 * time.Millisecond):
		}
		writes, err := env.Cluster.AuditEvents(ctx, since, ofController)
		if err != nil {
			k.fail(err)
			return false, true
		}
		if len(writes) >= n {
			return true, false
		}
	}
	return false, false
}

// ofController selects what the controller tries to write, but for what it tells people.
var ofController = cluster.AuditFilter{
	UserAgentPrefix: harness.ControllerAgent, Writes: true,
	Match: func(e cluster.AuditEvent) bool { return e.Resource != "events" && e.Resource != "leases" },
}

func (k *killer) fail(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.err = err
}

// end lets the controller live from now on, and says how often it was killed.
func (k *killer) end(t *testing.T) (kills, midFlight int) {
	t.Helper()
	close(k.stop)
	k.done.Wait()
	if k.err != nil {
		t.Fatalf("the controller could not be killed and started all the time: %v", k.err)
	}
	return k.kills, k.midFlight
}

// counted are the controller's requests in a namespace that were carried out, by what they
// did: "create configmaps". One that a kill has cut off before it was answered may have been
// carried out and counts, too. One that was answered with an error does not, although, cut
// off in the middle, it may have been.
func counted(t *testing.T, since cluster.AuditPosition, namespace string) map[string]int {
	t.Helper()
	filter := ofController
	filter.Namespace = namespace
	counts := map[string]int{}
	for _, e := range env.Audit(t, since, filter) {
		if e.Code == 0 || (e.Code >= 200 && e.Code < 300) {
			what := e.Verb + " " + e.Resource
			if e.Subresource != "" {
				what += "/" + e.Subresource
			}
			counts[what]++
		}
	}
	return counts
}

// tried are the controller's attempts in a namespace to do something, whatever came of
// them.
func tried(t *testing.T, since cluster.AuditPosition, namespace, verb, resource string) int {
	t.Helper()
	filter := ofController
	filter.Namespace, filter.Resource = namespace, resource
	if verb != "" {
		filter.Verbs = []string{verb}
	}
	return len(env.Audit(t, since, filter))
}

// atMost checks that something was done no more often than it may be.
func atMost(t *testing.T, counts map[string]int, limits map[string]int) {
	t.Helper()
	for what, limit := range limits {
		if counts[what] > limit {
			t.Errorf("%s happened %d times, at most %d may be: %v", what, counts[what], limit, counts)
		}
	}
}

// named is the name of the n-th of several jobs.
func named(n int) string { return fmt.Sprintf("a%d", n) }
