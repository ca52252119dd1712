package validation

import "k8s.io/apimachinery/pkg/runtime"

// toTree is an API object as its JSON would be parsed.
func toTree(object any) any {
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil // an object that has no JSON has no fields either
	}
	return tree
}
