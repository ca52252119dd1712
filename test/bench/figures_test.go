package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/cluster"
	"github.com/trainjob/controller/test/harness"
)

func TestQuantile(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(i + 1)
	}
	for name, tc := range map[string]struct {
		sorted []time.Duration
		q      float64
		want   time.Duration
	}{
		"half of a hundred":          {hundred, 0.5, 50},
		"all but one of a hundred":   {hundred, 0.99, 99},
		"the most":                   {hundred, 1, 100},
		"the least":                  {hundred, 0, 1},
		"of one there is only one":   {hundred[:1], 0.99, 1},
		"99 % of ten is the last":    {hundred[:10], 0.99, 10},
		"half of three is in middle": {hundred[:3], 0.5, 2},
	} {
		t.Run(name, func(t *testing.T) {
			if got := quantile(tc.sorted, tc.q); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}

func TestTableHasAColumnForEachContenderAndARatio(t *testing.T) {
	r := &results{CPUs: 2, Go: "go1.99", Load: "0.25"}
	b := &bench{results: r, controllers: []command{{name: ourName}, {name: "peer"}}}
	for of, rate := range map[string]float64{limitName: 100, ourName: 80, "peer": 20} {
		r.page("burst", of, 50).add("rate", "1/s", rate)
	}
	b.ratio("burst", 50, "of the limit's", "rate", "rate", false)
	b.ratio("burst", 51, "of no limit's", "rate", "rate", false)
	got := tableOf(r)
	want := []string{
		"", "2 CPUs, go1.99; load average when it began: 0.25.", "", "| **burst, 50 TrainJobs** | limit | ours | peer |",
		got[4], "| rate | 100 1/s | 80 1/s | 20 1/s |", "| of the limit's | | 0.800 × | 0.200 × |",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the table differs (-want +got):\n%s", diff)
	}
}

// tableOf is the table by lines, without the room between its columns.
func tableOf(r *results) []string {
	var out strings.Builder
	r.table(&out)
	var lines []string
	for line := range strings.Lines(out.String()) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return lines
}

func TestTableHasAColumnForAnEarlierBuildOnlyIfItWasMeasured(t *testing.T) {
	r := &results{}
	r.page("steady", ourName, 50).cpu(usage{subject: time.Second, etcd: time.Second}, usage{subject: 2 * time.Second, etcd: time.Second}, 50)
	if got, want := tableOf(r)[3], "| **steady, 50 TrainJobs** | limit | ours | peer |"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	r.page("steady", beforeName, 50).cpu(usage{}, usage{subject: 2 * time.Second}, 50)
	got := tableOf(r)[3:]
	want := []string{"| **steady, 50 TrainJobs** | limit | before | ours | peer |", got[1], "| CPU per 1,000 TrainJobs | | 40 s | 20 s | |"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the table differs (-want +got):\n%s", diff)
	}
}

func TestAFailedCheckLeavesNoFigures(t *testing.T) {
	r := &results{}
	r.page("burst", ourName, 50).add("rate", "1/s", 80)
	measure := func(err error) func() error {
		return func() error {
			page := r.page("burst", ourName, 100)
			page.add("rate", "1/s", 90)
			page.course("memory", []float64{1}, []float64{2})
			return err
		}
	}
	wrong := errors.New("a JobSet is missing")
	if err := r.checked(measure(wrong)); !errors.Is(err, wrong) || len(r.Figures) != 1 || len(r.Series) != 0 {
		t.Errorf("got %v, %v and %v, want the error and the figure of before", err, r.Figures, r.Series)
	}
	if err := r.checked(measure(nil)); err != nil || len(r.Figures) != 2 || len(r.Series) != 1 {
		t.Errorf("got %v, %v and %v, want another figure and a series", err, r.Figures, r.Series)
	}
}

func TestCallsAreCounted(t *testing.T) {
	event := func(verb, resource, sub, name string, code int) cluster.AuditEvent {
		return cluster.AuditEvent{Verb: verb, Resource: resource, Subresource: sub, Namespace: "ns", Name: name, Code: code}
	}
	events := []cluster.AuditEvent{
		event("create", "configmaps", "", "", 201), event("create", "jobsets", "", "", 201), event("create", "jobsets", "", "", 409),
		event("create", "events", "", "", 201), event("update", "leases", "", "l", 200), event("get", "trainjobs", "", "a", 200),
		event("patch", "trainjobs", "status", "a", 200), event("patch", "trainjobs", "status", "a", 200),
		event("patch", "trainjobs", "status", "a", 409), event("patch", "trainjobs", "status", "b", 200),
	}
	if got := creates(events); got != 2 {
		t.Errorf("%d creates, want 2", got)
	}
	if most, all := statusWrites(events); most != 2 || all != 3 {
		t.Errorf("status writes: %d of one job and %d in all, want 2 and 3", most, all)
	}
	want := map[string]int{
		"create configmaps": 1, "create jobsets": 1, "create jobsets (409)": 1, "create events": 1, "update leases": 1,
		"get trainjobs": 1, "patch trainjobs/status": 3, "patch trainjobs/status (409)": 1,
	}
	if diff := cmp.Diff(want, harness.Summary(events)); diff != "" {
		t.Errorf("counts differ (-want +got):\n%s", diff)
	}
}

func TestObserverNotesFirstTimesAndFaults(t *testing.T) {
	o := &observer{notes: map[cache.ObjectName]*note{}}
	job := jobOf("ns", "job", 1)
	o.creating(job)
	js := &jobset.JobSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: job.Name, UID: "one"}}
	o.jobSet(js)
	at := o.note(job).jobSet
	o.jobSet(js)
	if again := o.note(job).jobSet; at.IsZero() || !again.Equal(at) {
		t.Errorf("the JobSet was seen first at %v and later at %v", at, again)
	}
	job.Status.Conditions = []metav1.Condition{{Type: string(trainer.TrainJobComplete), Status: metav1.ConditionTrue, Reason: "Done"}}
	o.job(job)
	if n := o.note(job); n.ended.IsZero() || n.reason != "Done" || o.faults() != nil {
		t.Errorf("got %+v and faults %v", n, o.faults())
	}
	js = js.DeepCopy()
	js.UID = "two"
	o.jobSet(js)
	job = job.DeepCopy()
	job.Status.Conditions[0].Reason = "Otherwise"
	o.job(job)
	for _, fault := range []string{"created twice", "ended as Done and then as Otherwise"} {
		says(t, o.faults(), fault)
	}
}

func TestSample(t *testing.T) {
	const body = "# HELP depth x\ndepth{name=\"a\"} 3\ndepth{name=\"b\"} 4\ndepth_total 9\nheap 1.5e+06\n"
	for name, tc := range map[string]struct {
		metric string
		parts  []string
		want   float64
		found  bool
	}{
		"all samples are summed":             {"depth", nil, 7, true},
		"parts choose among them":            {"depth", []string{`name="b"`}, 4, true},
		"a metric without labels":            {"heap", nil, 1.5e6, true},
		"one that does not exist":            {"missing", nil, 0, false},
		"the beginning of a name is not one": {"dep", nil, 0, false},
		"parts that no sample has":           {"depth", []string{`name="c"`}, 0, false},
		"a longer name is another metric's":  {"depth_total", nil, 9, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got, found := sample(body, tc.metric, tc.parts...); got != tc.want || found != tc.found {
				t.Errorf("got %v, %v, want %v, %v", got, found, tc.want, tc.found)
			}
		})
	}
}
