package queue

import (
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// backgroundShare is how often, one in so many, a key of the background lane is next
// although others wait: it must not be held up for ever.
const backgroundShare = 4

// lanes is the storage of a work queue with two lanes, each in the order of arrival.
// Keys that are in no hurry give way to the others. A thousand jobs that end at the same
// second leave a thousand keys to tidy up, and whoever submits a job then should not
// stand in line behind them.
//
// The work queue calls it under its own lock.
type lanes struct {
	// background says which keys are in no hurry.
	background func(cache.ObjectName) bool
	// lane of each key that waits. An entry of a slice below whose key is not in that
	// lane is a leftover.
	lane map[cache.ObjectName]int
	// waiting keys by lane: hurried and unhurried.
	waiting [2][]cache.ObjectName
	// passed counts how often the background lane was passed over.
	passed int
}

const (
	hurried = iota
	unhurried
)

// newLanes is nil, which means the default storage, without a judgement on hurry.
func newLanes(background func(cache.ObjectName) bool) workqueue.Queue[cache.ObjectName] {
	if background == nil {
		return nil
	}
	return &lanes{background: background, lane: map[cache.ObjectName]int{}}
}

func (l *lanes) judge(key cache.ObjectName) int {
	if l.background(key) {
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
	l.waiting[lane] = append(l.waiting[lane], key)
}

// Len is the number of keys that wait.
func (l *lanes) Len() int { return len(l.lane) }

// Pop takes the next key. It is called only if one waits.
func (l *lanes) Pop() cache.ObjectName {
	l.trim(hurried)
	l.trim(unhurried)
	next := hurried
	switch {
	case len(l.waiting[unhurried]) == 0:
	case len(l.waiting[hurried]) == 0, l.passed >= backgroundShare-1:
		next, l.passed = unhurried, 0
	default:
		l.passed++
	}
	key := l.waiting[next][0]
	l.drop(next)
	delete(l.lane, key)
	return key
}

// trim drops leftovers from the head of a lane.
func (l *lanes) trim(lane int) {
	for len(l.waiting[lane]) > 0 {
		if in, waits := l.lane[l.waiting[lane][0]]; waits && in == lane {
			return
		}
		l.drop(lane)
	}
}

func (l *lanes) drop(lane int) {
	l.waiting[lane][0] = cache.ObjectName{} // the array behind it lives on
	l.waiting[lane] = l.waiting[lane][1:]
}
