package render

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/trainjob/controller/apis/trainer/v1alpha1"
)

const frameworksPage = "../../docs/frameworks.md"

// documented are the rows of the page on frameworks: a name and what makes it.
func documented() []struct {
	name    string
	policy  v1alpha1.MLPolicySource
	command []string
} {
	return []struct {
		name    string
		policy  v1alpha1.MLPolicySource
		command []string
	}{
		{name: "none"},
		{name: "torch", policy: v1alpha1.MLPolicySource{Torch: &v1alpha1.TorchMLPolicySource{}}},
		{name: "torch with envInjection", policy: v1alpha1.MLPolicySource{Torch: &v1alpha1.TorchMLPolicySource{
			EnvInjection: &v1alpha1.EnvInjection{Targets: []v1alpha1.EnvInjectionTarget{{JobName: "node", ContainerNames: []string{"preflight"}}}}}}},
		{name: "torch with `tune run`", policy: v1alpha1.MLPolicySource{Torch: &v1alpha1.TorchMLPolicySource{}}, command: []string{"tune", "run"}},
		{name: "jax", policy: v1alpha1.MLPolicySource{JAX: &v1alpha1.JAXMLPolicySource{}}},
		{name: "xgboost", policy: v1alpha1.MLPolicySource{XGBoost: &v1alpha1.XGBoostMLPolicySource{}}},
		{name: "flux", policy: v1alpha1.MLPolicySource{Flux: &v1alpha1.FluxMLPolicySource{}}},
		{name: "mpi", policy: v1alpha1.MLPolicySource{MPI: &v1alpha1.MPIMLPolicySource{}}},
	}
}

func TestTheTableOfFrameworksIsWhatIsRendered(t *testing.T) {
	table := "\n| policy | container | variables | ports | added to the command | volumes |\n|---|---|---|---|---|---|\n"
	for _, row := range documented() {
		runtime := torchRuntime(func(spec *v1alpha1.TrainingRuntimeSpec) {
			spec.MLPolicy.MLPolicySource = row.policy
			node(spec).Command = row.command
			podOf(&spec.Template.Spec.ReplicatedJobs[0]).InitContainers = []corev1.Container{{Name: "preflight", Image: "runtime"}}
		})
		if row.policy.MPI != nil {
			runtime = mpiRuntime()
		}
		runtime.Name = "torchtune-llama3.3-70b" // has a configuration for two nodes
		objects := mustRender(t, trainJob(), runtime)
		for i := range objects.JobSet.Spec.ReplicatedJobs {
			rjob := &objects.JobSet.Spec.ReplicatedJobs[i]
			for _, container := range allContainers(podOf(rjob)) {
				have := findContainer(podOf(&runtime.Spec.Template.Spec.ReplicatedJobs[i]), container.Name)
				if cells := added(have, &container); cells != nothingAdded || container.Name == v1alpha1.ContainerNode {
					table += fmt.Sprintf("| %s | %s/%s | %s |\n", row.name, rjob.Name, container.Name, cells)
				}
			}
		}
	}
	table += "\n"
	const begin, end = "-update` writes it. -->\n", "<!-- The table ends here. -->"
	page, err := os.ReadFile(frameworksPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(page), begin)
	got, after, ends := strings.Cut(rest, end)
	if !found || !ends {
		t.Fatal("the page has lost the comments around the table")
	}
	if *update {
		if err := os.WriteFile(frameworksPage, []byte(before+begin+table+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		got = table
	}
	if diff := cmp.Diff(got, table); diff != "" {
		t.Errorf("run the test with -update and read the difference before committing it (-page +code):\n%s", diff)
	}
}

func allContainers(pod *corev1.PodSpec) []corev1.Container {
	return slices.Concat(pod.InitContainers, pod.Containers)
}

func findContainer(pod *corev1.PodSpec, name string) *corev1.Container {
	for _, container := range allContainers(pod) {
		if container.Name == name {
			return &container
		}
	}
	return &corev1.Container{}
}

const nothingAdded = "– | – | – | –"

// added is what one container has that another has not, as cells of the table.
func added(before, after *corev1.Container) string {
	var env, ports, mounts []string
	for _, e := range after.Env {
		switch {
		case slices.ContainsFunc(before.Env, func(b corev1.EnvVar) bool { return b.Name == e.Name }):
		case e.ValueFrom != nil:
			env = append(env, "`"+e.Name+"` (completion index)")
		default:
			env = append(env, "`"+e.Name+"="+e.Value+"`")
		}
	}
	for _, p := range after.Ports[len(before.Ports):] {
		ports = append(ports, fmt.Sprintf("%d/%s", p.ContainerPort, p.Protocol))
	}
	for _, m := range after.VolumeMounts[len(before.VolumeMounts):] {
		mounts = append(mounts, fmt.Sprintf("%s at `%s`", m.Name, m.MountPath))
	}
	command := ""
	if more := after.Command[len(before.Command):]; len(more) > 0 {
		command = "`" + strings.Join(more, " ") + "`"
	}
	cells := []string{strings.Join(env, ", "), strings.Join(ports, ", "), command, strings.Join(mounts, ", ")}
	for i := range cells {
		if cells[i] == "" {
			cells[i] = "–"
		}
	}
	return strings.Join(cells, " | ")
}
