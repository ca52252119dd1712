package queue

import (
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// backgroundShare is how often, one in so many, a key of the background lane is next
// although others wait: it must not be held up for ever.
const backgroundShare = 4

// lanes is the storage of a work queue with two lanes, in each of which namespaces take
// turns. Keys that are in no hurry give way to the others. A thousand jobs that end at the same
// second leave a thousand keys to tidy up, and whoever submits a job then should not
// stand in line behind them.
//
// The work queue calls it under its own lock.
type lanes struct {
	// background says which keys are in no hurry; nil: none.
	background func(cache.ObjectName) bool
	// lane of each key that waits. An entry below whose key is not in that lane is a
	// leftover.
	lane map[cache.ObjectName]int
	// waiting keys by lane: hurried and unhurried.
	waiting [2]rotation
	// passed counts how often the background lane was passed over.
	passed int
}

const (
	hurried = iota
	unhurried
)

func newLanes(background func(cache.ObjectName) bool) workqueue.Queue[cache.ObjectName] {
	return &lanes{background: background, lane: map[cache.ObjectName]int{}}
}

func (l *lanes) judge(key cache.ObjectName) int {
	if l.background != nil && l.background(key) {
		return unhurried
	}
	return hurried
}

// Touch moves a key forward that waits in the background and is added again in a hurry:
// there may be another object of that name by now.
func (l *lanes) Touch(key cache.ObjectName) {
	if lane, waits := l.lane[key]; waits && lane == unhurried && l.judge(key) == hurried {
		l.put(key, hurried)
	}
}

// Push adds a key that is not waiting.
func (l *lanes) Push(key cache.ObjectName) { l.put(key, l.judge(key)) }

func (l *lanes) put(key cache.ObjectName, lane int) {
	l.lane[key] = lane
	l.waiting[lane].push(key)
}

// Len is the number of keys that wait.
func (l *lanes) Len() int { return len(l.lane) }

// Pop takes the next key. It is called only if one waits.
func (l *lanes) Pop() cache.ObjectName {
	l.trim(hurried)
	l.trim(unhurried)
	next := hurried
	switch {
	case l.waiting[unhurried].empty():
	case l.waiting[hurried].empty(), l.passed >= backgroundShare-1:
		next, l.passed = unhurried, 0
	default:
		l.passed++
	}
	key := l.waiting[next].pop()
	delete(l.lane, key)
	return key
}

// trim drops leftovers from the head of a lane.
func (l *lanes) trim(lane int) {
	for line := &l.waiting[lane]; !line.empty(); line.drop() {
		if in, waits := l.lane[line.peek()]; waits && in == lane {
			return
		}
	}
}
