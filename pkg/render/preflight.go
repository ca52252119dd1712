package render

import (
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/render/framework"
)

// labelPreflight marks the pods that check their node before they train, and their JobSet,
// so that nobody has to watch others to find what they say.
func labelPreflight(js *jobsetv1alpha2.JobSet) {
	mark := map[string]string{v1alpha1.LabelPreflight: v1alpha1.ContainerPreflight}
	for i := range js.Spec.ReplicatedJobs {
		template := &js.Spec.ReplicatedJobs[i].Template.Spec.Template
		if framework.FindContainer(template.Spec.InitContainers, v1alpha1.ContainerPreflight) == nil {
			continue
		}
		template.Labels = mergeMaps(template.Labels, mark)
		js.Labels = mergeMaps(js.Labels, mark)
	}
}
