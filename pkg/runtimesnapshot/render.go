package runtimesnapshot

import "github.com/trainjob/controller/pkg/render"

// ForRender is the runtime as the renderer takes it. It shares memory with r.
func (r *Runtime) ForRender() render.Runtime {
	return render.Runtime{
		Kind: r.Kind, Name: r.Metadata.Name, Labels: r.Metadata.Labels, Annotations: r.Metadata.Annotations, Spec: r.Spec,
	}
}
