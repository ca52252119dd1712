package render

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
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
	for i := range over {
		name := key(&over[i])
		same := func(item T) bool { return key(&item) == name }
		at := slices.IndexFunc(base, same)
		if at < 0 {
			base = append(base, over[i])
			continue
		}
		combine(&base[at], &over[i])
		base = append(base[:at+1], slices.DeleteFunc(base[at+1:], same)...)
	}
	return base
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
	env := make([]corev1.EnvVar, 0, len(injected)+len(base))
	env = append(env, injected...)
	for i := range base {
		if !slices.ContainsFunc(injected, func(e corev1.EnvVar) bool { return e.Name == base[i].Name }) {
			env = append(env, base[i])
		}
	}
	return env
}

// addPorts adds the ports a container does not have yet.
func addPorts(base, ports []corev1.ContainerPort) []corev1.ContainerPort {
	for _, port := range ports {
		if !slices.ContainsFunc(base, func(p corev1.ContainerPort) bool {
			return p.ContainerPort == port.ContainerPort && protocol(p) == protocol(port)
		}) {
			base = append(base, port)
		}
	}
	return base
}

func protocol(port corev1.ContainerPort) corev1.Protocol {
	if port.Protocol == "" {
		return corev1.ProtocolTCP
	}
	return port.Protocol
}

// addTolerations adds the tolerations that are not there yet. A strategic merge would
// replace the list, and with it what the runtime's own nodes need.
func addTolerations(base, over []corev1.Toleration) []corev1.Toleration {
	for i := range over {
		if !hasToleration(base, &over[i]) {
			base = append(base, over[i])
		}
	}
	return base
}

func hasToleration(list []corev1.Toleration, toleration *corev1.Toleration) bool {
	return slices.ContainsFunc(list, func(t corev1.Toleration) bool {
		return equality.Semantic.DeepEqual(&t, toleration)
	})
}
