package sdk

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// The objects as the SDK's models have them. A field without omitempty must be there; see
// decode. Fields that the models do not know are ignored.

type list[T any] struct {
	Items []T `json:"items"`
}

type runtimeModel struct {
	Metadata metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec     *runtimeSpec      `json:"spec,omitempty"`
}

type runtimeSpec struct {
	MLPolicy       *mlPolicy       `json:"mlPolicy,omitempty"`
	PodGroupPolicy *podGroupPolicy `json:"podGroupPolicy,omitempty"`
	Template       struct {
		Metadata metav1.ObjectMeta  `json:"metadata,omitempty"`
		Spec     *jobset.JobSetSpec `json:"spec,omitempty"`
	} `json:"template,omitempty"`
}

type mlPolicy struct {
	NumNodes *int32 `json:"numNodes,omitempty"`
	Torch    *struct {
		EnvInjection *struct {
			Targets []struct {
				JobName        string   `json:"jobName"`
				ContainerNames []string `json:"containerNames"`
			} `json:"targets,omitempty"`
		} `json:"envInjection,omitempty"`
	} `json:"torch,omitempty"`
	MPI *struct {
		NumProcPerNode    *int32  `json:"numProcPerNode,omitempty"`
		MPIImplementation *string `json:"mpiImplementation,omitempty"`
		SSHAuthMountPath  *string `json:"sshAuthMountPath,omitempty"`
		RunLauncherAsNode *bool   `json:"runLauncherAsNode,omitempty"`
	} `json:"mpi,omitempty"`
	Flux *struct {
		NumProcPerNode *int32 `json:"numProcPerNode,omitempty"`
	} `json:"flux,omitempty"`
	// These two are taken for whatever they hold.
	JAX     any `json:"jax,omitempty"`
	XGBoost any `json:"xgboost,omitempty"`
}

type podGroupPolicy struct {
	Coscheduling *struct {
		ScheduleTimeoutSeconds *int32 `json:"scheduleTimeoutSeconds,omitempty"`
	} `json:"coscheduling,omitempty"`
	Volcano *struct {
		NetworkTopology *struct {
			Mode               string `json:"mode,omitempty"`
			HighestTierAllowed *int32 `json:"highestTierAllowed,omitempty"`
		} `json:"networkTopology,omitempty"`
	} `json:"volcano,omitempty"`
}

type trainJobModel struct {
	Metadata metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec     *trainJobSpec     `json:"spec,omitempty"`
	Status   *trainJobStatus   `json:"status,omitempty"`
}

type trainJobSpec struct {
	RuntimeRef struct {
		Name     string  `json:"name"`
		APIGroup *string `json:"apiGroup,omitempty"`
		Kind     *string `json:"kind,omitempty"`
	} `json:"runtimeRef"`
	Trainer *struct {
		Image            *string                      `json:"image,omitempty"`
		Command          []string                     `json:"command,omitempty"`
		Args             []string                     `json:"args,omitempty"`
		Env              []corev1.EnvVar              `json:"env,omitempty"`
		NumNodes         *int32                       `json:"numNodes,omitempty"`
		NumProcPerNode   *int32                       `json:"numProcPerNode,omitempty"`
		ResourcesPerNode *corev1.ResourceRequirements `json:"resourcesPerNode,omitempty"`
	} `json:"trainer,omitempty"`
	Initializer *struct {
		Dataset *initializer `json:"dataset,omitempty"`
		Model   *initializer `json:"model,omitempty"`
	} `json:"initializer,omitempty"`
	RuntimePatches        []runtimePatch `json:"runtimePatches,omitempty"`
	Suspend               *bool          `json:"suspend,omitempty"`
	ManagedBy             *string        `json:"managedBy,omitempty"`
	ActiveDeadlineSeconds *int64         `json:"activeDeadlineSeconds,omitempty"`
}

type initializer struct {
	StorageURI *string                      `json:"storageUri,omitempty"`
	Env        []corev1.EnvVar              `json:"env,omitempty"`
	SecretRef  *corev1.LocalObjectReference `json:"secretRef,omitempty"`
}

type runtimePatch struct {
	Manager             string       `json:"manager"`
	Time                *metav1.Time `json:"time,omitempty"`
	TrainingRuntimeSpec *struct {
		Template *struct {
			Metadata *metav1.ObjectMeta `json:"metadata,omitempty"`
			Spec     *struct {
				ReplicatedJobs []struct {
					Name string `json:"name"`
				} `json:"replicatedJobs,omitempty"`
			} `json:"spec,omitempty"`
		} `json:"template,omitempty"`
	} `json:"trainingRuntimeSpec,omitempty"`
}

type trainJobStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	JobsStatus []struct {
		Name      string `json:"name"`
		Ready     int32  `json:"ready"`
		Succeeded int32  `json:"succeeded"`
		Failed    int32  `json:"failed"`
		Active    int32  `json:"active"`
		Suspended int32  `json:"suspended"`
	} `json:"jobsStatus,omitempty"`
	TrainerStatus *struct {
		ProgressPercentage        *int32       `json:"progressPercentage,omitempty"`
		EstimatedRemainingSeconds *int32       `json:"estimatedRemainingSeconds,omitempty"`
		LastUpdatedTime           *metav1.Time `json:"lastUpdatedTime,omitempty"`
		Metrics                   []struct {
			Name  string `json:"name"`
			Value string `json:"value"`
		} `json:"metrics,omitempty"`
	} `json:"trainerStatus,omitempty"`
}
