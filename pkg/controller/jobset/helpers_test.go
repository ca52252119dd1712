package jobset

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/render"
	"github.com/trainjob/controller/pkg/render/framework"
	"github.com/trainjob/controller/pkg/runtimesnapshot"
	"github.com/trainjob/controller/test/builders"
)

var groupResource = schema.GroupVersionResource{Group: "scheduling.x-k8s.io", Version: "v1alpha1", Resource: "podgroups"}

// needy is a runtime of which a JobSet needs every helper there is.
func needy() trainer.TrainingRuntimeSpec {
	spec := builders.MPISpec()
	spec.PodGroupPolicy = &trainer.PodGroupPolicy{PodGroupPolicySource: trainer.PodGroupPolicySource{
		Coscheduling: &trainer.CoschedulingPodGroupPolicySource{}}}
	return spec
}

// needyFixture has a job and its snapshot of such a runtime.
func needyFixture(t *testing.T, job *trainer.TrainJob) *fixture {
	t.Helper()
	f := newFixture(t, job)
	cm, err := runtimesnapshot.Encode(job, runtimesnapshot.FromClusterTrainingRuntime(builders.ClusterTrainingRuntime("mpi", needy())))
	if err != nil {
		t.Fatal(err)
	}
	f.cached("configmaps", cm)
	return f
}

// podGroup of the job's name, with the spec that the runtime asks for unless given.
func podGroup(owner *trainer.TrainJob, spec map[string]any) *unstructured.Unstructured {
	if spec == nil {
		spec = map[string]any{"minMember": int64(3), "scheduleTimeoutSeconds": int64(60), "filledIn": true}
	}
	group := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "spec": spec}}
	group.SetName("a")
	group.SetNamespace(builders.Namespace)
	group.SetUID("group-uid")
	if owner != nil {
		group.SetOwnerReferences(builders.JobSetOf(owner).OwnerReferences)
	}
	return group
}

func hostfile(owner *trainer.TrainJob, text string) *corev1.ConfigMap {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a-mpi-hostfile", Namespace: builders.Namespace}, Data: map[string]string{"hostfile": text}}
	if owner != nil {
		cm.OwnerReferences = builders.JobSetOf(owner).OwnerReferences
	}
	return cm
}

func (f *fixture) hasGroup(group *unstructured.Unstructured) {
	f.t.Helper()
	if err := f.podGroups.Tracker().Create(groupResource, group, group.GetNamespace()); err != nil {
		f.t.Fatal(err)
	}
}

func TestSyncMakesTheHelpersBeforeTheJobSet(t *testing.T) {
	f := needyFixture(t, builders.TrainJob("a"))
	if _, err := f.sync(); err != nil {
		t.Fatal(err)
	}
	f.wantWrites("create podgroups", "create configmaps", "create secrets", "create jobsets", "patch trainjobs/status")
	cm, err := f.core.CoreV1().ConfigMaps(builders.Namespace).Get(t.Context(), "a-mpi-hostfile", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("a-node-0-0.a slots=1\na-node-0-1.a slots=1\n", cm.Data["hostfile"]); diff != "" {
		t.Errorf("hostfile (-want +got):\n%s", diff)
	}
	secret, err := f.core.CoreV1().Secrets(builders.Namespace).Get(t.Context(), "a-mpi-ssh-a-uid", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !*secret.Immutable || secret.Type != corev1.SecretTypeSSHAuth {
		t.Errorf("the Secret has type %s, immutable %v", secret.Type, *secret.Immutable)
	}
	checkKeyPair(t, secret.Data)
}

// checkKeyPair reads the keys as ssh does.
func checkKeyPair(t *testing.T, data map[string][]byte) {
	t.Helper()
	signer, err := ssh.ParsePrivateKey(data[corev1.SSHAuthPrivateKey])
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(ssh.MarshalAuthorizedKey(signer.PublicKey())), string(data["ssh-publickey"])); diff != "" {
		t.Errorf("the public key is another one's (-want +got):\n%s", diff)
	}
	block, _ := pem.Decode(data[corev1.SSHAuthPrivateKey])
	if _, err := x509.ParseECPrivateKey(block.Bytes); err != nil {
		t.Error(err)
	}
}

func TestKeysOfAnUnknownKindAreNotMade(t *testing.T) {
	h := &helperWriter{}
	trouble := h.ensureKeys(t.Context(), builders.TrainJob("a"), &render.KeySecret{Secret: &corev1.Secret{}, Kind: framework.KeyKind("x")})
	if trouble == nil || trouble.err == nil {
		t.Errorf("got %v", trouble)
	}
}

func TestEveryJobHasKeysOfItsOwn(t *testing.T) {
	for kind, key := range map[framework.KeyKind]string{framework.KeysSSH: framework.SSHPublicKey, framework.KeysCurve: framework.CurveCertificate} {
		t.Run(string(kind), func(t *testing.T) {
			wanted := &render.KeySecret{Secret: &corev1.Secret{}, Kind: kind}
			a, errA := withKeys(wanted)
			b, errB := withKeys(wanted)
			if errA != nil || errB != nil {
				t.Fatal(errA, errB)
			}
			if string(a.Data[key]) == string(b.Data[key]) || len(a.Data[key]) == 0 || wanted.Secret.Data != nil {
				t.Error("two Secrets share a key, or the template holds one")
			}
		})
	}
}

func TestCurveCertificate(t *testing.T) {
	// The example of ZeroMQ's RFC 32.
	if got := z85([]byte{0x86, 0x4F, 0xD2, 0x6F, 0xB5, 0x59, 0xF7, 0x5B}); got != "HelloWorld" {
		t.Errorf("z85 writes %s, want HelloWorld", got)
	}
	certificate, err := newCurveCertificate("a")
	if err != nil {
		t.Fatal(err)
	}
	form := regexp.MustCompile(`^metadata\n    name = "a"\ncurve\n    public-key = "[^"]{40}"\n    secret-key = "[^"]{40}"\n$`)
	if !form.Match(certificate) {
		t.Errorf("the certificate is\n%s", certificate)
	}
}

func TestHelpersThatExistAlready(t *testing.T) {
	job := builders.TrainJob("a")
	older := builders.TrainJob("a", builders.UID("older"))
	const right = "a-node-0-0.a slots=1\na-node-0-1.a slots=1\n"
	going := hostfile(job, right)
	going.DeletionTimestamp, going.Finalizers = &metav1.Time{Time: builders.At(9)}, []string{"test/hold"}
	cases := map[string]struct {
		group    *unstructured.Unstructured
		hostfile *corev1.ConfigMap
		cached   bool
		want     []string // writes before the status
		after    time.Duration
		message  string
	}{
		"its own are right as they are": {podGroup(job, nil), hostfile(job, right), false,
			[]string{"create podgroups", "create configmaps", "create secrets", "create jobsets"}, 0, ""},
		"a ConfigMap that the cache shows is not created again": {podGroup(job, nil), hostfile(job, right), true,
			[]string{"create podgroups", "create secrets", "create jobsets"}, 0, ""},
		"its own from another snapshot are brought up to date": {podGroup(job, map[string]any{"minMember": int64(9)}), hostfile(job, "old"), false,
			[]string{"create podgroups", "update podgroups", "create configmaps", "patch configmaps", "create secrets", "create jobsets"}, 0, ""},
		"a stranger's group": {podGroup(nil, nil), nil, false, []string{"create podgroups"}, 10 * time.Second,
			`PodGroup "a" exists and does not belong to this TrainJob`},
		"a stranger's ConfigMap": {nil, hostfile(nil, right), false, []string{"create podgroups", "create configmaps"}, 10 * time.Second,
			`ConfigMap "a-mpi-hostfile" exists and does not belong to this TrainJob`},
		"an earlier job's group": {podGroup(older, nil), nil, false, []string{"create podgroups"}, lookAgain,
			`waiting until PodGroup "a" of an earlier TrainJob of this name is gone`},
		"an earlier job's ConfigMap": {nil, hostfile(older, right), false, []string{"create podgroups", "create configmaps"}, lookAgain,
			`waiting until ConfigMap "a-mpi-hostfile" of an earlier TrainJob`},
		"one that is going away": {nil, going, false, []string{"create podgroups", "create configmaps"}, lookAgain,
			"the JobSet is about to be created"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := needyFixture(t, job)
			if tc.group != nil {
				f.hasGroup(tc.group)
			}
			if tc.hostfile != nil {
				if err := f.core.Tracker().Add(tc.hostfile); err != nil {
					t.Fatal(err)
				}
			}
			if tc.cached {
				f.cached("configmaps", tc.hostfile)
			}
			result, err := f.sync()
			if err != nil {
				t.Fatal(err)
			}
			f.wantWrites(append(tc.want, "patch trainjobs/status")...)
			if tc.message == "" {
				return
			}
			if reason, message := f.pending(); !strings.HasPrefix(message, tc.message) {
				t.Errorf("the job is Pending for %s: %s", reason, message)
			}
			if result.After != tc.after {
				t.Errorf("looks again after %v, want %v", result.After, tc.after)
			}
		})
	}
}

func TestAPodGroupThatNobodyKnowsIsTriedAgainEveryMinute(t *testing.T) {
	f := needyFixture(t, builders.TrainJob("a"))
	f.podGroups.PrependReactor("create", "podgroups", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewGenericServerResponse(404, "create", groupResource.GroupResource(), "a", "404 page not found", 0, true)
	})
	if result, err := f.sync(); err != nil || result.After != time.Minute {
		t.Fatalf("got %v, %v, want another try in a minute", result, err)
	}
	reason, message := f.pending()
	if reason != trainer.ReasonCreationFailed || !strings.Contains(message, "the cluster has no PodGroup of scheduling.x-k8s.io/v1alpha1") {
		t.Errorf("the job is Pending for %s: %s", reason, message)
	}
	f.clock.Step(20 * time.Second)
	if result, err := f.sync(); err != nil || result.After > 40*time.Second {
		t.Errorf("got %v, %v, want another try when the minute is over", result, err)
	}
	f.wantWrites("create podgroups", "patch trainjobs/status")

	f.podGroups.ReactionChain = f.podGroups.ReactionChain[1:]
	f.clock.Step(40 * time.Second)
	if _, err := f.sync(); err != nil {
		t.Fatal(err)
	}
	if js := f.controllerCreated(); js == nil {
		t.Error("the job has no JobSet after its PodGroup could be created")
	}
}

func (f *fixture) controllerCreated() *jobset.JobSet {
	js, _ := f.controller.created.Get(theJob)
	return js
}

func TestHelpersThatAreRefused(t *testing.T) {
	refusal := func(resource string) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "a", errors.New("exceeded quota"))
	}
	cases := map[string]struct {
		verb, resource string
		err            error
		message        string // of the condition, "" for none
	}{
		"a group":                          {"create", "podgroups", refusal("podgroups"), `the PodGroup "a" cannot be written: `},
		"a ConfigMap":                      {"create", "configmaps", refusal("configmaps"), `the ConfigMap "a-mpi-hostfile" cannot be written: `},
		"a Secret":                         {"create", "secrets", refusal("secrets"), `the Secret "a-mpi-ssh-a-uid" cannot be written: `},
		"an invalid group":                 {"create", "podgroups", apierrors.NewInvalid(schema.GroupKind{Kind: "PodGroup"}, "a", nil), `the PodGroup "a" cannot be written: `},
		"a group in no namespace":          {"create", "podgroups", apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "default"), ""},
		"a group that cannot be read":      {"get", "podgroups", errors.New("broken"), ""},
		"a ConfigMap that cannot be read":  {"get", "configmaps", errors.New("broken"), ""},
		"a group that cannot be changed":   {"update", "podgroups", errors.New("broken"), ""},
		"a ConfigMap that takes no change": {"patch", "configmaps", errors.New("broken"), ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			job := builders.TrainJob("a", builders.State("Pending", trainer.ReasonWaitingForPods, builders.At(1)))
			f := needyFixture(t, job)
			react := func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, tc.err }
			f.podGroups.PrependReactor(tc.verb, tc.resource, react)
			f.core.PrependReactor(tc.verb, tc.resource, react)
			if tc.verb != "create" {
				f.hasGroup(podGroup(job, map[string]any{"minMember": int64(9)}))
				if err := f.core.Tracker().Add(hostfile(job, "old")); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := f.sync(); err == nil {
				t.Error("nothing brings it back for another try")
			}
			if f.controllerCreated() != nil {
				t.Error("the JobSet was created without what it needs")
			}
			reason, message := f.pending()
			if tc.message == "" && reason != trainer.ReasonWaitingForPods || !strings.HasPrefix(message, tc.message) {
				t.Errorf("the job is Pending for %s: %s", reason, message)
			}
		})
	}
}

func TestResumeMakesHelpersThatAreGone(t *testing.T) {
	job := builders.TrainJob("a")
	cases := map[string]struct {
		snapshot bool
		want     []string
	}{
		"with the snapshot": {true, []string{"create podgroups", "create configmaps", "create secrets", "patch jobsets", "patch trainjobs/status"}},
		// Nothing says what they are; those it was created with are there.
		"without the snapshot": {false, []string{"patch jobsets", "patch trainjobs/status"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, job)
			if tc.snapshot {
				f = needyFixture(t, job)
			}
			js := builders.JobSetOf(job, builders.HeldBack(true), upToDate(job))
			f.cached("jobsets", js)
			f.live(js.DeepCopy())
			if _, err := f.sync(); err != nil {
				t.Fatal(err)
			}
			f.wantWrites(tc.want...)
		})
	}
}

func TestResumeWaitsForHelpersAndRenewsNone(t *testing.T) {
	job := builders.TrainJob("a")
	f := needyFixture(t, job)
	js := builders.JobSetOf(job, builders.HeldBack(true), upToDate(job))
	f.cached("jobsets", js)
	f.live(js.DeepCopy())
	f.hasGroup(podGroup(job, map[string]any{"minMember": int64(9)}))
	if err := f.core.Tracker().Add(hostfile(nil, "")); err != nil {
		t.Fatal(err)
	}
	if _, err := f.sync(); err != nil {
		t.Fatal(err)
	}
	f.wantWrites("create podgroups", "create configmaps", "patch trainjobs/status")
}

func TestTheGroupOfAFinishedJobIsDeletedOnce(t *testing.T) {
	finished := builders.TrainJob("a", builders.State("Complete", "AllJobsCompleted", builders.At(5)))
	going := podGroup(finished, nil)
	going.SetDeletionTimestamp(&metav1.Time{Time: builders.At(9)})
	going.SetFinalizers([]string{"test/hold"})
	edited := finished.DeepCopy()
	edited.Status.RuntimeSnapshot = &trainer.RuntimeSnapshotReference{Digest: "sha256:other"}
	cases := map[string]struct {
		job   *trainer.TrainJob
		group *unstructured.Unstructured
		want  []string
	}{
		"its own, whatever became of the snapshot": {edited, podGroup(edited, nil), []string{"delete podgroups"}},
		"its own":                        {finished, podGroup(finished, nil), []string{"delete podgroups"}},
		"a stranger's stays":             {finished, podGroup(nil, nil), nil},
		"one that is going away already": {finished, going, nil},
		"one that is gone":               {finished, nil, nil},
		"a deleted job's goes with it":   {builders.TrainJob("a", beingDeleted, builders.State("Complete", "AllJobsCompleted", builders.At(5))), podGroup(finished, nil), nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := needyFixture(t, tc.job)
			if tc.group != nil {
				f.hasGroup(tc.group)
			}
			for range 2 {
				if _, err := f.sync(); err != nil {
					t.Fatal(err)
				}
			}
			f.wantWrites(tc.want...)
			if reads := len(f.podGroups.Actions()) - len(tc.want); reads > 1 {
				t.Errorf("it was looked for %d times", reads)
			}
		})
	}
}

func TestAGroupThatCannotBeDeletedIsTriedAgain(t *testing.T) {
	job := builders.TrainJob("a", builders.State("Complete", "AllJobsCompleted", builders.At(5)))
	for _, verb := range []string{"get", "delete"} {
		t.Run(verb, func(t *testing.T) {
			f := needyFixture(t, job)
			f.hasGroup(podGroup(job, nil))
			f.podGroups.PrependReactor(verb, "podgroups", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("broken") })
			for range 2 {
				if _, err := f.sync(); err == nil {
					t.Error("nothing brings it back for another try")
				}
			}
		})
	}
}
