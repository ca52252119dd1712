package sdk

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

func TestModelsRefuseWhatTheSDKRefuses(t *testing.T) {
	const head = `{"metadata":{"name":"a"},"spec":{"runtimeRef":{"name":"torch"}},"status":`
	for name, tc := range map[string]struct {
		text string
		want string // part of the error, "" for none
	}{
		"a whole status":                     {head + `{"jobsStatus":[{"name":"node","ready":1,"succeeded":0,"failed":0,"active":1,"suspended":0}]}}`, ""},
		"fields that the models do not know": {head + `{"state":"Running","nodes":2,"jobsStatus":[]}}`, ""},
		"null for what may be left out":      {head + `{"conditions":null}}`, ""},
		"a counter that is left out":         {head + `{"jobsStatus":[{"name":"node","ready":1,"succeeded":0,"failed":0,"active":1}]}}`, ".status.jobsStatus[0].suspended is required"},
		"null for what must be there":        {head + `{"jobsStatus":[{"name":null,"ready":1,"succeeded":0,"failed":0,"active":1,"suspended":0}]}}`, ".name is required"},
		"a counter as text":                  {head + `{"jobsStatus":[{"name":"node","ready":"1","succeeded":0,"failed":0,"active":1,"suspended":0}]}}`, "cannot unmarshal string"},
		"a condition without a reason":       {head + `{"conditions":[{"type":"Complete","status":"True","lastTransitionTime":"2026-03-01T12:00:00Z","message":""}]}}`, ".status.conditions[0].reason is required"},
		"a job without a runtime":            {`{"metadata":{"name":"a"},"spec":{}}`, ".spec.runtimeRef is required"},
		"a patch without a manager":          {`{"spec":{"runtimeRef":{"name":"torch"},"runtimePatches":[{}]}}`, ".spec.runtimePatches[0].manager is required"},
	} {
		t.Run(name, func(t *testing.T) {
			var model trainJobModel
			err := decode([]byte(tc.text), &model)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
	var runtime runtimeModel
	if err := decode([]byte(`{"spec":{"mlPolicy":{"flux":{"numProcPerNode":"1"}}}}`), &runtime); err == nil {
		t.Error("a number as text was taken for a number")
	}
	err := decode([]byte(`{"spec":{"template":{"spec":{"replicatedJobs":[{"template":{"spec":{"template":{"spec":{"containers":[{"name":"node"},{"image":"x"}]}}}},"name":"node"}]}}}}`), &runtime)
	if err == nil || !strings.Contains(err.Error(), "containers[1].name is required") {
		t.Errorf("a container without a name: %v", err)
	}
}

func TestRunningIsSaidOnlyWithoutConditions(t *testing.T) {
	condition := func(conditionType string, status metav1.ConditionStatus) []metav1.Condition {
		return []metav1.Condition{{Type: conditionType, Status: status}}
	}
	running, succeeded, pending := Step{Name: "node-0", Status: "Running"}, Step{Name: "node-1", Status: "Succeeded"}, Step{Name: "node-1", Status: "Pending"}
	for name, tc := range map[string]struct {
		conditions []metav1.Condition
		steps      []Step
		want       string
	}{
		"no pods":                               {nil, nil, Created},
		"one node waits":                        {nil, []Step{running, pending}, Created},
		"all nodes run or have ended":           {nil, []Step{running, succeeded}, Running},
		"initializers do not count":             {nil, []Step{running, {Name: "model-initializer", Status: "Running"}}, Created},
		"a condition that is False hides it":    {condition("Suspended", metav1.ConditionFalse), []Step{running, succeeded}, Created},
		"a condition of another type hides it":  {condition("Pending", metav1.ConditionTrue), []Step{running, succeeded}, Created},
		"Complete counts when it is True":       {condition(Complete, metav1.ConditionTrue), nil, Complete},
		"Complete does not count when not True": {condition(Complete, metav1.ConditionUnknown), nil, Created},
		"Failed":                                {condition(Failed, metav1.ConditionTrue), []Step{running, succeeded}, Failed},
	} {
		t.Run(name, func(t *testing.T) {
			if got := status(tc.conditions, tc.steps, 2); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestRuntimesAreReadByTheirLabelsAndLimits(t *testing.T) {
	const head = `{metadata: {name: r, labels: {trainer.kubeflow.org/framework: torch}}, spec: {mlPolicy: {numNodes: 2, torch: {}}, template: {spec: {replicatedJobs: [`
	job := func(labels, container string) string {
		return `{name: node, template: {metadata: {labels: {` + labels + `}}, spec: {template: {spec: {containers: [` + container + `]}}}}}`
	}
	const step, tail = "trainer.kubeflow.org/trainjob-ancestor-step: trainer", `]}}}}`
	for name, tc := range map[string]struct {
		text string
		want Runtime
		err  string
	}{
		"GPUs are counted over all nodes": {
			head + job(step, `{name: node, image: x, resources: {limits: {nvidia.com/gpu: 4, cpu: 8}}}`) + tail,
			Runtime{Name: "r", Framework: "torch", Image: "x", Entrypoint: "torchrun", Device: "gpu", DeviceCount: "8", NumNodes: 2}, "",
		},
		"requests do not count": {
			head + job(step, `{name: node, image: x, resources: {requests: {cpu: 8}}}`) + tail,
			Runtime{Name: "r", Framework: "torch", Image: "x", Entrypoint: "torchrun", Device: "Unknown", DeviceCount: "Unknown", NumNodes: 2}, "",
		},
		"limits without a device":           {head + job(step, `{name: node, image: x, resources: {limits: {memory: 1Gi}}}`) + tail, Runtime{}, "no device"},
		"a job without the step's label":    {head + job("", `{name: node, image: x}`) + tail, Runtime{}, "no container"},
		"a container of another name":       {head + job(step, `{name: main, image: x}`) + tail, Runtime{}, "no container"},
		"a container without image":         {head + job(step, `{name: node}`) + tail, Runtime{}, "no container"},
		"a runtime without its framework":   {`{metadata: {name: r}, spec: {mlPolicy: {}, template: {spec: {replicatedJobs: [` + job(step, `{name: node, image: x}`) + tail, Runtime{}, "the label"},
		"a runtime without a policy at all": {`{metadata: {name: r}, spec: {template: {spec: {replicatedJobs: [` + job(step, `{name: node, image: x}`) + tail, Runtime{}, "spec.mlPolicy"},
	} {
		t.Run(name, func(t *testing.T) {
			var model runtimeModel
			if err := yaml.Unmarshal([]byte(tc.text), &model); err != nil {
				t.Fatal(err)
			}
			got, err := readRuntime(model)
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Fatalf("error %v, want %q", err, tc.err)
			}
			if diff := cmp.Diff(tc.want, got); err == nil && diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestUnderMPITheLauncherIsTheFirstNode(t *testing.T) {
	pod := func(rjob string) corev1.Pod {
		return corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: rjob, Labels: map[string]string{replicatedJobLabel: rjob, indexLabel: "0"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: node, Env: []corev1.EnvVar{{Name: "PET_NPROC_PER_NODE", Value: "4"}}}}},
			Status:     corev1.PodStatus{Phase: corev1.PodRunning},
		}
	}
	var steps []Step
	for _, rjob := range []string{launcher, node} {
		step, err := readStep(pod(rjob), Runtime{Entrypoint: "mpirun"})
		if err != nil {
			t.Fatal(err)
		}
		steps = append(steps, step)
	}
	want := []Step{
		{Name: "node-0", Status: "Running", Pod: launcher, Device: "Unknown", DeviceCount: "4"},
		{Name: "node-1", Status: "Running", Pod: node, Device: "Unknown", DeviceCount: "4"},
	}
	if diff := cmp.Diff(want, steps); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for step, want := range map[string]string{"node-1": "node/node", "node-0": "launcher/node", "model-initializer": ""} {
		pod, container, ok := Job{Steps: steps}.LogOf(step)
		if got := pod + "/" + container; ok != (want != "") || ok && got != want {
			t.Errorf("the log of %s is that of %s, want %s", step, got, want)
		}
	}
}

func TestTrainSendsNumbersAsFractionsAndNothingThatIsNotSet(t *testing.T) {
	training := Training{
		Name: "a", NumNodes: 2, ResourcesPerNode: map[string]any{"cpu": 2, "memory": "1Gi"},
		Patches: []JobPatch{{ReplicatedJob: node, PodAnnotations: map[string]string{"k": "v"}}},
	}
	got, err := json.Marshal(training.object(Runtime{Name: "torch", Entrypoint: "torchrun"}))
	if err != nil {
		t.Fatal(err)
	}
	resources := `{"cpu":2.0,"memory":"1Gi"}`
	want := `{"apiVersion":"trainer.kubeflow.org/v1alpha1","kind":"TrainJob","metadata":{"name":"a"},"spec":{` +
		`"runtimePatches":[{"manager":"trainer.kubeflow.org/kubeflow-sdk","trainingRuntimeSpec":{"template":{"spec":{"replicatedJobs":[` +
		`{"name":"node","template":{"spec":{"template":{"metadata":{"annotations":{"k":"v"}}}}}}]}}}}],` +
		`"runtimeRef":{"name":"torch"},"trainer":{"numNodes":2,"resourcesPerNode":{"limits":` + resources + `,"requests":` + resources + `}}}}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
