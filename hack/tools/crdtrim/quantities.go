package main

import "strings"

// Quantities as people may write them in strings: everything that Kubernetes parses, and
// the same without what is below zero.
const (
	quantityBegin = `^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))`
	notNegative   = `^(\+?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))|-(0+(\.0*)?|\.0+))`
)

// acceptNumbers lets every quantity be a number, with decimals or without, as Kubernetes
// does in its own kinds: clients write `cpu: 2.0`. An integer or a string, which is what
// the generator makes of a quantity, does not take 0.5, and rules in CEL fail at 2.0. So
// the schema has no type, and refuses by other means what is neither number nor string:
// the programs that read the objects would refuse the whole list with it.
func acceptNumbers(node any) {
	walk(node, func(m map[string]any) {
		if !isQuantity(m) {
			return
		}
		delete(m, "anyOf")
		delete(m, "x-kubernetes-int-or-string")
		m["x-kubernetes-preserve-unknown-fields"] = true
		m["not"] = map[string]any{"enum": []any{true, false}}
		// No list and no object meets both.
		m["minItems"], m["maxItems"] = 1, 0
		m["minProperties"], m["maxProperties"] = 1, 0
	})
}

func isQuantity(m map[string]any) bool {
	pattern, _ := m["pattern"].(string)
	return m["x-kubernetes-int-or-string"] == true && strings.HasPrefix(pattern, quantityBegin)
}

// refuseNegative refuses quantities below zero in the two maps of resource requirements.
func refuseNegative(requirements any) {
	for _, name := range []string{"limits", "requests"} {
		quantity, ok := dig(requirements, "properties", name, "additionalProperties").(map[string]any)
		if !ok {
			continue
		}
		pattern, _ := quantity["pattern"].(string)
		quantity["pattern"] = notNegative + strings.TrimPrefix(pattern, quantityBegin)
		quantity["minimum"] = 0
	}
}
