package render

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// The functions of this file lay one list or map over another. They may change base,
// which belongs to the JobSet being built, and take over what they are given.

// mergeMaps returns base with the keys of over set in it. An empty result is nil.
func mergeMaps(base, over map[string]string) map[string]string {
	if len(over) == 0 {
		return base
	}
	if base == nil {
		base = make(map[string]string, len(over))
	}
	for key, value := range over {
		base[key] = value
	}
	return base
}

// mergeByKey lays over onto base: an item whose key base has is combined with it in
// its place, another one is added at the end, so the order of base never changes. A
// later item of base with the same key would hide the change and is dropped.
func mergeByKey[T any](base, over []T, key func(*T) string, combine func(base, over *T)) []T {
	if len(over) == 0 {
		return base
	}
	first := firstByKey(base, key)
	changed := make(map[string]bool, len(over))
	for i := range over {
		name := key(&over[i])
		at, found := first[name]
		if !found {
			first[name] = len(base)
			base = append(base, over[i])
			continue
		}
		combine(&base[at], &over[i])
		changed[name] = true
	}
	at := -1
	return slices.DeleteFunc(base, func(item T) bool {
		at++
		name := key(&item)
		return changed[name] && first[name] != at
	})
}

// firstByKey are the indexes of the first items with each key.
func firstByKey[T any, K comparable](list []T, key func(*T) K) map[K]int {
	first := make(map[K]int, len(list))
	for i := range list {
		if name := key(&list[i]); !has(first, name) {
			first[name] = i
		}
	}
	return first
}

func has[K comparable, V any](m map[K]V, key K) bool {
	_, found := m[key]
	return found
}

// addNew adds the items of over whose keys are not there yet.
func addNew[T any, K comparable](base, over []T, key func(*T) K) []T {
	if len(over) == 0 {
		return base
	}
	there := firstByKey(base, key)
	for i := range over {
		if name := key(&over[i]); !has(there, name) {
			there[name] = len(base)
			base = append(base, over[i])
		}
	}
	return base
}

// lacks reports whether want lacks the key of an item of have.
func lacks[T any, K comparable](have, want []T, key func(*T) K) bool {
	there := firstByKey(want, key)
	return slices.ContainsFunc(have, func(item T) bool { return !has(there, key(&item)) })
}

// replace is for items of which parts cannot be mixed: a variable has a value or a
// source.
func replace[T any](base, over *T) { *base = *over }

func envName(env *corev1.EnvVar) string { return env.Name }

// mergeEnv gives variables new values at their old position and adds new ones behind.
func mergeEnv(base, over []corev1.EnvVar) []corev1.EnvVar {
	return mergeByKey(base, over, envName, replace[corev1.EnvVar])
}

// injectEnv puts variables first, so that all others may refer to them, and removes
// what else has their names.
func injectEnv(base, injected []corev1.EnvVar) []corev1.EnvVar {
	reserved := firstByKey(injected, envName)
	env := make([]corev1.EnvVar, 0, len(injected)+len(base))
	env = append(env, injected...)
	for i := range base {
		if !has(reserved, base[i].Name) {
			env = append(env, base[i])
		}
	}
	return env
}

// portKey tells the ports of a container apart.
type portKey struct {
	number   int32
	protocol corev1.Protocol
}

// addPorts adds the ports a container does not have yet.
func addPorts(base, ports []corev1.ContainerPort) []corev1.ContainerPort {
	return addNew(base, ports, func(p *corev1.ContainerPort) portKey { return portKey{p.ContainerPort, protocol(*p)} })
}

func protocol(port corev1.ContainerPort) corev1.Protocol {
	if port.Protocol == "" {
		return corev1.ProtocolTCP
	}
	return port.Protocol
}

// tolerationKey tells tolerations apart by all that they say.
type tolerationKey struct {
	rest    corev1.Toleration // without the pointer
	limited bool
	seconds int64
}

func keyOfToleration(t *corev1.Toleration) tolerationKey {
	key := tolerationKey{rest: *t, limited: t.TolerationSeconds != nil, seconds: ptr.Deref(t.TolerationSeconds, 0)}
	key.rest.TolerationSeconds = nil
	return key
}

// addTolerations adds the tolerations that are not there yet. A strategic merge would
// replace the list, and with it what the runtime's own nodes need.
func addTolerations(base, over []corev1.Toleration) []corev1.Toleration {
	return addNew(base, over, keyOfToleration)
}
