// Package bytecache remembers what is expensive to make or to hold twice, up to a number
// of bytes: what has not been asked for longest goes first.
//
// It knows keys, values and what they weigh. It does not know when a value is out of
// date: a key names a value for ever.
package bytecache

import (
	"container/list"
	"sync"
)

// Cache remembers values up to a weight. It is for several goroutines.
type Cache[K comparable, V any] struct {
	limit int

	mu      sync.Mutex
	entries map[K]*list.Element
	byUse   *list.List // of entry[K, V]; the one used last is in front
	weight  int
}

type entry[K comparable, V any] struct {
	key    K
	value  V
	weight int
}

// New returns a cache that holds at most `limit` bytes.
func New[K comparable, V any](limit int) *Cache[K, V] {
	return &Cache[K, V]{limit: limit, entries: map[K]*list.Element{}, byUse: list.New()}
}

// Get returns the value of a key, if it is remembered.
func (c *Cache[K, V]) Get(key K) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	element, found := c.entries[key]
	if !found {
		var none V
		return none, false
	}
	c.byUse.MoveToFront(element)
	return element.Value.(entry[K, V]).value, true
}

// GetOrPut returns the value of a key that is remembered, else the one given, which is
// then remembered as weighing so many bytes, key included. What weighs more than half
// of the limit is not remembered: one user's object must not put out those of all others.
func (c *Cache[K, V]) GetOrPut(key K, value V, weight int) V {
	c.mu.Lock()
	defer c.mu.Unlock()
	if element, found := c.entries[key]; found {
		c.byUse.MoveToFront(element)
		return element.Value.(entry[K, V]).value
	}
	if weight > c.limit/2 {
		return value
	}
	c.entries[key] = c.byUse.PushFront(entry[K, V]{key, value, weight})
	for c.weight += weight; c.weight > c.limit; {
		last := c.byUse.Remove(c.byUse.Back()).(entry[K, V])
		delete(c.entries, last.key)
		c.weight -= last.weight
	}
	return value
}

// Weight is how many bytes are remembered.
func (c *Cache[K, V]) Weight() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.weight
}
