package render

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/render/framework"
	"github.com/trainjob/controller/pkg/render/gang"
	"github.com/trainjob/controller/pkg/runtimesnapshot"
	"github.com/trainjob/controller/pkg/trainjob"
)

// Runtime is what a job is built from: the decoded snapshot, or the live runtime when
// it is tried before a snapshot is taken. Spec may lack the CRD's defaults.
type Runtime struct {
	Kind, Name          string
	Labels, Annotations map[string]string
	Spec                v1alpha1.TrainingRuntimeSpec
}

// FromSnapshot takes a runtime as it is frozen, or would be. The result shares memory
// with it.
func FromSnapshot(r *runtimesnapshot.Runtime) Runtime {
	return Runtime{Kind: r.Kind, Name: r.Metadata.Name, Labels: r.Metadata.Labels, Annotations: r.Metadata.Annotations, Spec: r.Spec}
}

// Objects is what a job consists of.
type Objects struct {
	// JobSet is complete, including kind, owner reference and spec.suspend. It shares
	// no memory with the inputs.
	JobSet *jobsetv1alpha2.JobSet
	// Nodes is the number of training nodes.
	Nodes int32
	// TrainerJob is the name of the replicatedJob that trains, "" if none is labelled so.
	TrainerJob string
	// ConfigMaps that the pods mount, complete.
	ConfigMaps []*corev1.ConfigMap `json:",omitempty"`
	// Keys is a Secret that the pods mount; nil when they need none.
	Keys *KeySecret `json:",omitempty"`
	// PodGroup for the gang scheduler, complete; nil when none is asked for.
	PodGroup *unstructured.Unstructured `json:",omitempty"`
	// Reserved are the variables that the framework has set, whatever else was given.
	Reserved []Reserved `json:"-"`
	// Trained names the replicatedJobs whose container `node` spec.trainer has reached.
	Trained []string `json:"-"`
}

// Reserved names the variables of one container that are the framework's.
type Reserved struct {
	ReplicatedJob, Container string
	Names                    []string
}

// KeySecret is a Secret without its data. The keys are random, so whoever creates the
// Secret makes them.
type KeySecret struct {
	Secret *corev1.Secret
	Kind   framework.KeyKind
}

// All are the objects in the order in which they are created: what a JobSet needs, then
// the JobSet.
func (o *Objects) All() []any {
	var all []any
	if o.PodGroup != nil {
		all = append(all, o.PodGroup)
	}
	for _, cm := range o.ConfigMaps {
		all = append(all, cm)
	}
	if o.Keys != nil {
		all = append(all, o.Keys.Secret)
	}
	return append(all, o.JobSet)
}

// PodGroupKind is the kind of the PodGroup that a runtime asks for; false if it asks for
// none. The group, if there are pods for one, has the job's name.
func PodGroupKind(spec *v1alpha1.TrainingRuntimeSpec) (schema.GroupVersionKind, bool) {
	return gang.KindOf(spec.PodGroupPolicy)
}

// Render builds the objects of a job. The error is an *Error: the runtime, or the
// TrainJob's use of it, is wrong, and only a change of one of them helps.
func Render(job *v1alpha1.TrainJob, runtime Runtime) (*Objects, error) {
	objects, errs := render(job, runtime.Name, &runtime.Spec)
	if len(errs) > 0 {
		return nil, &Error{Runtime: runtime.Kind + " " + runtime.Name, Errs: errs}
	}
	return objects, nil
}

// render goes through the layers in their order. What is found wrong in one layer is
// reported together; a later layer is not tried on top of a broken one.
func render(job *v1alpha1.TrainJob, name string, runtime *v1alpha1.TrainingRuntimeSpec) (*Objects, field.ErrorList) {
	if errs := checkTemplate(runtime); len(errs) > 0 {
		return nil, errs
	}
	js := newJobSet(job, runtime)
	if errs := applyPatches(js, job.Spec.RuntimePatches); len(errs) > 0 {
		return nil, errs
	}
	ownMetadata(js, job)

	trainer, errs := findTrainer(&js.Spec)
	errs = append(errs, applyInitializer(&js.Spec, job.Spec.Initializer)...)
	if len(errs) > 0 {
		return nil, errs
	}
	if trainer.job == nil {
		return asItStands(js, job)
	}
	in := framework.Input{
		JobName: job.Name, UID: job.UID,
		Trainer: job.Spec.Trainer, Policy: runtime.MLPolicy, Spec: &js.Spec,
		TrainerJob: trainer.job, Node: trainer.container,
		Nodes:       resolveNodes(job.Spec.Trainer, runtime.MLPolicy, trainer.job),
		RuntimeName: name, RuntimeCommand: slices.Concat(trainer.container.Command, trainer.container.Args),
	}
	setPods(trainer.job, in.Nodes)
	applyTrainer(trainer.container, framework.Peers(in), job.Spec.Trainer)

	added, errs := framework.Build(in)
	if len(errs) > 0 {
		return nil, append(errs, checkPodNames(js)...)
	}
	objects := &Objects{JobSet: js, Nodes: in.Nodes, TrainerJob: trainer.job.Name} // the job may move in the next step
	objects.Reserved = reservedNames(added)
	objects.Trained = framework.TrainedJobs(runtime.MLPolicy, objects.TrainerJob)
	applyFramework(&js.Spec, added)
	if errs := checkPodNames(js); len(errs) > 0 {
		return nil, errs
	}
	labelPreflight(js)
	noteLeftOut(js, added.Removed)
	addHelpers(objects, job, added)
	objects.PodGroup, errs = gang.Build(gang.Input{
		JobSet: js, Owner: trainjob.OwnerReference(job), Policy: runtime.PodGroupPolicy, Template: runtime.Template.Annotations,
		TrainerJob: objects.TrainerJob, GangJob: added.Gang,
	})
	if len(errs) > 0 {
		return nil, errs
	}
	return objects, nil
}

// asItStands is for templates in which no job is labelled as the one that trains: nobody
// knows where spec.trainer and the framework belong, so the template runs without them.
func asItStands(js *jobsetv1alpha2.JobSet, job *v1alpha1.TrainJob) (*Objects, field.ErrorList) {
	errs := checkNothingToTrain(&js.Spec, job.Spec.Trainer)
	if errs = append(errs, checkPodNames(js)...); len(errs) > 0 {
		return nil, errs
	}
	labelPreflight(js)
	return &Objects{JobSet: js, Nodes: podsOfNoStep(&js.Spec)}, nil
}

// checkTemplate refuses runtimes of which nothing can be built.
func checkTemplate(runtime *v1alpha1.TrainingRuntimeSpec) field.ErrorList {
	if len(runtime.Template.Spec.ReplicatedJobs) > 0 {
		return nil
	}
	return field.ErrorList{field.Required(templatePath(), "the template has no jobs: add at least the one that trains")}
}

// templatePath is where the jobs of a runtime are.
func templatePath() *field.Path {
	return field.NewPath("spec", "template", "spec", "replicatedJobs")
}

// newJobSet copies the template. Of its metadata only labels and annotations are
// used; limits that would end the job behind the TrainJob's back are left out.
func newJobSet(job *v1alpha1.TrainJob, runtime *v1alpha1.TrainingRuntimeSpec) *jobsetv1alpha2.JobSet {
	js := &jobsetv1alpha2.JobSet{
		TypeMeta: metav1.TypeMeta{APIVersion: jobsetv1alpha2.GroupVersion.String(), Kind: "JobSet"},
		ObjectMeta: metav1.ObjectMeta{
			Name:        job.Name,
			Namespace:   job.Namespace,
			Labels:      mergeMaps(nil, runtime.Template.Labels),
			Annotations: mergeMaps(nil, runtime.Template.Annotations),
		},
	}
	runtime.Template.Spec.DeepCopyInto(&js.Spec)
	js.Spec.Suspend = ptr.To(trainjob.Suspended(job))
	js.Spec.TTLSecondsAfterFinished = nil
	for i := range js.Spec.ReplicatedJobs {
		rjob := &js.Spec.ReplicatedJobs[i]
		rjob.Template.Spec.TTLSecondsAfterFinished = nil
		rjob.Template.Spec.ActiveDeadlineSeconds = nil
		switch rjob.Template.Labels[v1alpha1.LabelAncestorStep] {
		case v1alpha1.StepTrainer, v1alpha1.StepDatasetInitializer, v1alpha1.StepModelInitializer:
			rjob.Replicas = 1
		}
	}
	return js
}

// ownMetadata writes what the controller finds its objects by. It comes after the
// patches, so that none of them can take an object away.
func ownMetadata(js *jobsetv1alpha2.JobSet, job *v1alpha1.TrainJob) {
	js.Labels = mergeMaps(js.Labels, map[string]string{v1alpha1.LabelTrainJobName: job.Name})
	js.Annotations = mergeMaps(js.Annotations, map[string]string{
		v1alpha1.AnnotationPatchesHash: PatchesHash(job.Spec.RuntimePatches),
	})
	// A note of another JobSet, or somebody's own.
	delete(js.Annotations, v1alpha1.AnnotationRemakeJobs)
	delete(js.Annotations, v1alpha1.AnnotationLeftOutJobs)
	js.OwnerReferences = []metav1.OwnerReference{trainjob.OwnerReference(job)}
}
