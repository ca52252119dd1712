package runtimesnapshot

import (
	"k8s.io/utils/ptr"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
)

// setDefaults fills in what the runtime CRDs default. Snapshots taken by an older
// controller, or of a runtime stored before a default existed, lack it. A test
// compares these values with the CRD's.
//
// Of the template only the number of replicas is filled in, because it is counted with.
// The rest goes into the JobSet, whose own CRD has the same defaults.
func setDefaults(spec *trainer.TrainingRuntimeSpec) {
	if policy := spec.MLPolicy; policy != nil {
		if mpi := policy.MPI; mpi != nil {
			defaultTo(&mpi.NumProcPerNode, 1)
			defaultTo(&mpi.MPIImplementation, trainer.MPIImplementationOpenMPI)
			defaultTo(&mpi.SSHAuthMountPath, "/root/.ssh")
			defaultTo(&mpi.RunLauncherAsNode, false)
		}
		if flux := policy.Flux; flux != nil {
			defaultTo(&flux.NumProcPerNode, 1)
		}
	}
	if policy := spec.PodGroupPolicy; policy != nil {
		if policy.Coscheduling != nil {
			defaultTo(&policy.Coscheduling.ScheduleTimeoutSeconds, 60)
		}
		if policy.Volcano != nil && policy.Volcano.NetworkTopology != nil {
			topology := policy.Volcano.NetworkTopology
			defaultTo(&topology.HighestTierAllowed, 1)
			if topology.Mode == "" {
				topology.Mode = "hard"
			}
		}
	}
	for i := range spec.Template.Spec.ReplicatedJobs {
		// The Go type leaves a zero out, so a JobSet made from it has 1 as well.
		if job := &spec.Template.Spec.ReplicatedJobs[i]; job.Replicas == 0 {
			job.Replicas = 1
		}
	}
}

func defaultTo[T any](field **T, value T) {
	if *field == nil {
		*field = ptr.To(value)
	}
}
