// Package deploy tests what an admin applies: that artifacts/deploy is complete, that the
// API server takes all of it, and that the controller works with what it gives, and can
// do nothing else. Pods are played; the controller runs beside them, as the ServiceAccount
// and with the arguments of the Deployment.
package deploy

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/trainjob/controller/test/cluster"
	"github.com/trainjob/controller/test/harness"
)

var env harness.Env

func TestMain(m *testing.M) {
	os.Exit(harness.MainWithoutController(m, cluster.FullStack(), &env, harness.StartBare))
}

// folder below artifacts.
func folder(elem ...string) string {
	return filepath.Join(append([]string{harness.SourceDir(), "artifacts"}, elem...)...)
}

// overlays are the folders that can be applied as they are.
func overlays(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(folder("deploy", "overlays", "*"))
	if err != nil || len(found) < 4 {
		t.Fatalf("%v; overlays %v, want at least four", err, found)
	}
	return append(found, folder("deploy"))
}

// document is a rendered object of any kind.
type document struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	text              string
}

// render builds a kustomize folder.
func render(t *testing.T, path string) []document {
	t.Helper()
	var all []document
	for _, text := range strings.Split(env.Kubectl(t, "kustomize", path), "\n---\n") {
		d := document{text: text}
		if err := yaml.Unmarshal([]byte(text), &d); err != nil {
			t.Fatalf("%s: %v in:\n%s", path, err, text)
		}
		all = append(all, d)
	}
	return all
}

// deployment is the one in a rendered folder.
func deployment(t *testing.T, path string) *appsv1.Deployment {
	t.Helper()
	for _, d := range render(t, path) {
		if d.Kind == "Deployment" {
			var found appsv1.Deployment
			if err := yaml.UnmarshalStrict([]byte(d.text), &found); err != nil {
				t.Fatal(err)
			}
			return &found
		}
	}
	t.Fatalf("no Deployment in %s", path)
	return nil
}

// arguments of a container as a kubelet would pass them, with variables filled in from
// the pod's fields.
func arguments(t *testing.T, d *appsv1.Deployment) []string {
	t.Helper()
	container := d.Spec.Template.Spec.Containers[0]
	var pairs []string
	for _, v := range container.Env {
		value := v.Value
		if v.ValueFrom != nil {
			if v.ValueFrom.FieldRef == nil || v.ValueFrom.FieldRef.FieldPath != "metadata.namespace" {
				t.Fatalf("variable %s comes from where this test cannot look: %+v", v.Name, v.ValueFrom)
			}
			value = d.Namespace
		}
		pairs = append(pairs, "$("+v.Name+")", value)
	}
	expand := strings.NewReplacer(pairs...)
	var args []string
	for _, arg := range container.Args {
		args = append(args, expand.Replace(arg))
	}
	return args
}

// replicas waits until the Deployment has exactly the pods it wants, all ready and of
// its newest template.
func replicas(t *testing.T, want int32) {
	t.Helper()
	harness.Eventually(t, 3*harness.Soon, func() string {
		d, err := env.Core.AppsV1().Deployments(harness.SystemNamespace).Get(t.Context(), "trainjob-controller", metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		s := d.Status
		if s.ObservedGeneration == d.Generation && s.UpdatedReplicas == want && s.ReadyReplicas == want && s.Replicas == want {
			return ""
		}
		return fmt.Sprintf("want %d replicas, have %+v", want, s)
	})
}

func pods(t *testing.T) []corev1.Pod {
	t.Helper()
	list, err := env.Core.CoreV1().Pods(harness.SystemNamespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=trainjob-controller"})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}
