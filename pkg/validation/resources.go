package validation

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/trainjob/controller/pkg/render"
)

// checkResources refuses resources that a pod cannot ask for.
func (c containerOf) checkResources() field.ErrorList {
	var errs field.ErrorList
	for _, side := range []struct {
		name string
		list corev1.ResourceList
	}{{"limits", c.Resources.Limits}, {"requests", c.Resources.Requests}} {
		for _, name := range slices.Sorted(maps.Keys(side.list)) {
			quantity := side.list[name]
			path := c.resourcePath(side.name, name)
			switch {
			case !knownResource(name):
				errs = append(errs, invalid(path, string(name), "there is no such resource: use cpu, memory, ephemeral-storage, hugepages-SIZE, or the full name of a device such as nvidia.com/gpu"))
			case quantity.Sign() < 0:
				errs = append(errs, invalid(path, quantity.String(), "a quantity cannot be negative: give 0 or more"))
			case render.ExtendedResource(name) && quantity.MilliValue()%1000 != 0:
				errs = append(errs, invalid(path, quantity.String(), "%s is counted in whole devices: give a whole number", name))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Resources.Requests)) {
		request := c.Resources.Requests[name]
		limit, limited := c.Resources.Limits[name]
		path := c.resourcePath("requests", name)
		switch {
		case request.Sign() < 0 || limit.Sign() < 0: // nothing else matters until that is right
		case !limited && render.FixedResource(name):
			errs = append(errs, field.Required(c.resourcePath("limits", name), fmt.Sprintf("%s cannot be requested without a limit: set the limit to %s too", name, request.String())))
		case limited && render.FixedResource(name) && request.Cmp(limit) != 0:
			errs = append(errs, invalid(path, request.String(), "request and limit of %s must be equal, and its limit is %s: give the limit alone", name, limit.String()))
		case limited && request.Cmp(limit) > 0:
			errs = append(errs, invalid(path, request.String(), "the request is above the limit of %s: lower it, or raise the limit", limit.String()))
		}
	}
	return errs
}

// resourcePath is where a resource was written: in the job where it mentions it, else in
// the runtime. Of a job that mentions one side, the other may have followed it.
func (c containerOf) resourcePath(side string, name corev1.ResourceName) *field.Path {
	if t := c.job.Spec.Trainer; c.trains() && t != nil && t.ResourcesPerNode != nil {
		_, limit := t.ResourcesPerNode.Limits[name]
		_, request := t.ResourcesPerNode.Requests[name]
		switch {
		case limit && !request:
			side = "limits"
		case request && !limit:
			side = "requests"
		}
		if limit || request {
			return trainerPath.Child("resourcesPerNode", side).Key(string(name))
		}
	}
	return c.path.Child("resources", side).Key(string(name))
}

func knownResource(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
		return true
	}
	text := string(name)
	if size, huge := strings.CutPrefix(text, corev1.ResourceHugePagesPrefix); huge {
		return size != ""
	}
	return strings.Contains(text, "/") && len(validation.IsQualifiedName(text)) == 0
}
