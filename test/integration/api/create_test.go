package api

import (
	"strings"
	"testing"
)

const baseJob = `
metadata: {name: base}
spec: {runtimeRef: {name: torch}}
`

// rule is a limit of a CRD: one object just within it and one just beyond it, as
// changes of a valid object, and what the refusal must name.
type rule struct {
	within, beyond string
	names          string
}

var trainJobRules = map[string]rule{
	"a name begins with a letter": {
		`metadata: {name: a1-b}`, `metadata: {name: 1ab}`, "metadata.name"},
	"a name is a label and has no dots": {
		`metadata: {name: ab}`, `metadata: {name: a.b}`, "metadata.name"},
	"a name does not end with a hyphen": {
		`metadata: {name: a-b}`, `metadata: {name: a-}`, "metadata.name"},
	"a name has at most 63 characters": {
		`metadata: {name: ` + strings.Repeat("a", 63) + `}`, `metadata: {name: ` + strings.Repeat("a", 64) + `}`, "metadata.name must be no more than 63"},
	"a runtime is named": {
		`spec: {runtimeRef: {name: a}}`, `spec: {runtimeRef: {name: ""}}`, "spec.runtimeRef.name"},
	"a runtime has a reference": {
		``, `spec: {runtimeRef: null, suspend: true}`, "spec.runtimeRef"},
	"a runtime's name has at most 253 characters": {
		`spec: {runtimeRef: {name: ` + strings.Repeat("a", 253) + `}}`, `spec: {runtimeRef: {name: ` + strings.Repeat("a", 254) + `}}`, "spec.runtimeRef.name"},
	"a runtime's name is one that a runtime can have": {
		`spec: {runtimeRef: {name: a-1.b}}`, `spec: {runtimeRef: {name: A_1}}`, "no runtime can have the name A_1: use"},
	"a runtime's name does not end with a dot": {
		`spec: {runtimeRef: {name: a.b}}`, `spec: {runtimeRef: {name: a.}}`, "no runtime can have the name a.: use"},
	"a variable has a name": {
		`spec: {trainer: {env: [{name: A}]}}`, `spec: {trainer: {env: [{name: ""}]}}`, "spec.trainer.env[0].name"},
	"a variable's name is one that a process can have": {
		`spec: {trainer: {env: [{name: "~A.b-c 1<>"}]}}`, `spec: {trainer: {env: [{name: A=B}]}}`, "spec.trainer.env[0].name"},
	"a variable's name is in ASCII": {
		`spec: {initializer: {model: {env: [{name: " "}]}}}`, `spec: {initializer: {model: {env: [{name: "Ä"}]}}}`, "spec.initializer.model.env[0].name"},
	"a variable's name has no tabs": {
		`spec: {initializer: {dataset: {env: [{name: "a b"}]}}}`, `spec: {initializer: {dataset: {env: [{name: "a\tb"}]}}}`, "spec.initializer.dataset.env[0].name"},
	"a variable that refers to something says to what": {
		`spec: {trainer: {env: [{name: A, valueFrom: {configMapKeyRef: {name: c, key: k}}}]}}`, `spec: {trainer: {env: [{name: A, valueFrom: {}}]}}`, "spec.trainer.env[0].valueFrom"},
	"a variable refers to one thing": {
		`spec: {trainer: {env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]}}`,
		`spec: {trainer: {env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}, secretKeyRef: {name: s, key: k}}}]}}`, "spec.trainer.env[0].valueFrom"},
	"a limit is not negative": {
		`spec: {trainer: {resourcesPerNode: {limits: {memory: 0, cpu: "-0"}}}}`, `spec: {trainer: {resourcesPerNode: {limits: {memory: -1Gi}}}}`, `spec.trainer.resourcesPerNode.limits.memory: Invalid value: "-1Gi"`},
	"a request is not negative": {
		`spec: {trainer: {resourcesPerNode: {requests: {cpu: 500m}}}}`, `spec: {trainer: {resourcesPerNode: {requests: {cpu: -1}}}}`, "spec.trainer.resourcesPerNode.requests.cpu in body should be greater than or equal to 0"},
	"a dataset's Secret has a name": {
		`spec: {initializer: {dataset: {secretRef: {name: s}}}}`, `spec: {initializer: {dataset: {secretRef: {}}}}`, "spec.initializer.dataset.secretRef"},
	"a model's Secret has a name": {
		`spec: {initializer: {model: {secretRef: {name: s}}}}`, `spec: {initializer: {model: {secretRef: {name: ""}}}}`, "spec.initializer.model.secretRef"},
	"a variable has a value or a source": {
		`spec: {trainer: {env: [{name: A, value: "", valueFrom: {fieldRef: {fieldPath: metadata.name}}}]}}`,
		`spec: {trainer: {env: [{name: A, value: "1", valueFrom: {fieldRef: {fieldPath: metadata.name}}}]}}`, "remove one of the two"},
	"a dataset's URI is given in one place": {
		`spec: {initializer: {dataset: {env: [{name: STORAGE_URI, value: /d}]}}}`,
		`spec: {initializer: {dataset: {storageUri: "hf://d", env: [{name: STORAGE_URI, value: /d}]}}}`, "STORAGE_URI is set from storageUri"},
	"a model's URI is given in one place": {
		`spec: {initializer: {model: {storageUri: "hf://d", env: [{name: OTHER, value: /d}]}}}`,
		`spec: {initializer: {model: {storageUri: "hf://d", env: [{name: STORAGE_URI, value: /d}]}}}`, "STORAGE_URI is set from storageUri"},
	"only two controllers are known": {
		`spec: {managedBy: kueue.x-k8s.io/multikueue}`, `spec: {managedBy: example.com/mine}`, "not example.com/mine: give one of the two"},
	"the time to live may be zero": {
		`spec: {ttlSecondsAfterFinished: 0}`, `spec: {ttlSecondsAfterFinished: -1}`, "spec.ttlSecondsAfterFinished"},
	"the time to live is a 32-bit number": {
		`spec: {ttlSecondsAfterFinished: 2147483647}`, `spec: {ttlSecondsAfterFinished: 2147483648}`, "spec.ttlSecondsAfterFinished"},
	"the deadline is at least one second": {
		`spec: {activeDeadlineSeconds: 1}`, `spec: {activeDeadlineSeconds: 0}`, "spec.activeDeadlineSeconds"},
	"the deadline is not negative": {
		`spec: {activeDeadlineSeconds: 9223372036854775807}`, `spec: {activeDeadlineSeconds: -5}`, "spec.activeDeadlineSeconds"},
	"a node has at least one process": {
		`spec: {trainer: {numProcPerNode: 1}}`, `spec: {trainer: {numProcPerNode: 0}}`, "spec.trainer.numProcPerNode"},
	"the number of nodes is not negative": {
		`spec: {trainer: {numNodes: 1}}`, `spec: {trainer: {numNodes: -1}}`, "spec.trainer.numNodes"},
	"an image has at most 500 characters": {
		`spec: {trainer: {image: ` + strings.Repeat("i", 500) + `}}`, `spec: {trainer: {image: ` + strings.Repeat("i", 501) + `}}`, "spec.trainer.image"},
	"a command has at most 128 words": {
		`spec: {trainer: {command: ` + list(128, "x") + `}}`, `spec: {trainer: {command: ` + list(129, "x") + `}}`, "spec.trainer.command"},
	"arguments are at most 128": {
		`spec: {trainer: {args: ` + list(128, "x") + `}}`, `spec: {trainer: {args: ` + list(129, "x") + `}}`, "spec.trainer.args"},
	"an argument has at most a MiB": {
		`spec: {trainer: {args: [` + strings.Repeat("a", 1<<20) + `]}}`, `spec: {trainer: {args: [` + strings.Repeat("a", 1<<20+1) + `]}}`, "spec.trainer.args[0]"},
	"a variable is given once": {
		`spec: {trainer: {env: [{name: A, value: "1"}, {name: B}]}}`, `spec: {trainer: {env: [{name: A, value: "1"}, {name: A, value: "2"}]}}`, "spec.trainer.env[1]"},
	"variables are at most 128": {
		`spec: {trainer: {env: ` + list(128, "{name: A%d}") + `}}`, `spec: {trainer: {env: ` + list(129, "{name: A%d}") + `}}`, "spec.trainer.env"},
	"a dataset has a URI with a scheme": {
		`spec: {initializer: {dataset: {storageUri: "s3://bucket/path"}}}`, `spec: {initializer: {dataset: {storageUri: bucket/path}}}`, "spec.initializer.dataset.storageUri"},
	"a dataset may have no URI": {
		`spec: {initializer: {dataset: {storageUri: ""}}}`, `spec: {initializer: {dataset: {storageUri: /data}}}`, "spec.initializer.dataset.storageUri"},
	"a model has a URI with a scheme": {
		`spec: {initializer: {model: {storageUri: "hf://org/name"}}}`, `spec: {initializer: {model: {storageUri: org/name}}}`, "spec.initializer.model.storageUri"},
	"a model may have no URI": {
		`spec: {initializer: {model: {storageUri: ""}}}`, `spec: {initializer: {model: {storageUri: "hf://"}}}`, "spec.initializer.model.storageUri"},
	"a dataset's URI has at most 2048 characters": {
		`spec: {initializer: {dataset: {storageUri: "s3://` + strings.Repeat("d", 2043) + `"}}}`, `spec: {initializer: {dataset: {storageUri: "s3://` + strings.Repeat("d", 2044) + `"}}}`, "spec.initializer.dataset.storageUri"},
	"a model's URI has at most 2048 characters": {
		`spec: {initializer: {model: {storageUri: "s3://` + strings.Repeat("m", 2043) + `"}}}`, `spec: {initializer: {model: {storageUri: "s3://` + strings.Repeat("m", 2044) + `"}}}`, "spec.initializer.model.storageUri"},
	"a dataset's variable is given once": {
		`spec: {initializer: {dataset: {env: [{name: A}]}}}`, `spec: {initializer: {dataset: {env: [{name: A}, {name: A}]}}}`, "spec.initializer.dataset.env[1]"},
	"a model's variable is given once": {
		`spec: {initializer: {model: {env: [{name: A}]}}}`, `spec: {initializer: {model: {env: [{name: A}, {name: A}]}}}`, "spec.initializer.model.env[1]"},
}

var patchRules = map[string]rule{
	"a manager has one entry": {
		`spec: {runtimePatches: [{manager: example.com/a}, {manager: example.com/b}]}`, `spec: {runtimePatches: [{manager: example.com/a}, {manager: example.com/a}]}`, "spec.runtimePatches[1]"},
	"a manager has a name": {
		`spec: {runtimePatches: [{manager: example.com/a}]}`, `spec: {runtimePatches: [{manager: ""}]}`, "spec.runtimePatches[0].manager"},
	"a manager has a domain": {
		`spec: {runtimePatches: [{manager: kueue.x-k8s.io/manager}, {manager: a/b/C%~}]}`, `spec: {runtimePatches: [{manager: me}]}`, "spec.runtimePatches[0].manager: Invalid value"},
	"a manager's domain is one": {
		`spec: {runtimePatches: [{manager: a-1.b/c}]}`, `spec: {runtimePatches: [{manager: A.b/c}]}`, "give a name such as example.com/me"},
	"a manager has a path": {
		`spec: {runtimePatches: [{manager: a.b/-}]}`, `spec: {runtimePatches: [{manager: a.b/}]}`, "spec.runtimePatches[0].manager"},
	"a manager's path is one": {
		`spec: {runtimePatches: [{manager: a.b/c}]}`, `spec: {runtimePatches: [{manager: a.b/c d}]}`, "spec.runtimePatches[0].manager"},
	"pods have no less than no time to end": {
		atPod(`{terminationGracePeriodSeconds: 0}`), atPod(`{terminationGracePeriodSeconds: -1}`), "terminationGracePeriodSeconds"},
	"managers are at most 16": {
		`spec: {runtimePatches: ` + list(16, "{manager: example.com/m%d}") + `}`, `spec: {runtimePatches: ` + list(17, "{manager: example.com/m%d}") + `}`, "spec.runtimePatches"},
	"a job is patched once": {
		`spec: {runtimePatches: [{manager: example.com/m, trainingRuntimeSpec: {template: {spec: {replicatedJobs: [{name: a}, {name: b}]}}}}]}`,
		`spec: {runtimePatches: [{manager: example.com/m, trainingRuntimeSpec: {template: {spec: {replicatedJobs: [{name: a}, {name: a}]}}}}]}`,
		"spec.runtimePatches[0].trainingRuntimeSpec.template.spec.replicatedJobs[1]"},
	"a job's name is a label": {
		`spec: {runtimePatches: [{manager: example.com/m, trainingRuntimeSpec: {template: {spec: {replicatedJobs: [{name: a-b}]}}}}]}`,
		`spec: {runtimePatches: [{manager: example.com/m, trainingRuntimeSpec: {template: {spec: {replicatedJobs: [{name: a_b}]}}}}]}`,
		"replicatedJobs[0].name"},
	"a container is patched once": {
		atPod(`{containers: [{name: a}, {name: b}]}`), atPod(`{containers: [{name: a}, {name: a}]}`), "containers[1]"},
	"an init container is patched once": {
		atPod(`{initContainers: [{name: a}, {name: b}]}`), atPod(`{initContainers: [{name: a}, {name: a}]}`), "initContainers[1]"},
	"a volume is given once": {
		atPod(`{volumes: [{name: a}, {name: b}]}`), atPod(`{volumes: [{name: a}, {name: a}]}`), "volumes[1]"},
	"a volume may be mounted twice at two paths": {
		atPod(`{containers: [{name: a, volumeMounts: [{name: v, mountPath: /a}, {name: v, mountPath: /b}]}]}`),
		atPod(`{containers: [{name: a, volumeMounts: [{name: v, mountPath: /a}, {name: w, mountPath: /a}]}]}`), "volumeMounts[1]"},
	"a scheduling gate is given once": {
		atPod(`{schedulingGates: [{name: a}, {name: b}]}`), atPod(`{schedulingGates: [{name: a}, {name: a}]}`), "schedulingGates[1]"},
	"scheduling gates are at most 16": {
		atPod(`{schedulingGates: ` + list(16, "{name: g%d}") + `}`), atPod(`{schedulingGates: ` + list(17, "{name: g%d}") + `}`), "schedulingGates"},
	"a toleration without a key tolerates all": {
		atPod(`{tolerations: [{operator: Exists}]}`), atPod(`{tolerations: [{key: a}, {value: a}]}`), "tolerations: Invalid value"},
	"a toleration of all values has no value": {
		atPod(`{tolerations: [{key: a, operator: Exists, value: ""}, {key: b, operator: Equal, value: c}]}`), atPod(`{tolerations: [{key: a, operator: Exists, value: b}]}`), "remove the value"},
	"a patch's variable has a name": {
		atPod(`{containers: [{name: a, env: [{name: A}]}]}`), atPod(`{containers: [{name: a, env: [{name: ""}]}]}`), "containers[0].env[0].name"},
	"a patch's variable has a name that a process can have": {
		atPod(`{initContainers: [{name: a, env: [{name: A-B}]}]}`), atPod(`{initContainers: [{name: a, env: [{name: A=B}]}]}`), "initContainers[0].env[0].name"},
	"a patch's variable refers to something": {
		atPod(`{containers: [{name: a, env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]}]}`), atPod(`{containers: [{name: a, env: [{name: A, valueFrom: {}}]}]}`), "containers[0].env[0].valueFrom"},
	"tolerations are at most 128": {
		atPod(`{tolerations: ` + list(128, "{key: k%d}") + `}`), atPod(`{tolerations: ` + list(129, "{key: k%d}") + `}`), "tolerations"},
}

func TestTrainJobsBeyondALimitAreRefused(t *testing.T) {
	t.Parallel()
	for _, rules := range []map[string]rule{trainJobRules, patchRules} {
		for name, rule := range rules {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				if err := rehearseCreate(t, trainJobs, baseJob, rule.within); err != nil {
					t.Errorf("within the limit: %v", err)
				}
				wantRefused(t, rehearseCreate(t, trainJobs, baseJob, rule.beyond), rule.names)
			})
		}
	}
}

const baseRuntime = `
metadata: {name: base}
spec:
  template:
    spec:
      replicatedJobs:
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec: {template: {spec: {containers: [{name: node, image: "node:1"}]}}}
`

// jobsOf writes a template with these replicatedJobs: name, step and replicas of each.
func jobsOf(jobs ...[3]string) string {
	var all []string
	for _, job := range jobs {
		all = append(all, `{name: `+job[0]+`, replicas: `+job[2]+`, template: {metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: `+job[1]+`}}, spec: {template: {spec: {containers: [{name: c, image: "c:1"}]}}}}}`)
	}
	return `spec: {template: {spec: {replicatedJobs: [` + strings.Join(all, ", ") + `]}}}`
}

var runtimeRules = map[string]rule{
	"a step has one replica": {
		jobsOf([3]string{"a", "trainer", "1"}, [3]string{"b", "other", "2"}), jobsOf([3]string{"a", "trainer", "2"}), "has one replica"},
	"an initializer has one replica": {
		jobsOf([3]string{"a", "trainer", "1"}, [3]string{"b", "model-initializer", "1"}), jobsOf([3]string{"a", "trainer", "1"}, [3]string{"b", "model-initializer", "2"}), "has one replica"},
	"only one job trains": {
		jobsOf([3]string{"a", "trainer", "1"}, [3]string{"b", "dataset-initializer", "1"}),
		jobsOf([3]string{"a", "trainer", "1"}, [3]string{"b", "trainer", "1"}), "only one replicatedJob can have the label"},
	"one job fetches the dataset": {
		jobsOf([3]string{"t", "trainer", "1"}, [3]string{"a", "dataset-initializer", "1"}, [3]string{"b", "model-initializer", "1"}),
		jobsOf([3]string{"t", "trainer", "1"}, [3]string{"a", "dataset-initializer", "1"}, [3]string{"b", "dataset-initializer", "1"}), "trainjob-ancestor-step: dataset-initializer"},
	"one job fetches the model": {
		jobsOf([3]string{"t", "trainer", "1"}, [3]string{"a", "dataset-initializer", "1"}, [3]string{"b", "model-initializer", "1"}),
		jobsOf([3]string{"t", "trainer", "1"}, [3]string{"a", "model-initializer", "1"}, [3]string{"b", "model-initializer", "1"}), "trainjob-ancestor-step: model-initializer"},
	"a template has jobs": {
		``, `spec: {template: {spec: {replicatedJobs: []}}}`, "spec.template.spec.replicatedJobs: Invalid value"},
	"a framework alone is no runtime": {
		`spec: {mlPolicy: {torch: {}}}`, `spec: {mlPolicy: {torch: {}}, template: null}`, "give at least the one that trains"},
	"no job need be labelled as the one that trains": {
		`spec: {template: {spec: {replicatedJobs: [{name: node, template: {spec: {template: {spec: {containers: [{name: node, image: "n:1"}]}}}}}]}}}`, `spec: {template: {spec: {replicatedJobs: null}}}`, "give at least the one that trains"},
	"torch's nodes are numbered":   numbered(`torch: {}`),
	"jax's nodes are numbered":     numbered(`jax: {}`),
	"xgboost's nodes are numbered": numbered(`xgboost: {}`),
	"flux's nodes are numbered":    numbered(`flux: {}`),
	"mpi's launcher is numbered":   numbered(`mpi: {}`),
	"without a framework nodes need no numbers": {
		mode(`numNodes: 2`, "trainer", "NonIndexed"), mode(`torch: {}`, "trainer", "NonIndexed"), "set completionMode"},
	"jobs that do not train need no numbers": {
		mode(`torch: {}`, "model-initializer", "NonIndexed"), mode(`torch: {}`, "trainer", "NonIndexed"), "leave it out"},
	"a subdomain is the name of a Service": {
		subdomain("mesh-1"), subdomain("my.mesh"), "spec.template.spec.network.subdomain: Invalid value"},
	"a subdomain begins with a letter": {
		subdomain("a"), subdomain("1a"), "beginning with a letter"},
	"a subdomain does not end with a hyphen": {
		subdomain(`""`), subdomain("a-"), "network.subdomain"},
	"a subdomain has at most 63 characters": {
		subdomain(strings.Repeat("s", 63)), subdomain(strings.Repeat("s", 64)), "use at most 63"},
	"a runtime is not empty": {
		``, `spec: {template: null}`, "spec"},
	"one framework only": {
		`spec: {mlPolicy: {numNodes: 2, torch: {}}}`, `spec: {mlPolicy: {torch: {}, jax: {}}}`, "spec.mlPolicy"},
	"mpi and flux exclude each other": {
		`spec: {mlPolicy: {mpi: {}}}`, `spec: {mlPolicy: {mpi: {}, flux: {}}}`, "only one of torch, mpi, jax, xgboost and flux"},
	"xgboost counts as a framework too": {
		`spec: {mlPolicy: {xgboost: {}}}`, `spec: {mlPolicy: {torch: {}, xgboost: {}}}`, "spec.mlPolicy"},
	"the number of nodes is not negative": {
		`spec: {mlPolicy: {numNodes: 1}}`, `spec: {mlPolicy: {numNodes: -1}}`, "spec.mlPolicy.numNodes"},
	"one gang scheduler only": {
		`spec: {podGroupPolicy: {coscheduling: {}}}`, `spec: {podGroupPolicy: {coscheduling: {}, volcano: {}}}`, "spec.podGroupPolicy"},
	"a gang's timeout is not negative": {
		`spec: {podGroupPolicy: {coscheduling: {scheduleTimeoutSeconds: 0}}}`, `spec: {podGroupPolicy: {coscheduling: {scheduleTimeoutSeconds: -1}}}`, "scheduleTimeoutSeconds"},
	"a topology is hard or soft": {
		`spec: {podGroupPolicy: {volcano: {networkTopology: {mode: soft}}}}`, `spec: {podGroupPolicy: {volcano: {networkTopology: {mode: firm}}}}`, "networkTopology.mode"},
	"mpi has at least one process a node": {
		`spec: {mlPolicy: {mpi: {numProcPerNode: 1}}}`, `spec: {mlPolicy: {mpi: {numProcPerNode: 0}}}`, "spec.mlPolicy.mpi.numProcPerNode"},
	"mpi is OpenMPI": {
		`spec: {mlPolicy: {mpi: {mpiImplementation: OpenMPI}}}`, `spec: {mlPolicy: {mpi: {mpiImplementation: MPICH}}}`, "spec.mlPolicy.mpi.mpiImplementation"},
	"the ssh folder's path has at most 4096 characters": {
		`spec: {mlPolicy: {mpi: {sshAuthMountPath: /` + strings.Repeat("s", 4095) + `}}}`, `spec: {mlPolicy: {mpi: {sshAuthMountPath: /` + strings.Repeat("s", 4096) + `}}}`, "spec.mlPolicy.mpi.sshAuthMountPath"},
	"flux has at least one process a node": {
		`spec: {mlPolicy: {flux: {numProcPerNode: 1}}}`, `spec: {mlPolicy: {flux: {numProcPerNode: 0}}}`, "spec.mlPolicy.flux.numProcPerNode"},
	"flux counts by numbers": {
		`spec: {mlPolicy: {flux: {numProcPerNode: 2}}}`, `spec: {mlPolicy: {flux: {numProcPerNode: auto}}}`, "spec.mlPolicy.flux.numProcPerNode"},
	"the training container is no target of envInjection": {
		inject(`[{jobName: node, containerNames: [check]}]`), inject(`[{jobName: node, containerNames: [check, node]}]`), "containerNames"},
	"envInjection may have no targets": {
		inject(`[]`), inject(`[{jobName: node}]`), "spec.mlPolicy.torch.envInjection.targets[0].containerNames"},
	"a target names containers": {
		inject(`[{jobName: node, containerNames: [a]}]`), inject(`[{jobName: node, containerNames: []}]`), "containerNames"},
	"a target names a container once": {
		inject(`[{jobName: node, containerNames: [a, b]}]`), inject(`[{jobName: node, containerNames: [a, a]}]`), "containerNames[1]"},
	"a job is a target once": {
		inject(`[{jobName: a, containerNames: [x]}, {jobName: b, containerNames: [x]}]`), inject(`[{jobName: a, containerNames: [x]}, {jobName: a, containerNames: [y]}]`), "targets[1]"},
	"a target's job name is a label": {
		inject(`[{jobName: a-b, containerNames: [x]}]`), inject(`[{jobName: A, containerNames: [x]}]`), "jobName"},
	"a target's container name is a label": {
		inject(`[{jobName: a, containerNames: [x-y]}]`), inject(`[{jobName: a, containerNames: [x.y]}]`), "containerNames[0]"},
	"a target's container name has at most 63 characters": {
		inject(`[{jobName: a, containerNames: [` + strings.Repeat("c", 63) + `]}]`), inject(`[{jobName: a, containerNames: [` + strings.Repeat("c", 64) + `]}]`), "containerNames[0]"},
	"targets are at most 100": {
		inject(list(100, "{jobName: j%d, containerNames: [x]}")), inject(list(101, "{jobName: j%d, containerNames: [x]}")), "targets"},
	"a target's containers are at most 64": {
		inject(`[{jobName: a, containerNames: ` + list(64, "c%d") + `}]`), inject(`[{jobName: a, containerNames: ` + list(65, "c%d") + `}]`), "containerNames"},
}

// mode writes a policy, and a template of two jobs: one that trains, and before it one of
// another step. The one of the given step has the completion mode.
func mode(policy, step, mode string) string {
	var all []string
	for _, name := range []string{"model-initializer", "trainer"} {
		own := ""
		if name == step {
			own = `completionMode: ` + mode + `, `
		}
		all = append(all, `{name: `+name+`, template: {metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: `+name+`}}, spec: {`+own+`template: {spec: {containers: [{name: node, image: "c:1"}]}}}}}`)
	}
	return `spec: {mlPolicy: {` + policy + `}, template: {spec: {replicatedJobs: [` + strings.Join(all, ", ") + `]}}}`
}

func numbered(policy string) rule {
	return rule{mode(policy, "trainer", "Indexed"), mode(policy, "trainer", "NonIndexed"), "found by their completion index: set completionMode"}
}

func subdomain(name string) string {
	return `spec: {template: {spec: {network: {subdomain: ` + name + `}}}}`
}

func inject(targets string) string {
	return `spec: {mlPolicy: {torch: {envInjection: {targets: ` + targets + `}}}}`
}

func TestRuntimesBeyondALimitAreRefused(t *testing.T) {
	t.Parallel()
	for _, resource := range runtimeKinds {
		for name, rule := range runtimeRules {
			t.Run(kinds[resource]+": "+name, func(t *testing.T) {
				t.Parallel()
				if err := rehearseCreate(t, resource, baseRuntime, rule.within); err != nil {
					t.Errorf("within the limit: %v", err)
				}
				wantRefused(t, rehearseCreate(t, resource, baseRuntime, rule.beyond), rule.names)
			})
		}
	}
}
