package render

import (
	"fmt"
	"math"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/render/framework"
)

// EnvStorageURI tells an initializer what to fetch.
const EnvStorageURI = "STORAGE_URI"

// step is a replicatedJob that carries out one step of a TrainJob, and the container
// in it that does the work.
type step struct {
	job       *jobsetv1alpha2.ReplicatedJob
	container *corev1.Container
}

// findTrainer finds the one job that trains. Without one that is labelled so, the step
// is empty.
func findTrainer(spec *jobsetv1alpha2.JobSetSpec) (step, field.ErrorList) {
	indexes := labelled(spec, v1alpha1.StepTrainer)
	if len(indexes) == 0 {
		return step{}, nil
	}
	return mainContainer(spec, indexes, v1alpha1.StepTrainer, v1alpha1.ContainerNode)
}

// checkNothingToTrain refuses what spec.trainer asks of a template of which no job is
// labelled as the one that trains. The number of nodes is let through: clients send it
// with every job.
func checkNothingToTrain(spec *jobsetv1alpha2.JobSetSpec, trainer *v1alpha1.Trainer) field.ErrorList {
	if trainer == nil {
		return nil
	}
	var errs field.ErrorList
	refuse := func(given bool, name string) {
		if given {
			errs = append(errs, field.Forbidden(field.NewPath("spec", "trainer", name), fmt.Sprintf(
				"no replicatedJob of the runtime (%s) has the label %s: %s: put it on template.metadata.labels of the one that trains, or remove the field",
				framework.JobNames(spec), v1alpha1.LabelAncestorStep, v1alpha1.StepTrainer)))
		}
	}
	refuse(trainer.Image != nil && *trainer.Image != "", "image")
	refuse(len(trainer.Command) > 0, "command")
	refuse(len(trainer.Args) > 0, "args")
	refuse(len(trainer.Env) > 0, "env")
	refuse(trainer.ResourcesPerNode != nil, "resourcesPerNode")
	refuse(trainer.NumProcPerNode != nil, "numProcPerNode")
	return errs
}

// podsOfNoStep is the number of pods of the jobs that have no step label: which of them
// train is not known.
func podsOfNoStep(spec *jobsetv1alpha2.JobSetSpec) int32 {
	var pods int64
	for i := range spec.ReplicatedJobs {
		rjob := &spec.ReplicatedJobs[i]
		switch rjob.Template.Labels[v1alpha1.LabelAncestorStep] {
		case v1alpha1.StepDatasetInitializer, v1alpha1.StepModelInitializer:
		default:
			pods += int64(max(rjob.Replicas, 1)) * int64(parallelism(&rjob.Template.Spec))
		}
	}
	return int32(min(pods, math.MaxInt32))
}

// labelled returns the indexes of the jobs with that value of the step label.
func labelled(spec *jobsetv1alpha2.JobSetSpec, value string) []int {
	var indexes []int
	for i := range spec.ReplicatedJobs {
		if spec.ReplicatedJobs[i].Template.Labels[v1alpha1.LabelAncestorStep] == value {
			indexes = append(indexes, i)
		}
	}
	return indexes
}

// mainContainer takes the one job out of indexes (at least one) and finds its main
// container.
func mainContainer(spec *jobsetv1alpha2.JobSetSpec, indexes []int, value, container string) (step, field.ErrorList) {
	if len(indexes) > 1 {
		path := templatePath().Index(indexes[1]).Child("template", "metadata", "labels").Key(v1alpha1.LabelAncestorStep)
		return step{}, field.ErrorList{field.Invalid(path, value, fmt.Sprintf(
			"replicatedJobs %s and %s both have it: leave the label on one of them",
			spec.ReplicatedJobs[indexes[0]].Name, spec.ReplicatedJobs[indexes[1]].Name))}
	}
	job := &spec.ReplicatedJobs[indexes[0]]
	pod := &job.Template.Spec.Template.Spec
	found := framework.FindContainer(pod.Containers, container)
	if found == nil {
		path := templatePath().Index(indexes[0]).Child("template", "spec", "template", "spec", "containers")
		return step{}, field.ErrorList{notFound(path, container, fmt.Sprintf(
			"replicatedJob %s is labelled %s and must have a container of this name (it has: %s): give the main one this name",
			job.Name, value, framework.ContainerNames(pod.Containers)))}
	}
	return step{job: job, container: found}, nil
}

// resolveNodes decides the number of training nodes, as Kueue does when it reserves
// room for them.
func resolveNodes(trainer *v1alpha1.Trainer, policy *v1alpha1.MLPolicy, job *jobsetv1alpha2.ReplicatedJob) int32 {
	switch {
	case trainer != nil && trainer.NumNodes != nil:
		return *trainer.NumNodes
	case policy != nil && policy.NumNodes != nil:
		return *policy.NumNodes
	case policy != nil:
		return 1
	default:
		return parallelism(&job.Template.Spec)
	}
}

func parallelism(job *batchv1.JobSpec) int32 {
	if job.Parallelism != nil {
		return *job.Parallelism
	}
	return 1
}

// applyTrainer puts spec.trainer into the training container, and into its peers what
// is not about how the training is started. command and args replace each other's
// counterpart only: a given empty list clears it.
func applyTrainer(container *corev1.Container, peers []*corev1.Container, trainer *v1alpha1.Trainer) {
	if trainer == nil {
		return
	}
	for _, node := range append([]*corev1.Container{container}, peers...) {
		given := trainer.DeepCopy() // its pieces move into the JobSet
		if given.Image != nil && *given.Image != "" {
			node.Image = *given.Image
		}
		node.Env = mergeEnv(node.Env, given.Env)
		mergeResources(&node.Resources, given.ResourcesPerNode)
	}
	given := trainer.DeepCopy()
	if given.Command != nil {
		container.Command = given.Command
	}
	if given.Args != nil {
		container.Args = given.Args
	}
}

// applyInitializer configures the steps before training that the TrainJob mentions.
func applyInitializer(spec *jobsetv1alpha2.JobSetSpec, initializer *v1alpha1.Initializer) field.ErrorList {
	if initializer == nil {
		return nil
	}
	initializer = initializer.DeepCopy() // its pieces move into the JobSet
	var errs field.ErrorList
	path := field.NewPath("spec", "initializer")
	if dataset := initializer.Dataset; dataset != nil {
		errs = append(errs, applyInitializerStep(spec, path.Child("dataset"), v1alpha1.StepDatasetInitializer,
			dataset.StorageUri, dataset.Env, dataset.SecretRef)...)
	}
	if model := initializer.Model; model != nil {
		errs = append(errs, applyInitializerStep(spec, path.Child("model"), v1alpha1.StepModelInitializer,
			model.StorageUri, model.Env, model.SecretRef)...)
	}
	return errs
}

func applyInitializerStep(spec *jobsetv1alpha2.JobSetSpec, path *field.Path, value string,
	storageURI *string, env []corev1.EnvVar, secret *corev1.LocalObjectReference) field.ErrorList {
	indexes := labelled(spec, value)
	if len(indexes) == 0 {
		return field.ErrorList{field.Invalid(path, value, fmt.Sprintf(
			"the runtime has no replicatedJob with the label %s: %s: remove the field or use a runtime that has this step",
			v1alpha1.LabelAncestorStep, value))}
	}
	found, errs := mainContainer(spec, indexes, value, value)
	if len(errs) > 0 {
		return errs
	}
	container := found.container
	container.Env = mergeEnv(container.Env, env)
	if storageURI != nil && *storageURI != "" {
		container.Env = injectEnv(container.Env, []corev1.EnvVar{{Name: EnvStorageURI, Value: *storageURI}})
	}
	if secret != nil {
		container.EnvFrom = addSecretEnv(container.EnvFrom, *secret)
	}
	return nil
}

// addSecretEnv makes the keys of a Secret variables of a container, once.
func addSecretEnv(sources []corev1.EnvFromSource, secret corev1.LocalObjectReference) []corev1.EnvFromSource {
	for i := range sources {
		if ref := sources[i].SecretRef; ref != nil && ref.Name == secret.Name && sources[i].Prefix == "" {
			return sources
		}
	}
	return append(sources, corev1.EnvFromSource{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: secret}})
}
