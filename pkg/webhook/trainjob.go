package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
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
	operations, err := operationsBetween(spec{"spec": c.object.Spec}, spec{"spec": filled.Spec})
	if err != nil {
		return failed(http.StatusInternalServerError, metav1.StatusReasonInternalError, err.Error())
	}
	if c.old != nil && validation.Queued(filled) && !trainjob.BeingDeleted(filled) {
		operations = append(operations, keepWriting(request, c.old, filled)...)
	}
	if len(operations) > 0 {
		patch, err := json.Marshal(operations)
		if err != nil {
			return failed(http.StatusInternalServerError, metav1.StatusReasonInternalError, err.Error())
		}
		kind := admissionv1.PatchTypeJSONPatch
		response.Patch, response.PatchType = patch, &kind
	}
	return response
}

// keepWriting leaves the entries of patches that mean what they did in the way they were
// written. Programs in Go that write a whole job back drop `readOnly: false`, which changes
// what is merged, and `supplementalGroups: []`, which a rule of the CRD takes for a change.
func keepWriting(request *admissionv1.AdmissionRequest, old, job *trainer.TrainJob) []operation {
	was, is := writtenPatches(request.OldObject.Raw), writtenPatches(request.Object.Raw)
	var operations []operation
	for i := range job.Spec.RuntimePatches {
		patch := &job.Spec.RuntimePatches[i]
		before, after := was[patch.Manager], is[patch.Manager]
		at := slices.IndexFunc(old.Spec.RuntimePatches, func(p trainer.RuntimePatch) bool { return p.Manager == patch.Manager })
		if at < 0 || before == nil || reflect.DeepEqual(before, after) || !validation.SamePatch(&old.Spec.RuntimePatches[at], patch) {
			continue
		}
		operations = append(operations, add(fmt.Sprintf("/spec/runtimePatches/%d/trainingRuntimeSpec", i), before))
	}
	return operations
}

// writtenPatches are what each manager patches, as it is written.
func writtenPatches(raw []byte) map[string]any {
	var job struct {
		Spec struct {
			RuntimePatches []struct {
				Manager             string `json:"manager"`
				TrainingRuntimeSpec any    `json:"trainingRuntimeSpec"`
			} `json:"runtimePatches"`
		} `json:"spec"`
	}
	if utiljson.Unmarshal(raw, &job) != nil {
		return nil // it was read before
	}
	written := map[string]any{}
	for _, patch := range job.Spec.RuntimePatches {
		written[patch.Manager] = patch.TrainingRuntimeSpec
	}
	return written
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
	return t.judgeUpdate(ctx, old, job)
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
	if err := ctx.Err(); err != nil {
		return validation.Review{}, err // nobody waits for the answer any more
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

// judgeUpdate fails only when nobody waits for the answer any more: a job must not be
// locked because something else cannot be read. It is then judged without.
func (t *trainJobs) judgeUpdate(ctx context.Context, old, job *trainer.TrainJob) (validation.Review, error) {
	if equality.Semantic.DeepEqual(old.Spec.RuntimePatches, job.Spec.RuntimePatches) {
		return validation.UpdateTrainJob(old, job, nil), nil // nothing is built anew
	}
	cached, err := t.sources.cachedSnapshot(job)
	if err == nil && cached.runtime != nil {
		if verdict := validation.UpdateTrainJob(old, job, cached.runtime); len(verdict.Errors) == 0 {
			return verdict, nil
		}
	}
	if err := ctx.Err(); err != nil {
		return validation.Review{}, err
	}
	live, err := t.liveBase(ctx, job)
	if gone := ctx.Err(); gone != nil {
		return validation.Review{}, gone
	}
	if err != nil && !errors.Is(err, errUnreadable) {
		klog.FromContext(ctx).Error(err, "Judging an update without the job's snapshot", "trainJob", klog.KObj(job))
	}
	return validation.UpdateTrainJob(old, job, live.runtime), nil
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
