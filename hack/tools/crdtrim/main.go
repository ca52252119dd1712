// Command crdtrim finishes the CRDs that controller-gen writes, in place.
//
// Runtimes embed JobSet's own JobSetSpec, and with it two things that must not
// reach our CRDs: rules that compare with oldSelf, which would make parts of a
// runtime immutable (a runtime may be edited at any time), and the descriptions
// of the whole pod API, which alone would push the CRD over the 262,144 bytes
// that client-side `kubectl apply` can record.
//
// TrainJobs have variables of the pod API's type, at which no marker can be put. What a
// pod would refuse of them is added here. Rules in CEL would cost too much: the patches
// of one job may have thirteen million variables.
//
// Quantities may be numbers, as in Kubernetes' own kinds: see quantities.go.
package main

import (
	"fmt"
	"os"
	"strings"

	"sigs.k8s.io/yaml"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: crdtrim FILE...")
		os.Exit(2)
	}
	for _, file := range os.Args[1:] {
		if err := trimFile(file); err != nil {
			fmt.Fprintf(os.Stderr, "crdtrim: %s: %v\n", file, err)
			os.Exit(1)
		}
	}
}

func trimFile(file string) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var crd map[string]any
	if err := yaml.Unmarshal(raw, &crd); err != nil {
		return err
	}
	if err := trim(crd); err != nil {
		return err
	}
	out, err := yaml.Marshal(crd)
	if err != nil {
		return err
	}
	return os.WriteFile(file, append([]byte("---\n"), out...), 0o644)
}

func trim(crd map[string]any) error {
	versions, ok := dig(crd, "spec", "versions").([]any)
	if !ok {
		return fmt.Errorf("spec.versions is missing: is this a CRD?")
	}
	for _, v := range versions {
		version, ok := v.(map[string]any)
		if !ok {
			return fmt.Errorf("spec.versions holds a %T, want an object", v)
		}
		spec := dig(version, "schema", "openAPIV3Schema", "properties", "spec", "properties")
		jobSetSpec := dig(spec, "template", "properties", "spec")
		if jobSetSpec != nil {
			dropTransitionRules(jobSetSpec)
			dropDescriptions(jobSetSpec)
		}
		// The patches of a TrainJob reach deep into the pod API too.
		if patches := dig(spec, "runtimePatches", "items", "properties", "trainingRuntimeSpec"); patches != nil {
			dropDescriptionsBelow(patches, "volumes", "affinity", "securityContext", "env")
			limitVariables(spec)
		}
		acceptNumbers(spec)
		refuseNegative(dig(spec, "trainer", "properties", "resourcesPerNode"))
	}
	return nil
}

// dropTransitionRules removes every validation rule that mentions oldSelf.
func dropTransitionRules(node any) {
	walk(node, func(m map[string]any) {
		rules, ok := m["x-kubernetes-validations"].([]any)
		if !ok {
			return
		}
		var kept []any
		for _, r := range rules {
			if rule, ok := r.(map[string]any); ok && strings.Contains(fmt.Sprint(rule["rule"]), "oldSelf") {
				continue
			}
			kept = append(kept, r)
		}
		if len(kept) == 0 {
			delete(m, "x-kubernetes-validations")
			return
		}
		m["x-kubernetes-validations"] = kept
	})
}

// dropDescriptions removes the descriptions of a schema and of all below it. A
// property may itself be called "description", so only strings go.
func dropDescriptions(node any) {
	walk(node, func(m map[string]any) {
		if _, ok := m["description"].(string); ok {
			delete(m, "description")
		}
	})
}

// dropDescriptionsBelow does the same below the properties of the given names.
func dropDescriptionsBelow(node any, names ...string) {
	walk(node, func(m map[string]any) {
		for _, name := range names {
			if property, ok := m[name].(map[string]any); ok {
				for _, part := range []string{"properties", "items"} {
					dropDescriptions(property[part])
				}
			}
		}
	})
}

// limitVariables gives the names and sources of variables the limits that pods have.
func limitVariables(node any) {
	walk(node, func(m map[string]any) {
		name, named := dig(m, "env", "items", "properties", "name").(map[string]any)
		source, sourced := dig(m, "env", "items", "properties", "valueFrom").(map[string]any)
		if !named || !sourced {
			return
		}
		name["minLength"] = 1
		name["pattern"] = "^[ -<>-~]*$" // printable ASCII characters other than '='
		source["minProperties"], source["maxProperties"] = 1, 1
	})
}

func walk(node any, visit func(map[string]any)) {
	switch n := node.(type) {
	case map[string]any:
		visit(n)
		for _, child := range n {
			walk(child, visit)
		}
	case []any:
		for _, child := range n {
			walk(child, visit)
		}
	}
}

func dig(node any, path ...string) any {
	for _, key := range path {
		m, ok := node.(map[string]any)
		if !ok {
			return nil
		}
		node = m[key]
	}
	return node
}
