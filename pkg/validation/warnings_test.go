package validation

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestManagersThatContradictEachOtherAreNamedWithTheField(t *testing.T) {
	const node = "template.spec.replicatedJobs[node].template.spec.template.spec."
	for name, c := range map[string]struct {
		a, b string
		want []string // fields, below the pod
	}{
		"the same node selector":         {`{nodeSelector: {zone: x}}`, `{nodeSelector: {zone: x}}`, nil},
		"keys of their own":              {`{nodeSelector: {zone: x}}`, `{nodeSelector: {disk: y}}`, nil},
		"tolerations add up":             {`{tolerations: [{key: x}]}`, `{tolerations: [{key: y}]}`, nil},
		"gates add up":                   {`{schedulingGates: [{name: x}]}`, `{schedulingGates: [{name: y}]}`, nil},
		"different service accounts":     {`{serviceAccountName: x}`, `{serviceAccountName: y}`, []string{"serviceAccountName"}},
		"a node selector":                {`{nodeSelector: {zone: x, disk: ssd}}`, `{nodeSelector: {zone: y, disk: hdd}}`, []string{"nodeSelector.disk", "nodeSelector.zone"}},
		"a variable":                     {`{containers: [{name: node, env: [{name: A, value: x}]}]}`, `{containers: [{name: node, env: [{name: A, value: y}]}]}`, []string{"containers[node].env[A]"}},
		"variables of their own":         {`{containers: [{name: node, env: [{name: A, value: x}]}]}`, `{containers: [{name: node, env: [{name: B, value: y}]}]}`, nil},
		"a variable of two containers":   {`{containers: [{name: node, env: [{name: A, value: x}]}]}`, `{containers: [{name: other, env: [{name: A, value: y}]}]}`, nil},
		"a value and a source":           {`{containers: [{name: node, env: [{name: A, value: x}]}]}`, `{containers: [{name: node, env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]}]}`, []string{"containers[node].env[A]"}},
		"the size of a volume":           {`{volumes: [{name: v, emptyDir: {sizeLimit: 1Gi}}]}`, `{volumes: [{name: v, emptyDir: {sizeLimit: 2Gi}}]}`, []string{"volumes[v].emptyDir.sizeLimit"}},
		"the volume mounted at a path":   {`{containers: [{name: node, volumeMounts: [{name: v, mountPath: /d}]}]}`, `{containers: [{name: node, volumeMounts: [{name: w, mountPath: /d}]}]}`, []string{"containers[node].volumeMounts[/d].name"}},
		"a list that is replaced":        {`{affinity: {podAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: a}}]}}}`, `{affinity: {podAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 2, podAffinityTerm: {topologyKey: a}}]}}}`, []string{"affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution"}},
		"parts of a security context":    {`{securityContext: {runAsUser: 1}}`, `{securityContext: {runAsGroup: 2}}`, nil},
		"one part of a security context": {`{securityContext: {runAsUser: 1}}`, `{securityContext: {runAsUser: 2}}`, []string{"securityContext.runAsUser"}},
	} {
		t.Run(name, func(t *testing.T) {
			var review Review
			warnOfPatches(&review, jobOf(`spec: {runtimePatches: [`+entry("a", "node", c.a)+`, `+entry("b", "node", c.b)+`]}`).Spec.RuntimePatches)
			var got []string
			for _, text := range review.Warnings {
				path, found := strings.CutPrefix(text, "spec.runtimePatches: managers a and b both set "+node)
				path, rest, _ := strings.Cut(path, ": ")
				if !found || rest != "that of b, which stands later, wins" {
					t.Errorf("not what a warning looks like: %s", text)
				}
				got = append(got, path)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatKueueDoesNotCountIsTold(t *testing.T) {
	const queued = `metadata: {labels: {kueue.x-k8s.io/queue-name: q}}`
	for name, c := range map[string]struct {
		layers []string
		want   string // the device, "" for no warning
	}{
		"a job that is not queued":                {[]string{`spec: {trainer: {resourcesPerNode: {limits: {cpu: 1}}}}`}, ""},
		"a queued job without resources":          {[]string{queued, `spec: {trainer: {numNodes: 1}}`}, ""},
		"a queued job without a trainer":          {[]string{queued}, ""},
		"a queued job with all resources":         {[]string{queued, `spec: {trainer: {resourcesPerNode: {limits: {nvidia.com/gpu: 1}}}}`}, ""},
		"a queued job that requests the device":   {[]string{queued, `spec: {trainer: {resourcesPerNode: {requests: {nvidia.com/gpu: 1}}}}`}, ""},
		"a queued job that leaves the device out": {[]string{queued, `spec: {trainer: {resourcesPerNode: {requests: {memory: 1Gi}}}}`}, "nvidia.com/gpu"},
		"memory that is left out is no device":    {[]string{queued, `spec: {trainer: {resourcesPerNode: {limits: {nvidia.com/gpu: 2}}}}`}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			review := CreateTrainJob(jobOf(c.layers...), torch(withLimits("nvidia.com/gpu", "4", "memory", "8Gi")))
			switch {
			case c.want == "":
				mustPass(t, "create", review)
			case len(review.Errors) > 0 || len(review.Warnings) != 1 || !strings.Contains(review.Warnings[0], c.want+" of the runtime is not in it"):
				t.Errorf("%q", texts(review))
			}
		})
	}
}
