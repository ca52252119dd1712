package informer

import (
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// NoteLifetime is how long a note is believed without confirmation by an event.
const NoteLifetime = 30 * time.Second

// Notes remembers, per key, the object that was just created, until the cache
// shows it. Without them the sync that follows our own CREATE finds an old cache
// and creates again, only to be told that the object exists.
//
// A sync asks the cache first and the notes if that has nothing. One that went
// by a note, or put one, should ask for a wake-up after NoteLifetime: should the
// addition and the deletion both have been handled before the note was put, or
// missed, no event is left to correct it.
//
// Notes are a shortcut and no state: losing them costs one refused CREATE.
type Notes[T metav1.Object] struct {
	clock clock.PassiveClock

	mu    sync.Mutex
	notes map[cache.ObjectName]note[T]
	swept time.Time
}

type note[T metav1.Object] struct {
	object T
	put    time.Time
}

// NewNotes returns an empty set of notes.
func NewNotes[T metav1.Object](clock clock.PassiveClock) *Notes[T] {
	return &Notes[T]{clock: clock, notes: map[cache.ObjectName]note[T]{}, swept: clock.Now()}
}

// Put notes the object, as the API server returned it, under the key that is
// being synced, in place of an earlier note.
func (n *Notes[T]) Put(key cache.ObjectName, object T) {
	now := n.clock.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.notes[key] = note[T]{object: object, put: now}
	// Notes normally go when their event comes. Going through the rest once per
	// lifetime is enough to bound their number by the creations of two lifetimes.
	if now.Sub(n.swept) < NoteLifetime {
		return
	}
	n.swept = now
	for key, old := range n.notes {
		if old.expired(now) {
			delete(n.notes, key)
		}
	}
}

// Get returns the object noted under the key, if the note is still good. It is
// shared: like an object from a cache it must not be written to.
func (n *Notes[T]) Get(key cache.ObjectName) (T, bool) {
	now := n.clock.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	found, ok := n.notes[key]
	if ok && found.expired(now) {
		delete(n.notes, key)
		ok = false
	}
	if !ok {
		var none T
		return none, false
	}
	return found.object, true
}

// Observe is called by the event handlers, before they add the key to a queue.
// An event about the noted object (the same UID) ends the note, for the cache
// knows better from then on, and so does a tombstone that does not say which
// object it is about. Events about an earlier object of the same name do not.
func (n *Notes[T]) Observe(key cache.ObjectName, obj any) {
	object := Object(obj)
	n.mu.Lock()
	defer n.mu.Unlock()
	found, ok := n.notes[key]
	if ok && (object == nil || object.GetUID() == found.object.GetUID()) {
		delete(n.notes, key)
	}
}

// Drop forgets the note of a key whose owner is gone.
func (n *Notes[T]) Drop(key cache.ObjectName) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.notes, key)
}

func (n note[T]) expired(now time.Time) bool {
	return now.Sub(n.put) >= NoteLifetime
}
