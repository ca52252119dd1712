package render

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/trainjob/controller/apis/trainer/v1alpha1"
)

// Names come from small pools, so that the parts of a random job and of a random
// runtime often meet and sometimes miss each other.
var (
	jobPool       = []string{"node", "dataset-initializer", "model-initializer", "worker"}
	containerPool = []string{"node", "dataset-initializer", "model-initializer", "sidecar"}
	wordPool      = []string{"", "a", "b", "PET_NNODES", "JAX_NUM_PROCESSES", "DMLC_TRACKER_URI", "STORAGE_URI", "/data"}
	resourcePool  = []corev1.ResourceName{"cpu", "memory", "nvidia.com/gpu", "nvidia.com/gpumem"}
)

type random struct{ *rand.Rand }

func (r random) yes(percent int) bool  { return r.IntN(100) < percent }
func pick[T any](r random, pool []T) T { return pool[r.IntN(len(pool))] }
func (r random) word() string          { return pick(r, wordPool) }
func maybe[T any](r random, value func() T) *T {
	if r.yes(40) {
		return nil
	}
	return ptr.To(value())
}

func some[T any](r random, item func() T) []T {
	var list []T
	for range r.IntN(4) {
		list = append(list, item())
	}
	return list
}

func (r random) texts() map[string]string {
	texts := map[string]string{}
	for range r.IntN(3) {
		texts[r.word()] = r.word()
	}
	return texts
}

func (r random) env() corev1.EnvVar {
	if r.yes(30) {
		return corev1.EnvVar{Name: r.word(), ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{Key: r.word(), Optional: ptr.To(true)}}}
	}
	return corev1.EnvVar{Name: r.word(), Value: r.word()}
}

func (r random) resources() corev1.ResourceRequirements {
	list := func() corev1.ResourceList {
		l := corev1.ResourceList{}
		for range r.IntN(3) {
			l[pick(r, resourcePool)] = *resource.NewMilliQuantity(r.Int64N(9000), resource.DecimalSI)
		}
		return l
	}
	return corev1.ResourceRequirements{Limits: list(), Requests: list(), Claims: some(r, func() corev1.ResourceClaim { return corev1.ResourceClaim{Name: r.word()} })}
}

func (r random) volume() corev1.Volume {
	volume := corev1.Volume{Name: r.word()}
	switch r.IntN(3) {
	case 0:
		volume.EmptyDir = &corev1.EmptyDirVolumeSource{SizeLimit: resource.NewQuantity(r.Int64N(9), resource.BinarySI)}
	case 1:
		volume.Secret = &corev1.SecretVolumeSource{SecretName: r.word(), Items: some(r, func() corev1.KeyToPath { return corev1.KeyToPath{Key: r.word()} })}
	}
	return volume
}

func (r random) mount() corev1.VolumeMount {
	return corev1.VolumeMount{Name: r.word(), MountPath: r.word(), SubPath: r.word()}
}

func (r random) toleration() corev1.Toleration {
	return corev1.Toleration{Key: r.word(), TolerationSeconds: maybe(r, func() int64 { return r.Int64N(2) })}
}

func (r random) affinity() corev1.Affinity {
	return corev1.Affinity{PodAffinity: maybe(r, func() corev1.PodAffinity {
		return corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: some(r, func() corev1.PodAffinityTerm {
			return corev1.PodAffinityTerm{TopologyKey: r.word(), LabelSelector: &metav1.LabelSelector{MatchLabels: r.texts()}}
		})}
	})}
}

func (r random) security() corev1.SecurityContext {
	return corev1.SecurityContext{RunAsUser: maybe(r, r.Int64), Capabilities: maybe(r, func() corev1.Capabilities {
		return corev1.Capabilities{Add: []corev1.Capability{corev1.Capability(r.word())}}
	})}
}

func (r random) container(name string) corev1.Container {
	command := some(r, func() string { return r.word() })
	if name == "node" && r.yes(20) {
		command = []string{"tune", "run"}
	}
	return corev1.Container{Name: name, Image: r.word(), Command: command,
		Env: some(r, r.env), Resources: r.resources(), VolumeMounts: some(r, r.mount), SecurityContext: maybe(r, r.security),
		Ports: some(r, func() corev1.ContainerPort { return corev1.ContainerPort{ContainerPort: pick(r, []int32{80, 29500})} })}
}

func (r random) replicatedJob(name string) jobsetv1alpha2.ReplicatedJob {
	step := map[string]string{"node": "trainer", "worker": ""}[name]
	if name != "node" && name != "worker" {
		step = name
	}
	rjob := replicatedJob(name, step)
	rjob.Replicas = r.Int32N(3)
	rjob.Template.Spec.Parallelism = maybe(r, func() int32 { return r.Int32N(20) })
	rjob.Template.Spec.Template.Labels, rjob.Template.Spec.Template.Annotations = r.texts(), r.texts()
	pod := podOf(&rjob)
	pod.Containers = []corev1.Container{r.container(name), r.container("sidecar")}
	pod.InitContainers = []corev1.Container{r.container("wait")}
	pod.Volumes, pod.Tolerations, pod.NodeSelector = some(r, r.volume), some(r, r.toleration), r.texts()
	pod.Affinity = maybe(r, r.affinity)
	return rjob
}

func (r random) runtime() Runtime {
	runtime := Runtime{Kind: "TrainingRuntime", Name: "torchtune-llama3.3-70b", Spec: v1alpha1.TrainingRuntimeSpec{MLPolicy: maybe(r, func() v1alpha1.MLPolicy {
		policy := v1alpha1.MLPolicy{NumNodes: maybe(r, func() int32 { return r.Int32N(20) })}
		policy.Torch = maybe(r, func() v1alpha1.TorchMLPolicySource {
			return v1alpha1.TorchMLPolicySource{EnvInjection: maybe(r, func() v1alpha1.EnvInjection {
				return v1alpha1.EnvInjection{Targets: some(r, func() v1alpha1.EnvInjectionTarget {
					return v1alpha1.EnvInjectionTarget{JobName: "node", ContainerNames: []string{pick(r, []string{"wait", "sidecar", "node"})}}
				})}
			})}
		})
		switch {
		case policy.Torch != nil:
		case r.yes(40):
			policy.JAX = &v1alpha1.JAXMLPolicySource{}
		case r.yes(60):
			policy.XGBoost = &v1alpha1.XGBoostMLPolicySource{}
		}
		if r.yes(10) {
			policy.MLPolicySource = v1alpha1.MLPolicySource{Flux: &v1alpha1.FluxMLPolicySource{}}
		}
		if r.yes(30) {
			policy.MLPolicySource = v1alpha1.MLPolicySource{MPI: ptr.To(v1alpha1.MPIMLPolicySource{RunLauncherAsNode: maybe(r, func() bool { return r.yes(70) }),
				NumProcPerNode: maybe(r, func() int32 { return r.Int32N(4) }), SSHAuthMountPath: maybe(r, r.word)})}
		}
		return policy
	}), PodGroupPolicy: maybe(r, r.podGroupPolicy)}}
	names := jobPool
	if r.yes(30) {
		names = jobPool[:r.IntN(len(jobPool)+1)]
	}
	template := &runtime.Spec.Template
	template.Labels, template.Annotations = r.texts(), r.texts()
	template.Spec.Network = maybe(r, func() jobsetv1alpha2.Network { return jobsetv1alpha2.Network{Subdomain: r.word()} })
	for _, name := range names {
		template.Spec.ReplicatedJobs = append(template.Spec.ReplicatedJobs, r.replicatedJob(name))
	}
	if policy := runtime.Spec.MLPolicy; policy != nil && policy.MPI != nil && r.yes(90) {
		r.addLauncher(&template.Spec)
	}
	return runtime
}

// addLauncher makes a template fit for MPI.
func (r random) addLauncher(spec *jobsetv1alpha2.JobSetSpec) {
	for i := range spec.ReplicatedJobs {
		delete(spec.ReplicatedJobs[i].Template.Labels, v1alpha1.LabelAncestorStep)
	}
	launcher := r.replicatedJob("node")
	launcher.Name = "launcher"
	launcher.DependsOn = some(r, func() jobsetv1alpha2.DependsOn {
		return jobsetv1alpha2.DependsOn{Name: pick(r, jobPool), Status: jobsetv1alpha2.DependencyReady}
	})
	spec.ReplicatedJobs = append(spec.ReplicatedJobs, launcher)
	spec.SuccessPolicy = maybe(r, func() jobsetv1alpha2.SuccessPolicy {
		return jobsetv1alpha2.SuccessPolicy{TargetReplicatedJobs: some(r, func() string { return pick(r, []string{"node", "launcher"}) })}
	})
}

func (r random) podGroupPolicy() v1alpha1.PodGroupPolicy {
	if r.yes(50) {
		return v1alpha1.PodGroupPolicy{PodGroupPolicySource: v1alpha1.PodGroupPolicySource{Coscheduling: &v1alpha1.CoschedulingPodGroupPolicySource{
			ScheduleTimeoutSeconds: maybe(r, r.Int32)}}}
	}
	return v1alpha1.PodGroupPolicy{PodGroupPolicySource: v1alpha1.PodGroupPolicySource{Volcano: &v1alpha1.VolcanoPodGroupPolicySource{
		NetworkTopology: maybe(r, func() v1alpha1.VolcanoNetworkTopology { return v1alpha1.VolcanoNetworkTopology{Mode: r.word()} })}}}
}

func (r random) patch() v1alpha1.RuntimePatch {
	meta := func() metav1.ObjectMeta { return metav1.ObjectMeta{Labels: r.texts(), Annotations: r.texts()} }
	name := jobPool[0]
	if r.yes(20) {
		name = pick(r, jobPool)
	}
	container := func() v1alpha1.ContainerPatch {
		target := name
		if r.yes(5) {
			target = pick(r, containerPool)
		}
		return v1alpha1.ContainerPatch{Name: target, Env: some(r, r.env), VolumeMounts: some(r, r.mount), SecurityContext: maybe(r, r.security)}
	}
	pod := func() v1alpha1.PodSpecPatch {
		return v1alpha1.PodSpecPatch{ServiceAccountName: maybe(r, r.word), Volumes: some(r, r.volume), Containers: some(r, container),
			NodeSelector: r.texts(), Affinity: maybe(r, r.affinity), Tolerations: some(r, r.toleration),
			TerminationGracePeriodSeconds: maybe(r, func() int64 { return int64(r.IntN(100)) }),
			SchedulingGates:               some(r, func() corev1.PodSchedulingGate { return corev1.PodSchedulingGate{Name: r.word()} })}
	}
	return v1alpha1.RuntimePatch{Manager: r.word(), TrainingRuntimeSpec: &v1alpha1.TrainingRuntimeSpecPatch{Template: maybe(r, func() v1alpha1.JobSetTemplatePatch {
		return v1alpha1.JobSetTemplatePatch{Metadata: maybe(r, meta), Spec: &v1alpha1.JobSetSpecPatch{ReplicatedJobs: []v1alpha1.ReplicatedJobPatch{{
			Name: name, Template: maybe(r, func() v1alpha1.JobTemplatePatch {
				return v1alpha1.JobTemplatePatch{Metadata: maybe(r, meta), Spec: &v1alpha1.JobSpecPatch{Template: &v1alpha1.PodTemplatePatch{
					Metadata: maybe(r, meta), Spec: maybe(r, pod)}}}
			})}}}}
	})}}
}

func (r random) job() *v1alpha1.TrainJob {
	job := trainJob()
	job.Spec.Suspend = maybe(r, func() bool { return r.yes(50) })
	job.Spec.RuntimePatches = some(r, r.patch)
	job.Spec.Trainer = maybe(r, func() v1alpha1.Trainer {
		return v1alpha1.Trainer{Image: maybe(r, r.word), Args: some(r, r.word), Env: some(r, r.env),
			NumNodes: maybe(r, func() int32 { return r.Int32N(2000) }), ResourcesPerNode: maybe(r, r.resources)}
	})
	job.Spec.Initializer = maybe(r, func() v1alpha1.Initializer {
		return v1alpha1.Initializer{Dataset: maybe(r, func() v1alpha1.DatasetInitializer {
			return v1alpha1.DatasetInitializer{StorageUri: maybe(r, r.word), Env: some(r, r.env),
				SecretRef: maybe(r, func() corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: r.word()} })}
		})}
	})
	return job
}

func TestAnyJobOnAnyRuntime(t *testing.T) {
	const rounds = 2000
	rendered := 0
	for seed := range uint64(rounds) {
		r := random{rand.New(rand.NewPCG(seed, 1))}
		job, runtime := r.job(), r.runtime()
		jobBefore, specBefore := job.DeepCopy(), runtime.Spec.DeepCopy()

		first, err := Render(job, runtime)
		second, again := Render(job, runtime)
		if fmt.Sprint(err) != fmt.Sprint(again) {
			t.Fatalf("seed %d: two errors for one input: %v, %v", seed, err, again)
		}
		if err == nil {
			rendered++
			checkRendered(t, seed, first, runtime)
			if a, b := toJSON(t, first), toJSON(t, second); a != b {
				t.Fatalf("seed %d: two renderings of one input (-first +second):\n%s", seed, cmp.Diff(a, b))
			}
			scribble(first)
		}
		before, after := []any{jobBefore, specBefore}, []any{job, &runtime.Spec}
		if !reflect.DeepEqual(before, after) { // cmp.Diff alone takes ten times as long
			t.Fatalf("seed %d: an input was written to, or shares memory with the output (-before +after):\n%s", seed, cmp.Diff(before, after))
		}
	}
	if rendered < rounds/3 {
		t.Errorf("only %d of %d random jobs could be rendered: the test says too little", rendered, rounds)
	}
}

// checkRendered holds what is true of every rendered JobSet.
func checkRendered(t *testing.T, seed uint64, objects *Objects, runtime Runtime) {
	t.Helper()
	jobs := objects.JobSet.Spec.ReplicatedJobs
	templates := slices.Clone(runtime.Spec.Template.Spec.ReplicatedJobs)
	if policy := runtime.Spec.MLPolicy; policy != nil && policy.MPI != nil {
		checkMPI(t, seed, objects, *policy.MPI)
		if len(jobs) < len(templates) {
			templates = slices.DeleteFunc(templates, func(j jobsetv1alpha2.ReplicatedJob) bool { return j.Name == "node" })
		}
	}
	if group := objects.PodGroup; group != nil {
		checkGang(t, seed, objects)
	}
	for i := range jobs {
		template := templates[i]
		if jobs[i].Name != template.Name {
			t.Fatalf("seed %d: job %d is %s, in the runtime it is %s", seed, i, jobs[i].Name, template.Name)
		}
		have, want := podOf(&jobs[i]), podOf(&template)
		for k := range want.Containers {
			if have.Containers[k].Name != want.Containers[k].Name {
				t.Fatalf("seed %d: the containers of %s changed their order", seed, template.Name)
			}
		}
		for _, toleration := range want.Tolerations {
			if !slices.ContainsFunc(have.Tolerations, func(t corev1.Toleration) bool { return equality.Semantic.DeepEqual(t, toleration) }) {
				t.Fatalf("seed %d: a toleration of the runtime is lost in %s", seed, template.Name)
			}
		}
		if size := len(longestPodName(objects.JobSet.Name, &jobs[i])); size > 63 {
			t.Fatalf("seed %d: a pod name has %d characters", seed, size)
		}
	}
	trainer := jobs[slices.IndexFunc(jobs, func(j jobsetv1alpha2.ReplicatedJob) bool { return j.Name == objects.TrainerJob })]
	want := objects.Nodes
	if policy := runtime.Spec.MLPolicy; policy != nil && policy.MPI != nil {
		want = 1 // the launcher
	}
	if *trainer.Template.Spec.Parallelism != want || *trainer.Template.Spec.Completions != want || trainer.Replicas != 1 {
		t.Fatalf("seed %d: the trainer job does not have %d pods", seed, want)
	}
	if policy := runtime.Spec.MLPolicy; policy != nil {
		checkInjected(t, seed, policy, &podOf(&trainer).Containers[0])
	}
}

// checkInjected holds what is true of every training container under a framework.
func checkInjected(t *testing.T, seed uint64, policy *v1alpha1.MLPolicy, container *corev1.Container) {
	t.Helper()
	first := ""
	switch {
	case policy.Torch != nil:
		first = "PET_NNODES"
	case policy.JAX != nil:
		first = "JAX_NUM_PROCESSES"
	case policy.XGBoost != nil:
		first = "DMLC_TRACKER_URI"
	default:
		return
	}
	named := func(e corev1.EnvVar) bool { return e.Name == first }
	if !named(container.Env[0]) || slices.ContainsFunc(container.Env[1:], named) {
		t.Fatalf("seed %d: %s is not once and first", seed, first)
	}
	if !slices.ContainsFunc(container.Ports, func(p corev1.ContainerPort) bool { return p.ContainerPort == 29500 }) {
		t.Fatalf("seed %d: the port of the rendezvous is missing", seed)
	}
	if slices.Equal(container.Command, []string{"tune", "run"}) && policy.Torch != nil && len(container.Args) == 0 {
		t.Fatalf("seed %d: tune run has no recipe", seed)
	}
}

// checkMPI holds what is true of every job under MPI.
func checkMPI(t *testing.T, seed uint64, objects *Objects, policy v1alpha1.MPIMLPolicySource) {
	t.Helper()
	if lines := strings.Count(objects.ConfigMaps[0].Data["hostfile"], "\n"); lines != int(objects.Nodes) {
		t.Fatalf("seed %d: the hostfile names %d nodes of %d", seed, lines, objects.Nodes)
	}
	workers := objects.Nodes
	if ptr.Deref(policy.RunLauncherAsNode, false) {
		workers--
	}
	found := slices.IndexFunc(objects.JobSet.Spec.ReplicatedJobs, func(j jobsetv1alpha2.ReplicatedJob) bool { return j.Name == "node" })
	if (workers > 0) != (found >= 0) {
		t.Fatalf("seed %d: %d workers, and the index of their job is %d", seed, workers, found)
	}
	if workers > 0 && *objects.JobSet.Spec.ReplicatedJobs[found].Template.Spec.Parallelism != workers {
		t.Fatalf("seed %d: there are not %d workers", seed, workers)
	}
	if workers == 0 && strings.Contains(toJSON(t, objects.JobSet.Spec.SuccessPolicy), `"node"`) {
		t.Fatalf("seed %d: the success policy names a job that is left out", seed)
	}
}

// checkGang compares the size of a gang with the pods that say they are in it.
func checkGang(t *testing.T, seed uint64, objects *Objects) {
	t.Helper()
	var members int64
	for _, rjob := range objects.JobSet.Spec.ReplicatedJobs {
		meta := rjob.Template.Spec.Template.ObjectMeta
		if meta.Labels["scheduling.x-k8s.io/pod-group"] == "bert" || meta.Annotations["scheduling.k8s.io/group-name"] == "bert" {
			pods := ptr.Deref(rjob.Template.Spec.Parallelism, 1)
			if rjob.Template.Spec.Completions != nil {
				pods = min(pods, *rjob.Template.Spec.Completions)
			}
			members += int64(max(rjob.Replicas, 1)) * int64(pods)
		}
	}
	if wanted, _, _ := unstructured.NestedInt64(objects.PodGroup.Object, "spec", "minMember"); wanted != members || members == 0 {
		t.Fatalf("seed %d: the gang waits for %d pods, and %d are in it", seed, wanted, members)
	}
}

// scribble overwrites everything an object holds, to find memory it shares with others.
func scribble(object any) { scribbleOn(reflect.ValueOf(object)) }

func scribbleOn(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			scribbleOn(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				scribbleOn(v.Field(i))
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			scribbleOn(v.Index(i))
		}
	case reflect.Map:
		v.Clear()
	case reflect.String:
		v.SetString("scribbled")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(v.Int() + 1)
	}
}
