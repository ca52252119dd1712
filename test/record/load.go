package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
	"github.com/trainjob/controller/test/cluster"
	"github.com/trainjob/controller/test/harness"
)

// tickEvery is the time between two looks at whether somebody submits a job.
const tickEvery = 250 * time.Millisecond

// teams are namespaces.
var teams = []string{"vision", "speech", "research"}

// load submits TrainJobs like users do. The same seed submits the same jobs.
type load struct {
	env     *harness.Env
	random  *rand.Rand
	count   int
	resumes []resumption
}

// resumption is a queued job that is to run at a time.
type resumption struct {
	namespace, name string
	at              time.Time
}

func newLoad(env *harness.Env) *load {
	return &load{env: env, random: rand.New(rand.NewPCG(1, 2))}
}

// prepare makes the teams and the runtimes.
func (l *load) prepare(ctx context.Context) error {
	for _, team := range teams {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: team}}
		if _, err := l.env.Core.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	jax, xgboost := builders.PlainSpec(), builders.PlainSpec()
	jax.MLPolicy = &trainer.MLPolicy{NumNodes: ptr.To[int32](4), MLPolicySource: trainer.MLPolicySource{JAX: &trainer.JAXMLPolicySource{}}}
	xgboost.MLPolicy = &trainer.MLPolicy{MLPolicySource: trainer.MLPolicySource{XGBoost: &trainer.XGBoostMLPolicySource{}}}
	for name, spec := range map[string]trainer.TrainingRuntimeSpec{
		"torch-distributed": builders.TorchSpec(), "jax-distributed": jax, "xgboost-distributed": xgboost, "plain": builders.PlainSpec(),
	} {
		_, err := l.env.Trainer.TrainerV1alpha1().ClusterTrainingRuntimes().Create(ctx, builders.ClusterTrainingRuntime(name, spec), metav1.CreateOptions{})
		if err != nil {
			return err
		}
	}
	own := builders.TrainingRuntime("own", builders.TorchSpec())
	own.Namespace = "research"
	_, err := l.env.Trainer.TrainerV1alpha1().TrainingRuntimes(own.Namespace).Create(ctx, own, metav1.CreateOptions{})
	return err
}

// tick submits a job or not, more often in the middle of each of three waves, and
// resumes jobs whose turn has come.
func (l *load) tick(ctx context.Context, now time.Time, part float64) error {
	var waiting []resumption
	for _, r := range l.resumes {
		if now.Before(r.at) {
			waiting = append(waiting, r)
			continue
		}
		_, err := l.env.Trainer.TrainerV1alpha1().TrainJobs(r.namespace).Patch(ctx, r.name, types.MergePatchType, []byte(`{"spec":{"suspend":false}}`), metav1.PatchOptions{})
		if err := told(r.name, err); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	l.resumes = waiting
	perSecond := 0.5 + 0.4*math.Sin(6*math.Pi*part)
	if l.random.Float64() > perSecond*tickEvery.Seconds() {
		return nil
	}
	return l.submit(ctx, now)
}

// burst submits jobs without a pause.
func (l *load) burst(ctx context.Context, jobs int) error {
	for range jobs {
		if err := l.submit(ctx, time.Now()); err != nil {
			return err
		}
	}
	return nil
}

// submit creates one job: most run for a while and go when their time to live is over;
// some wait in a queue first, some fail, some take longer than they may, some name a
// runtime that is not there and are refused.
func (l *load) submit(ctx context.Context, now time.Time) error {
	l.count++
	team := teams[l.random.IntN(len(teams))]
	runs := time.Duration(5+l.random.IntN(40)) * time.Second
	annotations := map[string]string{}
	job := builders.TrainJob(fmt.Sprintf("job-%04d", l.count), builders.TTL(int32(20+l.random.IntN(60))),
		builders.Runtime(trainer.ClusterTrainingRuntimeKind, pick(l.random, "torch-distributed", "torch-distributed", "jax-distributed", "xgboost-distributed", "plain")))
	if team == "research" && l.random.IntN(2) == 0 {
		builders.Runtime(trainer.TrainingRuntimeKind, "own")(job)
	}
	switch fate := l.random.IntN(100); {
	case fate < 12:
		annotations[cluster.ExitCodeAnnotation] = "1"
	case fate < 30:
		builders.Suspended(true)(job)
		l.resumes = append(l.resumes, resumption{team, job.Name, now.Add(time.Duration(10+l.random.IntN(40)) * time.Second)})
	case fate < 38:
		builders.Deadline(20)(job)
		runs = time.Minute
	case fate < 43:
		builders.Runtime(trainer.ClusterTrainingRuntimeKind, "torch-distributd")(job)
		builders.Deadline(60)(job)
	}
	annotations[cluster.RunForAnnotation] = runs.String()
	builders.Patches(trainer.RuntimePatch{Manager: "example.com/load", TrainingRuntimeSpec: &trainer.TrainingRuntimeSpecPatch{
		Template: &trainer.JobSetTemplatePatch{Spec: &trainer.JobSetSpecPatch{ReplicatedJobs: []trainer.ReplicatedJobPatch{{
			Name: "node", Template: &trainer.JobTemplatePatch{Spec: &trainer.JobSpecPatch{Template: &trainer.PodTemplatePatch{
				Metadata: &metav1.ObjectMeta{Annotations: annotations},
			}}},
		}}}},
	}})(job)
	job.ObjectMeta = metav1.ObjectMeta{Namespace: team, Name: job.Name}
	_, err := l.env.Trainer.TrainerV1alpha1().TrainJobs(team).Create(ctx, job, metav1.CreateOptions{})
	if err := told(job.Name, err); err != nil {
		return fmt.Errorf("submit %s: %w", strconv.Quote(job.Name), err)
	}
	return nil
}

// told prints what a user would read, and leaves an error only where the recording is of
// no use: a webhook may refuse a job, and one that is killed cannot answer.
func told(name string, err error) error {
	if apierrors.IsInvalid(err) || apierrors.IsInternalError(err) {
		fmt.Printf("   %s: %v\n", name, err)
		return nil
	}
	return err
}

func pick(random *rand.Rand, values ...string) string { return values[random.IntN(len(values))] }

// forbid lets a team have no JobSet more.
func (l *load) forbid(ctx context.Context) error {
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "none"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
			"count/jobsets.jobset.x-k8s.io": resource.MustParse("0"),
		}},
	}
	_, err := l.env.Core.CoreV1().ResourceQuotas(teams[0]).Create(ctx, quota, metav1.CreateOptions{})
	return err
}

// allow takes that back.
func (l *load) allow(ctx context.Context) error {
	return l.env.Core.CoreV1().ResourceQuotas(teams[0]).Delete(ctx, "none", metav1.DeleteOptions{})
}
