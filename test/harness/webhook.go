package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
)

// WebhookName is the name of both webhook configurations.
const WebhookName = "trainjob-controller"

// WebhookFlags make a controller serve webhooks at an address, with a certificate that
// RegisterWebhooks' urls accept.
func WebhookFlags(address string) []string {
	return []string{
		"--webhook=true", "--webhook-bind-address=" + address, "--webhook-namespace=" + SystemNamespace,
		"--webhook-extra-sans=127.0.0.1", "--webhook-shutdown-delay=0s",
	}
}

// FreeAddress is a loopback address nobody listens on at the moment.
func FreeAddress() (string, error) { return freeAddress() }

// RegisterWebhooks creates the configurations of artifacts/webhook as they are, but for
// the Service, in whose place is an address.
func (e *Env) RegisterWebhooks(ctx context.Context, address string) error {
	dir := filepath.Join(SourceDir(), "artifacts", "webhook")
	var mutating admissionregistrationv1.MutatingWebhookConfiguration
	var validating admissionregistrationv1.ValidatingWebhookConfiguration
	if err := errors.Join(readStrictly(filepath.Join(dir, "mutating.yaml"), &mutating), readStrictly(filepath.Join(dir, "validating.yaml"), &validating)); err != nil {
		return err
	}
	for i := range mutating.Webhooks {
		mutating.Webhooks[i].ClientConfig = byURL(mutating.Webhooks[i].ClientConfig, address)
	}
	for i := range validating.Webhooks {
		validating.Webhooks[i].ClientConfig = byURL(validating.Webhooks[i].ClientConfig, address)
	}
	api := e.Core.AdmissionregistrationV1()
	_, mutatingErr := api.MutatingWebhookConfigurations().Create(ctx, &mutating, metav1.CreateOptions{})
	_, validatingErr := api.ValidatingWebhookConfigurations().Create(ctx, &validating, metav1.CreateOptions{})
	return errors.Join(mutatingErr, validatingErr)
}

// RedirectWebhooks has the API server call an address instead of the Service that the
// configurations name, which has no network here.
func (e *Env) RedirectWebhooks(ctx context.Context, address string) error {
	api := e.Core.AdmissionregistrationV1()
	redirect := func(config *admissionregistrationv1.WebhookClientConfig) {
		if config.Service != nil {
			authorities := config.CABundle
			*config = byURL(*config, address)
			config.CABundle = authorities
		}
	}
	mutatingErr := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		all, err := api.MutatingWebhookConfigurations().Get(ctx, webhookConfiguration, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for i := range all.Webhooks {
			redirect(&all.Webhooks[i].ClientConfig)
		}
		_, err = api.MutatingWebhookConfigurations().Update(ctx, all, metav1.UpdateOptions{})
		return err
	})
	validatingErr := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		all, err := api.ValidatingWebhookConfigurations().Get(ctx, webhookConfiguration, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for i := range all.Webhooks {
			redirect(&all.Webhooks[i].ClientConfig)
		}
		_, err = api.ValidatingWebhookConfigurations().Update(ctx, all, metav1.UpdateOptions{})
		return err
	})
	return errors.Join(mutatingErr, validatingErr)
}

// webhookConfiguration is the name of both configurations of artifacts/webhook.
const webhookConfiguration = "trainjob-controller"

func byURL(config admissionregistrationv1.WebhookClientConfig, address string) admissionregistrationv1.WebhookClientConfig {
	return admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://" + address + *config.Service.Path)}
}

func readStrictly(file string, into any) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := yaml.UnmarshalStrict(bytes.TrimSpace(data), into); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// AwaitWebhooks waits until the API server asks the webhooks and trusts them, which is a
// moment after the configurations say so. A rehearsed creation that only a webhook can
// refuse tells.
func (e *Env) AwaitWebhooks(ctx context.Context) error {
	job := builders.TrainJob("probe", builders.Runtime(trainer.TrainingRuntimeKind, "there-is-none"))
	jobs := e.Trainer.TrainerV1alpha1().TrainJobs(job.Namespace)
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		_, err := jobs.Create(ctx, job, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if apierrors.IsInvalid(err) && strings.Contains(err.Error(), "there-is-none") {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the webhooks have no effect: %w (last answer: %w)", ctx.Err(), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
