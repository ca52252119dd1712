package framework

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/trainjob/controller/apis/trainer/v1alpha1"
)

// torchtuneInput is a job with `tune run` on one node of a runtime for a model. The
// runtime's own command is complete.
func torchtuneInput(runtime string, change ...func(*Input)) Input {
	return input(append([]func(*Input){func(in *Input) {
		in.Nodes = 1
		in.RuntimeName = runtime
		in.RuntimeCommand = []string{"tune", "run", "--rdzv_endpoint=localhost:29500", "full_finetune_distributed", "--config", "llama3_2/1B_full",
			"dataset.source=parquet", "output_dir=/workspace/output", "tokenizer.path=/workspace/model/tokenizer.model",
			"checkpointer.checkpoint_dir=/workspace/model", "tokenizer.merges_file=/workspace/model/merges.txt"}
		in.Node.Command = []string{"tune", "run"}
	}}, change...)...)
}

// withArgs are arguments of spec.trainer.
func withArgs(args ...string) func(*Input) {
	return func(in *Input) {
		if in.Trainer == nil {
			in.Trainer = &v1alpha1.Trainer{}
		}
		in.Trainer.Args, in.Node.Args = args, args
	}
}

func withProcesses(n int32) func(*Input) {
	return func(in *Input) {
		if in.Trainer == nil {
			in.Trainer = &v1alpha1.Trainer{}
		}
		in.Trainer.NumProcPerNode = &n
	}
}

func withCPUs(in *Input) {
	in.Node.Resources.Limits = corev1.ResourceList{"cpu": resource.MustParse("8")}
}

const (
	loraArgument  = `model.lora_attn_modules=["q_proj"]`
	qloraArgument = "model.quantize_base=True"
	doraArgument  = "model.use_dora=True"
)

func TestRecipeAndConfigurationOfTorchtune(t *testing.T) {
	const model = "torchtune-llama3.2-1b"
	const meets = "--rdzv_endpoint=bert-node-0-0.bert:29500"
	cases := map[string]struct {
		in   Input
		want string // rendezvous, recipe, --config, configuration
	}{
		"a node without GPUs and CPUs":                 {torchtuneInput(model), "full_finetune_single_device --config llama3_2/1B_full_single_device"},
		"one GPU":                                      {torchtuneInput(model, withGPUs("1")), "full_finetune_single_device --config llama3_2/1B_full_single_device"},
		"several GPUs":                                 {torchtuneInput(model, withGPUs("2")), meets + " full_finetune_distributed --config llama3_2/1B_full"},
		"several CPUs":                                 {torchtuneInput(model, withCPUs), meets + " full_finetune_distributed --config llama3_2/1B_full"},
		"one process on several GPUs":                  {torchtuneInput(model, withGPUs("2"), withProcesses(1)), "full_finetune_single_device --config llama3_2/1B_full_single_device"},
		"several processes":                            {torchtuneInput(model, withProcesses(4)), meets + " full_finetune_distributed --config llama3_2/1B_full"},
		"several processes share no GPU":               {torchtuneInput(model, withGPUs("1"), withProcesses(4)), "full_finetune_single_device --config llama3_2/1B_full_single_device"},
		"LoRA on one GPU":                              {torchtuneInput(model, withGPUs("1"), withArgs(loraArgument)), "lora_finetune_single_device --config llama3_2/1B_lora_single_device"},
		"LoRA on several GPUs":                         {torchtuneInput(model, withGPUs("2"), withArgs(loraArgument)), meets + " lora_finetune_distributed --config llama3_2/1B_lora"},
		"QLoRA on one GPU":                             {torchtuneInput(model, withGPUs("1"), withArgs(loraArgument, qloraArgument)), "lora_finetune_single_device --config llama3_2/1B_qlora_single_device"},
		"quantized without naming modules is QLoRA":    {torchtuneInput(model, withGPUs("1"), withArgs(qloraArgument)), "lora_finetune_single_device --config llama3_2/1B_qlora_single_device"},
		"not quantized is not QLoRA":                   {torchtuneInput(model, withGPUs("1"), withArgs(loraArgument, "model.quantize_base=False")), "lora_finetune_single_device --config llama3_2/1B_lora_single_device"},
		"DoRA is LoRA, quantized or not":               {torchtuneInput(model, withGPUs("2"), withArgs(loraArgument, qloraArgument, doraArgument)), meets + " lora_finetune_distributed --config llama3_2/1B_lora"},
		"a setting taken out is not set":               {torchtuneInput(model, withGPUs("1"), withArgs("~model.lora_attn_modules")), "full_finetune_single_device --config llama3_2/1B_full_single_device"},
		"QLoRA of a large model on several GPUs":       {torchtuneInput("torchtune-llama3.3-70b", withGPUs("8"), withArgs(loraArgument, qloraArgument)), meets + " lora_finetune_distributed --config llama3_3/70B_qlora"},
		"a large model on several nodes":               {torchtuneInput("torchtune-llama3.3-70b", withGPUs("8"), withNodes(4)), meets + " full_finetune_distributed --config llama3_3/70B_full_multinode"},
		"another model":                                {torchtuneInput("torchtune-qwen2.5-1.5b", withGPUs("2")), meets + " full_finetune_distributed --config qwen2_5/1.5B_full"},
		"a runtime of one's own for a model of theirs": {torchtuneInput("research-llama3.2-3b", withGPUs("2")), meets + " full_finetune_distributed --config llama3_2/3B_full"},
		"no nodes at all":                              {torchtuneInput(model, withGPUs("2"), withNodes(0)), meets + " full_finetune_distributed --config llama3_2/1B_full"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out, errs := Build(tc.in)
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			want := append(strings.Split(tc.want, " "), "output_dir=/workspace/output", "tokenizer.path=/workspace/model/tokenizer.model",
				"checkpointer.checkpoint_dir=/workspace/model", "tokenizer.merges_file=/workspace/model/merges.txt")
			if diff := cmp.Diff(want, out.Containers[0].Command); diff != "" {
				t.Errorf("what follows tune run (-want +got):\n%s", diff)
			}
		})
	}
}

func TestVariablesUnderTorchtune(t *testing.T) {
	target := v1alpha1.EnvInjectionTarget{JobName: "node", ContainerNames: []string{"wait"}}
	all := []string{"PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT"}
	whole := func(command ...string) func(*Input) { return func(in *Input) { in.Node.Command = command } }
	cases := map[string]struct {
		in      Input
		want    []string // of the training container
		command bool     // something is added to the command
	}{
		"a chosen recipe has its rendezvous in the command": {torchtuneInput("torchtune-llama3.2-1b", withTargets(target)), all[:3], true},
		"a whole command stands and reads the variables":    {torchtuneInput("x", whole("tune", "run", "recipe", "--config", "c"), withTargets(target)), all, false},
		"so does one whose recipe is among the arguments":   {torchtuneInput("x", withArgs("recipe", "--config", "c"), withTargets(target)), all, false},
		"and one with options for torchrun there":           {torchtuneInput("x", withArgs("--nnodes=1", "recipe"), withTargets(target)), all, false},
		"and other programs called tune":                    {torchtuneInput("x", whole("tune", "ls"), withTargets(target)), all, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out, errs := Build(tc.in)
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			got := map[string][]string{}
			for _, addition := range out.Containers {
				for _, env := range addition.Env {
					got[addition.Container] = append(got[addition.Container], env.Name)
				}
			}
			if diff := cmp.Diff(map[string][]string{"node": tc.want, "wait": all}, got); diff != "" {
				t.Errorf("variables (-want +got):\n%s", diff)
			}
			if added := out.Containers[0].Command; tc.command != (len(added) > 0) {
				t.Errorf("added to the command: %q", added)
			}
		})
	}
}

func TestSettingsOfTheRuntimeStandOnce(t *testing.T) {
	in := torchtuneInput("torchtune-llama3.2-1b", func(in *Input) {
		in.Node.Args = []string{"epochs=1", "output_dir=/workspace/output"} // the runtime's own
		in.RuntimeCommand = append([]string{"tune", "run"}, in.Node.Args...)
	})
	out, errs := Build(in)
	if diff := cmp.Diff([]string{"full_finetune_single_device", "--config", "llama3_2/1B_full_single_device"}, out.Containers[0].Command); diff != "" || len(errs) > 0 {
		t.Errorf("errors %v, what follows tune run (-want +got):\n%s", errs, diff)
	}
}

func TestWhatTorchtuneCannotTrain(t *testing.T) {
	const small, large, qwen = "torchtune-llama3.2-1b", "torchtune-llama3.3-70b", "torchtune-qwen2.5-1.5b"
	nodes := func(n int32) func(*Input) {
		return func(in *Input) {
			in.Nodes, in.Trainer = n, &v1alpha1.Trainer{NumNodes: &n}
		}
	}
	whole := func(command ...string) func(*Input) { return func(in *Input) { in.Node.Command = command } }
	cases := map[string]struct {
		in   Input
		want []string
	}{
		"a model nobody knows": {torchtuneInput("torchtune-gpt-9t"), []string{
			`spec.runtimeRef.name: Invalid value: "torchtune-gpt-9t": tune run finds the model in the runtime's name, which must be torchtune-MODEL-SIZE with one of llama3.2-1b, llama3.2-3b, llama3.3-70b, qwen2.5-1.5b: use such a runtime, or name recipe and configuration in spec.trainer.command`}},
		"a runtime that names no model": {torchtuneInput("torchtune"), []string{
			`spec.runtimeRef.name: Invalid value: "torchtune": tune run finds the model in the runtime's name, which must be torchtune-MODEL-SIZE with one of llama3.2-1b, llama3.2-3b, llama3.3-70b, qwen2.5-1.5b: use such a runtime, or name recipe and configuration in spec.trainer.command`}},
		"a small model on two nodes": {torchtuneInput(small, nodes(2)), []string{
			`spec.trainer.numNodes: Invalid value: 2: torchtune trains llama3_2/1B on one node only: set 1`}},
		"on two nodes that the runtime asks for": {torchtuneInput(small, withNodes(2)), []string{
			`spec.mlPolicy.numNodes: Invalid value: 2: torchtune trains llama3_2/1B on one node only: set 1`}},
		"adapters on two nodes": {torchtuneInput(large, withNodes(2), withArgs(loraArgument)), []string{
			`spec.mlPolicy.numNodes: Invalid value: 2: torchtune trains adapters of llama3_3/70B on one node only: set 1, or remove model.lora_attn_modules and model.quantize_base from spec.trainer.args`}},
		"a large model on one GPU": {torchtuneInput(large, withGPUs("1")), []string{
			`spec.trainer.resourcesPerNode: Invalid value: "1 GPUs": torchtune has no full training of llama3_3/70B on a single device: ask for more GPUs and leave numProcPerNode out`}},
		"a large model in one process": {torchtuneInput(large, withGPUs("8"), withProcesses(1)), []string{
			`spec.trainer.numProcPerNode: Invalid value: "1": torchtune has no full training of llama3_3/70B on a single device: ask for more GPUs and leave numProcPerNode out`}},
		"QLoRA on two GPUs": {torchtuneInput(small, withGPUs("2"), withArgs(qloraArgument)), []string{
			`spec.trainer.resourcesPerNode: Invalid value: "2 GPUs": torchtune has qlora training of llama3_2/1B on a single device only: ask for one GPU, or set numProcPerNode 1`}},
		"QLoRA of a model that has none": {torchtuneInput(qwen, withGPUs("1"), withArgs(qloraArgument)), []string{
			`spec.trainer.args: Invalid value: "model.quantize_base": torchtune has no qlora training of qwen2_5/1.5B: remove the argument`}},
		"settings of the runtime": {torchtuneInput(small, withArgs("epochs=1", "output_dir=/tmp", "~tokenizer.path")), []string{
			`spec.trainer.args[1]: Invalid value: "output_dir=/tmp": the runtime sets output_dir to fit its volumes: remove the argument, or use a runtime that sets it otherwise`,
			`spec.trainer.args[2]: Invalid value: "~tokenizer.path": the runtime sets tokenizer.path to fit its volumes: remove the argument, or use a runtime that sets it otherwise`}},
		"a whole command for one node on two": {torchtuneInput("x", nodes(2), whole("tune", "run", "--rdzv_endpoint=localhost:29500", "recipe")), []string{
			`spec.trainer.numNodes: Invalid value: 2: the command of container node has its processes meet on localhost, where other nodes never find them: set 1, or set spec.trainer.command to [tune, run] to have the meeting point chosen`}},
		"the same written otherwise": {torchtuneInput("x", withNodes(2), whole("tune", "run", "--rdzv-endpoint", "127.0.0.1:29500", "recipe")), []string{
			`spec.mlPolicy.numNodes: Invalid value: 2: the command of container node has its processes meet on 127.0.0.1, where other nodes never find them: set 1, or set spec.trainer.command to [tune, run] to have the meeting point chosen`}},
		"a whole command for two nodes is fine": {torchtuneInput("x", withNodes(2), whole("tune", "run", "--rdzv_endpoint=elsewhere:1", "recipe")), nil},
		"and so is one for one node":            {torchtuneInput("x", whole("tune", "run", "--rdzv_endpoint=localhost:29500", "recipe"), withTrainer(v1alpha1.Trainer{NumNodes: ptr.To[int32](1)})), nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, errs := Build(tc.in)
			var got []string
			for _, err := range errs {
				got = append(got, err.Error())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

func TestThePageOnFrameworksListsWhatTorchtuneTrains(t *testing.T) {
	page, err := os.ReadFile("../../../docs/frameworks.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range torchtuneModels() {
		row := "| torchtune-" + name + " |"
		for _, on := range []string{onOneDevice, onOneNode, onSeveralNodes} {
			var ways []string
			for _, what := range []string{tuneFull, tuneLoRA, tuneQLoRA} {
				if slices.Contains(torchtuneConfigs[torchtuneModel("torchtune-"+name)], what+on) {
					ways = append(ways, what)
				}
			}
			if cell := strings.Join(ways, ", "); cell != "" {
				row += " " + cell
			}
			row += " |"
		}
		if !strings.Contains(string(page), "\n"+row+"\n") {
			t.Errorf("the page has no row %s", row)
		}
	}
}
