package crash

import (
	"testing"
	"time"

	"github.com/trainjob/controller/test/cluster"
	"github.com/trainjob/controller/test/harness"
)

// patience is how long anything may take while the controller is killed all the time.
const patience = 2 * time.Minute

const rounds = 2

// scenario is what happens to a job, or to some.
type scenario struct {
	// once: it takes long, and is gone through once. The others are gone through rounds
	// times, in a namespace of its own each time.
	once bool
	// before prepares what must be there when the controller is started first.
	before func(t *testing.T, s *story)
	// during happens while the controller is killed.
	during func(t *testing.T, s *story)
	// after checks what has come of it when the controller lives again.
	after func(t *testing.T, s *story)
}

// story is a scenario as it goes on in a namespace of its own.
type story struct {
	namespace string
	// since the scenario began.
	since cluster.AuditPosition
	// mark is a moment in between that a scenario remembers.
	mark cluster.AuditPosition
	// memory of what a scenario has seen.
	memory map[string]string
}

func (s scenario) rounds() int {
	if s.once {
		return 1
	}
	return rounds
}

var scenarios = map[string]scenario{
	"the deletion of an overdue JobSet is refused for a while": refusedDeletion,
	"deadlines so far away that they overflow":                 farDeadlines,
	"deadlines that passed while there was no controller":      overdueAtStart,
	"the runtime is edited and deleted":                        runtimeGone,
	"a name is used again and again":                           nameReuse,
	"a stranger's ConfigMap has the snapshot's name":           strangersConfigMap,
	"the runtime is edited all the time while jobs are made":   runtimeFlood,
	"snapshots of both kinds of runtime":                       bothKinds,
	"a snapshot without defaults":                              bareSnapshot,
	"a job of another controller":                              otherManager,
	"a foreground deletion with a finalizer":                   foreground,
	"an old JobSet of the same name is in the way":             oldJobSet,
	"jobs of Trainer v2.3 are taken over":                      takenOver,
	"jobs finish and their time to live passes":                finishAndGo,
	"a job is suspended and resumed with other patches":        suspendResume,
}

func TestNothingIsLostOrDoneTwiceWhenTheControllerIsKilled(t *testing.T) {
	if err := env.StopController(); err != nil {
		t.Fatal(err)
	}
	stories := map[string][]*story{}
	for name, scene := range scenarios {
		for range scene.rounds() {
			s := &story{namespace: env.Namespace(t), memory: map[string]string{}}
			s.since = env.AuditNow(t)
			if scene.before != nil {
				scene.before(t, s)
			}
			stories[name] = append(stories[name], s)
		}
	}
	k := startKiller()
	t.Run("while it is killed", func(t *testing.T) {
		for name, scene := range scenarios {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				for _, s := range stories[name] {
					scene.during(t, s)
				}
			})
		}
	})
	kills, midFlight := k.end(t)
	t.Logf("killed %d times, %d of them after a write", kills, midFlight)
	if kills < 15 || midFlight < 10 {
		t.Errorf("the controller was killed %d times, %d of them after a write: too few to say anything", kills, midFlight)
	}
	t.Run("afterwards", func(t *testing.T) {
		for name, scene := range scenarios {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				for _, s := range stories[name] {
					scene.after(t, s)
				}
			})
		}
	})
	wantQuiet(t)
}

// wantQuiet checks that in the end there is nothing left to write.
func wantQuiet(t *testing.T) {
	t.Helper()
	since, last := env.AuditNow(t), time.Now()
	harness.Eventually(t, patience, func() string {
		writes := env.Writes(t, since, "")
		if len(writes) > 0 {
			since, last = env.AuditNow(t), time.Now()
		}
		if time.Since(last) < 2*time.Second {
			return "the controller still writes"
		}
		return ""
	})
}
