package validation

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/render"
)

// checkOwnLists refuses what is wrong in a job by itself, whatever runtime it uses, and
// what the API server would refuse only when it comes to the pods.
func checkOwnLists(job *trainer.TrainJob) field.ErrorList {
	var errs field.ErrorList
	if t := job.Spec.Trainer; t != nil {
		errs = append(errs, checkEnv(t.Env, trainerPath.Child("env"))...)
	}
	if initializer := job.Spec.Initializer; initializer != nil {
		path := specPath.Child("initializer")
		if d := initializer.Dataset; d != nil {
			errs = append(errs, checkInitializer(d.StorageUri, d.Env, d.SecretRef, path.Child("dataset"))...)
		}
		if m := initializer.Model; m != nil {
			errs = append(errs, checkInitializer(m.StorageUri, m.Env, m.SecretRef, path.Child("model"))...)
		}
	}
	for i := range job.Spec.RuntimePatches {
		errs = append(errs, checkPatch(&job.Spec.RuntimePatches[i], patchesPath.Index(i))...)
	}
	return errs
}

func checkInitializer(uri *string, env []corev1.EnvVar, secret *corev1.LocalObjectReference, path *field.Path) field.ErrorList {
	errs := checkEnv(env, path.Child("env"))
	for i := range env {
		if env[i].Name == render.EnvStorageURI && uri != nil && *uri != "" {
			errs = append(errs, field.Forbidden(path.Child("env").Index(i).Child("name"),
				render.EnvStorageURI+" is set from storageUri: remove one of the two"))
		}
	}
	if secret != nil && len(validation.IsDNS1123Subdomain(secret.Name)) > 0 {
		errs = append(errs, invalid(path.Child("secretRef", "name"), secret.Name,
			"no Secret can have this name: name the Secret whose keys are to become variables"))
	}
	return errs
}

// checkEnv refuses variables that a pod could not have.
func checkEnv(env []corev1.EnvVar, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range env {
		variable, path := &env[i], path.Index(i)
		if variable.Name == "" {
			errs = append(errs, field.Required(path.Child("name"), "give the variable a name"))
		} else if len(validation.IsRelaxedEnvVarName(variable.Name)) > 0 {
			errs = append(errs, invalid(path.Child("name"), variable.Name,
				"a variable's name consists of printable ASCII characters other than '=': rename it"))
		}
		if source := variable.ValueFrom; source != nil {
			errs = append(errs, checkSource(variable.Value, source, path)...)
		}
	}
	return errs
}

func checkSource(value string, source *corev1.EnvVarSource, path *field.Path) field.ErrorList {
	if value != "" {
		return field.ErrorList{invalid(path.Child("valueFrom"), value, "the variable has a value too: keep value or valueFrom and remove the other")}
	}
	given := 0
	for _, set := range []bool{source.FieldRef != nil, source.ResourceFieldRef != nil, source.ConfigMapKeyRef != nil, source.SecretKeyRef != nil, source.FileKeyRef != nil} {
		if set {
			given++
		}
	}
	if given != 1 {
		return field.ErrorList{field.Invalid(path.Child("valueFrom"), given,
			"a variable has one source: give exactly one of fieldRef, resourceFieldRef, configMapKeyRef, secretKeyRef and fileKeyRef")}
	}
	return nil
}

// checkPatch refuses metadata and selectors that no pod could have. Whether what is
// patched exists is for the runtime to say.
func checkPatch(patch *trainer.RuntimePatch, path *field.Path) field.ErrorList {
	if patch.TrainingRuntimeSpec == nil || patch.TrainingRuntimeSpec.Template == nil {
		return nil
	}
	template, path := patch.TrainingRuntimeSpec.Template, path.Child("trainingRuntimeSpec", "template")
	errs := checkMetadata(template.Metadata, path.Child("metadata"))
	if template.Spec == nil {
		return errs
	}
	for i := range template.Spec.ReplicatedJobs {
		job, path := template.Spec.ReplicatedJobs[i].Template, path.Child("spec", "replicatedJobs").Index(i).Child("template")
		if job == nil {
			continue
		}
		errs = append(errs, checkMetadata(job.Metadata, path.Child("metadata"))...)
		if job.Spec != nil && job.Spec.Template != nil {
			errs = append(errs, checkPodPatch(job.Spec.Template, path.Child("spec", "template"))...)
		}
	}
	return errs
}

func checkPodPatch(pod *trainer.PodTemplatePatch, path *field.Path) field.ErrorList {
	errs := checkMetadata(pod.Metadata, path.Child("metadata"))
	if pod.Spec == nil {
		return errs
	}
	path = path.Child("spec")
	errs = append(errs, checkLabels(pod.Spec.NodeSelector, path.Child("nodeSelector"))...)
	for i := range pod.Spec.Tolerations {
		errs = append(errs, checkToleration(&pod.Spec.Tolerations[i], path.Child("tolerations").Index(i))...)
	}
	for i := range pod.Spec.InitContainers {
		errs = append(errs, checkEnv(pod.Spec.InitContainers[i].Env, path.Child("initContainers").Index(i).Child("env"))...)
	}
	for i := range pod.Spec.Containers {
		errs = append(errs, checkEnv(pod.Spec.Containers[i].Env, path.Child("containers").Index(i).Child("env"))...)
	}
	return errs
}

func checkToleration(toleration *corev1.Toleration, path *field.Path) field.ErrorList {
	exists := toleration.Operator == corev1.TolerationOpExists
	switch {
	case toleration.Key == "" && !exists:
		return field.ErrorList{invalid(path.Child("operator"), string(toleration.Operator), "a toleration without a key tolerates every taint: set the operator Exists, or give the key")}
	case exists && toleration.Value != "":
		return field.ErrorList{invalid(path.Child("value"), toleration.Value, "with the operator Exists there is no value: remove it, or set Equal")}
	case toleration.Key != "" && len(validation.IsQualifiedName(toleration.Key)) > 0:
		return field.ErrorList{badKey(path.Child("key"), toleration.Key)}
	}
	return nil
}

func checkMetadata(metadata *metav1.ObjectMeta, path *field.Path) field.ErrorList {
	if metadata == nil {
		return nil
	}
	errs := checkLabels(metadata.Labels, path.Child("labels"))
	for _, key := range slices.Sorted(maps.Keys(metadata.Annotations)) {
		if problems := validation.IsQualifiedName(strings.ToLower(key)); len(problems) > 0 {
			errs = append(errs, badKey(path.Child("annotations"), key))
		}
	}
	return errs
}

// checkLabels refuses labels, or selectors of labels, that no object can have.
func checkLabels(labels map[string]string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if problems := validation.IsQualifiedName(key); len(problems) > 0 {
			errs = append(errs, badKey(path, key))
		}
		if problems := validation.IsValidLabelValue(labels[key]); len(problems) > 0 {
			errs = append(errs, invalid(path.Key(shortened(key)), labels[key],
				"a label's value has at most 63 letters, digits, '-', '_' and '.', and begins and ends with a letter or digit: give it such a value"))
		}
	}
	return errs
}

func badKey(path *field.Path, key string) *field.Error {
	return invalid(path, key, "a key consists of letters, digits, '-', '_' and '.', at most 63, after an optional prefix such as example.com/: give it such a name")
}
