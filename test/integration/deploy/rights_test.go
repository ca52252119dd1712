package deploy

import (
	"fmt"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/trainjob/controller/test/harness"
)

// ownCertificate is the one Secret that the controller may read.
const ownCertificate = "trainjob-controller-webhook-cert"

// asController is a client with the rights of the ServiceAccount.
func asController(t *testing.T) kubernetes.Interface {
	t.Helper()
	if err := harness.GrantRights(t.Context(), env.Cluster); err != nil {
		t.Fatal(err)
	}
	kubeconfig, _ := env.NewIdentity(t)
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestNoSecretCanBeReadButOurCertificate(t *testing.T) {
	client := asController(t)
	namespace := env.Namespace(t)
	for _, place := range []string{namespace, harness.SystemNamespace} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "somebodys"}, StringData: map[string]string{"password": "hidden"}}
		if _, err := env.Core.CoreV1().Secrets(place).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	tries := map[string]error{}
	for _, place := range []string{namespace, harness.SystemNamespace, metav1.NamespaceSystem} {
		secrets := client.CoreV1().Secrets(place)
		_, tries["get in "+place] = secrets.Get(t.Context(), "somebodys", metav1.GetOptions{})
		_, tries["list in "+place] = secrets.List(t.Context(), metav1.ListOptions{})
		_, tries["watch in "+place] = secrets.Watch(t.Context(), metav1.ListOptions{})
		_, tries["list by name in "+place] = secrets.List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + ownCertificate})
		_, tries["patch in "+place] = secrets.Patch(t.Context(), "somebodys", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})
		_, tries["update in "+place] = secrets.Update(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "somebodys"}}, metav1.UpdateOptions{})
		tries["delete in "+place] = secrets.Delete(t.Context(), "somebodys", metav1.DeleteOptions{})
	}
	_, tries["list everywhere"] = client.CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{})
	_, tries["watch everywhere"] = client.CoreV1().Secrets("").Watch(t.Context(), metav1.ListOptions{})
	_, tries["get our certificate's name elsewhere"] = client.CoreV1().Secrets(namespace).Get(t.Context(), ownCertificate, metav1.GetOptions{})
	for what, err := range tries {
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v, want it forbidden", what, err)
		}
	}

	own := client.CoreV1().Secrets(harness.SystemNamespace)
	created, err := own.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: ownCertificate}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create our certificate: %v", err)
	}
	if _, err := own.Get(t.Context(), ownCertificate, metav1.GetOptions{}); err != nil {
		t.Errorf("read our certificate: %v", err)
	}
	created.StringData = map[string]string{"tls.key": "new"}
	if _, err := own.Update(t.Context(), created, metav1.UpdateOptions{}); err != nil {
		t.Errorf("rotate our certificate: %v", err)
	}
}

// What an intruder would want first.
func TestTheControllerCannotRaiseItsRights(t *testing.T) {
	client := asController(t)
	for _, want := range []authorizationv1.ResourceAttributes{
		{Verb: "create", Resource: "pods"},
		{Verb: "create", Resource: "pods", Subresource: "exec"},
		{Verb: "get", Resource: "pods", Subresource: "log"},
		{Verb: "create", Resource: "serviceaccounts", Subresource: "token"},
		{Verb: "impersonate", Resource: "users"},
		{Verb: "delete", Resource: "configmaps"},
		{Verb: "update", Resource: "configmaps"},
		{Verb: "create", Group: "batch", Resource: "jobs"},
		{Verb: "update", Group: "trainer.kubeflow.org", Resource: "trainjobs"},
		{Verb: "patch", Group: "trainer.kubeflow.org", Resource: "clustertrainingruntimes"},
		{Verb: "create", Group: "rbac.authorization.k8s.io", Resource: "clusterrolebindings"},
		{Verb: "escalate", Group: "rbac.authorization.k8s.io", Resource: "clusterroles"},
		{Verb: "create", Group: "admissionregistration.k8s.io", Resource: "mutatingwebhookconfigurations"},
		{Verb: "patch", Group: "admissionregistration.k8s.io", Resource: "mutatingwebhookconfigurations", Name: "another"},
		{Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Namespace: harness.SystemNamespace, Name: "another"},
		{Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Namespace: "kube-system", Name: "trainjob-controller"},
	} {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &want}}
		answer, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if answer.Status.Allowed {
			t.Errorf("allowed: %+v", want)
		}
	}
}

// Kubernetes' own roles for users take in our kinds.
func TestUsersRolesTakeInTrainJobs(t *testing.T) {
	if err := harness.GrantRights(t.Context(), env.Cluster); err != nil {
		t.Fatal(err)
	}
	if err := env.Cluster.InstallCRDs(t.Context(), folder("crds")); err != nil {
		t.Fatal(err)
	}
	namespace := env.Namespace(t)
	env.Kubectl(t, "create", "rolebinding", "editor", "--clusterrole=edit", "--user=editor", "--namespace", namespace)
	env.Kubectl(t, "create", "rolebinding", "viewer", "--clusterrole=view", "--user=viewer", "--namespace", namespace)
	for question, want := range map[string]string{
		"editor create trainjobs":               "yes",
		"editor delete trainingruntimes":        "yes",
		"editor get trainjobs":                  "yes",
		"editor patch trainjobs/status":         "no",
		"editor create clustertrainingruntimes": "no",
		"viewer get trainjobs":                  "yes",
		"viewer create trainjobs":               "no",
	} {
		words := strings.Fields(question)
		resource, subresource, _ := strings.Cut(words[2], "/")
		args := []string{"auth", "can-i", words[1], resource + ".trainer.kubeflow.org", "--as", words[0], "--namespace", namespace}
		if subresource != "" {
			args = append(args, "--subresource", subresource)
		}
		// The roles are put together by kube-controller-manager, a moment later.
		harness.Eventually(t, harness.Soon, func() string {
			out, _ := env.TryKubectl(t.Context(), args...) // "no" is an exit code
			lines := strings.Split(strings.TrimSpace(out), "\n")
			if got := lines[len(lines)-1]; got != want && !strings.HasPrefix(got, want+" ") {
				return fmt.Sprintf("can %s: %s, want %s", question, out, want)
			}
			return ""
		})
	}
}
