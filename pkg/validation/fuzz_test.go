package validation

import (
	"fmt"
	"math/rand"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/randfill"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/runtimesnapshot"
	"github.com/trainjob/controller/test/builders"
)

// input is everything that can be reviewed, filled at random.
type input struct {
	Old, Job *trainer.TrainJob
	Runtime  *runtimesnapshot.Runtime
	Metadata *metav1.ObjectMeta
}

// randomInput fills an input. Names come from small pools, so that jobs, patches and
// runtimes often meet. The parts of old and job that seed decides are the same.
func randomInput(seed int64) *input {
	names := []string{"node", "launcher", "dataset-initializer", "model-initializer", "", "Ä=/"}
	steps := []string{trainer.StepTrainer, trainer.StepDatasetInitializer, trainer.StepModelInitializer, "other", ""}
	random := rand.New(rand.NewSource(seed))
	pick := func(list []string) string { return list[random.Intn(len(list))] }
	filler := randfill.NewWithSeed(seed).RandSource(random).NilChance(0.3).NumElements(0, 3).MaxDepth(24).Funcs(
		func(s *string, c randfill.Continue) { *s = pick(names) },
		func(q *resource.Quantity, c randfill.Continue) {
			*q = resource.MustParse(fmt.Sprint(c.Int63n(1<<20)-1<<10, pick([]string{"", "m", "k", "Gi"})))
		},
		func(t *metav1.Time, c randfill.Continue) { *t = metav1.NewTime(time.Unix(c.Int63n(1<<32), 0)) },
		func(v *intstr.IntOrString, c randfill.Continue) { *v = intstr.FromInt32(c.Int31n(5) - 1) },
		func(f *metav1.FieldsV1, c randfill.Continue) {},
		func(n *int32, c randfill.Continue) { *n = c.Int31n(9) - 2 },
	)
	in := &input{}
	filler.Fill(in)
	if in.Job == nil {
		in.Job = builders.TrainJob("a")
	}
	if in.Old == nil || random.Intn(2) == 0 {
		in.Old = in.Job.DeepCopy() // an update that changes little
		in.Old.Spec.Suspend = nil
		in.Old.Spec.RuntimePatches = nil
	}
	if in.Metadata == nil {
		in.Metadata = &metav1.ObjectMeta{}
	}
	if in.Runtime != nil {
		jobs := in.Runtime.Spec.Template.Spec.ReplicatedJobs
		for i := range jobs {
			jobs[i].Template.Labels = map[string]string{trainer.LabelAncestorStep: pick(steps)}
		}
		if len(jobs) > 0 && random.Intn(2) == 0 { // often one that can be rendered
			in.Runtime.Spec = builders.InitializerSpec()
			in.Job.DeletionTimestamp, in.Job.Status.Conditions, in.Old.Status.Conditions = nil, nil, nil
		}
	}
	return in
}

// checkInput reviews an input in every way there is. It must neither panic nor be written
// to, and twice the same must be said.
func checkInput(t *testing.T, in *input) (said int) {
	t.Helper()
	before := in.deepCopy()
	reviews := func() []Review {
		all := []Review{
			CreateTrainJob(in.Job, in.Runtime), CreateTrainJob(in.Job, nil),
			UpdateTrainJob(in.Old, in.Job, in.Runtime), UpdateTrainJob(in.Old, in.Job, nil),
			OpaqueTrainJob(nil, in.Job), OpaqueTrainJob(in.Old, in.Job), UnsupportedTrainJob(nil, in.Job, nil), UnsupportedTrainJob(in.Old, in.Job, nil),
		}
		if in.Runtime != nil {
			all = append(all, Runtime(in.Metadata, &in.Runtime.Spec))
		}
		return all
	}
	first, second := reviews(), reviews()
	for i := range first {
		if diff := cmp.Diff(texts(first[i]), texts(second[i])); diff != "" {
			t.Errorf("review %d says something else the second time:\n%s", i, diff)
		}
		said += len(first[i].Errors) + len(first[i].Warnings)
	}
	job := in.Job.DeepCopy()
	DefaultTrainJob(in.Old, job, now)
	twice := job.DeepCopy()
	DefaultTrainJob(in.Old, twice, now.Add(time.Second))
	if !equality.Semantic.DeepEqual(job, twice) {
		t.Errorf("defaulting twice is not the same as once:\n%s", cmp.Diff(job, twice))
	}
	DefaultTrainJob(nil, job, now)
	if !equality.Semantic.DeepEqual(before, in) {
		t.Errorf("an input was written to:\n%s", cmp.Diff(before, in))
	}
	same := in.Job.DeepCopy()
	mustPass(t, "an update without a change", UpdateTrainJob(in.Job, same, in.Runtime))
	return said
}

func (in *input) deepCopy() *input {
	out := &input{Old: in.Old.DeepCopy(), Job: in.Job.DeepCopy(), Metadata: in.Metadata.DeepCopy()}
	if in.Runtime != nil {
		runtime := *in.Runtime
		runtime.Spec = *in.Runtime.Spec.DeepCopy()
		out.Runtime = &runtime
	}
	return out
}

func TestRandomObjectsAreReviewedWithoutPanicAndNeverWrittenTo(t *testing.T) {
	said := 0
	for seed := range int64(150) {
		said += checkInput(t, randomInput(seed))
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if said < 1000 {
		t.Errorf("only %d errors and warnings: do the random objects still reach the rules?", said)
	}
}

func FuzzReviews(f *testing.F) {
	for seed := range int64(10) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed int64) { checkInput(t, randomInput(seed)) })
}
