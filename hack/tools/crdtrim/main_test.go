package main

import (
	"encoding/json"
	"reflect"
	"testing"

	"sigs.k8s.io/yaml"
)

const crd = `
spec:
  versions:
  - schema:
      openAPIV3Schema:
        properties:
          spec:
            properties:
              own:
                description: kept
                x-kubernetes-validations:
                - rule: self == oldSelf
              template:
                description: kept
                properties:
                  spec:
                    description: goes
                    properties:
                      description:
                        description: goes, its property stays
                        type: string
                      network:
                        x-kubernetes-validations:
                        - rule: self == oldSelf
                      both:
                        x-kubernetes-validations:
                        - rule: self == oldSelf
                        - rule: self > 0
              port:
                anyOf:
                - type: integer
                - type: string
                x-kubernetes-int-or-string: true
              size:
                anyOf:
                - type: integer
                - type: string
                pattern: ^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(k)?$
                x-kubernetes-int-or-string: true
              trainer:
                properties:
                  resourcesPerNode:
                    properties:
                      limits:
                        additionalProperties:
                          anyOf:
                          - type: integer
                          - type: string
                          pattern: ^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(k)?$
                          x-kubernetes-int-or-string: true
              runtimePatches:
                items:
                  properties:
                    trainingRuntimeSpec:
                      properties:
                        affinity:
                          description: kept
                          properties:
                            nodeAffinity:
                              description: goes
                        env:
                          items:
                            properties:
                              name:
                                type: string
                              valueFrom:
                                type: object
`

const trimmed = `
spec:
  versions:
  - schema:
      openAPIV3Schema:
        properties:
          spec:
            properties:
              own:
                description: kept
                x-kubernetes-validations:
                - rule: self == oldSelf
              template:
                description: kept
                properties:
                  spec:
                    properties:
                      description:
                        type: string
                      network: {}
                      both:
                        x-kubernetes-validations:
                        - rule: self > 0
              port:
                anyOf:
                - type: integer
                - type: string
                x-kubernetes-int-or-string: true
              size:
                maxItems: 0
                maxProperties: 0
                minItems: 1
                minProperties: 1
                not:
                  enum: [true, false]
                pattern: ^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(k)?$
                x-kubernetes-preserve-unknown-fields: true
              trainer:
                properties:
                  resourcesPerNode:
                    properties:
                      limits:
                        additionalProperties:
                          maxItems: 0
                          maxProperties: 0
                          minItems: 1
                          minimum: 0
                          minProperties: 1
                          not:
                            enum: [true, false]
                          pattern: ^(\+?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))|-(0+(\.0*)?|\.0+))(k)?$
                          x-kubernetes-preserve-unknown-fields: true
              runtimePatches:
                items:
                  properties:
                    trainingRuntimeSpec:
                      properties:
                        affinity:
                          description: kept
                          properties:
                            nodeAffinity: {}
                        env:
                          items:
                            properties:
                              name:
                                minLength: 1
                                pattern: ^[ -<>-~]*$
                                type: string
                              valueFrom:
                                maxProperties: 1
                                minProperties: 1
                                type: object
`

func TestTrimTakesAwayWhatDoesNotBelongIntoOurCRDs(t *testing.T) {
	got, want := parse(t, crd), parse(t, trimmed)
	if err := trim(got); err != nil {
		t.Fatal(err)
	}
	// As it is written: numbers have one type.
	written, err := yaml.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	got = parse(t, string(written))
	if !reflect.DeepEqual(got, want) {
		raw, _ := json.MarshalIndent(got, "", " ")
		t.Errorf("got %s", raw)
	}
}

func TestTrimRefusesWhatIsNoCRD(t *testing.T) {
	if err := trim(map[string]any{"kind": "List"}); err == nil {
		t.Error("no error")
	}
}

func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	var m map[string]any
	if err := yaml.Unmarshal([]byte(text), &m); err != nil {
		t.Fatal(err)
	}
	return m
}
