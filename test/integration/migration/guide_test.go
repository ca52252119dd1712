package migration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
	"github.com/trainjob/controller/test/cluster"
	"github.com/trainjob/controller/test/harness"
	"github.com/trainjob/controller/test/trainerv23"
)

// follow runs the commands of a section. Pods are played here and the controllers are
// processes: where the guide starts or stops this one's Deployment, the process starts and
// stops too.
func follow(t *testing.T, reader harness.Reader, s harness.Section) (output string) {
	t.Helper()
	for _, block := range s.Blocks {
		if strings.Contains(block, "scale deployment trainjob-controller --replicas=0") {
			env.WithoutController(t)
		}
		output += reader.Run(t, block)
		if strings.Contains(block, "kubectl apply -k artifacts/deploy") {
			startWithWebhooks(t)
		}
	}
	return output
}

// startWithWebhooks starts the controller when all else of artifacts/deploy is there. The
// Service of its webhooks would lead to the one process.
func startWithWebhooks(t *testing.T) {
	t.Helper()
	address, err := harness.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // unless the guide has come to it
		out, err := env.TryKubectl(context.Background(), "delete", "-k", artifacts("webhook"), "--ignore-not-found")
		if err := errors.Join(err, env.StopController()); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	if err := errors.Join(env.RedirectWebhooks(t.Context(), address), env.StartController(t.Context(), harness.WebhookFlags(address)...), env.AwaitWebhooks(t.Context())); err != nil {
		t.Fatal(err)
	}
}

// artifacts is a folder of what an admin applies.
func artifacts(name string) string { return filepath.Join(harness.SourceDir(), "artifacts", name) }

// trainersDeployment stands in for that of Trainer's controller.
func trainersDeployment() string {
	return fmt.Sprintf(`apiVersion: v1
kind: Namespace
metadata: {name: kubeflow-system}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: kubeflow-trainer-controller-manager, namespace: kubeflow-system}
spec:
  selector: {matchLabels: {app.kubernetes.io/name: trainer, app.kubernetes.io/component: manager}}
  template:
    metadata: {labels: {app.kubernetes.io/name: trainer, app.kubernetes.io/component: manager}, annotations: {%s: %s}}
    spec: {containers: [{name: manager, image: trainer:test}]}
`, cluster.HoldAnnotation, cluster.HoldRunning)
}

// closedWebhooks are webhooks of Trainer's names that nobody answers and that fail closed.
func closedWebhooks() string {
	var all strings.Builder
	for _, kind := range []struct{ kind, name string }{{"Validating", "validator"}, {"Mutating", "defaulter"}} {
		fmt.Fprintf(&all, `apiVersion: admissionregistration.k8s.io/v1
kind: %sWebhookConfiguration
metadata: {name: %s.trainer.kubeflow.org}
webhooks:
- name: %s.trainjob.trainer.kubeflow.org
  admissionReviewVersions: [v1]
  clientConfig: {url: "https://127.0.0.1:1/"}
  failurePolicy: Fail
  sideEffects: None
  rules: [{apiGroups: [trainer.kubeflow.org], apiVersions: [v1alpha1], operations: [CREATE, UPDATE], resources: [trainjobs]}]
---
`, kind.kind, kind.name, kind.name)
	}
	return all.String()
}

var crds = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// Fields of TrainJob that Trainer v2.3 does not know.
var newSpecFields, newStatusFields = []string{"ttlSecondsAfterFinished"}, []string{"state", "startTime", "completionTime", "nodes", "runtimeSnapshot", "lifecycle"}

// changeCRD changes the version and the schema of one of our CRDs.
func changeCRD(t *testing.T, resource string, change func(version, schema map[string]any)) {
	t.Helper()
	client := env.Dynamic.Resource(crds)
	crd, err := client.Get(t.Context(), resource+"."+trainer.GroupName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	version := versions[0].(map[string]any)
	schema, _, _ := unstructured.NestedMap(version, "schema", "openAPIV3Schema")
	change(version, schema)
	if err := unstructured.SetNestedMap(version, schema, "schema", "openAPIV3Schema"); err != nil {
		t.Fatal(err)
	}
	if err := unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Update(t.Context(), crd, metav1.UpdateOptions{FieldManager: "trainer-installer"}); err != nil {
		t.Fatal(err)
	}
}

// withOlderCRDs takes the fields out of the CRD of TrainJobs that Trainer v2.3 does not
// know, so that they are dropped when somebody writes them, and the rules out of that of
// TrainingRuntimes.
func withOlderCRDs(t *testing.T) {
	t.Helper()
	changeCRD(t, "trainingruntimes", func(_, schema map[string]any) {
		delete(schema["properties"].(map[string]any)["spec"].(map[string]any), "x-kubernetes-validations")
	})
	changeCRD(t, "trainjobs", func(version, schema map[string]any) {
		delete(version, "additionalPrinterColumns")
		for part, fields := range map[string][]string{"spec": newSpecFields, "status": newStatusFields} {
			properties := schema["properties"].(map[string]any)[part].(map[string]any)
			for _, field := range fields {
				if properties["properties"].(map[string]any)[field] == nil {
					t.Fatalf("the CRD has no %s.%s", part, field)
				}
				delete(properties["properties"].(map[string]any), field)
			}
			dropRules(properties, fields)
		}
		dropRules(schema, append(newSpecFields, newStatusFields...))
	})
}

// dropRules takes out the rules of a schema that speak of fields.
func dropRules(schema map[string]any, fields []string) {
	rules, _ := schema["x-kubernetes-validations"].([]any)
	rules = slices.DeleteFunc(rules, func(rule any) bool {
		return slices.ContainsFunc(fields, func(field string) bool { return strings.Contains(fmt.Sprint(rule), "."+field) })
	})
	if len(rules) == 0 {
		delete(schema, "x-kubernetes-validations")
		return
	}
	schema["x-kubernetes-validations"] = rules
}

// knowsState says whether TrainJobs can have a status.state at the moment.
func knowsState(t *testing.T) bool {
	t.Helper()
	crd, err := env.Dynamic.Resource(crds).Get(t.Context(), "trainjobs.trainer.kubeflow.org", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(fmt.Sprint(crd.Object["spec"]), "runtimeSnapshot")
}

// trainersCluster is a cluster with Trainer v2.3 in it, as an admin finds it.
func trainersCluster(t *testing.T, reader harness.Reader) found {
	t.Helper()
	f := found{namespace: leftBehind(t)}
	withOlderCRDs(t)
	t.Cleanup(func() { // for the tests that follow, whatever became of this one
		_, err := env.TryKubectl(context.Background(), "apply", "--server-side", "--force-conflicts", "-k", artifacts("crds"))
		for _, resource := range []string{"validatingwebhookconfiguration/validator", "mutatingwebhookconfiguration/defaulter"} {
			_, failed := env.TryKubectl(context.Background(), "delete", "--ignore-not-found", resource+".trainer.kubeflow.org")
			err = errors.Join(err, failed)
		}
		if err != nil {
			t.Error(err)
		}
	})
	for _, job := range []string{trainerv23.Running, trainerv23.Queued, trainerv23.Finished} {
		leave(t, f.namespace, job, trainerv23.Options{Change: func(object *unstructured.Unstructured) {
			if object.GetKind() == "TrainJob" && job == trainerv23.Queued {
				_ = unstructured.SetNestedField(object.Object, int64(36000), "spec", "activeDeadlineSeconds")
			}
		}})
	}
	if _, err := env.Trainer.TrainerV1alpha1().ClusterTrainingRuntimes().Create(t.Context(),
		builders.ClusterTrainingRuntime(heldByCluster, builders.TorchSpec()), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for name, finalizers := range held {
		f.finalizers(t, name, finalizers...)
	}
	f.leaveUnusable(t)
	f.pods = map[string][]string{trainerv23.Running: uids(awaitPods(t, f.namespace, trainerv23.Running, 2))}
	awaitHeldBack(t, f.namespace, trainerv23.Queued)
	reader.Run(t, "kubectl apply -f - <<EOF\n"+closedWebhooks()+trainersDeployment()+"EOF\n")
	reader.Run(t, "kubectl -n kubeflow-system rollout status deployment kubeflow-trainer-controller-manager --timeout=60s")
	f.uids, f.since = f.now(t), env.AuditNow(t)
	return f
}

// refused says whether the API server refuses to write a TrainJob at the moment.
func (f found) refused(t *testing.T) bool {
	t.Helper()
	_, err := env.Trainer.TrainerV1alpha1().TrainJobs(f.namespace).Patch(t.Context(), trainerv23.Queued, types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"try":"yes"}}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
	return err != nil
}

func TestTheMigrationGuideCanBeFollowedThereAndBack(t *testing.T) {
	reader := env.NewReader(t)
	f := trainersCluster(t, reader)
	before := env.Job(t, f.namespace, trainerv23.Finished)
	if !f.refused(t) {
		t.Fatal("the webhooks of this test do not fail closed")
	}
	after := map[string]func(output string){
		"1. Look, and keep a copy": func(output string) {
			wantInOutput(t, output, f.namespace+"/"+trainerv23.Queued+" created", "deadline 36000s", "resource-in-use")
		},
		"2. Stop Trainer's controller": func(string) {
			if !f.refused(t) {
				t.Error("without the controller its webhooks are not in the way: this test proves nothing about removing them")
			}
		},
		"3. Remove its webhooks and finalizers": func(string) {
			harness.Eventually(t, harness.Soon, func() string {
				if f.refused(t) {
					return "TrainJobs still cannot be written"
				}
				return ""
			})
			for name := range held {
				f.wantDeletable(t, name)
			}
		},
		"4. Install this controller's CRDs": func(string) {
			if !knowsState(t) {
				t.Error("the CRD of TrainJobs has no status.state")
			}
			f.wantUnusable(t)
		},
		"5. Start it": func(string) {
			f.wantSnapshot(t, trainerv23.Running, true)
			f.wantSnapshot(t, trainerv23.Queued, true)
			f.wantUntouched(t, trainerv23.Running)
			f.wantStamped(t, trainerv23.Queued)
		},
		"6. Look whether all went well": func(output string) {
			wantInOutput(t, output, "running-runtime-snapshot", "queued-runtime-snapshot", "Suspended")
			if diff := cmp.Diff(before.Status, env.Job(t, f.namespace, trainerv23.Finished).Status); diff != "" {
				t.Errorf("status of the finished job (-before +after):\n%s", diff)
			}
			f.protectSnapshots(t)
			f.runAndSuspend(t, "ours")
		},
		"The way back": func(string) {
			f.wantBack(t)
		},
	}
	for _, s := range harness.Guide(t, "migrating-from-kubeflow-trainer.md") {
		check, known := after[s.Heading]
		if !known {
			t.Fatalf("the guide has a section %q with commands that this test knows nothing of", s.Heading)
		}
		delete(after, s.Heading)
		check(follow(t, reader, s))
		if t.Failed() {
			t.Fatalf("after section %q", s.Heading)
		}
	}
	for heading := range after {
		t.Errorf("the guide has no section %q", heading)
	}
}

func wantInOutput(t *testing.T, output string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(output, part) {
			t.Errorf("the commands did not print %q:\n%s", part, output)
		}
	}
}

// held are the runtimes that Trainer's finalizer keeps, first or last in their lists or in
// the middle. The one of the cluster is made for this.
var held = map[string][]string{
	"quick":       {inUse, "example.com/other"},
	"mpi":         {"example.com/other", inUse},
	heldByCluster: {"example.com/other", inUse, "example.com/more"},
}

const inUse, heldByCluster = "trainer.kubeflow.org/resource-in-use", "held"

// runtimes of the kind that a runtime which is held has.
func (f found) runtimes(name string) dynamic.ResourceInterface {
	if name == heldByCluster {
		return env.Dynamic.Resource(trainer.SchemeGroupVersion.WithResource("clustertrainingruntimes"))
	}
	return env.Dynamic.Resource(trainer.SchemeGroupVersion.WithResource("trainingruntimes")).Namespace(f.namespace)
}

// finalizers sets those of a runtime.
func (f found) finalizers(t *testing.T, name string, finalizers ...string) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"finalizers": finalizers}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.runtimes(name).Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// wantDeletable checks that Trainer's finalizer is gone from a runtime and those of
// others are not, and that the runtime goes when they do.
func (f found) wantDeletable(t *testing.T, name string) {
	t.Helper()
	runtime, err := f.runtimes(name).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	others := slices.DeleteFunc(slices.Clone(held[name]), func(finalizer string) bool { return finalizer == inUse })
	if diff := cmp.Diff(others, runtime.GetFinalizers()); diff != "" {
		t.Errorf("finalizers of %s (-want +got):\n%s", name, diff)
	}
	f.finalizers(t, name)
	if err := f.runtimes(name).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.runtimes(name).Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("runtime %s has been deleted and is still there: %v", name, err)
	}
}

// protectSnapshots applies the optional policy and waits until it is in force.
func (f found) protectSnapshots(t *testing.T) {
	t.Helper()
	folder := artifacts("admission-policy")
	env.Kubectl(t, "apply", "-k", folder)
	t.Cleanup(func() {
		if out, err := env.TryKubectl(context.Background(), "delete", "-k", folder, "--ignore-not-found"); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	harness.Eventually(t, harness.Soon, func() string {
		if err := f.writeSnapshot(t); err == nil {
			return "the policy is not in force"
		}
		return ""
	})
}

// writeSnapshot rehearses what Trainer does: it creates a snapshot, without the label.
func (f found) writeSnapshot(t *testing.T) error {
	t.Helper()
	job := env.Job(t, f.namespace, trainerv23.Queued)
	snapshot := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "another-runtime-snapshot", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: trainer.SchemeGroupVersion.String(), Kind: trainer.TrainJobKind, Name: job.Name, UID: job.UID}}}}
	_, err := env.Core.CoreV1().ConfigMaps(f.namespace).Create(t.Context(), snapshot, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// unusable is a runtime with two jobs that train, which Trainer accepts.
func (f found) unusable(name string) *trainer.TrainingRuntime {
	runtime := builders.TrainingRuntime(name, builders.PlainSpec())
	runtime.Namespace = f.namespace
	second := runtime.Spec.Template.Spec.ReplicatedJobs[0].DeepCopy()
	second.Name = "second"
	runtime.Spec.Template.Spec.ReplicatedJobs = append(runtime.Spec.Template.Spec.ReplicatedJobs, *second)
	return runtime
}

func (f found) leaveUnusable(t *testing.T) {
	t.Helper()
	runtimes := env.Trainer.TrainerV1alpha1().TrainingRuntimes(f.namespace)
	harness.Eventually(t, harness.Soon, func() string { // the change of a CRD takes a moment
		if _, err := runtimes.Create(t.Context(), f.unusable("unusable"), metav1.CreateOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
}

// wantUnusable checks that the runtime is refused by now, and that the one which is there
// can still be labelled, put right and deleted.
func (f found) wantUnusable(t *testing.T) {
	t.Helper()
	runtimes := env.Trainer.TrainerV1alpha1().TrainingRuntimes(f.namespace)
	harness.Eventually(t, harness.Soon, func() string {
		if _, err := runtimes.Create(t.Context(), f.unusable("another"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); !apierrors.IsInvalid(err) {
			return fmt.Sprintf("a runtime with two jobs that train is not refused: %v", err)
		}
		return ""
	})
	for _, patch := range []string{
		`{"metadata":{"labels":{"a":"b"},"finalizers":["example.com/other"]}}`, `{"metadata":{"finalizers":null}}`,
	} {
		if _, err := runtimes.Patch(t.Context(), "unusable", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Errorf("a runtime from before the CRDs cannot be changed by %s: %v", patch, err)
		}
	}
	runtime, err := runtimes.Get(t.Context(), "unusable", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	runtime.Spec = builders.PlainSpec()
	if _, err := runtimes.Update(t.Context(), runtime, metav1.UpdateOptions{}); err != nil {
		t.Errorf("it cannot be put right: %v", err)
	}
	if err := runtimes.Delete(t.Context(), "unusable", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

// runAndSuspend makes a job of this controller's that has run and is suspended.
func (f found) runAndSuspend(t *testing.T, name string) {
	t.Helper()
	job := builders.TrainJob(name)
	job.Namespace = f.namespace
	env.Create(t, job)
	awaitPods(t, f.namespace, name, 2)
	env.PatchJob(t, f.namespace, name, harness.Suspend)
	awaitPods(t, f.namespace, name, 0)
	awaitHeldBack(t, f.namespace, name)
}

// wantBack checks what Trainer finds when it is brought back: the pods that ran, its own
// JobSets, the snapshots, nothing of the state of this controller, and its webhooks.
func (f found) wantBack(t *testing.T) {
	t.Helper()
	if diff := cmp.Diff(f.pods[trainerv23.Running], uids(pods(t, f.namespace, trainerv23.Running))); diff != "" {
		t.Errorf("pods (-before +after):\n%s", diff)
	}
	now := f.now(t)
	for object, uid := range f.uids {
		if now[object] != uid {
			t.Errorf("%s is another one now, or gone", object)
		}
	}
	if now["ConfigMap ours-runtime-snapshot"] == "" {
		t.Error("the snapshot of a job of ours is gone")
	}
	harness.Eventually(t, harness.Soon, func() string {
		if env.JobSetOf(t, f.namespace, "ours") != nil {
			return "the suspended JobSet that this controller has made is still there"
		}
		return ""
	})
	harness.Eventually(t, harness.Soon, func() string {
		if err := f.writeSnapshot(t); err != nil {
			return fmt.Sprintf("Trainer cannot write snapshots: %v", err)
		}
		return ""
	})
	if knowsState(t) {
		t.Error("the CRD is not Trainer's: it has status.runtimeSnapshot")
	}
	harness.Eventually(t, harness.Soon, func() string {
		if job := env.Job(t, f.namespace, trainerv23.Running); job.Status.State != "" || job.Status.RuntimeSnapshot != nil {
			return fmt.Sprintf("fields that Trainer does not know are still served: %s %v", job.Status.State, job.Status.RuntimeSnapshot)
		}
		if job := env.Job(t, f.namespace, "ours"); job.Spec.RuntimeRef.Name != "torch" {
			return "a job of ours has no runtime"
		}
		if !f.refused(t) {
			return "Trainer's webhooks are not there"
		}
		return ""
	})
	if conditions := env.Job(t, f.namespace, trainerv23.Running).Status.Conditions; len(conditions) > 0 {
		t.Errorf("a running job has the conditions %v, want none, as Trainer leaves it", conditions)
	}
}
