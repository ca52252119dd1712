package deploy

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/generated/clientset/versioned"
	"github.com/trainjob/controller/test/builders"
	"github.com/trainjob/controller/test/harness"
)

// user makes the calls of somebody who may do what a ClusterRole says, in one namespace.
type user struct {
	namespace string
	trainer   versioned.Interface
	core      kubernetes.Interface
}

func newUser(t *testing.T, name, role string) user {
	t.Helper()
	namespace := env.Namespace(t)
	env.Kubectl(t, "create", "rolebinding", name, "--clusterrole="+role, "--user="+name, "--namespace", namespace)
	config := rest.CopyConfig(env.Cluster.RESTConfig())
	// What a login gives besides the name.
	config.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: []string{"system:authenticated"}}
	trainerClient, err := versioned.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	coreClient, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return user{namespace, trainerClient, coreClient}
}

// callsOfTheSDK are the requests that the Kubeflow SDK makes for a job, in its order, with
// its calls' names.
func (u user) callsOfTheSDK(t *testing.T) map[string]error {
	ctx, client := t.Context(), u.trainer.TrainerV1alpha1()
	jobs, pods := client.TrainJobs(u.namespace), u.core.CoreV1().Pods(u.namespace)
	selector := metav1.ListOptions{LabelSelector: "jobset.sigs.k8s.io/jobset-name=sdk"}
	job := builders.TrainJob("sdk", builders.Runtime(trainer.ClusterTrainingRuntimeKind, "torch-distributed"))
	job.Namespace = u.namespace
	errs := map[string]error{}
	_, errs["list_runtimes: of the cluster"] = client.ClusterTrainingRuntimes().List(ctx, metav1.ListOptions{})
	_, errs["list_runtimes: of the namespace"] = client.TrainingRuntimes(u.namespace).List(ctx, metav1.ListOptions{})
	_, errs["get_runtime: of the cluster"] = client.ClusterTrainingRuntimes().Get(ctx, "torch-distributed", metav1.GetOptions{})
	_, errs["get_runtime: of the namespace"] = client.TrainingRuntimes(u.namespace).Get(ctx, "torch-distributed", metav1.GetOptions{})
	_, errs["train"] = jobs.Create(ctx, job, metav1.CreateOptions{})
	_, errs["get_job"] = jobs.Get(ctx, "sdk", metav1.GetOptions{})
	_, errs["get_job: pods"] = pods.List(ctx, selector)
	_, errs["list_jobs"] = jobs.List(ctx, metav1.ListOptions{})
	_, errs["get_job_logs"] = pods.GetLogs("sdk-node-0-0-xxxxx", &corev1.PodLogOptions{Container: "node"}).DoRaw(ctx)
	_, errs["get_job_events"] = u.core.CoreV1().Events(u.namespace).List(ctx, metav1.ListOptions{})
	errs["delete_job"] = jobs.Delete(ctx, "sdk", metav1.DeleteOptions{})
	return errs
}

// installed applies the CRDs and the shipped roles, and nothing that a controller has to
// answer for: a test of the whole deployment may have left its webhooks.
func installed(t *testing.T) {
	t.Helper()
	for _, kind := range []string{"mutatingwebhookconfiguration", "validatingwebhookconfiguration"} {
		env.Kubectl(t, "delete", kind, "trainjob-controller", "--ignore-not-found")
	}
	if err := harness.GrantRights(t.Context(), env.Cluster); err != nil {
		t.Fatal(err)
	}
	if err := env.Cluster.InstallCRDs(t.Context(), folder("crds")); err != nil {
		t.Fatal(err)
	}
}

// kubeflowEdit is the role that Kubeflow's profiles bind their owners to.
func kubeflowEdit(t *testing.T) string {
	t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "kubeflow-edit"}, AggregationRule: &rbacv1.AggregationRule{
		ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"rbac.authorization.kubeflow.org/aggregate-to-kubeflow-edit": "true"}}}}}
	if _, err := env.Core.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return role.Name
}

func TestWithEditInOneNamespaceTheSDKWorks(t *testing.T) {
	installed(t)
	for name, role := range map[string]string{"editor": "edit", "profile-owner": kubeflowEdit(t)} {
		u := newUser(t, name, role)
		t.Run(role, func(t *testing.T) {
			// The roles are put together by kube-controller-manager, a moment later.
			harness.Eventually(t, harness.Soon, func() string {
				var refused []string
				for call, err := range u.callsOfTheSDK(t) {
					if err != nil && !apierrors.IsNotFound(err) {
						refused = append(refused, fmt.Sprintf("%s: %v", call, err))
					}
				}
				return strings.Join(refused, "\n")
			})
			runtimes := u.trainer.TrainerV1alpha1().ClusterTrainingRuntimes()
			runtime := builders.ClusterTrainingRuntime("theirs", builders.TorchSpec())
			if _, err := runtimes.Create(t.Context(), runtime, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
				t.Errorf("creates a ClusterTrainingRuntime: %v", err)
			}
			if err := runtimes.Delete(t.Context(), "torch-distributed", metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
				t.Errorf("deletes a ClusterTrainingRuntime: %v", err)
			}
			other := env.Namespace(t)
			if _, err := u.trainer.TrainerV1alpha1().TrainJobs(other).List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
				t.Errorf("lists the jobs of another namespace: %v", err)
			}
		})
	}
}

// Each component takes away what its name says and nothing else, and those that take away
// can be combined.
func TestRolesOfUsersCanBeLeftOut(t *testing.T) {
	all := names(t, overlay(t))
	ours := func(role string) []string { return []string{"ClusterRole/trainjob-controller-" + role} }
	without := map[string][]string{
		"without-kubernetes-roles": slices.Concat(ours("view"), ours("edit")),
		"without-kubeflow-roles":   slices.Concat(ours("kubeflow-view"), ours("kubeflow-edit")),
		"without-public-runtimes":  {"ClusterRole/trainjob-controller-public-runtimes", "ClusterRoleBinding/trainjob-controller-public-runtimes"},
	}
	var everything []string
	for component, gone := range without {
		everything = append(everything, gone...)
		wantGone(t, component, all, names(t, overlay(t, component)), gone)
	}
	wantGone(t, "all three", all, names(t, overlay(t, "without-kubernetes-roles", "without-kubeflow-roles", "without-public-runtimes")), everything)
}

func TestTheSDKFindsAVersion(t *testing.T) {
	installed(t)
	u := newUser(t, "curious", "view")
	if all := names(t, overlay(t, "sdk-version")); !slices.Contains(all, "ConfigMap/kubeflow-trainer-public") {
		t.Errorf("the component brings no ConfigMap: %v", all)
	}
	for _, file := range []string{"namespace.yaml", "public.yaml"} {
		env.Kubectl(t, "apply", "-f", folder("deploy", "components", "sdk-version", file))
	}
	harness.Eventually(t, harness.Soon, func() string {
		public, err := u.core.CoreV1().ConfigMaps("kubeflow-system").Get(t.Context(), "kubeflow-trainer-public", metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if got := public.Data["kubeflow_trainer_version"]; got != "v2.3.0" {
			return "the version is " + got
		}
		return ""
	})
	if _, err := u.core.CoreV1().ConfigMaps("kubeflow-system").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("lists all ConfigMaps: %v", err)
	}
}

// overlay writes a kustomization of artifacts/deploy and components, and returns its folder.
func overlay(t *testing.T, components ...string) string {
	t.Helper()
	dir := t.TempDir()
	relative := func(elem ...string) string {
		path, err := filepath.Rel(dir, folder(elem...))
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	text := "resources: [" + relative("deploy") + "]\ncomponents:\n"
	for _, component := range components {
		text += "- " + relative("deploy", "components", component) + "\n"
	}
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func names(t *testing.T, path string) []string {
	t.Helper()
	var all []string
	for _, d := range render(t, path) {
		all = append(all, d.Kind+"/"+d.Name)
	}
	return all
}

func wantGone(t *testing.T, what string, all, rest, gone []string) {
	t.Helper()
	for _, name := range all {
		if slices.Contains(rest, name) == slices.Contains(gone, name) {
			t.Errorf("%s: %s is there: %v", what, name, slices.Contains(rest, name))
		}
	}
	for _, name := range gone {
		if !slices.Contains(all, name) {
			t.Errorf("%s: %s was not there before", what, name)
		}
	}
}
