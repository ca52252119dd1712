package queue

import "k8s.io/client-go/tools/cache"

// rotation is a line of keys in which namespaces take turns: each is served one key, in
// the order in which its keys came, and then goes to the end of the line. Somebody with
// one job waits for no more than one job of everybody else.
type rotation struct {
	// turns are the namespaces that have keys, in the order of their turns.
	turns []string
	// waiting keys of each of these namespaces, in the order of their arrival.
	waiting map[string][]cache.ObjectName
}

func (r *rotation) push(key cache.ObjectName) {
	if r.waiting == nil {
		r.waiting = map[string][]cache.ObjectName{}
	}
	keys, known := r.waiting[key.Namespace]
	if !known {
		r.turns = append(r.turns, key.Namespace)
	}
	r.waiting[key.Namespace] = append(keys, key)
}

func (r *rotation) empty() bool { return len(r.turns) == 0 }

// pop takes the next key. It is called only if one waits.
func (r *rotation) pop() cache.ObjectName {
	key := r.peek()
	r.drop()
	if r.waiting[key.Namespace] != nil {
		r.turns = append(r.turns[1:], key.Namespace)
	}
	return key
}

func (r *rotation) peek() cache.ObjectName { return r.waiting[r.turns[0]][0] }

// drop takes the next key out without its namespace's turn being over, unless that has no
// other.
func (r *rotation) drop() {
	namespace := r.turns[0]
	keys := r.waiting[namespace]
	keys[0] = cache.ObjectName{} // the array behind it lives on
	if keys = keys[1:]; len(keys) > 0 {
		r.waiting[namespace] = keys
		return
	}
	delete(r.waiting, namespace)
	r.turns = r.turns[1:]
}
