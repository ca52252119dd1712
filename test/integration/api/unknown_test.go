package api

import (
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// warnings collects what the API server warns of.
type warnings struct {
	mu   sync.Mutex
	said []string
}

func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, text)
}

// Fields of earlier versions are gone before admission sees the object. The API server
// says so itself.
func TestFieldsOfEarlierVersionsAreTold(t *testing.T) {
	t.Parallel()
	for _, field := range []string{"podTemplateOverrides", "podSpecOverrides", "labels", "annotations"} {
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			var told warnings
			config := rest.CopyConfig(env.Config)
			config.WarningHandler = &told
			client, err := dynamic.NewForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			job := object(t, trainJobs, baseJob, `spec: {`+field+`: {a: b}}`)
			jobs := client.Resource(trainJobs).Namespace(namespace)
			dryRun := []string{metav1.DryRunAll}
			if _, err := jobs.Create(t.Context(), job, metav1.CreateOptions{DryRun: dryRun}); err != nil {
				t.Fatal(err)
			}
			if all := strings.Join(told.said, "\n"); !strings.Contains(all, `unknown field "spec.`+field+`"`) {
				t.Errorf("the warnings do not name the field: %q", all)
			}
			_, err = jobs.Create(t.Context(), job, metav1.CreateOptions{DryRun: dryRun, FieldValidation: metav1.FieldValidationStrict})
			if err == nil || !strings.Contains(err.Error(), `unknown field "spec.`+field+`"`) {
				t.Errorf("strict validation does not refuse the field: %v", err)
			}
		})
	}
}
