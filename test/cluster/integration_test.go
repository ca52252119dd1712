package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	jobsetclient "sigs.k8s.io/jobset/client-go/clientset/versioned"
)

const namespace = metav1.NamespaceDefault

// stack is a full stack and the clients of the tests below.
type stack struct {
	*Cluster
	kube    kubernetes.Interface
	jobsets jobsetclient.Interface
}

func TestFullStack(t *testing.T) {
	s := startStack(t)
	pids := s.Pids()
	if len(pids) != 6 {
		t.Fatalf("processes %v, want all six components", pids)
	}
	t.Run("objects", func(t *testing.T) {
		// The parallel tests end before this function returns.
		t.Run("a JobSet with two pods completes", func(t *testing.T) { t.Parallel(); s.testCompletion(t) })
		t.Run("a held pod runs until it is let go", func(t *testing.T) { t.Parallel(); s.testHold(t) })
		t.Run("a pod may fail once and succeed after the restart", func(t *testing.T) { t.Parallel(); s.testFailingAttempt(t) })
		t.Run("the exit code of an init container fails the Job", func(t *testing.T) { t.Parallel(); s.testInitExitCode(t) })
		t.Run("a deleted JobSet takes its running pods along", func(t *testing.T) { t.Parallel(); s.testDeletion(t) })
		t.Run("the garbage collector knows a custom resource at once", func(t *testing.T) { t.Parallel(); s.testCustomOwner(t) })
		t.Run("a user without rights is refused", func(t *testing.T) { t.Parallel(); s.testRBAC(t) })
	})
	t.Run("the JobSet controller and the nodes can be stopped and started", s.testStopComponent)
	if t.Failed() {
		for _, name := range s.opts.components() {
			t.Logf("the end of the log of %s:\n%s", name, tail(s.LogFile(name), 0))
		}
	}

	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	for name, pid := range pids {
		if runs(pid, filepath.Join(s.binDir, string(name)), s.dir) {
			t.Errorf("%s (pid %d) still runs", name, pid)
		}
	}
	if _, err := os.Stat(s.dir); !os.IsNotExist(err) {
		t.Errorf("the folder is still there: %v", err)
	}
}

func TestClustersStartSideBySide(t *testing.T) {
	skipIfShort(t)
	for i := range 3 {
		t.Run(fmt.Sprint("cluster ", i), func(t *testing.T) {
			t.Parallel()
			opts := APIServerOnly()
			opts.Out = t.Output()
			c, err := Start(testContext(t), opts)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { stop(t, c) })
			// A name from another cluster would be found already there.
			client := kubernetes.NewForConfigOrDie(c.RESTConfig())
			_, err = client.CoreV1().Namespaces().Create(testContext(t), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "mine"}}, metav1.CreateOptions{})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

func TestPersistentClusterIsFoundAgain(t *testing.T) {
	skipIfShort(t)
	ctx := testContext(t)
	opts := Options{Dir: filepath.Join(t.TempDir(), "cluster"), Persistent: true, Out: t.Output()}
	started, err := Start(ctx, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, started) })
	if _, err := Start(ctx, opts); err == nil {
		t.Error("a second cluster started in the same folder")
	}
	loaded, err := Load(opts.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(started.Pids(), loaded.Pids()); diff != "" {
		t.Errorf("processes (-started +loaded):\n%s", diff)
	}
	if _, err := kubernetes.NewForConfigOrDie(loaded.RESTConfig()).Discovery().ServerVersion(); err != nil {
		t.Error(err)
	}
	if err := loaded.StopComponent(Etcd); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(opts.Dir); !errors.Is(err, ErrNotRunning) {
		t.Errorf("Load without etcd: %v, want ErrNotRunning", err)
	}
	resumed, err := Resume(ctx, opts.Dir, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	if resumed.Pids()[Etcd] == started.Pids()[Etcd] || resumed.Pids()[APIServer] != started.Pids()[APIServer] {
		t.Errorf("processes %v after %v, want etcd alone to be new", resumed.Pids(), started.Pids())
	}
	if err := Remove(opts.Dir); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(opts.Dir); !errors.Is(err, ErrNotRunning) {
		t.Errorf("Load after Remove: %v, want ErrNotRunning", err)
	}
	for name, pid := range resumed.Pids() {
		if runs(pid, filepath.Join(started.binDir, string(name)), started.dir) {
			t.Errorf("%s (pid %d) still runs", name, pid)
		}
	}
}

func TestFailedStartShowsTheLogAndLeavesNothing(t *testing.T) {
	skipIfShort(t)
	var out bytes.Buffer
	opts := APIServerOnly()
	opts.Dir, opts.Out = t.TempDir(), &out
	opts.APIServerFlags = []string{"--no-such-flag"}
	_, err := Start(testContext(t), opts)
	if err == nil || !strings.Contains(err.Error(), "no-such-flag") {
		t.Errorf("error %v does not show why", err)
	}
	left, err := open(opts.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if pids := left.Pids(); len(pids) != 0 {
		t.Errorf("processes %v are left", pids)
	}
}

func TestOwnerReferencesNeedRightsWhereTheyAreEnforced(t *testing.T) {
	skipIfShort(t)
	ctx := testContext(t)
	opts := APIServerOnly()
	opts.EnforceOwnerReferences, opts.Out = true, t.Output()
	c, err := Start(ctx, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, c) })
	if err := c.Apply(ctx, filepath.Join("testdata", "rbac.yaml")); err != nil {
		t.Fatal(err)
	}
	config, err := c.RESTConfigFor("ann", "widget-makers")
	if err != nil {
		t.Fatal(err)
	}
	maps := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps(namespace)
	reference := metav1.OwnerReference{APIVersion: "batch/v1", Kind: "Job", Name: "owner", UID: "1", BlockOwnerDeletion: ptr.To(true)}
	create := func() error {
		_, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			GenerateName: "owned-", OwnerReferences: []metav1.OwnerReference{reference},
		}}, metav1.CreateOptions{})
		return err
	}
	if err := create(); !apierrors.IsForbidden(err) {
		t.Errorf("create with blockOwnerDeletion: %v, want Forbidden", err)
	}
	reference.BlockOwnerDeletion = nil
	if err := create(); err != nil {
		t.Errorf("create without blockOwnerDeletion: %v", err)
	}
}

func (s *stack) testCompletion(t *testing.T) {
	ctx := testContext(t)
	s.create(t, jobSet("completes", nil))
	s.awaitTerminalState(t, "completes", jobsetv1alpha2.JobSetCompleted)
	bindings, err := s.AuditEvents(ctx, 0, AuditFilter{
		User: "system:kube-scheduler", Resource: "pods/binding", Writes: true,
		Match: func(e AuditEvent) bool { return e.Code == 201 && strings.HasPrefix(e.Name, "completes-") },
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(bindings) != 2 {
		t.Errorf("the audit log has %d bindings of pods, want 2: %v", len(bindings), bindings)
	}
}

func (s *stack) testHold(t *testing.T) {
	ctx := testContext(t)
	s.create(t, jobSet("held", map[string]string{HoldAnnotation: HoldRunning}))
	pods := s.awaitPods(t, "held", func(p corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	// Longer than the pods would run by themselves, so that they had their chance.
	err := poll(withTimeout(t, 2500*time.Millisecond), 100*time.Millisecond, func(ctx context.Context) (bool, error) {
		js, err := s.jobsets.JobsetV1alpha2().JobSets(namespace).Get(ctx, "held", metav1.GetOptions{})
		return err == nil && js.Status.TerminalState != "", nil
	})
	if err == nil {
		t.Error("the JobSet ended although its pods are held")
	}
	for _, pod := range pods {
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, HoldAnnotation)
		if _, err := s.kube.CoreV1().Pods(namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	s.awaitTerminalState(t, "held", jobsetv1alpha2.JobSetCompleted)
}

func (s *stack) testFailingAttempt(t *testing.T) {
	js := jobSet("fails-once", map[string]string{ExitCodeAnnotation: "3", FailingAttemptsAnnotation: "1"})
	js.Spec.FailurePolicy = &jobsetv1alpha2.FailurePolicy{MaxRestarts: 2}
	js.Spec.ReplicatedJobs[0].Template.Spec.BackoffLimit = ptr.To[int32](0)
	s.create(t, js)
	if got := s.awaitTerminalState(t, js.Name, jobsetv1alpha2.JobSetCompleted).Status.Restarts; got != 1 {
		t.Errorf("%d restarts, want 1", got)
	}
}

func (s *stack) testInitExitCode(t *testing.T) {
	js := jobSet("init-fails", map[string]string{InitExitCodeAnnotation: "30"})
	spec := &js.Spec.ReplicatedJobs[0].Template.Spec
	spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	spec.Template.Spec.InitContainers = []corev1.Container{{Name: "check", Image: "none"}}
	spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
		Action: batchv1.PodFailurePolicyActionFailJob,
		OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
			ContainerName: ptr.To("check"), Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{30},
		},
	}}}
	s.create(t, js)
	s.awaitTerminalState(t, js.Name, jobsetv1alpha2.JobSetFailed)
}

func (s *stack) testDeletion(t *testing.T) {
	ctx := testContext(t)
	s.create(t, jobSet("deleted", map[string]string{HoldAnnotation: HoldRunning}))
	s.awaitPods(t, "deleted", func(p corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	if err := s.jobsets.JobsetV1alpha2().JobSets(namespace).Delete(ctx, "deleted", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.eventually(t, "the pods are gone", func(ctx context.Context) (bool, error) {
		pods, err := s.pods(ctx, "deleted")
		return len(pods) == 0, err
	})
}

// testCustomOwner deletes in the foreground: that the owner waits for its
// dependents is something the garbage collector sees only by watching its kind.
func (s *stack) testCustomOwner(t *testing.T) {
	ctx := testContext(t)
	client := dynamic.NewForConfigOrDie(s.RESTConfig()).
		Resource(schema.GroupVersionResource{Group: "test.trainjob.local", Version: "v1", Resource: "widgets"}).Namespace(namespace)
	owner := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "test.trainjob.local/v1", "kind": "Widget", "metadata": map[string]any{"name": "owner"},
	}}
	owner, err := client.Create(ctx, owner, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	maps := s.kube.CoreV1().ConfigMaps(namespace)
	_, err = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name:            "owned",
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, owner.GroupVersionKind())},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Delete(ctx, "owner", metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationForeground)}); err != nil {
		t.Fatal(err)
	}
	err = poll(withTimeout(t, 10*time.Second), 100*time.Millisecond, func(ctx context.Context) (bool, error) {
		_, ownerErr := client.Get(ctx, "owner", metav1.GetOptions{})
		_, ownedErr := maps.Get(ctx, "owned", metav1.GetOptions{})
		return apierrors.IsNotFound(ownerErr) && apierrors.IsNotFound(ownedErr), nil
	})
	if err != nil {
		t.Error("a deleted custom resource and its dependent are not collected within 10 s")
	}
}

func (s *stack) testRBAC(t *testing.T) {
	ctx := testContext(t)
	config, err := s.RESTConfigFor("nobody")
	if err != nil {
		t.Fatal(err)
	}
	config.UserAgent = "stranger/1"
	_, err = kubernetes.NewForConfigOrDie(config).CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("error %v, want Forbidden", err)
	}
	events, err := s.AuditEvents(ctx, 0, AuditFilter{User: "nobody", UserAgentPrefix: "stranger/"})
	if err != nil {
		t.Fatal(err)
	}
	if len(events) != 1 || events[0].Verb != "list" || events[0].Resource != "secrets" || events[0].Code != 403 {
		t.Errorf("audit events %+v, want one refused list of secrets", events)
	}
}

func (s *stack) testStopComponent(t *testing.T) {
	ctx := testContext(t)
	if err := s.SetJobSetWebhooks(ctx, false); err != nil {
		t.Fatal(err)
	}
	for _, name := range []Component{JobSet, Kwok} {
		if err := s.StopComponent(name); err != nil {
			t.Fatal(err)
		}
		if err := s.StartComponent(ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.SetJobSetWebhooks(ctx, true); err != nil {
		t.Fatal(err)
	}
	s.create(t, jobSet("after-restart", nil))
	s.awaitTerminalState(t, "after-restart", jobsetv1alpha2.JobSetCompleted)
}

func startStack(t *testing.T) *stack {
	t.Helper()
	skipIfShort(t)
	opts := FullStack()
	opts.Out = t.Output()
	opts.AuditLog = true
	opts.CRDDirs = []string{filepath.Join("testdata", "crds")}
	c, err := Start(testContext(t), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, c) })
	return &stack{
		Cluster: c,
		kube:    kubernetes.NewForConfigOrDie(c.RESTConfig()),
		jobsets: jobsetclient.NewForConfigOrDie(c.RESTConfig()),
	}
}

func stop(t *testing.T, c *Cluster) {
	if err := c.Stop(); err != nil {
		t.Error(err)
	}
}

func skipIfShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a control plane")
	}
}

// jobSet has one Job of two pods that carry annotations.
func jobSet(name string, annotations map[string]string) *jobsetv1alpha2.JobSet {
	return &jobsetv1alpha2.JobSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: jobsetv1alpha2.JobSetSpec{ReplicatedJobs: []jobsetv1alpha2.ReplicatedJob{{
			Name: "node", Replicas: 1,
			Template: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{
				Parallelism: ptr.To[int32](2), Completions: ptr.To[int32](2),
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Annotations: annotations},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "node", Image: "none"}}},
				},
			}},
		}}},
	}
}

func (s *stack) create(t *testing.T, js *jobsetv1alpha2.JobSet) {
	t.Helper()
	if _, err := s.jobsets.JobsetV1alpha2().JobSets(namespace).Create(testContext(t), js, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (s *stack) awaitTerminalState(t *testing.T, name string, want jobsetv1alpha2.JobSetConditionType) *jobsetv1alpha2.JobSet {
	t.Helper()
	var last *jobsetv1alpha2.JobSet
	s.eventually(t, fmt.Sprintf("JobSet %s is %s", name, want), func(ctx context.Context) (bool, error) {
		js, err := s.jobsets.JobsetV1alpha2().JobSets(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		last = js
		if state := js.Status.TerminalState; state != "" && state != string(want) {
			return false, fmt.Errorf("it is %s", state)
		}
		return js.Status.TerminalState == string(want), nil
	})
	return last
}

func (s *stack) pods(ctx context.Context, jobSet string) ([]corev1.Pod, error) {
	list, err := s.kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: jobsetv1alpha2.JobSetNameKey + "=" + jobSet})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// awaitPods waits until both pods of a JobSet are as they should.
func (s *stack) awaitPods(t *testing.T, jobSet string, good func(corev1.Pod) bool) []corev1.Pod {
	t.Helper()
	var last []corev1.Pod
	s.eventually(t, "the pods of "+jobSet, func(ctx context.Context) (bool, error) {
		pods, err := s.pods(ctx, jobSet)
		last = pods
		count := 0
		for _, pod := range pods {
			if good(pod) {
				count++
			}
		}
		return count == 2, err
	})
	return last
}

func (s *stack) eventually(t *testing.T, what string, probe func(context.Context) (bool, error)) {
	t.Helper()
	if err := poll(withTimeout(t, time.Minute), 100*time.Millisecond, probe); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func withTimeout(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(testContext(t), d)
	t.Cleanup(cancel)
	return ctx
}
