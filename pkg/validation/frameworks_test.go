package validation

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/runtimesnapshot"
	"github.com/trainjob/controller/test/builders"
)

func of(policy trainer.MLPolicySource) *runtimesnapshot.Runtime {
	return runtimeOf(builders.PlainSpec(), func(spec *trainer.TrainingRuntimeSpec) {
		spec.MLPolicy = &trainer.MLPolicy{NumNodes: ptr.To[int32](2), MLPolicySource: policy}
	})
}

func TestEachFrameworkKeepsItsVariables(t *testing.T) {
	jax, xgboost := of(trainer.MLPolicySource{JAX: &trainer.JAXMLPolicySource{}}), of(trainer.MLPolicySource{XGBoost: &trainer.XGBoostMLPolicySource{}})
	mpi := runtimeOf(builders.MPISpec())
	for name, c := range map[string]struct {
		runtime        *runtimesnapshot.Runtime
		reserved, free string
	}{
		"torch":   {torch(), "PET_NNODES PET_NPROC_PER_NODE PET_NODE_RANK PET_MASTER_ADDR PET_MASTER_PORT", "PET_MAX_RESTARTS JAX_PROCESS_ID"},
		"jax":     {jax, "JAX_NUM_PROCESSES JAX_PROCESS_ID JAX_COORDINATOR_ADDRESS", "JAX_PLATFORMS PET_NNODES"},
		"xgboost": {xgboost, "DMLC_TRACKER_URI DMLC_TRACKER_PORT DMLC_TASK_ID DMLC_NUM_WORKER", "DMLC_ROLE PET_NNODES"},
		"mpi": {mpi, "OMPI_MCA_orte_default_hostfile OMPI_MCA_orte_keep_fqdn_hostnames OMPI_MCA_orte_set_default_slots OMPI_MCA_plm_rsh_args " +
			"PRTE_MCA_prte_default_hostfile PRTE_MCA_plm_ssh_args", "OMPI_MCA_btl PET_NNODES"},
		"flux": {of(trainer.MLPolicySource{Flux: &trainer.FluxMLPolicySource{}}), "", "FLUX_VIEW_IMAGE PET_NNODES"},
		"none": {runtimeOf(builders.PlainSpec()), "", "PET_NNODES JAX_PROCESS_ID DMLC_TASK_ID OMPI_MCA_plm_rsh_args"},
	} {
		for _, variable := range strings.Fields(c.reserved) {
			t.Run(name+" refuses "+variable, func(t *testing.T) {
				review := CreateTrainJob(jobOf(`spec: {trainer: {env: [{name: `+variable+`, value: "1"}]}}`), c.runtime)
				if len(review.Errors) != 1 || review.Errors[0].Field != "spec.trainer.env[0].name" || !strings.Contains(review.Errors[0].Detail, variable) {
					t.Errorf("%q", texts(review))
				}
			})
		}
		for _, variable := range strings.Fields(c.free) {
			t.Run(name+" accepts "+variable, func(t *testing.T) {
				mustPass(t, variable, CreateTrainJob(jobOf(`spec: {trainer: {env: [{name: `+variable+`, value: "1"}]}}`), c.runtime))
			})
		}
	}
}

func TestANumberOfProcessesIsToldOfWhereItIsPassedOver(t *testing.T) {
	for name, c := range map[string]struct {
		runtime *runtimesnapshot.Runtime
		used    bool
	}{
		"torch":   {torch(), true},
		"mpi":     {runtimeOf(builders.MPISpec()), true},
		"flux":    {of(trainer.MLPolicySource{Flux: &trainer.FluxMLPolicySource{}}), true},
		"jax":     {of(trainer.MLPolicySource{JAX: &trainer.JAXMLPolicySource{}}), false},
		"xgboost": {of(trainer.MLPolicySource{XGBoost: &trainer.XGBoostMLPolicySource{}}), false},
		"none":    {of(trainer.MLPolicySource{}), false},
		"plain":   {runtimeOf(builders.PlainSpec()), false},
	} {
		t.Run(name, func(t *testing.T) {
			review := CreateTrainJob(jobOf(`spec: {trainer: {numProcPerNode: 2}}`), c.runtime)
			if c.used {
				mustPass(t, "create", review)
				return
			}
			if len(review.Errors) != 0 || len(review.Warnings) != 1 || !strings.HasPrefix(review.Warnings[0], "spec.trainer.numProcPerNode: 2 has no effect") {
				t.Errorf("want a warning alone, got %q", texts(review))
			}
		})
	}
}

// What spec.trainer says reaches the launcher and the workers of MPI. It is told once.
func TestAFaultOfSeveralContainersIsToldOnce(t *testing.T) {
	review := CreateTrainJob(jobOf(`spec: {trainer: {resourcesPerNode: {limits: {gpu: 1}}}}`), runtimeOf(builders.MPISpec()))
	if len(review.Errors) != 1 || review.Errors[0].Field != "spec.trainer.resourcesPerNode.limits[gpu]" {
		t.Errorf("%q", texts(review))
	}
}

func TestAJobThatHasYetToGetItsNameIsReviewedAllTheSame(t *testing.T) {
	nameless := func(prefix string) *trainer.TrainJob {
		job := jobOf()
		job.Name, job.GenerateName = "", prefix
		return job
	}
	mustPass(t, "a short prefix", CreateTrainJob(nameless("bert-"), torch()))
	review := CreateTrainJob(nameless(strings.Repeat("b", 45)), torch())
	if len(review.Errors) != 1 || review.Errors[0].Field != "metadata.name" {
		t.Errorf("a long prefix: %q", texts(review))
	}
}

func BenchmarkUpdateOfPatches(b *testing.B) {
	runtime := runtimeOf(builders.InitializerSpec())
	old, job := jobOf(`spec: {suspend: true}`, started), jobOf(`spec: {suspend: true}`, started, inPod("node", `{nodeSelector: {zone: a}}`))
	for b.Loop() {
		if review := UpdateTrainJob(old, job, runtime); len(review.Errors) > 0 {
			b.Fatal(review.Errors)
		}
	}
}

func TestANegativeQuantityIsNamedOnceWhereItWasWritten(t *testing.T) {
	requesting := torch(func(spec *trainer.TrainingRuntimeSpec) {
		podOf(spec, "node").Containers[0].Resources = corev1.ResourceRequirements{
			Limits:   corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1"), "cpu": resource.MustParse("2")},
			Requests: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1"), "cpu": resource.MustParse("1")},
		}
	})
	for given, want := range map[string][]string{
		`{limits: {cpu: -1}}`:                               {"limits[cpu]"},
		`{requests: {cpu: -1}}`:                             {"requests[cpu]"},
		`{limits: {nvidia.com/gpu: -1}}`:                    {"limits[nvidia.com/gpu]"},
		`{requests: {nvidia.com/gpu: -1}}`:                  {"requests[nvidia.com/gpu]"},
		`{limits: {cpu: -1}, requests: {cpu: 1}}`:           {"limits[cpu]"},
		`{limits: {cpu: -1}, requests: {cpu: -1}}`:          {"limits[cpu]", "requests[cpu]"},
		`{limits: {cpu: -1}, requests: {example.com/a: 1}}`: {"limits[cpu]"},
	} {
		review := CreateTrainJob(jobOf(`spec: {trainer: {resourcesPerNode: `+given+`}}`), requesting)
		var got []string
		for _, err := range review.Errors {
			got = append(got, strings.TrimPrefix(err.Field, "spec.trainer.resourcesPerNode."))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: fields (-want +got):\n%s\n%v", given, diff, review.Errors)
		}
	}
}
