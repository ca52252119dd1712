package sdk

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// The labels that the SDK reads, and the names it knows steps by.
const (
	frameworkLabel = "trainer.kubeflow.org/framework"
	ancestorLabel  = "trainer.kubeflow.org/trainjob-ancestor-step"

	node               = "node"
	launcher           = "launcher"
	datasetInitializer = "dataset-initializer"
	modelInitializer   = "model-initializer"
)

const torchTune = "torchtune"

// Runtime is what the SDK tells of a runtime.
type Runtime struct {
	Name, Framework, Image string
	// Entrypoint is the program by which the SDK starts a training function.
	Entrypoint string
	// Device is gpu, tpu, a MIG profile, cpu or Unknown; DeviceCount is of all nodes.
	Device, DeviceCount string
	NumNodes            int32
}

// ListRuntimes are those the SDK offers: a runtime of the namespace hides that of the
// cluster of the same name, and one without the label of its framework is left out. One
// that cannot be read fails the whole call.
func (c *Client) ListRuntimes(ctx context.Context) ([]Runtime, error) {
	byName := map[string]runtimeModel{}
	for _, path := range []string{cluster("clustertrainingruntimes", ""), c.namespaced("trainingruntimes", "")} {
		var found list[runtimeModel]
		if err := c.get(ctx, path, nil, &found); err != nil {
			return nil, err
		}
		for _, item := range found.Items {
			byName[item.Metadata.Name] = item
		}
	}
	var runtimes []Runtime
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		if _, labelled := byName[name].Metadata.Labels[frameworkLabel]; !labelled {
			continue
		}
		runtime, err := readRuntime(byName[name])
		if err != nil {
			return nil, err
		}
		runtimes = append(runtimes, runtime)
	}
	return runtimes, nil
}

// GetRuntime asks for the runtime of the namespace, and if there is none for that of the
// cluster.
func (c *Client) GetRuntime(ctx context.Context, name string) (Runtime, error) {
	var found runtimeModel
	err := c.get(ctx, c.namespaced("trainingruntimes", name), nil, &found)
	var status *StatusError
	if errors.As(err, &status) && status.Code == http.StatusNotFound {
		err = c.get(ctx, cluster("clustertrainingruntimes", name), nil, &found)
	}
	if err != nil {
		return Runtime{}, err
	}
	return readRuntime(found)
}

func readRuntime(model runtimeModel) (Runtime, error) {
	name := model.Metadata.Name
	framework, labelled := model.Metadata.Labels[frameworkLabel]
	switch {
	case name == "", model.Spec == nil, model.Spec.MLPolicy == nil, model.Spec.Template.Spec == nil, len(model.Spec.Template.Spec.ReplicatedJobs) == 0:
		return Runtime{}, fmt.Errorf("runtime %q: the SDK wants a name, spec.mlPolicy and replicated jobs", name)
	case !labelled:
		return Runtime{}, fmt.Errorf("runtime %q: the SDK wants the label %s", name, frameworkLabel)
	}
	container := trainerContainer(model.Spec.Template.Spec.ReplicatedJobs)
	if container == nil || container.Image == "" {
		return Runtime{}, fmt.Errorf("runtime %q: the SDK finds no container %q with an image in a job labelled %s", name, node, ancestorLabel)
	}
	runtime := Runtime{Name: name, Framework: framework, Image: container.Image, Device: "Unknown", DeviceCount: "Unknown", NumNodes: 1}
	var err error
	if runtime.Device, runtime.DeviceCount, err = devices(container.Resources); err != nil {
		return Runtime{}, fmt.Errorf("runtime %q: %w", name, err)
	}
	policy := model.Spec.MLPolicy
	if policy.MPI != nil && policy.MPI.NumProcPerNode != nil {
		runtime.DeviceCount = fmt.Sprint(*policy.MPI.NumProcPerNode)
	}
	if policy.NumNodes != nil {
		runtime.NumNodes = *policy.NumNodes
		if count, err := strconv.Atoi(runtime.DeviceCount); err == nil {
			runtime.DeviceCount = fmt.Sprint(count * int(*policy.NumNodes))
		}
	}
	switch {
	case framework == torchTune:
		runtime.Entrypoint = "tune"
	case policy.Torch != nil:
		runtime.Entrypoint = "torchrun"
	case policy.MPI != nil:
		runtime.Entrypoint = "mpirun"
	default:
		runtime.Entrypoint = "python"
	}
	return runtime, nil
}

// trainerContainer is the container called node of the first labelled job that has one.
func trainerContainer(jobs []jobset.ReplicatedJob) *corev1.Container {
	for _, job := range jobs {
		if _, labelled := job.Template.Labels[ancestorLabel]; !labelled {
			continue
		}
		containers := job.Template.Spec.Template.Spec.Containers
		if i := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == node }); i >= 0 {
			return &containers[i]
		}
	}
	return nil
}

// devices goes by the limits. Limits without any resource that the SDK counts as a device
// are an error to it.
func devices(resources corev1.ResourceRequirements) (device, count string, err error) {
	if len(resources.Limits) == 0 {
		return "Unknown", "Unknown", nil
	}
	names := []corev1.ResourceName{"nvidia.com/gpu", "google.com/tpu"}
	for name := range resources.Limits {
		if strings.HasPrefix(string(name), "nvidia.com/mig-") {
			names = append(names, name)
		}
	}
	for _, name := range append(names, corev1.ResourceCPU) {
		if quantity, limited := resources.Limits[name]; limited {
			_, short, found := strings.Cut(string(name), "/")
			if !found {
				short = string(name)
			}
			return short, quantity.String(), nil
		}
	}
	return "", "", fmt.Errorf("the SDK finds no device that it knows among the limits %v", slices.Collect(maps.Keys(resources.Limits)))
}
