package runtimesnapshot

import (
	"fmt"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/trainjob/controller/test/builders"
)

// TestTheWeightIsWhatItTakes compares the weight with the heap, for runtimes that are made
// of quite different things.
func TestTheWeightIsWhatItTakes(t *testing.T) {
	for name, fill := range map[string]func(spec *corev1.PodSpec, i int){
		"containers": func(s *corev1.PodSpec, i int) {
			s.Containers = append(s.Containers, corev1.Container{Name: fmt.Sprint("c", i)})
		},
		"tolerations": func(s *corev1.PodSpec, i int) {
			s.Tolerations = append(s.Tolerations, corev1.Toleration{Key: fmt.Sprint("k", i)})
		},
		"labels": func(s *corev1.PodSpec, i int) { s.NodeSelector[fmt.Sprint("label", i)] = fmt.Sprint(i) },
		"limits": func(s *corev1.PodSpec, i int) {
			limits := corev1.ResourceList{corev1.ResourceName(fmt.Sprint("example.com/r", i)): resource.MustParse("1500m")}
			s.Containers = append(s.Containers, corev1.Container{Resources: corev1.ResourceRequirements{Limits: limits}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			object := withArgs(nil, nil)
			spec := &object.Spec.Template.Spec.ReplicatedJobs[0].Template.Spec.Template.Spec
			spec.NodeSelector = map[string]string{}
			for i := range 2000 {
				fill(spec, i)
			}
			cm := mustEncode(t, builders.TrainJob("a"), FromClusterTrainingRuntime(object))
			before := heap()
			decoded := mustDecode(t, cm)
			took := heap() - before
			weight := weightOf(decoded)
			runtime.KeepAlive(decoded)
			if ratio := float64(weight) / float64(took); ratio < 0.6 || ratio > 1.8 {
				t.Errorf("a weight of %d bytes, and it takes %d", weight, took)
			}
		})
	}
}

func heap() int {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc)
}
