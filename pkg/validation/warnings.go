package validation

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/render/framework"
	"github.com/trainjob/controller/pkg/runtimesnapshot"
)

// labelQueue, on a TrainJob, hands it to Kueue.
const labelQueue = "kueue.x-k8s.io/queue-name"

// shortTTL is a time to live in which nobody has read a job's logs.
const shortTTL = 60

// warnOfLimits tells of limits that are allowed and rarely meant.
func warnOfLimits(review *Review, job *trainer.TrainJob) {
	if ttl := job.Spec.TTLSecondsAfterFinished; ttl != nil && *ttl >= 0 && *ttl < shortTTL {
		review.warn(specPath.Child("ttlSecondsAfterFinished"),
			"the job, its pods and their logs are deleted %d seconds after it has finished; set at least %d to have time to look at them", *ttl, shortTTL)
	}
}

// warnOfRuntime tells of what is odd about a job on this runtime.
func warnOfRuntime(review *Review, job *trainer.TrainJob, runtime *runtimesnapshot.Runtime) {
	if runtime.Metadata.Labels[trainer.LabelSupport] == trainer.SupportDeprecated {
		review.warn(runtimeRefPath.Child("name"), "%s is deprecated and will be removed (label %s); use another runtime for new jobs",
			describe(job), trainer.LabelSupport)
	}
	warnOfProcesses(review, job, runtime.Spec.MLPolicy)
	spec := &runtime.Spec.Template.Spec
	if stepJob(spec, trainer.StepTrainer) == nil {
		if len(review.Errors) > 0 {
			return // which say it too
		}
		review.warn(runtimeRefPath.Child("name"), "%s has "+noTrainerJob, describe(job), trainer.LabelAncestorStep, trainer.StepTrainer)
		return
	}
	node := stepContainer(spec, trainer.StepTrainer, trainer.ContainerNode)
	if node == nil {
		return
	}
	warnOfQueue(review, job, node)
	if initializer := job.Spec.Initializer; initializer != nil {
		path := specPath.Child("initializer")
		if initializer.Dataset != nil && !shares(spec, trainer.StepDatasetInitializer) {
			review.warn(path.Child("dataset"), "the training pods of %s share no volume with the step %s, so what it fetches may not reach them", describe(job), trainer.StepDatasetInitializer)
		}
		if initializer.Model != nil && !shares(spec, trainer.StepModelInitializer) {
			review.warn(path.Child("model"), "the training pods of %s share no volume with the step %s, so what it fetches may not reach them", describe(job), trainer.StepModelInitializer)
		}
	}
}

// noTrainerJob is what is said of a runtime whose template is run as it stands.
const noTrainerJob = "no job with the label %s: %s, so its template runs as it stands, and numNodes, mlPolicy and podGroupPolicy have no effect; put the label on the job that trains"

// warnOfProcesses tells of a number of processes that is passed over. Kubeflow Trainer
// accepts it, and jobs written for it must be accepted here.
func warnOfProcesses(review *Review, job *trainer.TrainJob, policy *trainer.MLPolicy) {
	if job.Spec.Trainer == nil || job.Spec.Trainer.NumProcPerNode == nil {
		return
	}
	if used, name := framework.UsesNumProcPerNode(policy); !used {
		review.warn(trainerPath.Child("numProcPerNode"), "%d has no effect under the runtime's framework (%s); remove it, or use a runtime with torch, mpi or flux",
			*job.Spec.Trainer.NumProcPerNode, name)
	}
}

// warnOfQueue tells of devices that the pods have and Kueue does not count: it takes
// resourcesPerNode in place of the runtime's resources, this controller on top of them.
func warnOfQueue(review *Review, job *trainer.TrainJob, node *corev1.Container) {
	if !Queued(job) || job.Spec.Trainer == nil || job.Spec.Trainer.ResourcesPerNode == nil {
		return
	}
	given := job.Spec.Trainer.ResourcesPerNode
	devices := map[corev1.ResourceName]bool{}
	for _, list := range []corev1.ResourceList{node.Resources.Limits, node.Resources.Requests} {
		for name := range list {
			_, limit := given.Limits[name]
			_, request := given.Requests[name]
			if strings.Contains(string(name), "/") && !limit && !request {
				devices[name] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(devices)) {
		review.warn(trainerPath.Child("resourcesPerNode"),
			"%s of the runtime is not in it: the pods still get it, but Kueue, which queues this job, counts it as absent; name it here too", name)
	}
}

// stepContainer is the main container of a step of a runtime, nil if it has none.
func stepContainer(spec *jobset.JobSetSpec, step, container string) *corev1.Container {
	if rjob := stepJob(spec, step); rjob != nil {
		return framework.FindContainer(rjob.Template.Spec.Template.Spec.Containers, container)
	}
	return nil
}

func stepJob(spec *jobset.JobSetSpec, step string) *jobset.ReplicatedJob {
	for i := range spec.ReplicatedJobs {
		if spec.ReplicatedJobs[i].Template.Labels[trainer.LabelAncestorStep] == step {
			return &spec.ReplicatedJobs[i]
		}
	}
	return nil
}

// shares says whether a step mounts a volume that the training container mounts too. A
// runtime without the step is another matter.
func shares(spec *jobset.JobSetSpec, step string) bool {
	from, to := stepContainer(spec, step, step), stepContainer(spec, trainer.StepTrainer, trainer.ContainerNode)
	if from == nil || to == nil {
		return true
	}
	mounted := sets.New[string]()
	for i := range to.VolumeMounts {
		mounted.Insert(to.VolumeMounts[i].Name)
	}
	return slices.ContainsFunc(from.VolumeMounts, func(m corev1.VolumeMount) bool { return mounted.Has(m.Name) })
}

// warnOfTemplate tells of labels and limits in a runtime's template that have no effect.
func warnOfTemplate(review *Review, spec *trainer.TrainingRuntimeSpec) {
	const leftOut = "it would end jobs behind the TrainJob's back and is left out; set spec.%s of the TrainJob instead"
	template := &spec.Template.Spec
	if len(template.ReplicatedJobs) > 0 && stepJob(template, trainer.StepTrainer) == nil {
		review.warn(jobsPath, "there is "+noTrainerJob, trainer.LabelAncestorStep, trainer.StepTrainer)
	}
	for i := range template.ReplicatedJobs {
		switch step := template.ReplicatedJobs[i].Template.Labels[trainer.LabelAncestorStep]; step {
		case "", trainer.StepTrainer, trainer.StepDatasetInitializer, trainer.StepModelInitializer:
		default:
			review.warn(jobsPath.Index(i).Child("template", "metadata", "labels").Key(trainer.LabelAncestorStep),
				"there is no step %q, so the label has no effect; the steps are %s, %s and %s", shortened(step),
				trainer.StepTrainer, trainer.StepDatasetInitializer, trainer.StepModelInitializer)
		}
	}
	if network := template.Network; network != nil && network.Subdomain != "" && len(validation.IsDNS1035Label(network.Subdomain)) == 0 {
		review.warn(templatePath.Child("network", "subdomain"),
			"two jobs of this runtime in one namespace share the Service %s, which finds only the pods of the first; remove the field, and each job has a Service of its own", network.Subdomain)
	}
	if template.TTLSecondsAfterFinished != nil {
		review.warn(templatePath.Child("ttlSecondsAfterFinished"), leftOut, "ttlSecondsAfterFinished")
	}
	for i := range template.ReplicatedJobs {
		job, path := &template.ReplicatedJobs[i].Template.Spec, jobsPath.Index(i).Child("template", "spec")
		if job.TTLSecondsAfterFinished != nil {
			review.warn(path.Child("ttlSecondsAfterFinished"), leftOut, "ttlSecondsAfterFinished")
		}
		if job.ActiveDeadlineSeconds != nil {
			review.warn(path.Child("activeDeadlineSeconds"), leftOut, "activeDeadlineSeconds")
		}
	}
}

// warnOfPatches tells of managers that set the same field to different values.
func warnOfPatches(review *Review, patches []trainer.RuntimePatch) {
	type setting struct{ manager, value string }
	set := map[string]setting{}
	for i := range patches {
		leaves := leavesOf(&patches[i])
		for _, path := range slices.Sorted(maps.Keys(leaves)) {
			mine := setting{patches[i].Manager, leaves[path]}
			if other, found := set[path]; found && other.value != mine.value {
				review.warn(patchesPath, "managers %s and %s both set %s: that of %s, which stands later, wins", other.manager, mine.manager, path, mine.manager)
			}
			set[path] = mine
		}
	}
}

// leavesOf lists what a patch sets, by path: what a later patch would replace as a whole.
func leavesOf(patch *trainer.RuntimePatch) map[string]string {
	leaves := map[string]string{}
	if patch.TrainingRuntimeSpec != nil {
		collectLeaves(leaves, "", toTree(patch.TrainingRuntimeSpec))
	}
	return leaves
}

// keyOf is the key by which items of a list of patches are merged; lists that are not in
// it are replaced.
var keyOf = map[string]string{
	"replicatedJobs": "name", "volumes": "name", "initContainers": "name", "containers": "name", "env": "name",
	"volumeMounts": "mountPath", "imagePullSecrets": "name", "schedulingGates": "name",
}

func collectLeaves(leaves map[string]string, path string, node any) {
	object, isObject := node.(map[string]any)
	if !isObject {
		leaves[path] = fmt.Sprint(node)
		return
	}
	for name, value := range object {
		at := strings.TrimPrefix(path+"."+name, ".")
		items, isList := value.([]any)
		switch {
		case name == "tolerations": // they add up
		case isList && keyOf[name] != "":
			for _, item := range items {
				collectItem(leaves, at, name, item)
			}
		default:
			collectLeaves(leaves, at, value)
		}
	}
}

// collectItem collects from an item of a list that is merged. A variable has a value or
// a source, so it is one leaf.
func collectItem(leaves map[string]string, path, list string, item any) {
	object, _ := item.(map[string]any)
	at := fmt.Sprintf("%s[%v]", path, object[keyOf[list]])
	if list == "env" {
		leaves[at] = fmt.Sprint(item)
		return
	}
	object = maps.Clone(object)
	delete(object, keyOf[list])
	collectLeaves(leaves, at, object)
}
