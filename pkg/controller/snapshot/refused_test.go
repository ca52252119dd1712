package snapshot

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	componentmetrics "k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/metrics"
	"github.com/trainjob/controller/pkg/runtimesnapshot"
	"github.com/trainjob/controller/test/builders"
)

// A job that cannot have its snapshot is looked at again and again; it is counted once.
func TestARefusedSnapshotIsCountedOnce(t *testing.T) {
	inTheWay := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: theJob.Namespace, Name: runtimesnapshot.Name(theJob.Name)}}
	unusable := builders.TorchSpec()
	unusable.Template.Spec.ReplicatedJobs = nil
	cases := map[string]struct {
		opts    []builders.JobOption
		prepare func(f *fixture)
		want    map[string]float64
	}{
		"a stranger's ConfigMap": {prepare: func(f *fixture) { f.live(inTheWay) }, want: map[string]float64{"conflict": 1}},
		"a stranger's ConfigMap and a suspended job": {
			opts: []builders.JobOption{builders.Suspended(true)}, prepare: func(f *fixture) { f.live(inTheWay) },
			want: map[string]float64{"conflict": 1},
		},
		"a runtime without jobs": {
			prepare: func(f *fixture) { f.add(f.runtimes, builders.ClusterTrainingRuntime("torch", unusable)) },
			want:    map[string]float64{"runtime_invalid": 1},
		},
		"a kind nobody understands": {
			opts: []builders.JobOption{builders.Runtime("Foo", "torch")}, prepare: func(*fixture) {}, want: map[string]float64{"unsupported": 1},
		},
		"no runtime yet":  {opts: []builders.JobOption{builders.Runtime(trainer.ClusterTrainingRuntimeKind, "missing")}, prepare: func(*fixture) {}},
		"nothing refused": {prepare: func(*fixture) {}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, builders.TrainJob("a", tc.opts...))
			registry, measured := componentmetrics.NewKubeRegistry(), metrics.New()
			if err := measured.Register(registry.Register, registry.CustomRegister); err != nil {
				t.Fatal(err)
			}
			f.controller.metrics = measured
			tc.prepare(f)
			for range 3 {
				_, _ = f.sync() // what it does besides is checked elsewhere
				job, err := f.trainer.TrainerV1alpha1().TrainJobs(theJob.Namespace).Get(t.Context(), theJob.Name, metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				f.add(f.jobs, job)
			}
			got, err := testutil.GetCounterValuesFromGatherer(registry, "trainjob_controller_snapshots_refused_total", nil, "reason")
			if err != nil && len(tc.want) > 0 {
				t.Fatal(err)
			}
			for _, reason := range metrics.Refusals() {
				if got[string(reason)] != tc.want[string(reason)] {
					t.Errorf("%s was counted %v times, want %v", reason, got[string(reason)], tc.want[string(reason)])
				}
			}
		})
	}
}
