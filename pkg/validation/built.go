package validation

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/render"
	"github.com/trainjob/controller/pkg/render/framework"
)

// The functions of this file look at what a job would be built into. What they find is
// named where the user has written it: in the job, in a patch, or in the runtime.

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
	for _, reserved := range objects.Reserved {
		if job.Spec.Trainer != nil && reserved.ReplicatedJob == objects.TrainerJob && reserved.Container == trainer.ContainerNode {
			check(job.Spec.Trainer.Env, trainerPath.Child("env"), reserved.Names)
		}
	}
	eachPatchedContainer(job, func(rjob string, _ string, patch *trainer.ContainerPatch, path *field.Path) {
		for _, reserved := range objects.Reserved {
			if reserved.ReplicatedJob == rjob && reserved.Container == patch.Name {
				check(patch.Env, path.Child("env"), reserved.Names)
			}
		}
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
	for i := range spec.ReplicatedJobs {
		rjob := &spec.ReplicatedJobs[i]
		pod := &rjob.Template.Spec.Template.Spec
		path := jobsPath.Key(rjob.Name).Child("template", "spec", "template", "spec")
		for name, list := range listsOf(pod) {
			for k := range list {
				c := containerOf{job: job, objects: objects, rjob: rjob.Name, list: name, path: path.Child(name).Key(list[k].Name), Container: &list[k]}
				errs = append(errs, c.checkImage()...)
				errs = append(errs, c.checkResources()...)
				errs = append(errs, c.checkMounts(pod, claims)...)
			}
		}
	}
	return errs
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
func (c containerOf) checkMounts(pod *corev1.PodSpec, claims []string) field.ErrorList {
	var errs field.ErrorList
	for i := range c.VolumeMounts {
		mount := &c.VolumeMounts[i]
		at := func(m corev1.VolumeMount) bool { return m.MountPath == mount.MountPath }
		if slices.ContainsFunc(c.VolumeMounts[:i], at) {
			errs = append(errs, invalid(c.mountPath(i).Child("mountPath"), mount.MountPath,
				"another volume is mounted there too: give one of the two another path, or remove it"))
		}
		known := slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name }) || slices.Contains(claims, mount.Name)
		if !known {
			err := field.NotFound(c.mountPath(i).Child("name"), shortened(mount.Name))
			err.Detail = fmt.Sprintf("the pods of replicatedJob %s have no such volume (they have: %s): add it to volumes, or remove the mount", c.rjob, volumeNames(pod, claims))
			errs = append(errs, err.WithOrigin(byPatch))
		}
	}
	return errs
}

// mountPath is where a mount was written: in the patch that has one there, or in the
// runtime.
func (c containerOf) mountPath(index int) *field.Path {
	found := c.path.Child("volumeMounts").Index(index)
	eachPatchedContainer(c.job, func(rjob, list string, patch *trainer.ContainerPatch, path *field.Path) {
		if rjob != c.rjob || list != c.list || patch.Name != c.Name {
			return
		}
		for i := range patch.VolumeMounts {
			if patch.VolumeMounts[i].MountPath == c.VolumeMounts[index].MountPath {
				found = path.Child("volumeMounts").Index(i)
			}
		}
	})
	return found
}

// volumeNames lists the volumes of a pod for messages.
func volumeNames(pod *corev1.PodSpec, claims []string) string {
	var list []corev1.Container // names are written as those of containers are
	for i := range pod.Volumes {
		list = append(list, corev1.Container{Name: pod.Volumes[i].Name})
	}
	for _, claim := range claims {
		list = append(list, corev1.Container{Name: claim})
	}
	return framework.ContainerNames(list)
}
