package sdk

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
)

// PatchManager is the manager of the SDK's runtime patches.
const PatchManager = "trainer.kubeflow.org/kubeflow-sdk"

// Training is what a user passes to train().
type Training struct {
	Runtime string
	// Name is made up if it is "".
	Name                string
	Labels, Annotations map[string]string

	// Function is the source of a training function, for any runtime but torchtune's.
	Function string
	// TuneArgs are the arguments that a torchtune configuration becomes.
	TuneArgs []string

	NumNodes int32
	// ResourcesPerNode are sent as limits and requests. The SDK sends numbers as
	// fractions: 2 becomes 2.0.
	ResourcesPerNode map[string]any
	Env              map[string]string
	Dataset, Model   string // storage URIs

	// Patches are merged into replicated jobs, as the option RuntimePatch does.
	Patches []JobPatch
}

// JobPatch changes the pods of one replicated job.
type JobPatch struct {
	ReplicatedJob  string
	PodAnnotations map[string]string
}

// Train creates the job and returns its name.
func (c *Client) Train(ctx context.Context, training Training) (string, error) {
	runtime, err := c.GetRuntime(ctx, training.Runtime)
	if err != nil {
		return "", err
	}
	if training.Name == "" {
		training.Name = fmt.Sprintf("%c%011x", 'a'+rand.N(26), rand.Int64N(1<<44))
	}
	body := training.object(runtime)
	_, err = c.send(ctx, http.MethodPost, c.namespaced("trainjobs", ""), body)
	return training.Name, err
}

// object is the TrainJob: without any field that was not set.
func (t Training) object(runtime Runtime) map[string]any {
	spec := map[string]any{"runtimeRef": map[string]any{"name": runtime.Name}}
	set(spec, "trainer", t.trainer(runtime))
	set(spec, "initializer", t.initializer())
	if patches := t.patches(); patches != nil {
		spec["runtimePatches"] = patches
	}
	metadata := map[string]any{"name": t.Name}
	if len(t.Labels) > 0 {
		metadata["labels"] = t.Labels
	}
	if len(t.Annotations) > 0 {
		metadata["annotations"] = t.Annotations
	}
	return map[string]any{"apiVersion": groupVersion, "kind": "TrainJob", "metadata": metadata, "spec": spec}
}

func set(object map[string]any, key string, value map[string]any) {
	if len(value) > 0 {
		object[key] = value
	}
}

func (t Training) trainer(runtime Runtime) map[string]any {
	trainer := map[string]any{}
	if t.NumNodes > 0 {
		trainer["numNodes"] = t.NumNodes
	}
	if len(t.ResourcesPerNode) > 0 {
		resources := map[string]any{}
		for name, quantity := range t.ResourcesPerNode {
			resources[name] = fraction(quantity)
		}
		trainer["resourcesPerNode"] = map[string]any{"limits": resources, "requests": resources}
	}
	switch {
	case runtime.Entrypoint == "tune":
		trainer["command"] = []string{"tune", "run"}
		trainer["args"] = slices.Concat([]string{}, t.TuneArgs)
	case t.Function != "":
		trainer["command"] = command(runtime.Entrypoint, t.Function)
	}
	if len(t.Env) > 0 {
		var env []any
		for name, value := range t.Env {
			env = append(env, map[string]any{"name": name, "value": value})
		}
		trainer["env"] = env
	}
	return trainer
}

// fraction is a quantity as the SDK sends it: texts as they are, numbers with a point.
func fraction(quantity any) any {
	switch quantity.(type) {
	case int, int32, int64:
		return json.Number(fmt.Sprintf("%d.0", quantity))
	}
	return quantity
}

// command writes the function into a file and starts it, all in one line of a shell.
func command(entrypoint, function string) []string {
	script := func(start, file string) []string {
		return []string{"bash", "-c", "\nread -r -d '' SCRIPT << EOM\n\n" + function + "\n\nEOM\nprintf \"%s\" \"$SCRIPT\" > \"" + file + "\"\n" + start + " \"" + file + "\""}
	}
	if entrypoint == "mpirun" {
		return append([]string{"mpirun", "--hostfile", "/etc/mpi/hostfile"}, script("python", "/home/mpiuser/train.py")...)
	}
	return script(entrypoint, "train.py")
}

func (t Training) initializer() map[string]any {
	initializer := map[string]any{}
	if t.Dataset != "" {
		initializer["dataset"] = map[string]any{"storageUri": t.Dataset, "env": []any{}}
	}
	if t.Model != "" {
		initializer["model"] = map[string]any{"storageUri": t.Model, "env": []any{
			map[string]any{"name": "IGNORE_PATTERNS", "value": "*.msgpack,*.h5,*.bin,*.pt,*.pth"},
		}}
	}
	return initializer
}

func (t Training) patches() []any {
	if len(t.Patches) == 0 {
		return nil
	}
	var jobs []any
	for _, patch := range t.Patches {
		template := map[string]any{"metadata": map[string]any{"annotations": patch.PodAnnotations}}
		jobs = append(jobs, map[string]any{
			"name":     patch.ReplicatedJob,
			"template": map[string]any{"spec": map[string]any{"template": template}},
		})
	}
	template := map[string]any{"spec": map[string]any{"replicatedJobs": jobs}}
	return []any{map[string]any{"manager": PatchManager, "trainingRuntimeSpec": map[string]any{"template": template}}}
}
