package render

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/trainjob/controller/apis/trainer/v1alpha1"
)

func TestTheJobSetBelongsToItsTrainJob(t *testing.T) {
	runtime := torchRuntime(func(spec *v1alpha1.TrainingRuntimeSpec) {
		spec.Template.ObjectMeta = metav1.ObjectMeta{
			Name: "ignored", Namespace: "ignored", Finalizers: []string{"ignored"},
			Labels:      map[string]string{"team": "research", v1alpha1.LabelTrainJobName: "somebody"},
			Annotations: map[string]string{v1alpha1.AnnotationPatchesHash: "stale"},
		}
	})
	job := trainJob()
	job.Labels = map[string]string{"kueue.x-k8s.io/queue-name": "gpus"}
	want := metav1.ObjectMeta{
		Name: "bert", Namespace: "research",
		Labels:      map[string]string{"team": "research", v1alpha1.LabelTrainJobName: "bert"},
		Annotations: map[string]string{v1alpha1.AnnotationPatchesHash: PatchesHash(nil)},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "trainer.kubeflow.org/v1alpha1", Kind: "TrainJob", Name: "bert", UID: "u1",
			Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
		}},
	}
	got := mustRender(t, job, runtime).JobSet
	if diff := cmp.Diff(want, got.ObjectMeta); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(metav1.TypeMeta{APIVersion: "jobset.x-k8s.io/v1alpha2", Kind: "JobSet"}, got.TypeMeta); diff != "" {
		t.Errorf("type (-want +got):\n%s", diff)
	}
}

func TestSuspendIsTheTrainJobs(t *testing.T) {
	cases := map[string]struct {
		suspend *bool
		want    bool
	}{
		"unset means not suspended": {nil, false},
		"false":                     {ptr.To(false), false},
		"true":                      {ptr.To(true), true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			runtime := torchRuntime(func(spec *v1alpha1.TrainingRuntimeSpec) { spec.Template.Spec.Suspend = ptr.To(!tc.want) })
			got := mustRender(t, trainJob(func(s *v1alpha1.TrainJobSpec) { s.Suspend = tc.suspend }), runtime)
			if diff := cmp.Diff(ptr.To(tc.want), got.JobSet.Spec.Suspend); diff != "" {
				t.Errorf("suspend (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLimitsOfTheTemplateThatWouldEndTheJobAreLeftOut(t *testing.T) {
	runtime := initRuntime()
	runtime.Spec.Template.Spec.TTLSecondsAfterFinished = ptr.To[int32](1)
	for i := range runtime.Spec.Template.Spec.ReplicatedJobs {
		job := &runtime.Spec.Template.Spec.ReplicatedJobs[i].Template.Spec
		job.TTLSecondsAfterFinished, job.ActiveDeadlineSeconds = ptr.To[int32](1), ptr.To[int64](1)
		job.BackoffLimit = ptr.To[int32](3)
	}
	got := mustRender(t, trainJob(), runtime).JobSet
	if got.Spec.TTLSecondsAfterFinished != nil {
		t.Errorf("the JobSet has a TTL of %d", *got.Spec.TTLSecondsAfterFinished)
	}
	for _, rjob := range got.Spec.ReplicatedJobs {
		if rjob.Template.Spec.TTLSecondsAfterFinished != nil || rjob.Template.Spec.ActiveDeadlineSeconds != nil {
			t.Errorf("%s has a limit: %s", rjob.Name, toJSON(t, rjob.Template.Spec))
		}
		if diff := cmp.Diff(ptr.To[int32](3), rjob.Template.Spec.BackoffLimit); diff != "" {
			t.Errorf("%s: backoffLimit (-want +got):\n%s", rjob.Name, diff)
		}
	}
}

func TestNumberOfTrainingNodes(t *testing.T) {
	parallelism := func(n int32) func(*v1alpha1.TrainingRuntimeSpec) {
		return func(spec *v1alpha1.TrainingRuntimeSpec) {
			spec.Template.Spec.ReplicatedJobs[0].Template.Spec.Parallelism = ptr.To(n)
		}
	}
	cases := map[string]struct {
		trainer *int32
		runtime Runtime
		want    int32
	}{
		"the TrainJob's number comes first":                    {ptr.To[int32](5), torchRuntime(parallelism(9)), 5},
		"zero is a number":                                     {ptr.To[int32](0), torchRuntime(), 0},
		"then the policy's":                                    {nil, torchRuntime(parallelism(9)), 2},
		"a policy without a number means one":                  {nil, torchRuntime(parallelism(9), func(s *v1alpha1.TrainingRuntimeSpec) { s.MLPolicy.NumNodes = nil }), 1},
		"without a policy the template's parallelism counts":   {nil, torchRuntime(parallelism(9), withoutPolicy), 9},
		"and without that there is one":                        {nil, torchRuntime(withoutPolicy), 1},
		"the TrainJob's number also counts without any policy": {ptr.To[int32](4), torchRuntime(parallelism(9), withoutPolicy), 4},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := mustRender(t, trainJob(withTrainer(v1alpha1.Trainer{NumNodes: tc.trainer})), tc.runtime)
			spec := got.JobSet.Spec.ReplicatedJobs[0].Template.Spec
			if diff := cmp.Diff([]*int32{&tc.want, &tc.want, &tc.want}, []*int32{&got.Nodes, spec.Parallelism, spec.Completions}); diff != "" {
				t.Errorf("nodes, parallelism, completions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStepsHaveOneReplica(t *testing.T) {
	runtime := initRuntime()
	jobs := &runtime.Spec.Template.Spec.ReplicatedJobs
	*jobs = append(*jobs, replicatedJob("evaluator", "", "main"))
	for i := range *jobs {
		(*jobs)[i].Replicas = 3
	}
	want := map[string]int32{"dataset-initializer": 1, "model-initializer": 1, "node": 1, "evaluator": 3}
	got := map[string]int32{}
	for _, rjob := range mustRender(t, trainJob(), runtime).JobSet.Spec.ReplicatedJobs {
		got[rjob.Name] = rjob.Replicas
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("replicas (-want +got):\n%s", diff)
	}
}

func TestHostNames(t *testing.T) {
	cases := map[string]struct {
		network *jobsetv1alpha2.Network
		policy  bool
		want    *jobsetv1alpha2.Network
	}{
		"a framework turns them on":       {nil, true, &jobsetv1alpha2.Network{EnableDNSHostnames: ptr.To(true)}},
		"without one nothing is decided":  {nil, false, nil},
		"what the template says is kept":  {&jobsetv1alpha2.Network{Subdomain: "net", PublishNotReadyAddresses: ptr.To(false)}, true, &jobsetv1alpha2.Network{Subdomain: "net", PublishNotReadyAddresses: ptr.To(false), EnableDNSHostnames: ptr.To(true)}},
		"one node may do without":         {&jobsetv1alpha2.Network{EnableDNSHostnames: ptr.To(false)}, true, &jobsetv1alpha2.Network{EnableDNSHostnames: ptr.To(false)}},
		"and so may a job without policy": {&jobsetv1alpha2.Network{EnableDNSHostnames: ptr.To(false)}, false, &jobsetv1alpha2.Network{EnableDNSHostnames: ptr.To(false)}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			runtime := torchRuntime(func(spec *v1alpha1.TrainingRuntimeSpec) {
				spec.Template.Spec.Network = tc.network
				if !tc.policy {
					spec.MLPolicy = nil
				}
			})
			got := mustRender(t, trainJob(withTrainer(v1alpha1.Trainer{NumNodes: ptr.To[int32](1)})), runtime)
			if diff := cmp.Diff(tc.want, got.JobSet.Spec.Network); diff != "" {
				t.Errorf("network (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPortOfTheRendezvous(t *testing.T) {
	added := corev1.ContainerPort{ContainerPort: 29500, Protocol: corev1.ProtocolTCP}
	cases := map[string]struct{ have, want []corev1.ContainerPort }{
		"is added":                              {nil, []corev1.ContainerPort{added}},
		"is added behind the others":            {[]corev1.ContainerPort{{Name: "http", ContainerPort: 80}}, []corev1.ContainerPort{{Name: "http", ContainerPort: 80}, added}},
		"is not added twice":                    {[]corev1.ContainerPort{{Name: "mine", ContainerPort: 29500}}, []corev1.ContainerPort{{Name: "mine", ContainerPort: 29500}}},
		"is not the same with another protocol": {[]corev1.ContainerPort{{ContainerPort: 29500, Protocol: corev1.ProtocolUDP}}, []corev1.ContainerPort{{ContainerPort: 29500, Protocol: corev1.ProtocolUDP}, added}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			runtime := torchRuntime(func(spec *v1alpha1.TrainingRuntimeSpec) { node(spec).Ports = tc.have })
			got := trainerPod(t, mustRender(t, trainJob(), runtime)).Containers[0].Ports
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("ports (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRenderErrors(t *testing.T) {
	set := func(f func(*v1alpha1.TrainingRuntimeSpec)) Runtime { return torchRuntime(f) }
	jobs := func(rjobs ...jobsetv1alpha2.ReplicatedJob) Runtime {
		return set(func(spec *v1alpha1.TrainingRuntimeSpec) { spec.Template.Spec.ReplicatedJobs = rjobs })
	}
	named := func(name string) *v1alpha1.TrainJob { job := trainJob(); job.Name = name; return job }
	cases := map[string]struct {
		job     *v1alpha1.TrainJob
		runtime Runtime
		want    []string // "field value", of each error
		says    string
	}{
		"a runtime without jobs": {trainJob(), jobs(),
			[]string{"spec.template.spec.replicatedJobs "}, "add at least the one that trains"},
		"settings of training and no job that trains": {trainJob(withTrainer(v1alpha1.Trainer{
			Image: ptr.To("x"), Command: []string{"x"}, Args: []string{"x"}, NumNodes: ptr.To[int32](4), NumProcPerNode: ptr.To[int32](2),
			Env: []corev1.EnvVar{{Name: "A"}}, ResourcesPerNode: &corev1.ResourceRequirements{},
		})), jobs(replicatedJob("node", "", "node")),
			[]string{"spec.trainer.image ", "spec.trainer.command ", "spec.trainer.args ", "spec.trainer.env ", "spec.trainer.resourcesPerNode ", "spec.trainer.numProcPerNode "},
			"label trainer.kubeflow.org/trainjob-ancestor-step: trainer: put it on template.metadata.labels"},
		"two jobs that train": {trainJob(), jobs(replicatedJob("a", "trainer", "node"), replicatedJob("b", "trainer", "node")),
			[]string{"spec.template.spec.replicatedJobs[1].template.metadata.labels[trainer.kubeflow.org/trainjob-ancestor-step] trainer"}, "a and b both have it"},
		"no training container": {trainJob(), jobs(replicatedJob("node", "trainer", "main", "sidecar")),
			[]string{"spec.template.spec.replicatedJobs[0].template.spec.template.spec.containers node"}, "it has: main, sidecar"},
		"an initializer the runtime does not have": {
			trainJob(func(s *v1alpha1.TrainJobSpec) {
				s.Initializer = &v1alpha1.Initializer{Dataset: &v1alpha1.DatasetInitializer{}, Model: &v1alpha1.ModelInitializer{}}
			}), torchRuntime(),
			[]string{"spec.initializer.dataset dataset-initializer", "spec.initializer.model model-initializer"}, "remove the field or use a runtime"},
		"an initializer without its container": {
			trainJob(func(s *v1alpha1.TrainJobSpec) {
				s.Initializer = &v1alpha1.Initializer{Model: &v1alpha1.ModelInitializer{}}
			}),
			jobs(replicatedJob("node", "trainer", "node"), replicatedJob("fetch", "model-initializer", "main")),
			[]string{"spec.template.spec.replicatedJobs[1].template.spec.template.spec.containers model-initializer"}, "it has: main"},
		"MPI whose workers are labelled as the trainer": {trainJob(), set(func(s *v1alpha1.TrainingRuntimeSpec) {
			s.MLPolicy.Torch, s.MLPolicy.MPI = nil, &v1alpha1.MPIMLPolicySource{}
		}), []string{"spec.template.spec.replicatedJobs[node] node"}, "is the launcher's: put it there"},
		"two gang schedulers": {trainJob(), set(func(s *v1alpha1.TrainingRuntimeSpec) {
			s.PodGroupPolicy = &v1alpha1.PodGroupPolicy{PodGroupPolicySource: v1alpha1.PodGroupPolicySource{
				Coscheduling: &v1alpha1.CoschedulingPodGroupPolicySource{}, Volcano: &v1alpha1.VolcanoPodGroupPolicySource{}}}
		}), []string{"spec.podGroupPolicy coscheduling, volcano"}, "keep one of these fields"},
		"a name that is too long": {named(strings.Repeat("a", 50)), torchRuntime(),
			[]string{"metadata.name " + strings.Repeat("a", 50)}, "aaa-node-0-1-xxxxx, which has 65 characters of at most 63: use a name that is 2 shorter"},
		"a name that is no label": {named("7b"), torchRuntime(), []string{"metadata.name 7b"}, "7b-node-0-1-xxxxx, which is no DNS label"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			objects, err := Render(tc.job, tc.runtime)
			if objects != nil {
				t.Error("there are objects besides the error")
			}
			var got *Error
			if !errors.As(err, &got) {
				t.Fatalf("the error is a %T: %v", err, err)
			}
			var fields []string
			for _, e := range got.Errs {
				value, _ := e.BadValue.(string)
				fields = append(fields, e.Field+" "+value)
			}
			if diff := cmp.Diff(tc.want, fields); diff != "" {
				t.Errorf("fields and values (-want +got):\n%s", diff)
			}
			for _, part := range []string{"cannot be built from ClusterTrainingRuntime torch: ", tc.says} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not contain %q", err, part)
				}
			}
		})
	}
}

func TestPodNamesMustFit(t *testing.T) {
	name := strings.Repeat("a", 47)
	cases := map[string]struct {
		nodes int32
		mode  *batchv1.CompletionMode
		want  bool
	}{
		"47 characters and 10 nodes fit":             {10, nil, true},
		"47 characters and 100 nodes just fit":       {100, nil, true},
		"47 characters and 1000 nodes do not":        {1000, nil, false},
		"explicitly indexed nodes do not either":     {1000, ptr.To(batchv1.IndexedCompletion), false},
		"without an index their number is no matter": {1000, ptr.To(batchv1.NonIndexedCompletion), true},
	}
	for caseName, tc := range cases {
		t.Run(caseName, func(t *testing.T) {
			job := trainJob(withTrainer(v1alpha1.Trainer{NumNodes: &tc.nodes}))
			job.Name = name
			runtime := torchRuntime(withoutPolicy, func(spec *v1alpha1.TrainingRuntimeSpec) {
				spec.Template.Spec.ReplicatedJobs[0].Template.Spec.CompletionMode = tc.mode
			})
			_, err := Render(job, runtime)
			if tc.want != (err == nil) {
				t.Fatalf("Render: %v", err)
			}
			if err != nil && !strings.Contains(err.Error(), name+"-node-0-999-xxxxx, which has 64 characters of at most 63") {
				t.Errorf("the message does not name the pod and the limit: %v", err)
			}
		})
	}
}

// JobSet's admission reckons with a pod of index -1 then.
func TestThePodNamesOfAJobWithoutPodsMustFit(t *testing.T) {
	for size, want := range map[int]bool{47: true, 48: false} {
		job := trainJob(withTrainer(v1alpha1.Trainer{NumNodes: ptr.To[int32](0)}))
		job.Name = strings.Repeat("a", size)
		if _, err := Render(job, torchRuntime()); want != (err == nil) {
			t.Errorf("name of %d characters: %v", size, err)
		}
	}
}

func TestErrorsAreBounded(t *testing.T) {
	long := strings.Repeat("ü", 5000)
	cases := map[string]struct {
		err  Error
		says string
	}{
		"one long error":      {Error{"R r", field.ErrorList{field.Invalid(field.NewPath("a"), long, long)}}, "R r: a: Invalid value"},
		"a long runtime name": {Error{long, field.ErrorList{field.Required(field.NewPath("a"), "say it")}}, "a: Required value: say it"},
		"many errors": {Error{"R r", func() (list field.ErrorList) {
			for range 100 {
				list = append(list, field.Required(field.NewPath("spec"), strings.Repeat("x", 90)))
			}
			return list
		}()}, "more"},
		"a long one after a short one": {Error{"R r", field.ErrorList{
			field.Required(field.NewPath("a"), "say it"), field.Required(field.NewPath("b"), long)}}, "; and 1 more"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := tc.err.Error()
			if len(got) > maxErrorBytes {
				t.Errorf("%d bytes", len(got))
			}
			if strings.ToValidUTF8(got, "") != got {
				t.Errorf("cut inside a character: %q", got)
			}
			if !strings.Contains(got, tc.says) {
				t.Errorf("%q does not contain %q", got, tc.says)
			}
		})
	}
}
