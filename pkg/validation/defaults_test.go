package validation

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
)

func putBackOf(fields ...string) (warnings []string) {
	for _, field := range fields {
		warnings = append(warnings, field+": it was put back as it was: it is fixed when the job is created, and what a queue rewrites of it changes nothing")
	}
	return warnings
}

func TestDefaults(t *testing.T) {
	const (
		stamp = `"2026-03-01T12:01:00Z"` // now without its fraction
		early = `"2026-03-01T11:00:00Z"`
	)
	const queued = `{metadata: {labels: {kueue.x-k8s.io/queue-name: q}}`
	queueBack := []string{"spec.runtimePatches: the entry of kueue.x-k8s.io/manager was put back: it says where the job runs; use server-side apply, which leaves the entries of others alone"}
	patch := func(manager, zone, at string) string {
		return `{manager: ` + manager + `, time: ` + at + `, trainingRuntimeSpec: {template: {spec: {replicatedJobs: [{name: ` + zone + `}]}}}}`
	}
	patches := func(entries ...string) string {
		list := ""
		for _, entry := range entries {
			list += entry + ", "
		}
		return `spec: {runtimePatches: [` + list + `]}`
	}
	for name, c := range map[string]struct {
		old, job, want string // old may be empty: a create
		warnings       []string
	}{
		"a new job without patches":                           {job: `spec: {}`, want: `spec: {}`},
		"a patch of a new job gets the time":                  {job: patches(patch("m", "a", "null")), want: patches(patch("m", "a", stamp))},
		"a time that the client gives is kept":                {job: patches(patch("m", "a", early)), want: patches(patch("m", "a", early))},
		"a patch that stays keeps its time":                   {old: patches(patch("m", "a", early)), job: patches(patch("m", "a", early)), want: patches(patch("m", "a", early))},
		"a patch whose time was dropped gets it back":         {old: patches(patch("m", "a", early)), job: patches(patch("m", "a", "null")), want: patches(patch("m", "a", early))},
		"a patch that stays keeps its time, whatever is sent": {old: patches(patch("m", "a", early)), job: patches(patch("m", "a", stamp)), want: patches(patch("m", "a", early))},
		"a patch that stays without a time stays so":          {old: patches(patch("m", "a", "null")), job: patches(patch("m", "a", "null")), want: patches(patch("m", "a", "null"))},
		"a changed patch gets the time":                       {old: patches(patch("m", "a", early)), job: patches(patch("m", "b", early)), want: patches(patch("m", "b", stamp))},
		"a changed patch without a time gets it":              {old: patches(patch("m", "a", early)), job: patches(patch("m", "b", "null")), want: patches(patch("m", "b", stamp))},
		"only the changed patch of two gets the time": {
			old:  patches(patch("m", "a", early), patch("n", "a", early)),
			job:  patches(patch("m", "a", "null"), patch("n", "b", "null"), patch("o", "c", "null")),
			want: patches(patch("m", "a", early), patch("n", "b", stamp), patch("o", "c", stamp))},
		"a dropped time to live comes back": {
			old: `spec: {ttlSecondsAfterFinished: 0}`, job: `spec: {}`, want: `spec: {ttlSecondsAfterFinished: 0}`,
			warnings: []string{"spec.ttlSecondsAfterFinished: 0 was put back: it is fixed when the job is created and cannot be removed"}},
		"a dropped deadline comes back": {
			old: `spec: {activeDeadlineSeconds: 9223372036854775807}`, job: `spec: {}`, want: `spec: {activeDeadlineSeconds: 9223372036854775807}`,
			warnings: []string{"spec.activeDeadlineSeconds: 9223372036854775807 was put back: it is fixed when the job is created and cannot be removed"}},
		"limits that were dropped long ago come back from the status": {
			old: `status: {lifecycle: {ttlSecondsAfterFinished: 5, activeDeadlineSeconds: 6}}`, job: `spec: {suspend: true}`,
			want: `spec: {suspend: true, ttlSecondsAfterFinished: 5, activeDeadlineSeconds: 6}`,
			warnings: []string{
				"spec.ttlSecondsAfterFinished: 5 was put back: it is fixed when the job is created and cannot be removed",
				"spec.activeDeadlineSeconds: 6 was put back: it is fixed when the job is created and cannot be removed"}},
		"a changed limit is refused and not put back": {
			old: `spec: {ttlSecondsAfterFinished: 5}`, job: `spec: {ttlSecondsAfterFinished: 6}`, want: `spec: {ttlSecondsAfterFinished: 6}`},
		"a command that Kueue has rewritten in place comes back": {
			old:      queued + `, spec: {suspend: true, trainer: {command: [tune, run], resourcesPerNode: {limits: {cpu: "0.5"}}}}}`,
			job:      queued + `, spec: {suspend: false, trainer: {command: [tune, run, full], resourcesPerNode: {limits: {cpu: 500m}}}}}`,
			want:     queued + `, spec: {suspend: false, trainer: {command: [tune, run], resourcesPerNode: {limits: {cpu: 500m}}}}}`,
			warnings: []string{"spec.trainer.command: it was put back as it was: it is fixed when the job is created, and what a queue rewrites of it changes nothing"}},
		"all that is fixed comes back to a job of a queue": {
			old:      queued + `, spec: {managedBy: trainer.kubeflow.org/trainjob-controller, initializer: {model: {storageUri: /a}}}}`,
			job:      queued + `, spec: {runtimeRef: {name: other}, managedBy: kueue.x-k8s.io/multikueue, trainer: {}, initializer: {model: {storageUri: /b}, dataset: {}}}}`,
			want:     queued + `, spec: {managedBy: trainer.kubeflow.org/trainjob-controller, initializer: {model: {storageUri: /a}}}}`,
			warnings: putBackOf("spec.runtimeRef", "spec.trainer", "spec.initializer.dataset", "spec.initializer.model.storageUri", "spec.managedBy")},
		"what is only written in another way is left so": {
			old:  queued + `, spec: {trainer: {args: []}}}`,
			job:  queued + `, spec: {suspend: true, trainer: {}}}`,
			want: queued + `, spec: {suspend: true, trainer: {}}}`},
		"without a queue nothing fixed comes back": {
			old: `spec: {trainer: {image: a}}`, job: `spec: {trainer: {image: b}}`, want: `spec: {trainer: {image: b}}`},
		"Kueue's entry comes back in its place": {
			old:      queued + `, ` + patches(patch("m", "a", early), patch("kueue.x-k8s.io/manager", "b", early), patch("n", "a", early)) + `}`,
			job:      queued + `, ` + patches(patch("m", "a", early), patch("n", "a", early)) + `}`,
			want:     queued + `, ` + patches(patch("m", "a", early), patch("kueue.x-k8s.io/manager", "b", early), patch("n", "a", early)) + `}`,
			warnings: queueBack},
		"Kueue's entry comes back where all were dropped": {
			old:      queued + `, ` + patches(patch("m", "a", early), patch("kueue.x-k8s.io/manager", "b", early)) + `}`,
			job:      queued + `, spec: {}}`,
			want:     queued + `, ` + patches(patch("kueue.x-k8s.io/manager", "b", early)) + `}`,
			warnings: queueBack},
		"an entry that Kueue has emptied stays so": {
			old:  queued + `, ` + patches(patch("kueue.x-k8s.io/manager", "b", early)) + `}`,
			job:  queued + `, spec: {runtimePatches: [{manager: kueue.x-k8s.io/manager, time: ` + early + `}]}}`,
			want: queued + `, spec: {runtimePatches: [{manager: kueue.x-k8s.io/manager, time: ` + stamp + `}]}}`},
		"a job taken out of its queue loses Kueue's entry": {
			old: queued + `, ` + patches(patch("kueue.x-k8s.io/manager", "b", early)) + `}`, job: `spec: {}`, want: `spec: {}`},
		"a job that is being deleted is left alone": {
			old: `spec: {ttlSecondsAfterFinished: 5}`, job: `metadata: {deletionTimestamp: ` + early + `}`, want: `metadata: {deletionTimestamp: ` + early + `}`},
	} {
		t.Run(name, func(t *testing.T) {
			var old *trainer.TrainJob
			if c.old != "" {
				old = jobOf(c.old)
			}
			job := jobOf(c.job)
			warnings := DefaultTrainJob(old, job, now)
			if diff := cmp.Diff(c.warnings, warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(jobOf(c.want), job); diff != "" {
				t.Errorf("job (-want +got):\n%s", diff)
			}
			again := job.DeepCopy()
			if warnings := DefaultTrainJob(old, again, now.Add(3*time.Second)); len(warnings) > 0 {
				t.Errorf("the second time there are warnings: %q", warnings)
			}
			if diff := cmp.Diff(job, again); diff != "" {
				t.Errorf("a second time changes the job (-once +twice):\n%s", diff)
			}
		})
	}
}
