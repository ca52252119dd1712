package framework

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/trainjob/controller/apis/trainer/v1alpha1"
)

// What is trained: all weights, adapters, or adapters of a quantized model.
const (
	tuneFull  = "full"
	tuneLoRA  = "lora"
	tuneQLoRA = "qlora"
)

// On what it is trained, as the names of torchtune's configurations end.
const (
	onOneDevice    = "_single_device"
	onOneNode      = ""
	onSeveralNodes = "_multinode"
)

// torchtuneConfigs are the configurations that torchtune has of each model for which
// there are runtimes, without the model's name.
var torchtuneConfigs = map[string][]string{
	"llama3_2/1B":  {tuneFull + onOneDevice, tuneFull, tuneLoRA + onOneDevice, tuneLoRA, tuneQLoRA + onOneDevice},
	"llama3_2/3B":  {tuneFull + onOneDevice, tuneFull, tuneLoRA + onOneDevice, tuneLoRA, tuneQLoRA + onOneDevice},
	"llama3_3/70B": {tuneFull, tuneFull + onSeveralNodes, tuneLoRA, tuneQLoRA},
	"qwen2_5/1.5B": {tuneFull + onOneDevice, tuneFull, tuneLoRA + onOneDevice, tuneLoRA},
}

// Settings of a torchtune configuration that decide what is trained.
const (
	settingAdapters = "model.lora_attn_modules"
	settingQuantize = "model.quantize_base"
	settingDoRA     = "model.use_dora"
)

// runtimeSettings are the settings that say where the runtime's initializers put
// things. They are the runtime's: its volumes must fit them.
var runtimeSettings = []string{"output_dir", "tokenizer.path", "tokenizer.merges_file", "checkpointer.checkpoint_dir"}

// tuning is one way to fine-tune a model.
type tuning struct{ what, on string }

func (t tuning) String() string { return t.what + t.on }

// recipe is the program that trains. Quantized or not, adapters have the same one.
func (t tuning) recipe() string {
	what := t.what
	if what == tuneQLoRA {
		what = tuneLoRA
	}
	if t.on == onOneDevice {
		return what + "_finetune_single_device"
	}
	return what + "_finetune_distributed"
}

// startsTorchtune reports whether the training container runs `tune run`.
func startsTorchtune(in Input) bool {
	return len(in.Node.Command) >= 2 && in.Node.Command[0] == "tune" && in.Node.Command[1] == "run"
}

// leavesRecipeOpen reports whether the command is `tune run` and no more, so that
// recipe and configuration are to be chosen here. The arguments then hold settings.
func leavesRecipeOpen(in Input) bool {
	if !startsTorchtune(in) || len(in.Node.Command) > 2 {
		return false
	}
	return len(in.Node.Args) == 0 || isSetting(in.Node.Args[0])
}

// isSetting reports whether an argument changes a configuration: key=value, or ~key.
func isSetting(arg string) bool {
	return !strings.HasPrefix(arg, "-") && (strings.Contains(arg, "=") || strings.HasPrefix(arg, "~"))
}

// torchtuneCommand is what follows `tune run`: where the processes meet if there are
// several, the recipe, its configuration, and what the runtime sets in it.
func torchtuneCommand(in Input) ([]string, field.ErrorList) {
	errs := checkSettings(in)
	model := torchtuneModel(in.RuntimeName)
	if _, found := torchtuneConfigs[model]; !found {
		return nil, append(errs, field.Invalid(field.NewPath("spec", "runtimeRef", "name"), in.RuntimeName, fmt.Sprintf(
			"tune run finds the model in the runtime's name, which must be torchtune-MODEL-SIZE with one of %s: use such a runtime, or name recipe and configuration in spec.trainer.command",
			strings.Join(torchtuneModels(), ", "))))
	}
	way := chooseTuning(in)
	errs = append(errs, checkTuning(in, model, way)...)

	var command []string
	if way.on != onOneDevice {
		command = append(command, "--rdzv_endpoint="+meetingPoint(in))
	}
	command = append(command, way.recipe(), "--config", fmt.Sprintf("%s_%s", model, way))
	given := sets.New(in.Node.Args...)
	for _, arg := range in.RuntimeCommand {
		if key, _, _ := strings.Cut(arg, "="); slices.Contains(runtimeSettings, key) && !given.Has(arg) {
			command = append(command, arg)
		}
	}
	return command, errs
}

// torchtuneModel reads torchtune's name of a model out of a runtime's name:
// torchtune-llama3.2-1b is for llama3_2/1B.
func torchtuneModel(runtime string) string {
	parts := strings.Split(runtime, "-")
	if len(parts) != 3 {
		return ""
	}
	return strings.ReplaceAll(parts[1], ".", "_") + "/" + strings.ToUpper(parts[2])
}

// torchtuneModels lists the models as the names of runtimes have them.
func torchtuneModels() []string {
	names := slices.Sorted(maps.Keys(torchtuneConfigs))
	for i, name := range names {
		family, size, _ := strings.Cut(name, "/")
		names[i] = strings.ReplaceAll(family, "_", ".") + "-" + strings.ToLower(size)
	}
	return names
}

// chooseTuning goes by the arguments and by how many devices there are.
func chooseTuning(in Input) tuning {
	way := tuning{what: tuneFull, on: onOneNode}
	switch {
	case setting(in, settingQuantize) && !setting(in, settingDoRA):
		way.what = tuneQLoRA
	case setting(in, settingAdapters):
		way.what = tuneLoRA
	}
	switch {
	case in.Nodes > 1:
		way.on = onSeveralNodes
	case torchProcesses(in) == "1" || GPUs(&in.Node.Resources) == 1:
		way.on = onOneDevice
	}
	return way
}

// setting reports whether an argument turns a setting on.
func setting(in Input, name string) bool {
	return slices.ContainsFunc(in.Node.Args, func(arg string) bool {
		key, value, _ := strings.Cut(arg, "=")
		return key == name && !strings.EqualFold(value, "false")
	})
}

// checkTuning refuses what torchtune has no configuration for.
func checkTuning(in Input, model string, way tuning) field.ErrorList {
	configs := torchtuneConfigs[model]
	has := func(what, on string) bool { return slices.Contains(configs, what+on) }
	args := field.NewPath("spec", "trainer", "args")
	switch {
	case has(way.what, way.on):
		return nil
	case way.on == onSeveralNodes && has(tuneFull, onSeveralNodes):
		return field.ErrorList{field.Invalid(nodesPath(in), in.Nodes, fmt.Sprintf(
			"torchtune trains adapters of %s on one node only: set 1, or remove %s and %s from spec.trainer.args",
			model, settingAdapters, settingQuantize))}
	case way.on == onSeveralNodes:
		return field.ErrorList{field.Invalid(nodesPath(in), in.Nodes, fmt.Sprintf(
			"torchtune trains %s on one node only: set 1", model))}
	case way.on == onOneDevice && has(way.what, onOneNode):
		path, value := devices(in)
		return field.ErrorList{field.Invalid(path, value, fmt.Sprintf(
			"torchtune has no %s training of %s on a single device: ask for more GPUs and leave numProcPerNode out", way.what, model))}
	case way.on == onOneNode && has(way.what, onOneDevice):
		path, value := devices(in)
		return field.ErrorList{field.Invalid(path, value, fmt.Sprintf(
			"torchtune has %s training of %s on a single device only: ask for one GPU, or set numProcPerNode 1", way.what, model))}
	default:
		return field.ErrorList{field.Invalid(args, settingQuantize, fmt.Sprintf(
			"torchtune has no %s training of %s: remove the argument", way.what, model))}
	}
}

// nodesPath is where the number of nodes is given.
func nodesPath(in Input) *field.Path {
	if in.Trainer != nil && in.Trainer.NumNodes != nil {
		return field.NewPath("spec", "trainer", "numNodes")
	}
	return policyPath().Child("numNodes")
}

// devices is where the number of devices of a node is given, and what it says.
func devices(in Input) (*field.Path, string) {
	trainer := field.NewPath("spec", "trainer")
	if in.Trainer != nil && in.Trainer.NumProcPerNode != nil {
		return trainer.Child("numProcPerNode"), torchProcesses(in)
	}
	return trainer.Child("resourcesPerNode"), fmt.Sprintf("%d GPUs", GPUs(&in.Node.Resources))
}

// checkSettings keeps jobs from changing what is the runtime's.
func checkSettings(in Input) field.ErrorList {
	if in.Trainer == nil {
		return nil
	}
	var errs field.ErrorList
	for i, arg := range in.Trainer.Args {
		if key, _, _ := strings.Cut(strings.TrimPrefix(arg, "~"), "="); slices.Contains(runtimeSettings, key) {
			errs = append(errs, field.Invalid(field.NewPath("spec", "trainer", "args").Index(i), arg,
				"the runtime sets "+key+" to fit its volumes: remove the argument, or use a runtime that sets it otherwise"))
		}
	}
	return errs
}

// checkOwnRendezvous refuses several nodes that each wait for the others at home: the
// whole command of a torchtune runtime is written for one node.
func checkOwnRendezvous(in Input) field.ErrorList {
	if in.Nodes <= 1 || !startsTorchtune(in) {
		return nil
	}
	for i, arg := range in.Node.Command {
		key, endpoint, found := strings.Cut(strings.ReplaceAll(arg, "-", "_"), "=")
		if !found && i+1 < len(in.Node.Command) {
			endpoint = in.Node.Command[i+1]
		}
		host, _, _ := strings.Cut(endpoint, ":")
		if key == "__rdzv_endpoint" && (host == "localhost" || host == "127.0.0.1") {
			return field.ErrorList{field.Invalid(nodesPath(in), in.Nodes, fmt.Sprintf(
				"the command of container %s has its processes meet on %s, where other nodes never find them: set 1, or set spec.trainer.command to [tune, run] to have the meeting point chosen",
				v1alpha1.ContainerNode, host))}
		}
	}
	return nil
}
