package validation

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/render"
	"github.com/trainjob/controller/pkg/render/framework"
)

// The functions of this file look at what a job would be built into. What they find is
// named where the user has written it: in the job, in a patch, or in the runtime.

// containerKey names a container of a job: list is initContainers or containers.
type containerKey struct{ rjob, list, name string }

// checkReserved refuses variables that would silently get another value.
func checkReserved(job *trainer.TrainJob, objects *render.Objects) field.ErrorList {
	var errs field.ErrorList
	check := func(env []corev1.EnvVar, path *field.Path, reserved []string) {
		for i := range env {
			if slices.Contains(reserved, env[i].Name) {
				errs = append(errs, field.Forbidden(path.Index(i).Child("name"),
					shortened(env[i].Name)+" is set by the runtime's framework, whatever is given here: remove it"))
			}
		}
	}
	reserved := map[containerKey][]string{}
	for _, r := range objects.Reserved {
		reserved[containerKey{rjob: r.ReplicatedJob, name: r.Container}] = r.Names
	}
	if job.Spec.Trainer != nil {
		check(job.Spec.Trainer.Env, trainerPath.Child("env"), reserved[containerKey{rjob: objects.TrainerJob, name: trainer.ContainerNode}])
	}
	eachPatchedContainer(job, func(rjob string, _ string, patch *trainer.ContainerPatch, path *field.Path) {
		check(patch.Env, path.Child("env"), reserved[containerKey{rjob: rjob, name: patch.Name}])
	})
	return errs
}

// eachPatchedContainer visits the containers and init containers of all patches in order.
func eachPatchedContainer(job *trainer.TrainJob, visit func(rjob, list string, patch *trainer.ContainerPatch, path *field.Path)) {
	for i := range job.Spec.RuntimePatches {
		spec := job.Spec.RuntimePatches[i].TrainingRuntimeSpec
		if spec == nil || spec.Template == nil || spec.Template.Spec == nil {
			continue
		}
		path := patchesPath.Index(i).Child("trainingRuntimeSpec", "template", "spec", "replicatedJobs")
		for k := range spec.Template.Spec.ReplicatedJobs {
			rjob := &spec.Template.Spec.ReplicatedJobs[k]
			if rjob.Template == nil || rjob.Template.Spec == nil || rjob.Template.Spec.Template == nil || rjob.Template.Spec.Template.Spec == nil {
				continue
			}
			pod, path := rjob.Template.Spec.Template.Spec, path.Index(k).Child("template", "spec", "template", "spec")
			for c := range pod.InitContainers {
				visit(rjob.Name, "initContainers", &pod.InitContainers[c], path.Child("initContainers").Index(c))
			}
			for c := range pod.Containers {
				visit(rjob.Name, "containers", &pod.Containers[c], path.Child("containers").Index(c))
			}
		}
	}
}

// checkPods refuses pods that the API server would refuse when the job has started, where
// nobody would see it.
func checkPods(job *trainer.TrainJob, objects *render.Objects) field.ErrorList {
	var errs field.ErrorList
	spec := &objects.JobSet.Spec
	claims := claimNames(spec)
	origins := mountOrigins(job)
	for i := range spec.ReplicatedJobs {
		rjob := &spec.ReplicatedJobs[i]
		pod := podOfJob{PodSpec: &rjob.Template.Spec.Template.Spec, claims: claims}
		pod.volumes = sets.New(claims...)
		for k := range pod.Volumes {
			pod.volumes.Insert(pod.Volumes[k].Name)
		}
		pod.resourceClaims = sets.New[string]()
		for k := range pod.ResourceClaims {
			pod.resourceClaims.Insert(pod.ResourceClaims[k].Name)
		}
		path := jobsPath.Key(rjob.Name).Child("template", "spec", "template", "spec")
		for name, list := range listsOf(pod.PodSpec) {
			for k := range list {
				c := containerOf{job: job, objects: objects, rjob: rjob.Name, list: name, path: path.Child(name).Key(list[k].Name), Container: &list[k], origins: origins}
				errs = append(errs, c.checkImage()...)
				errs = append(errs, c.checkResources()...)
				errs = append(errs, c.checkResourceClaims(pod)...)
				errs = append(errs, c.checkMounts(pod)...)
			}
		}
	}
	return errs
}

// podOfJob is the pod of a replicatedJob, and what its containers can mount.
type podOfJob struct {
	*corev1.PodSpec
	claims  []string         // volumes that JobSet adds
	volumes sets.Set[string] // all volumes, those of claims too
	// resourceClaims are the devices that its containers can ask for.
	resourceClaims sets.Set[string]
}

// volumeNames lists the volumes of a pod for messages.
func (p podOfJob) volumeNames() string {
	return framework.SomeNames(len(p.Volumes)+len(p.claims), func(i int) string {
		if i < len(p.Volumes) {
			return p.Volumes[i].Name
		}
		return p.claims[i-len(p.Volumes)]
	})
}

// listsOf are the lists of containers of a pod, in order.
func listsOf(pod *corev1.PodSpec) func(func(string, []corev1.Container) bool) {
	return func(yield func(string, []corev1.Container) bool) {
		_ = yield("initContainers", pod.InitContainers) && yield("containers", pod.Containers)
	}
}

// containerOf is a container of what is built, and where it comes from.
type containerOf struct {
	*corev1.Container
	job        *trainer.TrainJob
	objects    *render.Objects
	rjob, list string
	path       *field.Path // in the runtime
	origins    map[mountOrigin]*field.Path
}

// trains says whether spec.trainer reaches the container.
func (c containerOf) trains() bool {
	return c.Name == trainer.ContainerNode && c.list == "containers" && slices.Contains(c.objects.Trained, c.rjob)
}

func (c containerOf) checkImage() field.ErrorList {
	switch {
	case c.Image != "":
		return nil
	case c.trains():
		return field.ErrorList{field.Required(trainerPath.Child("image"), "the runtime has no image for the training container: give one")}
	}
	return field.ErrorList{field.Required(c.path.Child("image"), "a container needs an image: give one")}
}

// checkMounts refuses mounts of volumes that the pod does not have, and two mounts at one
// path.
func (c containerOf) checkMounts(pod podOfJob) field.ErrorList {
	var errs field.ErrorList
	taken := sets.New[string]()
	for i := range c.VolumeMounts {
		mount := &c.VolumeMounts[i]
		if taken.Has(mount.MountPath) {
			errs = append(errs, invalid(c.mountPath(i).Child("mountPath"), mount.MountPath,
				"another volume is mounted there too: give one of the two another path, or remove it"))
		}
		taken.Insert(mount.MountPath)
		if !pod.volumes.Has(mount.Name) {
			err := field.NotFound(c.mountPath(i).Child("name"), shortened(mount.Name))
			err.Detail = fmt.Sprintf("the pods of replicatedJob %s have no such volume (they have: %s): add it to volumes, or remove the mount", c.rjob, pod.volumeNames())
			errs = append(errs, err.WithOrigin(byPatch))
		}
	}
	return errs
}

// mountOrigin names a mount of a container by its path.
type mountOrigin struct {
	containerKey
	mountPath string
}

// mountOrigins are where the patches of a job write mounts. The last one counts.
func mountOrigins(job *trainer.TrainJob) map[mountOrigin]*field.Path {
	origins := map[mountOrigin]*field.Path{}
	eachPatchedContainer(job, func(rjob, list string, patch *trainer.ContainerPatch, path *field.Path) {
		for i := range patch.VolumeMounts {
			origins[mountOrigin{containerKey{rjob, list, patch.Name}, patch.VolumeMounts[i].MountPath}] = path.Child("volumeMounts").Index(i)
		}
	})
	return origins
}

// mountPath is where a mount was written: in the patch that has one there, or in the
// runtime.
func (c containerOf) mountPath(index int) *field.Path {
	if path, found := c.origins[mountOrigin{containerKey{c.rjob, c.list, c.Name}, c.VolumeMounts[index].MountPath}]; found {
		return path
	}
	return c.path.Child("volumeMounts").Index(index)
}
