package clients

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
	"github.com/trainjob/controller/test/clients/sdk"
	"github.com/trainjob/controller/test/cluster"
	"github.com/trainjob/controller/test/harness"
)

// held keeps the pods of replicated jobs running until somebody lets them go.
func held(jobs ...string) []sdk.JobPatch {
	var patches []sdk.JobPatch
	for _, name := range jobs {
		patches = append(patches, sdk.JobPatch{ReplicatedJob: name, PodAnnotations: map[string]string{cluster.HoldAnnotation: cluster.HoldRunning}})
	}
	return patches
}

const function = "def train(rate):\n    print(rate)\n\ntrain(**{'rate': 0.1})\n"

// trainings are what a user passes to train() for each of the shipped runtimes.
var trainings = map[string]sdk.Training{
	"plain":                              {Function: function, Patches: held("node")},
	"torch-distributed":                  {Function: function, NumNodes: 2, ResourcesPerNode: map[string]any{"cpu": 2, "memory": "4Gi"}, Env: map[string]string{"RATE": "0.1"}, Patches: held("node")},
	"torch-distributed-preflight":        {Function: function, NumNodes: 2, Patches: held("node")},
	"torch-distributed-preflight-legacy": {Function: function, NumNodes: 2, Patches: held("node")},
	"jax-distributed":                    {Function: function, NumNodes: 2, ResourcesPerNode: map[string]any{"cpu": 1, "nvidia.com/gpu": 1}, Patches: held("node")},
	"xgboost-distributed":                {Function: function, NumNodes: 2, Patches: held("node")},
	"deepspeed-distributed":              {Function: function, NumNodes: 2, ResourcesPerNode: map[string]any{"nvidia.com/gpu": 2}, Patches: held("node", "launcher")},
	"mlx-distributed":                    {Function: function, NumNodes: 2, Patches: held("node", "launcher")},
	"flux-distributed":                   {Function: function, NumNodes: 2, Patches: held("node")},
	"torchtune-llama3.2-1b":              {TuneArgs: []string{"dtype=bf16", "batch_size=4", "epochs=1", "loss=torchtune.modules.loss.CEWithChunkedOutputLoss"}, Dataset: "hf://tatsu-lab/alpaca/data", Patches: held("node")},
	"torchtune-llama3.2-3b":              {TuneArgs: []string{"epochs=1"}, Model: "hf://meta-llama/Llama-3.2-3B-Instruct", Patches: held("node")},
	"torchtune-qwen2.5-1.5b": {TuneArgs: []string{"epochs=1", "model.lora_rank=8"}, Dataset: "hf://tatsu-lab/alpaca", Model: "hf://Qwen/Qwen2.5-1.5B-Instruct",
		ResourcesPerNode: map[string]any{"nvidia.com/gpu": 2}, Patches: held("node")},
}

func TestEveryShippedRuntimeFromListToDelete(t *testing.T) {
	t.Parallel()
	env.ProvideVolumes(t)
	_, client := user(t)
	runtimes, err := client.ListRuntimes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	offered := map[string]bool{}
	for _, runtime := range runtimes {
		offered[runtime.Name] = true
	}
	for _, shipped := range shippedRuntimes(t) {
		t.Run(shipped, func(t *testing.T) {
			t.Parallel()
			training, known := trainings[shipped]
			if !known {
				t.Fatal("nobody has said here how the SDK trains with this runtime: add it to trainings")
			}
			if !offered[shipped] {
				t.Errorf("the SDK does not offer runtime %s, only %v", shipped, runtimes)
			}
			training.Runtime = shipped
			fromTrainToDelete(t, training)
		})
	}
}

// shippedRuntimes are the names of what artifacts/runtimes holds.
func shippedRuntimes(t *testing.T) []string {
	t.Helper()
	names := strings.Fields(env.Kubectl(t, "get", "-o", "jsonpath={.items[*].metadata.name}", "-k", harness.SourceDir()+"/artifacts/runtimes"))
	if len(names) == 0 {
		t.Fatal("no runtimes")
	}
	return names
}

func fromTrainToDelete(t *testing.T, training sdk.Training) {
	t.Helper()
	namespace, client := user(t)
	ctx := t.Context()
	name, err := client.Train(ctx, training)
	if err != nil {
		t.Fatal(err)
	}
	if job, err := client.GetJob(ctx, name); err != nil || job.Status != sdk.Created && job.Status != sdk.Running {
		t.Fatalf("right after train() the job is %q (%v)", job.Status, err)
	}
	running := await(t, client, name, sdk.Running)
	if want := max(1, training.NumNodes); running.NumNodes != want {
		t.Errorf("the job has %d nodes, want %d", running.NumNodes, want)
	}
	jobs, err := client.ListJobs(ctx, training.Runtime)
	if err != nil || len(jobs) != 1 || jobs[0].Name != name || jobs[0].Status != sdk.Running {
		t.Errorf("list_jobs says %+v (%v), want the running job", jobs, err)
	}
	checkLogs(t, namespace, client, running)

	env.LetGo(t, namespace, name, "")
	await(t, client, name, sdk.Complete)
	checkEvents(t, namespace, client, name)
	if err := client.DeleteJob(ctx, name); err != nil {
		t.Fatal(err)
	}
	env.AwaitGone(t, namespace, name)
	var status *sdk.StatusError
	if _, err := client.GetJob(ctx, name); !errors.As(err, &status) || status.Code != http.StatusNotFound {
		t.Errorf("after delete_job get_job says %v, want 404", err)
	}
}

func await(t *testing.T, client *sdk.Client, name, status string) sdk.Job {
	t.Helper()
	job, err := client.WaitForJobStatus(t.Context(), name, 3*harness.Soon, status)
	if err != nil {
		t.Fatal(err)
	}
	return job
}

// checkLogs asks for the log of every step. The played nodes have none to give, but the API
// server has judged by then whether the user may read it and whether pod and container exist.
func checkLogs(t *testing.T, namespace string, client *sdk.Client, job sdk.Job) {
	t.Helper()
	pod, _, ok := job.LogOf("node-0")
	if !ok {
		t.Fatalf("the SDK finds no log of node-0 among %+v", job.Steps)
	}
	first, err := env.Core.CoreV1().Pods(namespace).Get(t.Context(), pod, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	host := fmt.Sprintf("%s-%s-0-0", job.Name, first.Labels["jobset.sigs.k8s.io/replicatedjob-name"])
	if first.Spec.Hostname != host {
		t.Errorf("the log of node-0 is that of host %s, want %s", first.Spec.Hostname, host)
	}
	var names []string
	for _, step := range job.Steps {
		names = append(names, step.Name)
		_, err := client.GetJobLogs(t.Context(), job.Name, step.Name)
		var status *sdk.StatusError
		if errors.As(err, &status) && slices.Contains([]int{http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound}, status.Code) {
			t.Errorf("the log of step %s: %v", step.Name, err)
		}
	}
	for i := range job.NumNodes {
		if want := fmt.Sprintf("node-%d", i); !slices.Contains(names, want) {
			t.Errorf("there is no step %s among %v", want, names)
		}
	}
}

func checkEvents(t *testing.T, namespace string, client *sdk.Client, name string) {
	t.Helper()
	env.AwaitEvent(t, namespace, name, "Normal/Completed")
	events, err := client.GetJobEvents(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	for _, reason := range []string{"SnapshotCreated", "JobSetCreated", "Completed"} {
		if !slices.ContainsFunc(events, func(e sdk.Event) bool { return e.Kind == "TrainJob" && e.Reason == reason }) {
			t.Errorf("get_job_events tells nothing of %s: %+v", reason, events)
		}
	}
}

func TestAFailureIsRaised(t *testing.T) {
	t.Parallel()
	_, client := user(t)
	spec := builders.TorchSpec()
	pods := &spec.Template.Spec.ReplicatedJobs[0].Template.Spec
	pods.BackoffLimit = ptr.To[int32](0)
	metav1.SetMetaDataAnnotation(&pods.Template.ObjectMeta, cluster.ExitCodeAnnotation, "1")
	runtime := clusterRuntime(t, spec)
	name, err := client.Train(t.Context(), sdk.Training{Runtime: runtime, Function: function})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.WaitForJobStatus(t.Context(), name, 3*harness.Soon, sdk.Complete); !errors.Is(err, sdk.ErrFailed) {
		t.Errorf("who waits for Complete is told %v, want that the job has failed", err)
	}
	await(t, client, name, sdk.Failed)
}

// clusterRuntime makes a labelled ClusterTrainingRuntime for one test.
func clusterRuntime(t *testing.T, spec trainer.TrainingRuntimeSpec) string {
	t.Helper()
	runtime := builders.ClusterTrainingRuntime("", spec)
	runtime.GenerateName = "test-"
	runtime.Labels = map[string]string{"trainer.kubeflow.org/framework": "torch"}
	api := env.Trainer.TrainerV1alpha1().ClusterTrainingRuntimes()
	created, err := api.Create(t.Context(), runtime, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created.Name
}

// A queue suspends a job and resumes it, which the SDK's users do not notice but for the
// time it takes.
func TestAJobThatWasHeldBackIsCreatedAndThenRunning(t *testing.T) {
	t.Parallel()
	namespace, client := user(t)
	name, err := client.Train(t.Context(), sdk.Training{Runtime: "torch-distributed", Function: function, NumNodes: 2, Patches: held("node")})
	if err != nil {
		t.Fatal(err)
	}
	await(t, client, name, sdk.Running)
	for range 2 {
		env.PatchJob(t, namespace, name, harness.Suspend)
		await(t, client, name, sdk.Created)
		env.PatchJob(t, namespace, name, harness.Resume)
		await(t, client, name, sdk.Running)
	}
	await(t, client, name, sdk.Running)
	env.LetGo(t, namespace, name, "")
	await(t, client, name, sdk.Complete)
}

// What the SDK says goes by what is there at each moment: from a job's first status to its
// end there must be no condition that hides Running.
func TestNoConditionHidesRunning(t *testing.T) {
	t.Parallel()
	namespace, client := user(t)
	watch, err := env.Trainer.TrainerV1alpha1().TrainJobs(namespace).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	if _, err := client.Train(t.Context(), sdk.Training{Runtime: "plain", Function: function}); err != nil {
		t.Fatal(err)
	}
	var states []trainer.TrainJobState
	for deadline := time.After(3 * harness.Soon); ; {
		select {
		case <-deadline:
			t.Fatalf("the job does not end; its states were %v", states)
		case event := <-watch.ResultChan():
			job, ok := event.Object.(*trainer.TrainJob)
			if !ok {
				t.Fatalf("the watch ended with %+v", event.Object)
			}
			if state := job.Status.State; state != "" && (len(states) == 0 || states[len(states)-1] != state) {
				states = append(states, state)
			}
			if job.Status.State == trainer.TrainJobComplete {
				want := []trainer.TrainJobState{trainer.TrainJobPending, trainer.TrainJobRunning, trainer.TrainJobComplete}
				if diff := cmp.Diff(want, states); diff != "" {
					t.Errorf("states (-want +got):\n%s", diff)
				}
				return
			}
			if len(job.Status.Conditions) > 0 {
				t.Fatalf("a job that is %s has conditions: %+v", job.Status.State, job.Status.Conditions)
			}
		}
	}
}

func TestKubectlWaitsForEveryStateAndForConditions(t *testing.T) {
	t.Parallel()
	namespace, client := user(t)
	name, err := client.Train(t.Context(), sdk.Training{Runtime: "plain", Function: function, Patches: held("node")})
	if err != nil {
		t.Fatal(err)
	}
	wait := func(condition string) {
		t.Helper()
		env.Kubectl(t, "-n", namespace, "wait", "trainjob/"+name, "--timeout=60s", "--for="+condition)
	}
	wait("jsonpath={.status.state}=Running")
	await(t, client, name, sdk.Running)
	env.LetGo(t, namespace, name, "")
	wait("condition=Complete")
	for _, patch := range []string{harness.Suspend, harness.Resume} {
		env.PatchJob(t, namespace, name, patch)
		wait("condition=Complete")
		wait("jsonpath={.status.state}=Complete")
	}
	await(t, client, name, sdk.Complete)
}

func TestWhoMayEditANamespaceMayNotWriteForTheCluster(t *testing.T) {
	t.Parallel()
	namespace, client := user(t)
	if _, err := client.ListRuntimes(t.Context()); err != nil {
		t.Error(err)
	}
	config, err := env.Cluster.RESTConfigFor("user-of-" + namespace)
	if err != nil {
		t.Fatal(err)
	}
	elsewhere, err := sdk.New(config, "default")
	if err != nil {
		t.Fatal(err)
	}
	var status *sdk.StatusError
	if _, err := elsewhere.Train(t.Context(), sdk.Training{Runtime: "plain", Function: function}); !errors.As(err, &status) || status.Code != http.StatusForbidden {
		t.Errorf("train() in another namespace: %v, want 403", err)
	}
	out, err := env.TryKubectl(t.Context(), "--as", "user-of-"+namespace, "annotate", "clustertrainingruntime", "plain", "a=b")
	if err == nil || !strings.Contains(out, "forbidden") {
		t.Errorf("the user wrote to a ClusterTrainingRuntime (%v): %s", err, out)
	}
}
