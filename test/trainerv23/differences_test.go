package trainerv23

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the tables of docs/compatibility.md anew")

// page is written between the two marks.
const (
	page  = "../../docs/compatibility.md"
	begin = "<!-- Written by `go test ./test/trainerv23 -update`. -->\n"
	end   = "<!-- The table ends here. -->"
)

// intended is a difference from Kubeflow Trainer's schema, or a kind of them, that is meant.
type intended struct {
	// paths are the fields; * stands for anything.
	paths []string
	// facts are the facts that differ, in words of the table of facts.
	facts string
	// reason is a sentence.
	reason string
}

const (
	patchedPod = "TrainJob.spec.runtimePatches[].trainingRuntimeSpec.template.spec.replicatedJobs[].template.spec.template.spec"
	injection  = "TrainingRuntime.spec.mlPolicy.torch.envInjection"
)

// differences are all that are meant. A test fails over one that is not among them, and
// over one of these that there is not.
var differences = []intended{
	{[]string{"TrainJob"}, "required", "A job without spec names no runtime, so it could never run."},
	{[]string{"TrainJob"}, "rules", "Two rules more: TTL and deadline are fixed at creation, and may be missing afterwards, because clients with older types drop them."},
	{[]string{"TrainJob.spec"}, "rules", "Trainer's webhook lets patches change in suspension only, and trainer and initializer not be added or removed; here the schema says so as well."},
	{[]string{"TrainJob.spec.activeDeadlineSeconds"}, "immutable", "The same rule stands at the top, where it can let the field be missing."},
	{[]string{"TrainJob.spec.ttlSecondsAfterFinished"}, "new", "Deletes finished jobs."},
	{[]string{"TrainJob.spec.initializer", "TrainJob.spec.trainer"}, "immutable rules", "Immutable by meaning, not by bytes: a client that writes a whole job back writes 500m for 0.5. What rules cannot compare (quantities, details of variables) is compared by the webhook."},
	{[]string{"TrainJob.spec.initializer.dataset", "TrainJob.spec.initializer.model"}, "rules", "The same for the fields below, and STORAGE_URI is given once."},
	{[]string{"TrainJob.spec.initializer.*.secretRef"}, "rules", "A reference without a name would find no Secret when the pod starts."},
	{[]string{"TrainJob.spec.initializer.*.storageUri"}, "pattern rules", "The same strings are accepted; a pattern costs less than a rule."},
	{[]string{"TrainJob.spec.*.env"}, "rules", "Kubernetes refuses the pod of a variable with a value and a source."},
	{[]string{"TrainJob.spec.*.env[].name"}, "minLength pattern", "Kubernetes refuses the pod of a variable with such a name."},
	{[]string{"TrainJob.spec.*.env[].valueFrom"}, "minProperties maxProperties", "Kubernetes refuses the pod of a variable with no source or two."},
	{[]string{"TrainJob.spec.runtimeRef.name"}, "rules", "No runtime can have another name."},
	{[]string{"TrainJob.spec.trainer.numNodes", "TrainingRuntime.spec.mlPolicy.numNodes"}, "min", "There is no negative number of nodes."},
	{[]string{"TrainJob.spec.trainer.numProcPerNode", "TrainingRuntime.spec.mlPolicy.mpi.numProcPerNode"}, "min", "A node runs one process at least; Trainer's webhook refuses less for some frameworks."},
	{[]string{"TrainJob.spec.trainer.resourcesPerNode.limits{}", "TrainJob.spec.trainer.resourcesPerNode.requests{}"}, "min", "Kubernetes refuses the pod of a negative quantity."},
	{[]string{"TrainJob.spec.runtimePatches[].manager"}, "rules", "A path with a domain, as Trainer's webhook demands; here without webhook too."},
	{[]string{"TrainJob.spec.runtimePatches[].trainingRuntimeSpec.template.spec.replicatedJobs[].name"}, "pattern", "No replicatedJob can have another name."},
	{[]string{patchedPod + ".containers", patchedPod + ".initContainers", patchedPod + ".volumes"}, "immutable rules", "Immutable in names and numbers only, so that clients can write a whole job back; the webhook compares the rest."},
	{[]string{patchedPod + ".*ontainers[].volumeMounts"}, "keys", "One volume can be mounted at two paths, and no two at one path."},
	{[]string{patchedPod + ".tolerations"}, "rules", "Kubernetes refuses the pod of such a toleration."},
	{[]string{"TrainJob.status"}, "minProperties", "Status may be empty: nothing follows from it."},
	{[]string{"TrainJob.status.conditions"}, "maxItems", "Room for the conditions of others."},
	{[]string{"TrainJob.status.jobsStatus"}, "maxItems", "A status with too many jobs could never say that the job has ended."},
	{[]string{"TrainJob.status.*"}, "new", "State, reason and message, times, nodes, the snapshot in use and the limits enforced."},

	{[]string{"TrainingRuntime.spec"}, "rules", "One job trains, steps have one replica, numbered nodes under a framework, a subdomain that can be a Service: otherwise no job of the runtime could run."},
	{[]string{"TrainingRuntime.spec.mlPolicy.flux.numProcPerNode"}, "min rules", "At least 1, said by a minimum and not by a rule."},
	{[]string{injection + ".targets", injection + ".targets[].containerNames"}, "maxItems", "Room for more jobs and containers."},
	{[]string{injection + ".targets[].jobName"}, "maxLength pattern", "No replicatedJob can have another name."},
	{[]string{injection + ".targets[].containerNames[]"}, "minLength pattern", "No container can have another name."},
	{[]string{"TrainingRuntime.spec.podGroupPolicy"}, "rules", "Two gang schedulers would wait for each other."},
	{[]string{"TrainingRuntime.spec.podGroupPolicy.coscheduling.scheduleTimeoutSeconds"}, "min", "There is no negative time."},
	{[]string{"TrainingRuntime.spec.podGroupPolicy.volcano.networkTopology.highestTierName"}, "new", "Volcano has the field now."},
	{[]string{
		"TrainingRuntime.spec.template.spec.failurePolicy", "TrainingRuntime.spec.template.spec.network", "TrainingRuntime.spec.template.spec.startupPolicy",
		"TrainingRuntime.spec.template.spec.successPolicy", "TrainingRuntime.spec.template.spec.volumeClaimPolicies", "TrainingRuntime.spec.template.spec.replicatedJobs[].dependsOn",
	}, "immutable", "A runtime may be edited at any time: jobs keep the snapshot they took."},
	{[]string{patchedPod + ".*", "TrainingRuntime.spec.template.spec.*"}, "new", "Fields of newer versions of Kubernetes and JobSet."},
}

func TestOurSchemasDifferFromTrainersAsIntended(t *testing.T) {
	theirs := trainerSchemas(t)
	ours := ownSchemas(t, "trainjobs", "TrainJob")
	maps.Copy(ours, ownSchemas(t, "trainingruntimes", "TrainingRuntime"))
	if len(theirs) < 2000 || len(theirs) > len(ours) {
		t.Fatalf("%d fields of Trainer's and %d of ours: are they read rightly?", len(theirs), len(ours))
	}
	found, missing := compare(theirs, ours)
	for _, path := range missing {
		t.Errorf("%s of Trainer's schema is missing", path)
	}
	rows := make([][]difference, len(differences))
	for _, d := range found {
		i := slices.IndexFunc(differences, func(i intended) bool { return i.covers(d) })
		if i < 0 {
			t.Errorf("%s: %s is %q, and %q in Trainer's schema: make it the same, or say in the table why not", d.path, d.fact, d.ours, d.theirs)
			continue
		}
		rows[i] = append(rows[i], d)
	}
	for i, row := range rows {
		for _, path := range differences[i].paths {
			if !slices.ContainsFunc(row, func(d difference) bool { return matches(path, d.path) }) {
				t.Errorf("%s, %s: there is no such difference: remove it from the table", path, differences[i].facts)
			}
		}
	}
	if !t.Failed() {
		checkPage(t, rows)
	}
}

// The two kinds of runtime have one schema, so one of them is compared.
func TestBothRuntimesHaveTheSameSchema(t *testing.T) {
	one, other := ownSchemas(t, "trainingruntimes", "Runtime"), ownSchemas(t, "clustertrainingruntimes", "Runtime")
	if diff := cmp.Diff(one, other); diff != "" {
		t.Error(diff)
	}
}

// What the comparison is for, it must find.
func TestTheComparisonFindsDifferences(t *testing.T) {
	theirs := schemas{
		"A": {"type": "object"}, "A.gone": {"type": "string"},
		"A.same": {"type": "string", "maxLength": "5"}, "A.list": {"type": "array", "keys": `["name"]`}, "A.list[]": {"type": "object"},
	}
	ours := schemas{
		"A": {"type": "object", "required": `["same"]`}, "A.same": {"type": "string", "maxLength": "4", "default": `""`},
		"A.list": {"type": "array", "keys": `["path"]`}, "A.list[]": {"type": "object"}, "A.list[].more": {"type": "object"}, "A.list[].more.below": {"type": "string"},
	}
	want := []difference{
		{"A", "required", "", `["same"]`}, {"A.list", "keys", `["name"]`, `["path"]`}, {"A.list[].more", "new", "", "object"},
		{"A.same", "default", "", `""`}, {"A.same", "maxLength", "5", "4"},
	}
	found, missing := compare(theirs, ours)
	if diff := cmp.Diff(want, found, cmp.AllowUnexported(difference{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"A.gone"}, missing); diff != "" {
		t.Errorf("missing, -want +got:\n%s", diff)
	}
}

func (i intended) covers(d difference) bool {
	return slices.Contains(strings.Fields(i.facts), d.fact) &&
		slices.ContainsFunc(i.paths, func(pattern string) bool { return matches(pattern, d.path) })
}

// matches says whether a path is that of a pattern, in which * stands for anything.
func matches(pattern, path string) bool {
	first, rest, wild := strings.Cut(pattern, "*")
	if !wild {
		return pattern == path
	}
	path, ok := strings.CutPrefix(path, first)
	for ; ok; path = path[1:] {
		if matches(rest, path) {
			return true
		}
		if path == "" {
			break
		}
	}
	return false
}

// checkPage compares the table on the page with what was found.
func checkPage(t *testing.T, rows [][]difference) {
	t.Helper()
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(data), begin)
	got, after, ends := strings.Cut(rest, end)
	if !found || !ends {
		t.Fatal("the page has lost the comments around the table")
	}
	want := table(rows)
	if *update {
		if err := os.WriteFile(page, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		got = want
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("run the test with -update and read the difference before committing it (-page +schemas):\n%s", diff)
	}
}

func table(rows [][]difference) string {
	var b strings.Builder
	b.WriteString("\n| field | what | Trainer v2.3 | here | why |\n|---|---|---|---|---|\n")
	for i, row := range rows {
		var fields []string
		for _, path := range differences[i].paths {
			fields = append(fields, "`"+strings.ReplaceAll(path, patchedPod, "…pod")+"`")
		}
		for _, fact := range strings.Fields(differences[i].facts) {
			theirs, ours := values(row, fact, func(d difference) string { return d.theirs }), values(row, fact, func(d difference) string { return d.ours })
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", strings.Join(fields, ", "), fact, theirs, ours, differences[i].reason)
		}
	}
	b.WriteString("\n")
	return b.String()
}

// values are the values of a fact in a row, each once.
func values(row []difference, fact string, of func(difference) string) string {
	var all []string
	for _, d := range row {
		// What new fields are of is said by the CRD.
		value := "–"
		if text := of(d); text != "" && fact != "new" {
			value = "`" + strings.ReplaceAll(strings.ReplaceAll(text, `\u0020`, " "), "|", `\|`) + "`"
		}
		if d.fact == fact && !slices.Contains(all, value) {
			all = append(all, value)
		}
	}
	return strings.Join(all, ", ")
}
