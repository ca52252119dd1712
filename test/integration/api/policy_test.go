package api

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/harness"
)

const (
	controllerUser = "system:serviceaccount:trainjob-system:trainjob-controller"
	adminUser      = "an-admin"
)

// configMapsAs is a client of ConfigMaps in the name of a user who may do everything.
func configMapsAs(t *testing.T, user, namespace string) typedcore.ConfigMapInterface {
	t.Helper()
	config := rest.CopyConfig(env.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:masters"}}
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return clientset.CoreV1().ConfigMaps(namespace)
}

// snapshot is a ConfigMap that is one to the policy.
func snapshot(name string, labels map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Immutable: ptr.To(true), Data: map[string]string{"runtime": "{}"},
	}
}

// owned is one that says of itself that something owns it.
func owned(cm *corev1.ConfigMap, apiVersion, kind string) *corev1.ConfigMap {
	cm.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: "a", UID: "u", Controller: ptr.To(true)}}
	return cm
}

var ours = map[string]string{trainer.LabelTrainJobName: "a"}

// installPolicy applies the policy and waits until the API server goes by it.
func installPolicy(t *testing.T, namespace string) {
	t.Helper()
	folder := filepath.Join(harness.SourceDir(), "artifacts", "admission-policy")
	env.Kubectl(t, "apply", "-k", folder)
	t.Cleanup(func() {
		if out, err := env.TryKubectl(context.Background(), "delete", "-k", folder, "--ignore-not-found"); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
	harness.Eventually(t, time.Minute, func() string {
		_, err := configMapsAs(t, adminUser, namespace).Create(t.Context(), snapshot("probe-runtime-snapshot", ours), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil {
			return "the policy is not in force yet"
		}
		return ""
	})
}

func TestOnlyTheControllerAndItsCleanersWriteSnapshots(t *testing.T) {
	namespace := env.Namespace(t)
	installPolicy(t, namespace)

	// Every way of writing, each on an object of its own.
	ways := map[string]func(context.Context, typedcore.ConfigMapInterface, string) error{
		"create": func(ctx context.Context, client typedcore.ConfigMapInterface, name string) error {
			_, err := client.Create(ctx, snapshot("new-"+name, ours), metav1.CreateOptions{})
			return err
		},
		"create without the label": func(ctx context.Context, client typedcore.ConfigMapInterface, name string) error {
			_, err := client.Create(ctx, owned(snapshot("new-"+name, nil), trainer.SchemeGroupVersion.String(), trainer.TrainJobKind), metav1.CreateOptions{})
			return err
		},
		"label": func(ctx context.Context, client typedcore.ConfigMapInterface, name string) error {
			_, err := client.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"labels":{"x":"y"}}}`), metav1.PatchOptions{})
			return err
		},
		"unlabel": func(ctx context.Context, client typedcore.ConfigMapInterface, name string) error {
			_, err := client.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"labels":null}}`), metav1.PatchOptions{})
			return err
		},
		"disown": func(ctx context.Context, client typedcore.ConfigMapInterface, name string) error {
			_, err := client.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"u"}]}}`), metav1.PatchOptions{})
			return err
		},
		"delete": func(ctx context.Context, client typedcore.ConfigMapInterface, name string) error {
			return client.Delete(ctx, name, metav1.DeleteOptions{})
		},
		"delete all": func(ctx context.Context, client typedcore.ConfigMapInterface, name string) error {
			return client.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
		},
	}
	for user, allowed := range map[string]bool{
		controllerUser: true,
		"system:serviceaccount:kube-system:generic-garbage-collector": true,
		"system:serviceaccount:kube-system:namespace-controller":      true,
		"system:kube-controller-manager":                              true,
		adminUser:                                                     false,
		"system:serviceaccount:trainjob-system:another":               false,
		"system:serviceaccount:other:trainjob-controller":             false,
	} {
		for way, try := range ways {
			t.Run(user+": "+way, func(t *testing.T) {
				name := strings.ReplaceAll(strings.ReplaceAll(user+"-"+way, ":", "-"), " ", "-") + "-runtime-snapshot"
				if _, err := configMapsAs(t, controllerUser, namespace).Create(t.Context(), snapshot(name, ours), metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
				err := try(t.Context(), configMapsAs(t, user, namespace), name)
				switch {
				case allowed && err != nil:
					t.Error(err)
				case !allowed && !apierrors.IsForbidden(err):
					t.Errorf("want a refusal as forbidden, got: %v", err)
				case !allowed && !strings.Contains(err.Error(), user+" may not write or delete it"):
					t.Errorf("the refusal does not say who may not: %v", err)
				}
			})
		}
	}
}

func TestThePolicyLeavesOtherConfigMapsAlone(t *testing.T) {
	namespace := env.Namespace(t)
	installPolicy(t, namespace)
	client := configMapsAs(t, adminUser, namespace)
	for what, cm := range map[string]*corev1.ConfigMap{
		"a stranger's of a like name":     snapshot("a-runtime-snapshot", nil),
		"a stranger's with an owner":      owned(snapshot("o-runtime-snapshot", nil), "v1", "Pod"),
		"that of another kind of job":     owned(snapshot("k-runtime-snapshot", nil), "example.com/v1", "TrainJob"),
		"another of ours":                 snapshot("a-mpi-hostfile", ours),
		"a name that only begins like it": owned(snapshot("runtime-snapshot-of-mine", ours), trainer.SchemeGroupVersion.String(), trainer.TrainJobKind),
	} {
		t.Run(what, func(t *testing.T) {
			if _, err := client.Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			if _, err := client.Patch(t.Context(), cm.Name, types.MergePatchType, []byte(`{"metadata":{"labels":{"x":"y"}}}`), metav1.PatchOptions{}); err != nil {
				t.Error(err)
			}
			if err := client.Delete(t.Context(), cm.Name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	for what, patch := range map[string]string{
		"our label":           `{"metadata":{"labels":{"` + trainer.LabelTrainJobName + `":"b"}}}`,
		"a TrainJob as owner": `{"metadata":{"ownerReferences":[{"apiVersion":"trainer.kubeflow.org/v1alpha1","kind":"TrainJob","name":"b","uid":"u","controller":true}]}}`,
	} {
		t.Run("a stranger's cannot be given "+what, func(t *testing.T) {
			cm := snapshot(strings.ReplaceAll(strings.ToLower(what), " ", "-")+"-runtime-snapshot", nil)
			if _, err := client.Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			_, err := client.Patch(t.Context(), cm.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
			if !apierrors.IsForbidden(err) {
				t.Errorf("want a refusal as forbidden, got: %v", err)
			}
		})
	}
	t.Run("one that a TrainJob owns cannot be disowned", func(t *testing.T) {
		cm := owned(snapshot("d-runtime-snapshot", nil), trainer.SchemeGroupVersion.String(), trainer.TrainJobKind)
		if _, err := configMapsAs(t, controllerUser, namespace).Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		_, err := client.Patch(t.Context(), cm.Name, types.MergePatchType, []byte(`{"metadata":{"ownerReferences":null}}`), metav1.PatchOptions{})
		if !apierrors.IsForbidden(err) {
			t.Errorf("want a refusal as forbidden, got: %v", err)
		}
	})
	t.Run("storing an object anew as it is", func(t *testing.T) {
		cm, err := configMapsAs(t, controllerUser, namespace).Create(t.Context(), snapshot("c-runtime-snapshot", ours), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Update(t.Context(), cm, metav1.UpdateOptions{}); err != nil {
			t.Error(err)
		}
	})
}
