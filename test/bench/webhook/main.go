// Command webhook measures how long the admission webhook takes to answer: a real
// controller process, real TLS over loopback, and a fixed number of reviews a second of
// TrainJobs that are created and changed. No API server waits in between, but the
// controller has one, with the runtime and the snapshots in its caches.
//
//	go run ./test/bench/webhook
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
	"github.com/trainjob/controller/test/cluster"
	"github.com/trainjob/controller/test/harness"
)

func main() {
	rate := flag.Int("rate", 500, "reviews a second")
	duration := flag.Duration("duration", 20*time.Second, "how long to send them")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *rate, *duration); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, rate int, duration time.Duration) (err error) {
	options := cluster.APIServerOnly()
	options.JobSetCRD = true
	env, err := harness.Start(ctx, options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, env.Stop()) }()
	address, err := harness.FreeAddress()
	if err != nil {
		return err
	}
	if err := env.RegisterWebhooks(ctx, address); err != nil {
		return err
	}
	if err := env.StartController(ctx, harness.WebhookFlags(address)...); err != nil {
		return err
	}
	if err := env.AwaitWebhooks(ctx); err != nil {
		return err
	}
	requests, err := prepare(ctx, env)
	if err != nil {
		return err
	}
	client, err := newClient(ctx, env)
	if err != nil {
		return err
	}
	b := &bench{client: client, url: "https://" + address, requests: requests}
	b.send(ctx, rate, time.Second) // connections are made and everything is warm
	took := b.send(ctx, rate, duration)
	if b.failed != nil {
		return b.failed
	}
	slices.Sort(took)
	at := func(share float64) time.Duration {
		return took[int(share*float64(len(took)-1))].Round(10 * time.Microsecond)
	}
	fmt.Printf("%d reviews in %v, %d a second asked for: p50 %v, p90 %v, p99 %v, most %v\n",
		len(took), duration, rate, at(0.5), at(0.9), at(0.99), at(1))
	return nil
}

// request is one review, and where it goes.
type request struct {
	path string
	body []byte
}

// prepare makes what the reviews are about: a runtime, a job with its snapshot, and the
// reviews of another that is created, and of a patch that the first gets.
func prepare(ctx context.Context, env *harness.Env) ([]request, error) {
	everywhere := builders.ClusterTrainingRuntime("torch", builders.TorchSpec())
	if _, err := env.Trainer.TrainerV1alpha1().ClusterTrainingRuntimes().Create(ctx, everywhere, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	queued, err := env.Trainer.TrainerV1alpha1().TrainJobs(builders.Namespace).
		Create(ctx, builders.TrainJob("queued", builders.Suspended(true)), metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	for {
		_, err := env.Core.CoreV1().ConfigMaps(builders.Namespace).Get(ctx, "queued-runtime-snapshot", metav1.GetOptions{})
		if err == nil {
			break
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
	queued.TypeMeta = metav1.TypeMeta{APIVersion: trainer.SchemeGroupVersion.String(), Kind: trainer.TrainJobKind}
	patch := trainer.RuntimePatch{Manager: "kueue.x-k8s.io/manager", TrainingRuntimeSpec: &trainer.TrainingRuntimeSpecPatch{
		Template: &trainer.JobSetTemplatePatch{Spec: &trainer.JobSetSpecPatch{ReplicatedJobs: []trainer.ReplicatedJobPatch{{
			Name: "node", Template: &trainer.JobTemplatePatch{Spec: &trainer.JobSpecPatch{Template: &trainer.PodTemplatePatch{
				Spec: &trainer.PodSpecPatch{NodeSelector: map[string]string{"zone": "a"}},
			}}},
		}}}},
	}}
	admitted := queued.DeepCopy()
	admitted.Spec.RuntimePatches = []trainer.RuntimePatch{patch}
	created := builders.TrainJob("created", builders.TTL(3600), builders.Deadline(86400), builders.Patches(patch))
	var all []request
	for _, path := range []string{"/mutate-trainjob", "/validate-trainjob"} {
		create, createErr := review(admissionv1.Create, nil, created)
		update, updateErr := review(admissionv1.Update, queued, admitted)
		if err := errors.Join(createErr, updateErr); err != nil {
			return nil, err
		}
		all = append(all, request{path, create}, request{path, update})
	}
	return all, nil
}

func review(operation admissionv1.Operation, old, object *trainer.TrainJob) ([]byte, error) {
	asked := &admissionv1.AdmissionRequest{
		UID: types.UID("bench"), Namespace: object.Namespace, Name: object.Name, Operation: operation,
		Resource: metav1.GroupVersionResource(trainer.SchemeGroupVersion.WithResource("trainjobs")),
	}
	var err, oldErr error
	asked.Object.Raw, err = json.Marshal(object)
	if old != nil {
		asked.OldObject = runtime.RawExtension{}
		asked.OldObject.Raw, oldErr = json.Marshal(old)
	}
	if err := errors.Join(err, oldErr); err != nil {
		return nil, err
	}
	return json.Marshal(&admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: asked,
	})
}

// newClient trusts what the webhook configurations say.
func newClient(ctx context.Context, env *harness.Env) (*http.Client, error) {
	found, err := env.Core.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, harness.WebhookName, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(found.Webhooks[0].ClientConfig.CABundle)
	return &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}, MaxIdleConnsPerHost: 100,
	}}, nil
}

type bench struct {
	client   *http.Client
	url      string
	requests []request

	mu     sync.Mutex
	failed error
}

// send sends reviews at a rate, whether or not the ones before have been answered, and
// returns how long each answer took.
func (b *bench) send(ctx context.Context, rate int, duration time.Duration) []time.Duration {
	var took []time.Duration
	var running sync.WaitGroup
	begin := time.Now()
	for i := range int(float64(rate) * duration.Seconds()) {
		due := begin.Add(time.Duration(float64(i) / float64(rate) * float64(time.Second)))
		select {
		case <-ctx.Done():
			return took
		case <-time.After(time.Until(due)):
		}
		running.Go(func() {
			started := time.Now()
			err := b.ask(ctx, b.requests[i%len(b.requests)])
			answered := time.Since(started)
			b.mu.Lock()
			defer b.mu.Unlock()
			took = append(took, answered)
			b.failed = errors.Join(b.failed, err)
		})
	}
	running.Wait()
	return took
}

func (b *bench) ask(ctx context.Context, r request) error {
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, b.url+r.path, bytes.NewReader(r.body))
	if err != nil {
		return err
	}
	post.Header.Set("Content-Type", "application/json")
	response, err := b.client.Do(post)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	var answer admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &answer); err != nil || answer.Response == nil || !answer.Response.Allowed {
		return fmt.Errorf("%s: %s: %.300s", r.path, response.Status, body)
	}
	return nil
}
