package webhook

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	trainerfake "github.com/trainjob/controller/generated/clientset/versioned/fake"
	trainerlisters "github.com/trainjob/controller/generated/listers/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/metrics"
	"github.com/trainjob/controller/pkg/runtimesnapshot"
	"github.com/trainjob/controller/test/builders"
	"github.com/trainjob/controller/test/fakes"
)

// world is what a handler can read: caches, and an API server that may be ahead.
type world struct {
	cached, live []runtime.Object
	broken       bool // nothing can be read from the API server
	forbidden    bool // neither, because of missing rights
}

type fixture struct {
	handler http.Handler
	trainer *trainerfake.Clientset
	core    *fake.Clientset
}

func (w world) start(t testing.TB) fixture {
	t.Helper()
	indexer := func() cache.Indexer {
		return cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	}
	everywhere, namespaced, configMaps := indexer(), indexer(), indexer()
	for _, object := range w.cached {
		into := configMaps
		switch object.(type) {
		case *trainer.ClusterTrainingRuntime:
			into = everywhere
		case *trainer.TrainingRuntime:
			into = namespaced
		}
		if err := into.Add(object); err != nil {
			t.Fatal(err)
		}
	}
	var ours, core []runtime.Object
	for _, object := range w.live {
		if cm, ok := object.(*corev1.ConfigMap); ok {
			core = append(core, cm)
		} else {
			ours = append(ours, object)
		}
	}
	f := fixture{trainer: fakes.Trainer(ours...), core: fake.NewClientset(core...)}
	if w.forbidden {
		f.trainer.PrependReactor("get", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(action.GetResource().GroupResource(), "torch", errors.New("no right"))
		})
	}
	if w.broken {
		refuse := func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, errors.New("no connection")
		}
		f.trainer.PrependReactor("*", "*", refuse)
		f.core.PrependReactor("*", "*", refuse)
	}
	f.handler = NewHandler(Config{
		Sources: Sources{
			ClusterRuntimes: trainerlisters.NewClusterTrainingRuntimeLister(everywhere),
			Runtimes:        trainerlisters.NewTrainingRuntimeLister(namespaced),
			Snapshots:       corelisters.NewConfigMapLister(configMaps),
			Live:            f.trainer.TrainerV1alpha1(), LiveConfigMaps: f.core.CoreV1(),
		},
		OpaqueKinds: sets.New(trainer.Kind("Opaque")),
		Clock:       clocktesting.NewFakePassiveClock(builders.At(60)),
		Metrics:     metrics.NewWebhook(Paths()...),
	})
	return f
}

// reads counts what was read from the API server.
func (f fixture) reads() int { return len(f.trainer.Actions()) + len(f.core.Actions()) }

// ask sends the review of a create, or of an update if there is an old object.
func (f fixture) ask(t testing.TB, path string, old, object runtime.Object, opts ...func(*admissionv1.AdmissionRequest)) *admissionv1.AdmissionResponse {
	t.Helper()
	raw := func(object runtime.Object) runtime.RawExtension {
		data, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		return runtime.RawExtension{Raw: data}
	}
	resource := strings.ToLower(object.GetObjectKind().GroupVersionKind().Kind) + "s"
	request := &admissionv1.AdmissionRequest{
		UID: "a-review", Namespace: builders.Namespace, Operation: admissionv1.Create, Object: raw(object),
		Resource: metav1.GroupVersionResource{Group: trainer.GroupName, Version: "v1alpha1", Resource: resource},
	}
	if old != nil {
		request.Operation, request.OldObject = admissionv1.Update, raw(old)
	}
	for _, opt := range opts {
		opt(request)
	}
	body, err := json.Marshal(&admissionv1.AdmissionReview{TypeMeta: reviewType, Request: request})
	if err != nil {
		t.Fatal(err)
	}
	return answered(t, post(t, f.handler, path, body), "a-review")
}

// runtimeAt is the cluster's runtime "torch" as of a version, with its trainer job of a
// name.
func runtimeAt(version, job string) *trainer.ClusterTrainingRuntime {
	spec := builders.TorchSpec()
	spec.Template.Spec.ReplicatedJobs[0].Name = job
	made := builders.ClusterTrainingRuntime("torch", spec)
	made.ResourceVersion = version
	return made
}

// patching is a patch that demands a replicatedJob of a name.
func patching(job string) trainer.RuntimePatch {
	return trainer.RuntimePatch{Manager: "example.com/me", TrainingRuntimeSpec: &trainer.TrainingRuntimeSpecPatch{
		Template: &trainer.JobSetTemplatePatch{Spec: &trainer.JobSetSpecPatch{ReplicatedJobs: []trainer.ReplicatedJobPatch{{
			Name: job, Template: &trainer.JobTemplatePatch{Spec: &trainer.JobSpecPatch{Template: &trainer.PodTemplatePatch{
				Spec: &trainer.PodSpecPatch{NodeSelector: map[string]string{"zone": "x"}},
			}}},
		}}}},
	}}
}

func snapshotFor(t testing.TB, job *trainer.TrainJob, of *trainer.ClusterTrainingRuntime) *corev1.ConfigMap {
	t.Helper()
	cm, err := runtimesnapshot.Encode(job, runtimesnapshot.FromClusterTrainingRuntime(of))
	if err != nil {
		t.Fatal(err)
	}
	cm.UID, cm.ResourceVersion = "snapshot-uid", "1"
	return cm
}

func TestCreateIsRefusedOnlyOnWhatTheAPIServerHasNow(t *testing.T) {
	namespaced := builders.TrainingRuntime("torch", builders.TorchSpec())
	cases := map[string]struct {
		world
		job   *trainer.TrainJob
		want  string // part of the refusal, "" if there is none
		reads int
	}{
		"a runtime in the cache is enough": {
			world{cached: []runtime.Object{runtimeAt("1", "node")}, broken: true}, builders.TrainJob("a"), "", 0},
		"a runtime that the cache has not heard of": {
			world{live: []runtime.Object{runtimeAt("1", "node")}}, builders.TrainJob("a"), "", 1},
		"a runtime of the namespace": {
			world{cached: []runtime.Object{namespaced}}, builders.TrainJob("a", builders.Runtime(trainer.TrainingRuntimeKind, "torch")), "", 0},
		"a runtime of the namespace that the cache has not heard of": {
			world{live: []runtime.Object{namespaced}}, builders.TrainJob("a", builders.Runtime(trainer.TrainingRuntimeKind, "torch")), "", 1},
		"a runtime that does not exist": {
			world{}, builders.TrainJob("a"), "spec.runtimeRef.name: Not found", 1},
		"a runtime that was made right a moment ago": {
			world{cached: []runtime.Object{runtimeAt("1", "node")}, live: []runtime.Object{runtimeAt("2", "worker")}},
			builders.TrainJob("a", builders.Patches(patching("worker"))), "", 1},
		"a job that is wrong on the runtime of the cache, which is the newest": {
			world{cached: []runtime.Object{runtimeAt("1", "node")}, live: []runtime.Object{runtimeAt("1", "node")}},
			builders.TrainJob("a", builders.Patches(patching("worker"))), "worker", 1},
		"a runtime that was deleted a moment ago does not matter": {
			world{cached: []runtime.Object{runtimeAt("1", "node")}}, builders.TrainJob("a"), "", 0},
		"an API server that does not answer": {
			world{broken: true}, builders.TrainJob("a"), "cannot read the runtime", 1},
		"without the right to look the cache has to do": {
			world{forbidden: true}, builders.TrainJob("a"), "spec.runtimeRef.name: Not found", 1},
		"a kind that is another controller's": {
			world{broken: true}, builders.TrainJob("a", builders.Runtime("Opaque", "x")), "", 0},
		"a kind that nobody understands": {
			world{broken: true}, builders.TrainJob("a", builders.Runtime("Foo", "x")), "and for builders of their own Opaque.trainer.kubeflow.org: ", 0},
		"no name of a runtime": {
			world{}, builders.TrainJob("a", builders.Runtime(trainer.TrainingRuntimeKind, "")), "spec.runtimeRef.name: Required", 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := tc.start(t)
			response := f.ask(t, PathValidateTrainJob, nil, tc.job)
			if response.Allowed != (tc.want == "") || (tc.want != "" && !strings.Contains(response.Result.Message, tc.want)) {
				t.Errorf("allowed %v, %+v; want %q", response.Allowed, response.Result, tc.want)
			}
			if f.reads() != tc.reads {
				t.Errorf("%d reads from the API server, want %d", f.reads(), tc.reads)
			}
		})
	}
}

func TestUpdatesAreJudgedByTheSnapshot(t *testing.T) {
	suspended := builders.TrainJob("a", builders.Suspended(true))
	snapshot := snapshotFor(t, suspended, runtimeAt("1", "node"))
	foreign := snapshot.DeepCopy()
	foreign.OwnerReferences = nil
	unreadable := snapshot.DeepCopy()
	unreadable.Data["runtime"] = "nonsense"
	runtimeNow := runtimeAt("9", "worker")
	cases := map[string]struct {
		world
		patch string // the replicatedJob that the new patch is of
		want  string
	}{
		"the snapshot counts and not the runtime":                 {world{cached: []runtime.Object{snapshot, runtimeNow}, broken: true}, "node", ""},
		"what the snapshot does not have is refused":              {world{cached: []runtime.Object{snapshot}, live: []runtime.Object{snapshot, runtimeNow}}, "worker", "worker"},
		"a snapshot that the cache has not heard of":              {world{live: []runtime.Object{snapshot, runtimeNow}}, "node", ""},
		"before there is a snapshot the runtime counts":           {world{live: []runtime.Object{runtimeNow}}, "worker", ""},
		"before there is a snapshot a mistake is refused":         {world{live: []runtime.Object{runtimeNow}}, "node", "node"},
		"a ConfigMap of somebody else is no snapshot":             {world{cached: []runtime.Object{foreign}, live: []runtime.Object{foreign, runtimeNow}}, "worker", ""},
		"a snapshot that cannot be read locks nothing":            {world{cached: []runtime.Object{unreadable}, live: []runtime.Object{unreadable}}, "anything", ""},
		"neither snapshot nor runtime locks nothing":              {world{}, "anything", ""},
		"an API server that does not answer locks nothing":        {world{broken: true}, "anything", ""},
		"a snapshot in the cache that the API server cannot give": {world{cached: []runtime.Object{snapshot}, broken: true}, "node", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			job := suspended.DeepCopy()
			job.Spec.RuntimePatches = []trainer.RuntimePatch{patching(tc.patch)}
			response := tc.start(t).ask(t, PathValidateTrainJob, suspended, job)
			if response.Allowed != (tc.want == "") || (tc.want != "" && !strings.Contains(response.Result.Message, tc.want)) {
				t.Errorf("allowed %v, %+v; want %q", response.Allowed, response.Result, tc.want)
			}
		})
	}
}

func TestWhatNeedsNoReadingReadsNothing(t *testing.T) {
	f := world{broken: true}.start(t)
	job := builders.TrainJob("a", builders.Patches(patching("node")))
	suspended := job.DeepCopy()
	suspended.Spec.Suspend = new(bool)
	*suspended.Spec.Suspend = true
	deleted := job.DeepCopy()
	deleted.DeletionTimestamp = &metav1.Time{Time: builders.At(1)}
	deleted.Spec.RuntimeRef.Name = "another"
	for name, object := range map[string]*trainer.TrainJob{"suspend": suspended, "nothing": job, "deleted": deleted} {
		if response := f.ask(t, PathValidateTrainJob, job, object); !response.Allowed {
			t.Errorf("%s: %+v", name, response.Result)
		}
	}
	if f.reads() > 0 {
		t.Errorf("%d reads", f.reads())
	}
}

func TestOtherRequestsPass(t *testing.T) {
	f := world{broken: true}.start(t)
	wrong := builders.TrainJob("a", builders.Runtime("Foo", ""))
	for _, path := range Paths() {
		for name, change := range map[string]func(*admissionv1.AdmissionRequest){
			"delete":       func(r *admissionv1.AdmissionRequest) { r.Operation = admissionv1.Delete },
			"connect":      func(r *admissionv1.AdmissionRequest) { r.Operation = admissionv1.Connect },
			"status":       func(r *admissionv1.AdmissionRequest) { r.SubResource = "status" },
			"no operation": func(r *admissionv1.AdmissionRequest) { r.Operation = "" },
		} {
			if response := f.ask(t, path, nil, wrong, change); !response.Allowed || response.Patch != nil {
				t.Errorf("%s at %s: %+v", name, path, response)
			}
		}
		response := f.ask(t, path, nil, wrong, func(r *admissionv1.AdmissionRequest) {
			r.Resource = metav1.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}
		})
		if response.Allowed || !strings.Contains(response.Result.Message, "correct the rules of the webhook configuration") {
			t.Errorf("a Job at %s: %+v", path, response.Result)
		}
	}
}

func TestWhatCannotBeDecoded(t *testing.T) {
	f := world{}.start(t)
	for _, raw := range []string{`null`, `[]`, `{}`, `{"apiVersion":"trainer.kubeflow.org/v1alpha1","kind":"TrainingRuntime"}`,
		`{"apiVersion":"trainer.kubeflow.org/v1alpha1","kind":"TrainJob","spec":{"trainer":{"numNodes":"two"}}}`} {
		change := func(r *admissionv1.AdmissionRequest) { r.Object = runtime.RawExtension{Raw: []byte(raw)} }
		if response := f.ask(t, PathMutateTrainJob, nil, builders.TrainJob("a"), change); !response.Allowed || response.Patch != nil {
			t.Errorf("%s is not left to the API server's own words: %+v", raw, response)
		}
		if response := f.ask(t, PathValidateTrainJob, nil, builders.TrainJob("a"), change); response.Allowed || response.Result.Code != http.StatusBadRequest {
			t.Errorf("%s: %+v", raw, response)
		}
	}
}

func TestFillInPatchesOnlyWhatItSets(t *testing.T) {
	f := world{}.start(t)
	now := metav1.NewTime(builders.At(60)).UTC().Format(time.RFC3339)
	job := builders.TrainJob("a", builders.TTL(60), builders.Patches(patching("node")))
	stamped := job.DeepCopy()
	stamped.Spec.RuntimePatches[0].Time = &metav1.Time{Time: builders.At(60)}
	dropped := stamped.DeepCopy()
	dropped.Spec.TTLSecondsAfterFinished = nil
	cases := map[string]struct {
		old, job *trainer.TrainJob
		patch    string
		warnings int
	}{
		"create":              {nil, job, fmt.Sprintf(`[{"op":"add","path":"/spec/runtimePatches/0/time","value":%q}]`, now), 0},
		"asked again":         {nil, stamped, "", 0},
		"nothing changes":     {stamped, stamped, "", 0},
		"a limit was dropped": {stamped, dropped, `[{"op":"add","path":"/spec/ttlSecondsAfterFinished","value":60}]`, 1},
		"a job that is being deleted": {stamped, func() *trainer.TrainJob {
			deleted := dropped.DeepCopy()
			deleted.DeletionTimestamp = &metav1.Time{Time: builders.At(1)}
			return deleted
		}(), "", 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var old runtime.Object
			if tc.old != nil {
				old = tc.old
			}
			response := f.ask(t, PathMutateTrainJob, old, tc.job)
			if !response.Allowed || len(response.Warnings) != tc.warnings {
				t.Errorf("allowed %v, warnings %q", response.Allowed, response.Warnings)
			}
			if diff := cmp.Diff(tc.patch, string(response.Patch)); diff != "" {
				t.Errorf("patch (-want +got):\n%s", diff)
			}
		})
	}
}

// Kueue reads a job with types of its own and writes all of it back.
func TestAQueuesWayOfWritingAPatchChangesNothing(t *testing.T) {
	f := world{}.start(t)
	object := func(suspend bool, podOfUser, entryOfKueue string) runtime.RawExtension {
		return runtime.RawExtension{Raw: fmt.Appendf(nil, `{"apiVersion":"trainer.kubeflow.org/v1alpha1","kind":"TrainJob","metadata":{"name":"a","namespace":"default","labels":{"kueue.x-k8s.io/queue-name":"q"}},
			"spec":{"suspend":%v,"runtimeRef":{"name":"torch"},"runtimePatches":[{"manager":"example.com/me","time":"2026-03-01T12:01:00Z","trainingRuntimeSpec":%s}%s]}}`, suspend, inPod(podOfUser), entryOfKueue)}
	}
	const written = `{"securityContext":{"supplementalGroups":[]},"containers":[{"name":"node","volumeMounts":[{"name":"v","mountPath":"/v","readOnly":false}]}]}`
	const asGo = `{"securityContext":{},"containers":[{"name":"node","volumeMounts":[{"name":"v","mountPath":"/v"}]}]}`
	const other = `{"securityContext":{"fsGroup":1},"containers":[{"name":"node","volumeMounts":[{"name":"v","mountPath":"/v"}]}]}`
	const kueue = `,{"manager":"kueue.x-k8s.io/manager","time":"2026-03-01T12:01:00Z"}`
	for name, tc := range map[string]struct{ old, job, entry, want string }{
		"what Go drops is kept":                     {written, asGo, kueue, inPod(written)},
		"a change is one":                           {written, other, kueue, inPod(other)},
		"what was written so is not patched":        {written, written, kueue, inPod(written)},
		"kept also where Kueue's entry is put back": {written, asGo, "", inPod(written)},
	} {
		t.Run(name, func(t *testing.T) {
			new := object(false, tc.job, tc.entry)
			response := f.ask(t, PathMutateTrainJob, builders.TrainJob("a"), builders.TrainJob("a"), func(r *admissionv1.AdmissionRequest) {
				r.OldObject, r.Object = object(true, tc.old, kueue), new
			})
			applied := new.Raw
			if response.Patch != nil {
				patch, err := jsonpatch.DecodePatch(response.Patch)
				if err != nil {
					t.Fatal(err)
				}
				if applied, err = patch.Apply(new.Raw); err != nil {
					t.Fatalf("%s: %v", response.Patch, err)
				}
			}
			var got struct {
				Spec struct {
					RuntimePatches []struct {
						Manager             string
						TrainingRuntimeSpec json.RawMessage
					}
				}
			}
			if err := json.Unmarshal(applied, &got); err != nil {
				t.Fatal(err)
			}
			if patches := got.Spec.RuntimePatches; len(patches) != 2 || patches[1].Manager != "kueue.x-k8s.io/manager" || !jsonpatch.Equal([]byte(tc.want), patches[0].TrainingRuntimeSpec) {
				t.Errorf("after %s the patches are\n%s\nwant\n%s", response.Patch, applied, tc.want)
			}
		})
	}
}

// inPod writes a patch of the pods of job node.
func inPod(pod string) string {
	return `{"template":{"spec":{"replicatedJobs":[{"name":"node","template":{"spec":{"template":{"spec":` + pod + `}}}}]}}}`
}

func TestRefusalsCarryWhatKubectlShows(t *testing.T) {
	response := world{}.start(t).ask(t, PathValidateTrainJob, nil, builders.TrainJob("a"))
	status := response.Result
	if status.Code != http.StatusUnprocessableEntity || status.Reason != metav1.StatusReasonInvalid || status.Details == nil ||
		status.Details.Kind != trainer.TrainJobKind || status.Details.Name != "a" || len(status.Details.Causes) != 1 ||
		status.Details.Causes[0].Field != "spec.runtimeRef.name" {
		t.Errorf("status %+v, details %+v", status, status.Details)
	}
}

func TestRuntimesOfBothKinds(t *testing.T) {
	f := world{}.start(t)
	wrong := builders.TorchSpec()
	wrong.Template.Spec.ReplicatedJobs[0].Template.Spec.Template.Spec.Containers[0].Name = "other"
	for name, tc := range map[string]struct{ right, wrong runtime.Object }{
		"TrainingRuntime":        {builders.TrainingRuntime("torch", builders.TorchSpec()), builders.TrainingRuntime("torch", wrong)},
		"ClusterTrainingRuntime": {builders.ClusterTrainingRuntime("torch", builders.TorchSpec()), builders.ClusterTrainingRuntime("torch", wrong)},
	} {
		t.Run(name, func(t *testing.T) {
			for what, ask := range map[string]struct {
				old, object runtime.Object
				allowed     bool
			}{
				"a right one":                  {nil, tc.right, true},
				"a wrong one":                  {nil, tc.wrong, false},
				"one that becomes wrong":       {tc.right, tc.wrong, false},
				"one that becomes right":       {tc.wrong, tc.right, true},
				"a label on one that is wrong": {tc.wrong, tc.wrong, true},
			} {
				response := f.ask(t, PathValidateRuntime, ask.old, ask.object)
				if response.Allowed != ask.allowed {
					t.Errorf("%s: allowed %v, %+v", what, response.Allowed, response.Result)
				}
				if !ask.allowed && response.Result.Details.Kind != name {
					t.Errorf("%s is called a %s", what, response.Result.Details.Kind)
				}
			}
		})
	}
}
