package deploy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/cluster"
	"github.com/trainjob/controller/test/harness"
)

// The controller is there first, before every CRD and every right, as its pods may be
// when objects are applied in whatever order. Nobody restarts it.
func TestOneFolderIsAllThereIsToApply(t *testing.T) {
	ctx := t.Context()
	for _, path := range []string{folder("deploy", "base", "namespace.yaml"), folder("rbac", "service-account.yaml")} {
		env.Kubectl(t, "apply", "-f", path)
	}
	kubeconfig, _ := env.NewIdentity(t)
	address, err := harness.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	args := append(arguments(t, deployment(t, folder("deploy"))),
		"--webhook-bind-address="+address, "--webhook-extra-sans=127.0.0.1", "--webhook-namespace="+harness.SystemNamespace)
	c, err := harness.LaunchController(env.Binary, kubeconfig, filepath.Join(t.TempDir(), "controller.log"), args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Kill() }) // unless it was stopped
	harness.Eventually(t, harness.Soon, func() string {
		_, err := c.Get(ctx, "/readyz")
		if err == nil {
			t.Fatal("ready without CRDs and rights")
		}
		if !strings.Contains(err.Error(), "trainjobs") {
			return "/readyz does not name what it waits for: " + err.Error()
		}
		return ""
	})
	if _, err := c.Get(ctx, "/healthz"); err != nil {
		t.Errorf("a controller that waits for its CRDs would be restarted: %v", err)
	}

	applied(t, folder("deploy"))
	replicas(t, 2)
	// The pods are played, and so is the way to them: the webhooks' Service would lead to
	// the one process.
	if err := env.RedirectWebhooks(ctx, address); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // the test's own context has ended by then
		if out, err := env.TryKubectl(context.Background(), "delete", "-k", folder("webhook"), "--ignore-not-found"); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	if err := errors.Join(c.AwaitReady(ctx), env.AwaitWebhooks(ctx)); err != nil {
		t.Fatal(err)
	}
	env.Kubectl(t, "apply", "-k", folder("runtimes"))
	namespace := metav1.NamespaceDefault // that of the example
	env.Kubectl(t, "apply", "-f", folder("examples", "plain.yaml"))
	env.AwaitState(t, namespace, "plain", trainer.TrainJobComplete, "", 3*harness.Soon)
	events := env.Audit(t, 0, cluster.AuditFilter{User: harness.ControllerUser, Namespace: namespace, Resource: "jobsets", Verbs: []string{"create"}})
	if len(events) != 1 || events[0].Code != 201 {
		t.Errorf("creates of the JobSet by the ServiceAccount: %+v, want one", events)
	}
	if err := c.Stop(); err != nil {
		t.Error(err)
	}
}

// applied applies a folder twice and checks that nobody objects to anything in it, and
// that the second time changes nothing.
func applied(t *testing.T, path string) {
	t.Helper()
	first := env.Kubectl(t, "apply", "--validate=strict", "-k", path)
	if strings.Contains(first, "Warning") {
		t.Errorf("%s:\n%s", path, first)
	}
	for line := range strings.Lines(env.Kubectl(t, "apply", "--validate=strict", "-k", path)) {
		// kubectl replaces the selector of a budget by itself each time.
		if !strings.HasSuffix(strings.TrimSpace(line), " unchanged") && !strings.HasPrefix(line, "poddisruptionbudget") {
			t.Errorf("%s, applied again: %s", path, line)
		}
	}
}

// One after the other, as an admin changes from one to the next.
func TestEveryOverlayIsTakenAndRuns(t *testing.T) {
	certManagerCRDs(t)
	for _, path := range append(overlays(t), folder("deploy", "base")) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			want := int32(2)
			if name := filepath.Base(path); name == "single" || name == "base" {
				want = 1
			}
			applied(t, path)
			// Pod Security refuses pods, not Deployments.
			replicas(t, want)
			nodes := map[string]bool{}
			for _, pod := range pods(t) {
				if pod.DeletionTimestamp.IsZero() {
					nodes[pod.Spec.NodeName] = true
				}
			}
			if len(nodes) != int(want) {
				t.Errorf("%d replicas are on nodes %v", want, nodes)
			}
		})
	}
	out := env.Kubectl(t, "delete", "-k", folder("deploy"), "--wait=true", "--timeout=120s")
	for _, kind := range []string{"namespace", "customresourcedefinition", "clusterrole", "deployment"} {
		if !strings.Contains(out, kind) {
			t.Errorf("no %s was deleted:\n%s", kind, out)
		}
	}
	env.Kubectl(t, "apply", "-k", folder("deploy"))
}

func certManagerCRDs(t *testing.T) {
	t.Helper()
	module, err := cluster.ModuleDir(t.Context(), harness.SourceDir(), "certmanager", "github.com/cert-manager/cert-manager")
	if err != nil {
		t.Fatal(err)
	}
	if err := env.Cluster.InstallCRDs(t.Context(), filepath.Join(module, "deploy", "crds")); err != nil {
		t.Fatal(err)
	}
}

func TestEveryKustomizeFolderBuilds(t *testing.T) {
	var built int
	err := filepath.WalkDir(folder(), func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.Name() != "kustomization.yaml" {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil || strings.Contains(string(data), "kind: Component") {
			return err // overlays build those
		}
		if len(render(t, filepath.Dir(path))) == 0 {
			t.Errorf("nothing comes out of %s", path)
		}
		built++
		return nil
	})
	if err != nil || built < 9 {
		t.Errorf("%v; %d folders were built, want at least 9", err, built)
	}
}

// Everything moves with one line, what names the namespace from within too. With
// cert-manager it takes a second one, the one of docs/deploying.md.
func TestAnotherNamespaceIsOneLine(t *testing.T) {
	for name, c := range map[string]struct{ base, beside, more string }{
		"of its own":      {base: folder("deploy")},
		"with monitoring": {base: folder("deploy"), beside: folder("monitoring")},
		"cert-manager":    {base: folder("deploy", "overlays", "cert-manager"), more: folder("deploy", "transformers", "cert-manager-namespace")},
	} {
		t.Run(name, func(t *testing.T) {
			// A temporary folder may be a link to elsewhere, which the path must not lead through.
			dir, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			relative := func(path string) string {
				path, err := filepath.Rel(dir, path)
				if err != nil {
					t.Fatal(err)
				}
				return path
			}
			kustomization := "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nnamespace: elsewhere\nresources:\n- " + relative(c.base) + "\n"
			if c.beside != "" {
				kustomization += "- " + relative(c.beside) + "\n"
			}
			if c.more != "" {
				kustomization += "transformers: [" + relative(c.more) + "]\n"
			}
			if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(kustomization), 0o644); err != nil {
				t.Fatal(err)
			}
			checkMoved(t, dir)
		})
	}
}

// checkMoved checks that nothing in a folder is in the usual namespace, or names it.
func checkMoved(t *testing.T, dir string) {
	t.Helper()
	documents := render(t, dir)
	for _, d := range documents {
		if strings.Contains(d.text, harness.SystemNamespace) {
			t.Errorf("%s %s still names %s:\n%s", d.Kind, d.Name, harness.SystemNamespace, d.text)
		}
		if d.Kind == "Deployment" && !strings.Contains(d.text, "--leader-elect-resource-namespace=$(POD_NAMESPACE)") {
			t.Errorf("the lease does not move:\n%s", d.text)
		}
		if source, found := d.Annotations["cert-manager.io/inject-ca-from"]; found && source != "elsewhere/trainjob-controller-webhook" {
			t.Errorf("%s trusts %s", d.Kind, source)
		}
	}
	for name, c := range specs[certificate](t, documents, "Certificate") {
		if want := []string{"trainjob-controller-webhook.elsewhere.svc"}; !c.IsCA && !slices.Equal(c.DNSNames, want) {
			t.Errorf("Certificate %s is for %v, want %v", name, c.DNSNames, want)
		}
	}
	for _, arg := range arguments(t, deployment(t, dir)) {
		if strings.Contains(arg, "namespace") && !strings.HasSuffix(arg, "=elsewhere") {
			t.Errorf("argument %s", arg)
		}
	}
}

func TestPodsAskForTheLeast(t *testing.T) {
	for _, path := range overlays(t) {
		d := deployment(t, path)
		spec := d.Spec.Template.Spec
		container := spec.Containers[0]
		for what, wrong := range map[string]bool{
			"runs as root":              spec.SecurityContext == nil || !*spec.SecurityContext.RunAsNonRoot || *spec.SecurityContext.RunAsUser == 0,
			"writes to its image":       container.SecurityContext == nil || !*container.SecurityContext.ReadOnlyRootFilesystem,
			"has no request for CPU":    container.Resources.Requests.Cpu().IsZero(),
			"has no request for memory": container.Resources.Requests.Memory().IsZero(),
			"has no limit of memory":    container.Resources.Limits.Memory().IsZero(),
			"has no limit of CPU":       container.Resources.Limits.Cpu().IsZero(),
			"is not probed":             container.LivenessProbe == nil || container.ReadinessProbe == nil,
			"has an account of others":  spec.ServiceAccountName != harness.ServiceAccount,
		} {
			if wrong {
				t.Errorf("%s: the pod %s", path, what)
			}
		}
		if *spec.TerminationGracePeriodSeconds < 20 {
			t.Errorf("%s: %d seconds to end in are too few", path, *spec.TerminationGracePeriodSeconds)
		}
	}
}

func TestSizesAreThoseOnThePage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(harness.SourceDir(), "docs", "deploying.md"))
	if err != nil {
		t.Fatal(err)
	}
	container := deployment(t, folder("deploy")).Spec.Template.Spec.Containers[0]
	requests, limits := container.Resources.Requests, container.Resources.Limits
	for _, row := range []string{
		fmt.Sprintf("| requests | %s CPU, %s |", requests.Cpu(), requests.Memory()),
		fmt.Sprintf("| limits | %s CPUs, %s; `GOMEMLIMIT` is nine tenths of it |", limits.Cpu(), limits.Memory()),
	} {
		if !strings.Contains(string(page), row) {
			t.Errorf("docs/deploying.md has no row %s", row)
		}
	}
	for _, v := range container.Env {
		if want := fmt.Sprintf("%dMiB", limits.Memory().Value()*9/10>>20); v.Name == "GOMEMLIMIT" && v.Value != want {
			t.Errorf("GOMEMLIMIT is %s, want %s", v.Value, want)
		}
	}
}
