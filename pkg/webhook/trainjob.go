package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/trainjob"
	"github.com/trainjob/controller/pkg/validation"
)

// trainJobs reviews TrainJobs.
type trainJobs struct {
	sources Sources
	// opaque are the kinds of runtimes that another controller builds from.
	opaque sets.Set[schema.GroupKind]
	clock  clock.PassiveClock
}

// fillIn is the review that sets what admission sets. It never refuses: an object that
// is not even right for the schema is refused by the API server afterwards, in words
// that fit better.
func (t *trainJobs) fillIn(_ context.Context, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	if !reviewed(request) {
		return allowed()
	}
	if request.Resource.Group != trainer.GroupName || request.Resource.Resource != "trainjobs" {
		return misdirected(PathMutateTrainJob, request)
	}
	c, err := decodeChange[trainer.TrainJob](request)
	if err != nil {
		return allowed()
	}
	filled := c.object.DeepCopy()
	response := allowed(validation.DefaultTrainJob(c.old, filled, t.clock.Now())...)
	type spec map[string]trainer.TrainJobSpec // as far as anything is filled in
	patch, err := patchBetween(spec{"spec": c.object.Spec}, spec{"spec": filled.Spec})
	if err != nil {
		return failed(http.StatusInternalServerError, metav1.StatusReasonInternalError, err.Error())
	}
	if patch != nil {
		kind := admissionv1.PatchTypeJSONPatch
		response.Patch, response.PatchType = patch, &kind
	}
	return response
}

// check is the review that refuses.
func (t *trainJobs) check(ctx context.Context, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	if !reviewed(request) {
		return allowed()
	}
	if request.Resource.Group != trainer.GroupName || request.Resource.Resource != "trainjobs" {
		return misdirected(PathValidateTrainJob, request)
	}
	c, err := decodeChange[trainer.TrainJob](request)
	if err != nil {
		return failed(http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
	}
	if trainjob.BeingDeleted(c.object) {
		return allowed()
	}
	verdict, err := t.judge(ctx, c.old, c.object)
	if err != nil {
		return failed(http.StatusInternalServerError, metav1.StatusReasonInternalError, err.Error())
	}
	return verdictOn(trainer.Kind(trainer.TrainJobKind), c.object, verdict)
}

func (t *trainJobs) judge(ctx context.Context, old, job *trainer.TrainJob) (validation.Review, error) {
	switch {
	case trainjob.External(job) && t.opaque.Has(trainjob.RuntimeKind(job)):
		return validation.OpaqueTrainJob(old, job), nil
	case trainjob.External(job):
		return validation.UnsupportedTrainJob(old, job, t.opaque), nil
	case old == nil:
		return t.judgeCreate(ctx, job)
	}
	return t.judgeUpdate(ctx, old, job), nil
}

// judgeCreate asks the cache first. A refusal is given only on what the API server has
// now: the runtime may have been applied a moment before the job.
func (t *trainJobs) judgeCreate(ctx context.Context, job *trainer.TrainJob) (validation.Review, error) {
	cached, err := t.sources.cachedRuntime(job)
	if err != nil {
		return validation.Review{}, err
	}
	verdict := validation.CreateTrainJob(job, cached.runtime)
	if len(verdict.Errors) == 0 && cached.runtime != nil {
		return verdict, nil
	}
	live, err := t.sources.liveRuntime(ctx, job)
	if apierrors.IsForbidden(err) {
		return verdict, nil // without the right to look, the cache has to do
	}
	if err != nil {
		return validation.Review{}, fmt.Errorf("cannot read the runtime that spec.runtimeRef names: %w", err)
	}
	if live.version == cached.version {
		return verdict, nil
	}
	return validation.CreateTrainJob(job, live.runtime), nil
}

// judgeUpdate never fails: a job must not be locked because something else cannot be
// read. It is then judged without.
func (t *trainJobs) judgeUpdate(ctx context.Context, old, job *trainer.TrainJob) validation.Review {
	if equality.Semantic.DeepEqual(old.Spec.RuntimePatches, job.Spec.RuntimePatches) {
		return validation.UpdateTrainJob(old, job, nil) // nothing is built anew
	}
	cached, err := t.sources.cachedSnapshot(job)
	if err == nil && cached.runtime != nil {
		if verdict := validation.UpdateTrainJob(old, job, cached.runtime); len(verdict.Errors) == 0 {
			return verdict
		}
	}
	live, err := t.liveBase(ctx, job)
	if err != nil && !errors.Is(err, errUnreadable) {
		klog.FromContext(ctx).Error(err, "Judging an update without the job's snapshot", "trainJob", klog.KObj(job))
	}
	return validation.UpdateTrainJob(old, job, live.runtime)
}

// liveBase is what a job is built from: its snapshot, and before there is one its
// runtime.
func (t *trainJobs) liveBase(ctx context.Context, job *trainer.TrainJob) (found, error) {
	live, err := t.sources.liveSnapshot(ctx, job)
	if err != nil || live.runtime != nil {
		return live, err
	}
	return t.sources.liveRuntime(ctx, job)
}

// verdictOn makes the answer of a verdict.
func verdictOn(kind groupKind, object metav1.Object, verdict validation.Review) *admissionv1.AdmissionResponse {
	response := allowed(verdict.Warnings...)
	if len(verdict.Errors) == 0 {
		return response
	}
	name := object.GetName()
	if name == "" {
		name = object.GetGenerateName()
	}
	status := apierrors.NewInvalid(kind, name, verdict.Errors).Status()
	response.Allowed, response.Result = false, &status
	return response
}
