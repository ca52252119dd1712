package informer

import (
	"reflect"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// Transform makes a cache transform of functions that trim an object in place,
// applied in order. It never fails: an object it cannot make sense of is left
// alone, because a transform's error would stop the whole watch over one object.
//
// A tombstone is left alone as well: the state inside it has been transformed
// when it entered the cache, and readers of the cache may still hold it.
func Transform(trim ...func(metav1.Object)) cache.TransformFunc {
	return func(obj any) (any, error) {
		if object := asObject(obj); object != nil {
			for _, f := range trim {
				f(object)
			}
		}
		return obj, nil
	}
}

// Strip drops what no controller reads and what often makes up most of an
// object: the managed fields, and the copy of the manifest that kubectl apply keeps.
func Strip(object metav1.Object) {
	// Writes only what is there: to strip a stripped object again must not touch
	// it, since it may be shared by then.
	if object.GetManagedFields() != nil {
		object.SetManagedFields(nil)
	}
	annotations := object.GetAnnotations()
	if _, found := annotations[corev1.LastAppliedConfigAnnotation]; found {
		delete(annotations, corev1.LastAppliedConfigAnnotation)
		if len(annotations) == 0 {
			annotations = nil // an empty map keeps the room it had
		}
		object.SetAnnotations(annotations)
	}
}

// TrimJobSet returns a trim function for JobSets. Of those controlled by an
// owner of the given group and kind it keeps metadata, spec.suspend and status;
// of all others only what it takes to see whose they are and that they exist.
// Objects of other kinds are not touched.
func TrimJobSet(owner schema.GroupKind) func(metav1.Object) {
	return func(object metav1.Object) {
		jobSet, ok := object.(*jobsetv1alpha2.JobSet)
		if !ok {
			return
		}
		if controlledBy(jobSet, owner) {
			jobSet.Spec = jobsetv1alpha2.JobSetSpec{Suspend: jobSet.Spec.Suspend}
			return
		}
		*jobSet = jobsetv1alpha2.JobSet{TypeMeta: jobSet.TypeMeta, ObjectMeta: bare(&jobSet.ObjectMeta)}
	}
}

// TrimConfigMap returns a trim function for ConfigMaps. Of those not controlled by an
// owner of the given group and kind it keeps only what it takes to see whose they are and
// that they exist: a label is anybody's to set. Objects of other kinds are not touched.
func TrimConfigMap(owner schema.GroupKind) func(metav1.Object) {
	return func(object metav1.Object) {
		if cm, ok := object.(*corev1.ConfigMap); ok && !controlledBy(cm, owner) {
			*cm = corev1.ConfigMap{TypeMeta: cm.TypeMeta, ObjectMeta: bare(&cm.ObjectMeta)}
		}
	}
}

// TrimPod returns a trim function for pods: of them it keeps who and where they are, and
// how one of their init containers has ended. Objects of other kinds are not touched.
func TrimPod(initContainer string) func(metav1.Object) {
	return func(object metav1.Object) {
		pod, ok := object.(*corev1.Pod)
		if !ok {
			return
		}
		trimmed := corev1.Pod{
			TypeMeta: pod.TypeMeta,
			ObjectMeta: metav1.ObjectMeta{
				Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
				Labels: pod.Labels, OwnerReferences: pod.OwnerReferences, DeletionTimestamp: pod.DeletionTimestamp,
			},
			Spec:   corev1.PodSpec{NodeName: pod.Spec.NodeName},
			Status: corev1.PodStatus{Phase: pod.Status.Phase},
		}
		if index, ok := pod.Annotations[batchv1.JobCompletionIndexAnnotation]; ok {
			trimmed.Annotations = map[string]string{batchv1.JobCompletionIndexAnnotation: index}
		}
		for _, status := range pod.Status.InitContainerStatuses {
			if status.Name == initContainer {
				trimmed.Status.InitContainerStatuses = append(trimmed.Status.InitContainerStatuses, corev1.ContainerStatus{
					Name: status.Name, State: status.State, LastTerminationState: status.LastTerminationState, RestartCount: status.RestartCount,
				})
			}
		}
		*pod = trimmed
	}
}

// bare is the metadata that tells whose an object is.
func bare(meta *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name:              meta.Name,
		Namespace:         meta.Namespace,
		UID:               meta.UID,
		ResourceVersion:   meta.ResourceVersion,
		OwnerReferences:   meta.OwnerReferences,
		DeletionTimestamp: meta.DeletionTimestamp,
	}
}

// asObject returns obj as an API object, or nil if it is none: a tombstone, nil,
// a nil pointer or something without metadata.
func asObject(obj any) metav1.Object {
	object, ok := obj.(metav1.Object)
	if !ok {
		return nil
	}
	if v := reflect.ValueOf(obj); v.Kind() == reflect.Pointer && v.IsNil() {
		return nil
	}
	return object
}
