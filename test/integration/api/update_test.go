package api

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// fixed is a field of a TrainJob that keeps the value it was created with.
type fixed struct {
	// job is what is created, over baseJob.
	job string
	// status, if any, is what the controller has written since.
	status  string
	allowed []string
	refused []string
	names   string
}

var immutable = map[string]fixed{
	"runtimeRef": {
		job:     ``,
		allowed: []string{`spec: {runtimeRef: {name: torch, kind: ClusterTrainingRuntime, apiGroup: trainer.kubeflow.org}}`},
		refused: []string{`spec: {runtimeRef: {name: other}}`, `spec: {runtimeRef: {kind: TrainingRuntime}}`, `spec: {runtimeRef: {apiGroup: example.com}}`},
		names:   "spec.runtimeRef"},
	"trainer": {
		job: `spec: {trainer: {numNodes: 2, env: [{name: A, value: "1"}, {name: B, valueFrom: {secretKeyRef: {name: s, key: k}}}], resourcesPerNode: {limits: {cpu: "0.5", memory: 1Gi}, requests: {cpu: "0.5"}}}}`,
		allowed: []string{
			`spec: {trainer: {numNodes: 2}}`,
			`spec: {trainer: {resourcesPerNode: {limits: {cpu: 500m, memory: 1024Mi}}}}`,
			`spec: {trainer: {command: [], args: []}}`,
			`spec: {trainer: {image: ""}}`},
		refused: []string{
			`spec: {trainer: {numNodes: 3}}`, `spec: {trainer: {numNodes: null}}`, `spec: {trainer: {numProcPerNode: 1}}`,
			`spec: {trainer: {image: new}}`, `spec: {trainer: {command: [a]}}`, `spec: {trainer: {args: [a]}}`,
			`spec: {trainer: {env: []}}`, `spec: {trainer: {env: null}}`, `spec: {trainer: null}`, `spec: {trainer: {env: [{name: A, value: "1"}]}}`,
			`spec: {trainer: {env: [{name: A, value: "2"}, {name: B, valueFrom: {secretKeyRef: {name: s, key: k}}}]}}`,
			`spec: {trainer: {env: [{name: A}, {name: B, valueFrom: {secretKeyRef: {name: s, key: k}}}]}}`,
			`spec: {trainer: {env: [{name: C, value: "1"}, {name: B, valueFrom: {secretKeyRef: {name: s, key: k}}}]}}`,
			`spec: {trainer: {env: [{name: A, value: "1"}, {name: B, valueFrom: {secretKeyRef: {name: s, key: other}}}]}}`,
			`spec: {trainer: {env: [{name: A, value: "1"}, {name: B, valueFrom: {secretKeyRef: {name: other, key: k}}}]}}`,
			`spec: {trainer: {env: [{name: A, value: "1"}, {name: B, valueFrom: {configMapKeyRef: {name: s, key: k}}}]}}`,
			`spec: {trainer: {env: [{name: A, value: "1"}, {name: B, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]}}`,
			`spec: {trainer: {env: [{name: A, value: "1"}, {name: B, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}]}}`,
			`spec: {trainer: {env: [{name: A, value: "1"}, {name: B}]}}`,
			`spec: {trainer: {resourcesPerNode: null}}`,
			`spec: {trainer: {resourcesPerNode: {claims: [{name: c}]}}}`},
		names: "spec.trainer"},
	"absent trainer": {
		job:     ``,
		refused: []string{`spec: {trainer: {}}`, `spec: {trainer: {numNodes: 2}}`},
		names:   "spec.trainer"},
	"initializer": {
		job:     `spec: {initializer: {dataset: {storageUri: "hf://a", secretRef: {name: s}, env: [{name: A, value: ""}]}}}`,
		allowed: []string{`spec: {initializer: {dataset: {storageUri: "hf://a"}}}`, `spec: {initializer: {dataset: {env: [{name: A}]}}}`},
		refused: []string{`spec: {initializer: {dataset: {storageUri: "hf://b"}}}`, `spec: {initializer: {dataset: {storageUri: null}}}`,
			`spec: {initializer: {dataset: {secretRef: {name: t}}}}`, `spec: {initializer: {dataset: {secretRef: null}}}`,
			`spec: {initializer: {dataset: {env: [{name: A, value: "1"}]}}}`, `spec: {initializer: {dataset: {env: null}}}`,
			`spec: {initializer: {dataset: null}}`, `spec: {initializer: {model: {}}}`, `spec: {initializer: null}`},
		names: "spec.initializer"},
	"initializer of a model": {
		job:     `spec: {initializer: {model: {storageUri: "hf://a", secretRef: {name: s}, env: [{name: A, value: ""}]}}}`,
		allowed: []string{`spec: {initializer: {model: {storageUri: "hf://a", env: [{name: A}]}}}`},
		refused: []string{`spec: {initializer: {model: {storageUri: "hf://b"}}}`, `spec: {initializer: {model: {secretRef: null}}}`,
			`spec: {initializer: {model: {env: [{name: B}]}}}`, `spec: {initializer: {dataset: {}}}`},
		names: "spec.initializer"},
	"absent initializer": {
		job:     ``,
		refused: []string{`spec: {initializer: {}}`, `spec: {initializer: {model: {storageUri: "hf://m"}}}`},
		names:   "spec.initializer"},
	"managedBy": {
		job:     ``,
		allowed: []string{`spec: {managedBy: trainer.kubeflow.org/trainjob-controller}`, `spec: {managedBy: null}`},
		refused: []string{`spec: {managedBy: kueue.x-k8s.io/multikueue}`},
		names:   "spec.managedBy"},
	"managedBy of another controller": {
		job:     `spec: {managedBy: kueue.x-k8s.io/multikueue}`,
		refused: []string{`spec: {managedBy: trainer.kubeflow.org/trainjob-controller}`, `spec: {managedBy: null}`},
		names:   "spec.managedBy"},
	"ttlSecondsAfterFinished": {
		job:     `spec: {ttlSecondsAfterFinished: 60}`,
		allowed: []string{`spec: {ttlSecondsAfterFinished: 60}`, `spec: {ttlSecondsAfterFinished: null}`},
		refused: []string{`spec: {ttlSecondsAfterFinished: 61}`, `spec: {ttlSecondsAfterFinished: 0}`},
		names:   "spec.ttlSecondsAfterFinished"},
	"absent ttlSecondsAfterFinished": {
		job:     ``,
		status:  `status: {lifecycle: {activeDeadlineSeconds: 60}}`,
		refused: []string{`spec: {ttlSecondsAfterFinished: 60}`, `spec: {ttlSecondsAfterFinished: 0}`},
		names:   "spec.ttlSecondsAfterFinished"},
	"ttlSecondsAfterFinished that an old client has dropped": {
		job:     ``,
		status:  `status: {lifecycle: {ttlSecondsAfterFinished: 60}}`,
		allowed: []string{`spec: {ttlSecondsAfterFinished: 60}`},
		refused: []string{`spec: {ttlSecondsAfterFinished: 61}`, `spec: {ttlSecondsAfterFinished: 0}`},
		names:   "spec.ttlSecondsAfterFinished"},
	"activeDeadlineSeconds": {
		job:     `spec: {activeDeadlineSeconds: 60}`,
		allowed: []string{`spec: {activeDeadlineSeconds: 60}`, `spec: {activeDeadlineSeconds: null}`},
		refused: []string{`spec: {activeDeadlineSeconds: 61}`, `spec: {activeDeadlineSeconds: 1}`},
		names:   "spec.activeDeadlineSeconds"},
	"absent activeDeadlineSeconds": {
		job:     ``,
		status:  `status: {lifecycle: {}}`,
		refused: []string{`spec: {activeDeadlineSeconds: 60}`},
		names:   "spec.activeDeadlineSeconds"},
	"activeDeadlineSeconds that an old client has dropped": {
		job:     ``,
		status:  `status: {lifecycle: {activeDeadlineSeconds: 60}}`,
		allowed: []string{`spec: {activeDeadlineSeconds: 60}`},
		refused: []string{`spec: {activeDeadlineSeconds: 61}`},
		names:   "spec.activeDeadlineSeconds"},
}

// heldPod holds every field of a pod that a patch may set, so that each can be changed.
const heldPod = `{serviceAccountName: a, nodeSelector: {a: b}, volumes: [{name: v, emptyDir: {}}],
	containers: [{name: c, env: [{name: A, value: "1"}]}], initContainers: [{name: i}],
	imagePullSecrets: [{name: s}], securityContext: {runAsUser: 1}, terminationGracePeriodSeconds: 30, tolerations: [{key: t}]}`

// changedPod is heldPod with another value of one field.
func changedPod(was, is string) string { return atPod(strings.Replace(heldPod, was, is, 1)) }

func init() {
	// What JobSet cannot take after its first start stays as it is even while the job
	// is suspended. Of lists whose items can be written in more than one way, the schema
	// compares what cannot; the rest is admission's to compare.
	for field, change := range map[string][2]string{
		"serviceAccountName": {"serviceAccountName: a", "serviceAccountName: b"},
		"volumes":            {"name: v", "name: w"},
		"containers":         {"{name: c, ", "{name: d, "},
		"initContainers":     {"{name: i}", "{name: j}"},
		"imagePullSecrets":   {"{name: s}", "{name: r}"},
		"securityContext":    {"runAsUser: 1", "runAsUser: 2"},

		"terminationGracePeriodSeconds": {"terminationGracePeriodSeconds: 30", "terminationGracePeriodSeconds: 31"},
	} {
		immutable["patch of "+field] = fixed{
			job:     "spec: {suspend: true}\n---\n" + atPod(heldPod),
			allowed: []string{atPod(heldPod), changedPod("a: b", "c: d"), changedPod("key: t", "key: u"), `spec: {runtimePatches: []}`},
			refused: []string{changedPod(change[0], change[1])},
			names:   "template.spec." + field,
		}
	}
	for what, change := range map[string][2]string{
		"a variable of a container": {`{name: A, value: "1"}`, `{name: A, value: "1"}, {name: B}`},
		"all variables":             {`env: [{name: A, value: "1"}]`, `env: []`},
		"a mount":                   {`{name: c, `, `{name: c, volumeMounts: [{name: v, mountPath: /v}], `},
	} {
		immutable["patch of "+what] = fixed{
			job:     "spec: {suspend: true}\n---\n" + atPod(heldPod),
			refused: []string{changedPod(change[0], change[1])},
			names:   "template.spec.containers",
		}
	}
}

func TestFieldsFixedAtCreation(t *testing.T) {
	t.Parallel()
	number := 0
	for name, field := range immutable {
		number++
		job := fmt.Sprintf("fixed-%d", number)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			layers := append([]string{baseJob}, strings.Split(field.job, "\n---\n")...)
			create(t, trainJobs, append(layers, "metadata: {name: "+job+"}")...)
			if field.status != "" {
				patch(t, trainJobs, job, field.status, "status")
			}
			for _, change := range field.allowed {
				if err := rehearsePatch(t, trainJobs, job, change); err != nil {
					t.Errorf("%s: %v", change, err)
				}
			}
			for _, change := range field.refused {
				wantRefused(t, rehearsePatch(t, trainJobs, job, change), field.names)
			}
		})
	}
}

// The patches of a job are what Kueue and others place it by. Under a job that runs they
// would say what is not so.
func TestPatchesChangeOnlyInSuspension(t *testing.T) {
	t.Parallel()
	selector := func(value string) string { return atPod(`{nodeSelector: {zone: ` + value + `}}`) }
	none, suspended, running := `spec: {runtimePatches: null}`, `spec: {suspend: true}`, `spec: {suspend: false}`
	for name, c := range map[string]struct {
		before  []string
		change  []string
		refused bool
	}{
		"changed while suspended":               {before: []string{suspended, selector("a")}, change: []string{selector("b")}},
		"added while suspended":                 {before: []string{suspended}, change: []string{selector("b")}},
		"removed while suspended":               {before: []string{suspended, selector("a")}, change: []string{none}},
		"changed in the update that resumes":    {before: []string{suspended, selector("a")}, change: []string{running, selector("b")}},
		"removed in the update that suspends":   {before: []string{running, selector("a")}, change: []string{suspended, none}},
		"changed in the update that suspends":   {before: []string{running, selector("a")}, change: []string{suspended, selector("b")}},
		"as they are, in the update of a run":   {before: []string{running, selector("a")}, change: []string{selector("a")}},
		"written in another way, while running": {before: []string{running, atPod(`{volumes: [{name: v, emptyDir: {sizeLimit: 0.5Gi}}], containers: [{name: c, env: [{name: A, value: ""}]}]}`)}, change: []string{atPod(`{volumes: [{name: v, emptyDir: {sizeLimit: 512Mi}}], containers: [{name: c, env: [{name: A}]}]}`)}},
		"no patches as an empty list":           {before: []string{running}, change: []string{`spec: {runtimePatches: []}`}},
		"another toleration while running":      {before: []string{running, atPod(`{tolerations: [{key: a}]}`)}, change: []string{atPod(`{tolerations: [{key: b}]}`)}, refused: true},
		"another job while running":             {before: []string{running, selector("a")}, change: []string{strings.Replace(selector("a"), "name: node", "name: other", 1)}, refused: true},
		"another manager while running":         {before: []string{running, selector("a")}, change: []string{strings.Replace(selector("a"), "manager: example.com/m", "manager: example.com/n", 1)}, refused: true},
		"changed while running":                 {before: []string{running, selector("a")}, change: []string{selector("b")}, refused: true},
		"added while running":                   {before: []string{running}, change: []string{selector("b")}, refused: true},
		"removed while running":                 {before: []string{running, selector("a")}, change: []string{none}, refused: true},
		"emptied while running":                 {before: []string{running, selector("a")}, change: []string{`spec: {runtimePatches: []}`}, refused: true},
		"a second manager's while running":      {before: []string{running}, change: []string{`spec: {runtimePatches: [{manager: example.com/m}]}`}, refused: true},
		"changed without a word about suspend":  {before: []string{`spec: {suspend: null}`, selector("a")}, change: []string{selector("b")}, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job := create(t, trainJobs, append([]string{baseJob, "metadata: {name: null, generateName: patched-}"}, c.before...)...)
			err := rehearseMerged(t, job, c.change...)
			if c.refused {
				wantRefused(t, err, "spec.runtimePatches")
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

// rehearseMerged is rehearsePatch with several changes in one request.
func rehearseMerged(t *testing.T, job *unstructured.Unstructured, changes ...string) error {
	t.Helper()
	all := object(t, trainJobs, changes...)
	data, err := all.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return rehearsePatch(t, trainJobs, job.GetName(), string(data))
}
