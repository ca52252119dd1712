package jobset

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/utils/clock"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/apierror"
	"github.com/trainjob/controller/pkg/queue"
	"github.com/trainjob/controller/pkg/render"
	"github.com/trainjob/controller/pkg/trainjob"
)

// helperWriter makes what the pods of a JobSet need beside it: files, keys and the group
// in which they are scheduled.
type helperWriter struct {
	configMaps corev1client.ConfigMapsGetter
	// labelled are the ConfigMaps with our label, from the cache.
	labelled  corelisters.ConfigMapLister
	secrets   corev1client.SecretsGetter
	podGroups dynamic.Interface
	clock     clock.PassiveClock
	missing   missingKinds
	released  released
}

// obstacle is why a job's helpers are not there. With an error it is tried again as the
// error says, else after the time given.
type obstacle struct {
	cause *trainjob.Cause
	again time.Duration
	err   error
}

// ensureHelpers says whether all helpers are there; if not, out says why. For a JobSet
// that is about to be created they are brought up to what it is built from.
func (c *Controller) ensureHelpers(ctx context.Context, job *trainer.TrainJob, objects *render.Objects, renew bool, out *outcome) bool {
	trouble := c.helpers.ensure(ctx, job, objects, renew)
	if trouble == nil {
		return true
	}
	out.observed.Blocked, out.result.After, out.err = trouble.cause, trouble.again, trouble.err
	return false
}

// ensureForResume does so for a JobSet that exists. Without a snapshot to build from
// there is no telling what its helpers are, and those it was created with stay.
func (c *Controller) ensureForResume(ctx context.Context, job *trainer.TrainJob, seen observation, out *outcome) bool {
	objects, cause := c.objectsOf(job, seen.snapshot)
	return cause != nil || c.ensureHelpers(ctx, job, objects, false, out)
}

// ensure makes the helpers. The group comes first: a scheduler that is not installed is
// the likeliest to hold a job up, and then nothing else is made.
func (h *helperWriter) ensure(ctx context.Context, job *trainer.TrainJob, objects *render.Objects, renew bool) *obstacle {
	if trouble := h.ensurePodGroup(ctx, job, objects.PodGroup, renew); trouble != nil {
		return trouble
	}
	for _, cm := range objects.ConfigMaps {
		if trouble := h.ensureConfigMap(ctx, job, cm, renew); trouble != nil {
			return trouble
		}
	}
	return h.ensureKeys(ctx, job, objects.Keys)
}

// ensureConfigMap creates a ConfigMap. One that is there already has the right content,
// unless the snapshot was taken anew and a new JobSet is built from it.
func (h *helperWriter) ensureConfigMap(ctx context.Context, job *trainer.TrainJob, wanted *corev1.ConfigMap, renew bool) *obstacle {
	client := h.configMaps.ConfigMaps(wanted.Namespace)
	have, err := h.labelled.ConfigMaps(wanted.Namespace).Get(wanted.Name)
	if err != nil || trainjob.OwnershipOf(job, have) != trainjob.Ours {
		_, err := client.Create(ctx, wanted, metav1.CreateOptions{})
		if err == nil {
			return nil
		}
		if apierror.Of(err) != apierror.Exists {
			return h.refused(job, "ConfigMap", wanted.Name, err)
		}
		if have, err = client.Get(ctx, wanted.Name, metav1.GetOptions{}); err != nil {
			return &obstacle{err: queue.RetryAfter(fmt.Errorf("read ConfigMap %q: %w", wanted.Name, err), lookAgain)}
		}
		if trouble := h.inTheWay(job, "ConfigMap", have); trouble != nil {
			return trouble
		}
	}
	if !renew || maps.Equal(have.Data, wanted.Data) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": have.UID, "resourceVersion": have.ResourceVersion}, "data": wanted.Data,
	})
	if err == nil {
		_, err = client.Patch(ctx, wanted.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	}
	if err != nil {
		return h.refused(job, "ConfigMap", wanted.Name, err)
	}
	return nil
}

// ensureKeys creates a Secret with keys. Its name has a part of the job's UID in it, so
// one that is there is the one this very job was given.
func (h *helperWriter) ensureKeys(ctx context.Context, job *trainer.TrainJob, wanted *render.KeySecret) *obstacle {
	if wanted == nil {
		return nil
	}
	secret, err := withKeys(wanted)
	if err != nil {
		return &obstacle{err: err}
	}
	_, err = h.secrets.Secrets(secret.Namespace).Create(ctx, secret, metav1.CreateOptions{})
	if err != nil && apierror.Of(err) != apierror.Exists {
		return h.refused(job, "Secret", secret.Name, err)
	}
	return nil
}

// ensurePodGroup creates the group.
func (h *helperWriter) ensurePodGroup(ctx context.Context, job *trainer.TrainJob, wanted *unstructured.Unstructured, renew bool) *obstacle {
	if wanted == nil {
		return nil
	}
	kind := wanted.GroupVersionKind()
	if wait := h.missing.wait(kind, h.clock.Now()); wait > 0 {
		return notInstalled(wanted, wait)
	}
	client := h.podGroups.Resource(podGroupsOf(kind)).Namespace(wanted.GetNamespace())
	_, err := client.Create(ctx, wanted, metav1.CreateOptions{})
	switch meaning := apierror.Of(err); {
	case err == nil:
		return nil
	case meaning == apierror.MissingKind:
		h.missing.note(kind, h.clock.Now())
		return notInstalled(wanted, missingFor)
	case meaning != apierror.Exists:
		return h.refused(job, "PodGroup", wanted.GetName(), err)
	}
	have, err := client.Get(ctx, wanted.GetName(), metav1.GetOptions{})
	if err != nil {
		return &obstacle{err: queue.RetryAfter(fmt.Errorf("read PodGroup %q: %w", wanted.GetName(), err), lookAgain)}
	}
	if trouble := h.inTheWay(job, "PodGroup", have); trouble != nil {
		return trouble
	}
	// What admission filled in is no difference.
	if !renew || equality.Semantic.DeepDerivative(wanted.Object["spec"], have.Object["spec"]) {
		return nil
	}
	have.Object["spec"] = wanted.Object["spec"]
	if _, err := client.Update(ctx, have, metav1.UpdateOptions{}); err != nil {
		return h.refused(job, "PodGroup", wanted.GetName(), err)
	}
	return nil
}

// inTheWay judges an object that has the name of a helper.
func (h *helperWriter) inTheWay(job *trainer.TrainJob, kind string, object metav1.Object) *obstacle {
	switch trainjob.OwnershipOf(job, object) {
	case trainjob.Ours:
		if object.GetDeletionTimestamp().IsZero() {
			return nil
		}
		// Deleted by hand, and gone in a moment.
		return &obstacle{again: lookAgain}
	case trainjob.Older:
		return &obstacle{again: lookAgain, cause: &trainjob.Cause{
			Reason:  trainer.ReasonJobSetConflict,
			Message: fmt.Sprintf("waiting until %s %q of an earlier TrainJob of this name is gone", kind, object.GetName()),
		}}
	}
	return &obstacle{again: trainjob.RecheckAfter(job, h.clock.Now()), cause: &trainjob.Cause{
		Reason: trainer.ReasonJobSetConflict,
		Message: fmt.Sprintf("%s %q exists and does not belong to this TrainJob: delete it, or give the job another name",
			kind, object.GetName()),
	}}
}

// refused is a helper that the API server does not take.
func (h *helperWriter) refused(job *trainer.TrainJob, kind, name string, err error) *obstacle {
	trouble := &obstacle{err: fmt.Errorf("write %s %q: %w", kind, name, err)}
	if meaning := apierror.Of(err); !meaning.Refusal() && meaning != apierror.Gone {
		return trouble
	}
	trouble.cause = &trainjob.Cause{
		Reason:  trainer.ReasonCreationFailed,
		Message: fmt.Sprintf("the %s %q cannot be written: %s", kind, name, abridged(err.Error())),
	}
	trouble.err = tryAgain(job, h.clock.Now(), trouble.err)
	return trouble
}

// notInstalled is a job that waits for a scheduler's PodGroups to be known.
func notInstalled(wanted *unstructured.Unstructured, wait time.Duration) *obstacle {
	return &obstacle{again: wait, cause: &trainjob.Cause{
		Reason: trainer.ReasonCreationFailed,
		Message: fmt.Sprintf("the PodGroup cannot be created: the cluster has no %s of %s; install the CRDs of the scheduler, and the job goes on within a minute",
			wanted.GetKind(), wanted.GetAPIVersion()),
	}}
}

// podGroupsOf is the resource of a PodGroup, of whichever scheduler.
func podGroupsOf(kind schema.GroupVersionKind) schema.GroupVersionResource {
	return kind.GroupVersion().WithResource("podgroups")
}
