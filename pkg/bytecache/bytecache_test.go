package bytecache

import (
	"fmt"
	"math/rand"
	"testing"
)

func TestWhatWasNotAskedForLongestGoesFirst(t *testing.T) {
	c := New[string, int](100)
	for i, key := range []string{"a", "b", "c", "d"} {
		c.GetOrPut(key, i, 25)
	}
	c.Get("a")
	c.GetOrPut("e", 4, 25)
	for key, want := range map[string]bool{"a": true, "b": false, "c": true, "d": true, "e": true} {
		if _, found := c.Get(key); found != want {
			t.Errorf("%s is remembered: %t, want %t", key, found, want)
		}
	}
}

func TestTheFirstValueOfAKeyStays(t *testing.T) {
	c := New[string, int](100)
	if first, second := c.GetOrPut("a", 1, 1), c.GetOrPut("a", 2, 1); first != 1 || second != 1 {
		t.Errorf("got %d and %d, want 1 each time", first, second)
	}
}

func TestWhatIsHugePutsNothingElseOut(t *testing.T) {
	c := New[string, int](100)
	c.GetOrPut("small", 1, 10)
	if got := c.GetOrPut("huge", 2, 51); got != 2 {
		t.Errorf("got %d, want 2", got)
	}
	_, small := c.Get("small")
	_, huge := c.Get("huge")
	if !small || huge {
		t.Errorf("remembered: small %t, huge %t; want the small one alone", small, huge)
	}
}

func TestTheWeightIsThatOfTheEntriesAndWithinTheLimit(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	c := New[string, int](1000)
	weights := map[string]int{}
	for range 5000 {
		key := fmt.Sprint(random.Intn(200))
		if _, known := weights[key]; !known {
			weights[key] = random.Intn(600)
		}
		c.GetOrPut(key, 0, weights[key])
		sum := 0
		for key := range c.entries {
			sum += weights[key]
		}
		if c.Weight() != sum || sum > 1000 || len(c.entries) != c.byUse.Len() {
			t.Fatalf("weight %d, that of the entries is %d, %d entries, %d in order", c.Weight(), sum, len(c.entries), c.byUse.Len())
		}
	}
}
