package app

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
)

func TestOpaqueKindsAreReadFromTheFlag(t *testing.T) {
	slurm := schema.GroupKind{Group: "slurm.example.com", Kind: "SlurmRuntime"}
	ray := schema.GroupKind{Group: "ray.io", Kind: "RayCluster"}
	cases := map[string]struct {
		args []string
		want sets.Set[schema.GroupKind]
	}{
		"none":                    {nil, sets.New[schema.GroupKind]()},
		"an empty list":           {[]string{"--opaque-runtime-kinds="}, sets.New[schema.GroupKind]()},
		"one":                     {[]string{"--opaque-runtime-kinds=SlurmRuntime.slurm.example.com"}, sets.New(slurm)},
		"two":                     {[]string{"--opaque-runtime-kinds=SlurmRuntime.slurm.example.com,RayCluster.ray.io"}, sets.New(slurm, ray)},
		"two flags":               {[]string{"--opaque-runtime-kinds=SlurmRuntime.slurm.example.com", "--opaque-runtime-kinds=RayCluster.ray.io"}, sets.New(slurm, ray)},
		"a kind of a built-in":    {[]string{"--opaque-runtime-kinds=Job.batch"}, sets.New(schema.GroupKind{Group: "batch", Kind: "Job"})},
		"another kind of our own": {[]string{"--opaque-runtime-kinds=SlurmRuntime.trainer.kubeflow.org"}, sets.New(schema.GroupKind{Group: "trainer.kubeflow.org", Kind: "SlurmRuntime"})},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			options := parsed(t, tc.args...)
			if errs := options.Validate(); len(errs) > 0 {
				t.Fatalf("errors: %v", errs)
			}
			if diff := cmp.Diff(tc.want, options.opaqueKinds()); diff != "" {
				t.Errorf("kinds (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEveryWrongOpaqueKindIsNamedWithItsRemedy(t *testing.T) {
	const flag = "--opaque-runtime-kinds: "
	long := strings.Repeat("K", 64)
	cases := map[string]struct {
		list string
		want []string // the beginning of each error
	}{
		"no group":             {"SlurmRuntime", []string{`"SlurmRuntime": must be Kind.group, such as `}},
		"a dot but no group":   {"SlurmRuntime.", []string{`"SlurmRuntime.": must be Kind.group, such as `}},
		"no kind":              {".slurm.example.com", []string{`".slurm.example.com": must be Kind.group, such as `}},
		"a comma too many":     {"A.b.c,,", []string{`"": must be Kind.group`, `"": must be Kind.group`}},
		"in small letters":     {"slurmruntime.slurm.example.com", []string{`"slurmruntime.slurm.example.com": the kind must be written as in spec.names.kind`}},
		"a space before it":    {"A.b.c, D.e.f", []string{`" D.e.f": the kind must be written as in spec.names.kind`}},
		"no kind's characters": {"Slurm_Runtime.slurm.example.com", []string{`"Slurm_Runtime.slurm.example.com": "Slurm_Runtime" cannot be a kind`}},
		"too long a kind":      {long + ".example.com", []string{`"` + long + `.example.com": "` + long + `" cannot be a kind`}},
		"no group's name":      {"SlurmRuntime.slurm/v1", []string{`"SlurmRuntime.slurm/v1": "slurm/v1" cannot be an API group`}},
		"a kind of our own":    {"TrainingRuntime.trainer.kubeflow.org,ClusterTrainingRuntime.trainer.kubeflow.org,TrainJob.trainer.kubeflow.org", []string{`"TrainingRuntime.trainer.kubeflow.org": is a kind of this controller itself`, `"ClusterTrainingRuntime.trainer.kubeflow.org": is a kind of this controller itself`, `"TrainJob.trainer.kubeflow.org": is a kind of this controller itself`}},
		"twice the same":       {"A.b.c,D.e,A.b.c", []string{`"A.b.c": is listed twice`}},
		"all at once":          {"x,A.b.c,A.b.c,b.c", []string{`"x": must be`, `"A.b.c": is listed twice`, `"b.c": the kind must be`}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			errs := parsed(t, "--opaque-runtime-kinds="+tc.list).Validate()
			for i := range max(len(errs), len(tc.want)) {
				if i >= len(errs) || i >= len(tc.want) || !strings.HasPrefix(errs[i].Error(), flag+tc.want[i]) {
					t.Fatalf("errors %v, want those that begin with %q", errs, tc.want)
				}
			}
		})
	}
}
