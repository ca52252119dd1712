package app

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
)

const opaqueFlag = "opaque-runtime-kinds"

func (o *Options) addOpaqueFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&o.OpaqueRuntimeKinds, opaqueFlag, o.OpaqueRuntimeKinds,
		"Kinds of runtimes, each Kind.group as in SlurmRuntime.slurm.example.com, of which only a snapshot is taken: a controller of their own builds from it what a TrainJob needs. Separated by commas.")
}

// validateOpaque names every entry that is wrong.
func (o *Options) validateOpaque() []error {
	var errs []error
	seen := sets.New[schema.GroupKind]()
	for _, entry := range o.OpaqueRuntimeKinds {
		kind := schema.ParseGroupKind(entry)
		wrong := wrongWith(kind)
		if wrong == "" && seen.Has(kind) {
			wrong = "is listed twice: leave one out"
		}
		if wrong != "" {
			errs = append(errs, fmt.Errorf("--%s: %q: %s", opaqueFlag, entry, wrong))
		}
		seen.Insert(kind)
	}
	return errs
}

// wrongWith says why a kind cannot be listed. Kinds are compared letter by letter, as
// everywhere in Kubernetes, so that one written in small letters would never match.
func wrongWith(kind schema.GroupKind) string {
	switch {
	case kind.Kind == "" || kind.Group == "":
		return "must be Kind.group, such as SlurmRuntime.slurm.example.com"
	case kind.Kind[0] < 'A' || kind.Kind[0] > 'Z':
		return "the kind must be written as in spec.names.kind of its CRD, which begins with a capital letter, such as SlurmRuntime.slurm.example.com"
	}
	if problems := validation.IsDNS1035Label(strings.ToLower(kind.Kind)); len(problems) > 0 {
		return fmt.Sprintf("%q cannot be a kind: it must consist of letters, digits and dashes, 63 at most", kind.Kind)
	}
	if problems := validation.IsDNS1123Subdomain(kind.Group); len(problems) > 0 {
		return fmt.Sprintf("%q cannot be an API group: %s", kind.Group, strings.Join(problems, "; "))
	}
	if kind.Group == trainer.GroupName {
		switch kind.Kind {
		case trainer.ClusterTrainingRuntimeKind, trainer.TrainingRuntimeKind, trainer.TrainJobKind:
			return "is a kind of this controller itself: leave it out"
		}
	}
	return ""
}

// opaqueKinds are the entries of options that are valid.
func (o *Options) opaqueKinds() sets.Set[schema.GroupKind] {
	kinds := sets.New[schema.GroupKind]()
	for _, entry := range o.OpaqueRuntimeKinds {
		kinds.Insert(schema.ParseGroupKind(entry))
	}
	return kinds
}
