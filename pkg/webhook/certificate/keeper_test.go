package certificate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	clocktesting "k8s.io/utils/clock/testing"
)

const namespace, secretName, configurationName = "ns", "cert", "controller"

func mutatingConfiguration() *admissionregistrationv1.MutatingWebhookConfiguration {
	return &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: configurationName, ResourceVersion: "1"},
		Webhooks:   []admissionregistrationv1.MutatingWebhook{{Name: "m.example.com", ClientConfig: byService()}},
	}
}

func validatingConfiguration() *admissionregistrationv1.ValidatingWebhookConfiguration {
	return &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: configurationName, ResourceVersion: "1"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{
			{Name: "v.example.com", ClientConfig: byService()}, {Name: "w.example.com", ClientConfig: byService()},
		},
	}
}

func byService() admissionregistrationv1.WebhookClientConfig {
	return admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Name: "hook", Namespace: namespace}}
}

// world is an API server with Keepers of replicas whose clock is one.
type world struct {
	t      *testing.T
	client *fake.Clientset
	clock  *clocktesting.FakeClock
}

func newWorld(t *testing.T, objects ...runtime.Object) *world {
	return &world{t: t, client: fake.NewClientset(objects...), clock: clocktesting.NewFakeClock(epoch)}
}

func (w *world) keeper() *Keeper {
	return NewKeeper(KeeperConfig{
		Configurations: Configurations{Client: w.client.AdmissionregistrationV1(), Name: configurationName},
		Secrets:        w.client.CoreV1().Secrets(namespace), SecretName: secretName,
		Names: []string{name}, Lifetime: lifetime, Holder: &Holder{}, Clock: w.clock,
	})
}

func (w *world) secret() *corev1.Secret {
	w.t.Helper()
	secret, err := w.client.CoreV1().Secrets(namespace).Get(w.t.Context(), secretName, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return secret
}

// bundles are what the three webhooks trust.
func (w *world) bundles() [][]byte {
	w.t.Helper()
	found, _, err := (Configurations{Client: w.client.AdmissionregistrationV1(), Name: configurationName}).read(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return bundles(found)
}

// trusted fails the test if the API server would not trust a keeper's server now.
func (w *world) trusted(keepers ...*Keeper) {
	w.t.Helper()
	for i, k := range keepers {
		serving := k.Holder.Current()
		if serving == nil || !serving.usable(w.clock.Now()) || !trustedByAll(serving, w.bundles(), w.clock.Now()) {
			w.t.Fatalf("at %v: replica %d serves a certificate that is not trusted", w.clock.Now(), i)
		}
	}
}

func (w *world) step(k *Keeper) time.Duration { return k.step(w.t.Context()) }

// steps lets keepers look until nothing is under way.
func (w *world) steps(keepers ...*Keeper) {
	w.t.Helper()
	for range 30 {
		busy := false
		for _, k := range keepers {
			busy = w.step(k) < steadyInterval || busy
		}
		if !busy {
			return
		}
		w.clock.Step(busyInterval)
	}
	w.t.Fatal("it does not settle")
}

func TestAKeeperMakesACertificateAndMakesItKnown(t *testing.T) {
	w := newWorld(t, mutatingConfiguration(), validatingConfiguration())
	k := w.keeper()
	var told time.Time
	k.Holder.Changed = func(notAfter time.Time) { told = notAfter }
	w.steps(k)
	w.trusted(k)
	secret := w.secret()
	if secret.Type != corev1.SecretTypeTLS {
		t.Errorf("the Secret has the type %s", secret.Type)
	}
	for i, bundle := range w.bundles() {
		if !bytes.Equal(bundle, secret.Data["ca.crt"]) {
			t.Errorf("webhook %d trusts something else than the Secret says", i)
		}
	}
	if !told.Equal(epoch.Add(lifetime)) {
		t.Errorf("told of the expiry %v", told)
	}
	if endpoints, err := k.Endpoints(); err != nil || len(endpoints) != 1 || endpoints[0].ServerName != name {
		t.Errorf("endpoints %v, %v, want the one service", endpoints, err)
	}
	w.client.ClearActions()
	w.clock.Step(time.Hour)
	w.steps(k)
	for _, action := range w.client.Actions() {
		if action.GetVerb() != "get" {
			t.Errorf("with nothing to do: %s %s", action.GetVerb(), action.GetResource().Resource)
		}
	}
}

func TestReplicasRotateTogetherAndAreTrustedAllTheTime(t *testing.T) {
	w := newWorld(t, mutatingConfiguration(), validatingConfiguration())
	first, second := w.keeper(), w.keeper()
	w.steps(first, second)
	served := map[[32]byte]bool{}
	for end := w.clock.Now().Add(3 * lifetime); w.clock.Now().Before(end); {
		wait := min(w.step(first), w.step(second))
		w.trusted(first, second)
		for _, k := range []*Keeper{first, second} {
			served[k.Holder.Current().fingerprint()] = true
		}
		if wait == steadyInterval {
			wait = 24 * time.Hour // nothing else happens before
		}
		w.clock.Step(wait)
	}
	if len(served) != 5 {
		t.Errorf("%d certificates in three lifetimes, want 5: one every 60 days", len(served))
	}
	if n := len(parseAuthorities(w.bundles()[0])); n > 2 {
		t.Errorf("%d authorities are trusted, want two at most", n)
	}
}

// overtaken is a client whose creations come second.
type overtaken struct {
	corev1client.SecretInterface
	by func()
}

func (o overtaken) Create(ctx context.Context, secret *corev1.Secret, opts metav1.CreateOptions) (*corev1.Secret, error) {
	o.by()
	return o.SecretInterface.Create(ctx, secret, opts)
}

func TestReplicasThatStartTogetherAgreeOnOneCertificate(t *testing.T) {
	w := newWorld(t, mutatingConfiguration(), validatingConfiguration())
	keepers := []*Keeper{w.keeper(), w.keeper(), w.keeper()}
	keepers[0].Secrets = overtaken{keepers[0].Secrets, func() { w.step(keepers[1]) }}
	w.steps(keepers...)
	w.trusted(keepers...)
	for _, k := range keepers[1:] {
		if k.Holder.Current().fingerprint() != keepers[0].Holder.Current().fingerprint() {
			t.Error("replicas serve different certificates")
		}
	}
}

func TestAConflictIsNoTroubleAndNothingOfTheOtherIsLost(t *testing.T) {
	w := newWorld(t, mutatingConfiguration(), validatingConfiguration())
	k := w.keeper()
	w.steps(k)
	for _, resource := range []string{"secrets", "validatingwebhookconfigurations"} {
		conflicts := 0
		verb := map[string]string{"secrets": "update"}[resource]
		if verb == "" {
			verb = "patch"
		}
		w.client.PrependReactor(verb, resource, func(clienttesting.Action) (bool, runtime.Object, error) {
			if conflicts++; conflicts > 1 {
				return false, nil, nil
			}
			return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: resource}, "x", errors.New("changed"))
		})
	}
	w.clock.Step(61 * 24 * time.Hour)
	for range 4 {
		w.step(k)
		w.trusted(k)
		if _, err := k.Endpoints(); err != nil {
			t.Errorf("a conflict became a trouble: %v", err)
		}
		w.clock.Step(busyInterval)
	}
	w.steps(k)
	w.trusted(k)
}

func TestPatchesAreForTheVersionThatWasRead(t *testing.T) {
	w := newWorld(t, mutatingConfiguration(), validatingConfiguration())
	w.steps(w.keeper())
	patches := 0
	for _, action := range w.client.Actions() {
		if patch, ok := action.(clienttesting.PatchAction); ok {
			patches++
			if !strings.Contains(string(patch.GetPatch()), `"resourceVersion":"1"`) {
				t.Errorf("a patch without the version: %.200s", patch.GetPatch())
			}
		}
	}
	if patches != 2 {
		t.Errorf("%d patches, want one of each configuration", patches)
	}
}

func TestADeletedSecretLeavesNoMomentWithoutTrust(t *testing.T) {
	w := newWorld(t, mutatingConfiguration(), validatingConfiguration())
	first, second := w.keeper(), w.keeper()
	w.steps(first, second)
	before := first.Holder.Current().fingerprint()
	if err := w.client.CoreV1().Secrets(namespace).Delete(t.Context(), secretName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	// Of all replicas one that has just started makes the new Secret.
	third := w.keeper()
	for range 20 {
		for _, k := range []*Keeper{third, first, second} {
			w.step(k)
			w.trusted(first, second)
		}
		w.clock.Step(busyInterval)
	}
	w.trusted(first, second, third)
	if first.Holder.Current().fingerprint() == before {
		t.Error("the certificate is still the old one")
	}
}

func TestASpoiltSecretIsPutRight(t *testing.T) {
	w := newWorld(t, mutatingConfiguration(), validatingConfiguration())
	k := w.keeper()
	w.steps(k)
	secret := w.secret()
	secret.Data = map[string][]byte{"tls.crt": []byte("nonsense"), "tls.key": nil}
	secret.Labels = map[string]string{"team": "infra"}
	if _, err := w.client.CoreV1().Secrets(namespace).Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		w.step(k)
		w.trusted(k)
		w.clock.Step(busyInterval)
	}
	if stored := parseStored(w.secret().Data); stored.Current == nil || w.secret().Labels["team"] != "infra" {
		t.Errorf("the Secret is not put right: %v, labels %v", stored.Broken, w.secret().Labels)
	}
}

func TestNoChangeOfTheSecretLeavesAMomentWithoutTrust(t *testing.T) {
	cases := map[string]func(now, before *corev1.Secret){
		"the authorities are taken out":            func(now, _ *corev1.Secret) { delete(now.Data, "ca.crt") },
		"the authorities are those of before":      func(now, before *corev1.Secret) { now.Data["ca.crt"] = before.Data["ca.crt"] },
		"an older one that is valid is put back":   func(now, before *corev1.Secret) { now.Data = before.Data },
		"an older one is put back, no authorities": func(now, before *corev1.Secret) { now.Data = before.Data; delete(now.Data, "ca.crt") },
		"all of it is taken out":                   func(now, _ *corev1.Secret) { now.Data = nil },
	}
	for name, change := range cases {
		for _, started := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, seen first by a replica that has just started: %v", name, started), func(t *testing.T) {
				w := newWorld(t, mutatingConfiguration(), validatingConfiguration())
				first, second := w.keeper(), w.keeper()
				w.steps(first, second)
				before := w.secret()
				w.clock.Step(61 * 24 * time.Hour)
				w.steps(first, second)
				now := w.secret()
				if bytes.Equal(now.Data["tls.crt"], before.Data["tls.crt"]) {
					t.Fatal("the certificate has not been rotated")
				}
				change(now, before)
				if _, err := w.client.CoreV1().Secrets(namespace).Update(t.Context(), now, metav1.UpdateOptions{}); err != nil {
					t.Fatal(err)
				}
				order := []*Keeper{first, second}
				if started {
					order = append([]*Keeper{w.keeper()}, order...)
				}
				for range 30 {
					for _, k := range order {
						w.step(k)
						w.trusted(first, second)
					}
					w.clock.Step(busyInterval)
				}
				w.trusted(order...)
				w.steps(order...)
			})
		}
	}
}

func TestWithoutConfigurationsItIsNotReadyAndTriesOnLessAndLess(t *testing.T) {
	w := newWorld(t)
	k := w.keeper()
	w.step(k) // makes the certificate
	var waits []time.Duration
	for range 6 {
		waits = append(waits, w.step(k)/time.Second)
	}
	if diff := cmp.Diff([]time.Duration{2, 4, 8, 10, 10, 10}, waits); diff != "" {
		t.Errorf("seconds between looks (-want +got):\n%s", diff)
	}
	_, err := k.Endpoints()
	for _, want := range []string{"no MutatingWebhookConfiguration", "no ValidatingWebhookConfiguration", "artifacts/webhook"} {
		if err == nil || strings.Count(err.Error(), want) != 1 {
			t.Errorf("got %v, want %q in it once", err, want)
		}
	}
	w.create(mutatingConfiguration(), validatingConfiguration())
	w.steps(k)
	w.trusted(k)
	if _, err := k.Endpoints(); err != nil {
		t.Errorf("still not ready: %v", err)
	}
}

func TestTheLogNamesTheSecretWithItsNamespaceWhetherNewOrOld(t *testing.T) {
	w := newWorld(t, mutatingConfiguration(), validatingConfiguration())
	k := w.keeper()
	var out bytes.Buffer
	ctx := klog.NewContext(t.Context(), textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&out))))
	k.step(ctx) // makes the Secret
	w.steps(k)
	w.clock.Step(lifetime * 3 / 4)
	k.step(ctx) // renews the certificate in it
	const want = `secret="ns/cert"`
	if all, right := strings.Count(out.String(), "secret="), strings.Count(out.String(), want); all != 2 || right != 2 {
		t.Errorf("%d lines with a Secret, %d with %s, want 2 of both:\n%s", all, right, want, &out)
	}
}

// create adds configurations to the API server.
func (w *world) create(m *admissionregistrationv1.MutatingWebhookConfiguration, v *admissionregistrationv1.ValidatingWebhookConfiguration) {
	w.t.Helper()
	api := w.client.AdmissionregistrationV1()
	_, err := api.MutatingWebhookConfigurations().Create(w.t.Context(), m, metav1.CreateOptions{})
	if err == nil {
		_, err = api.ValidatingWebhookConfigurations().Create(w.t.Context(), v, metav1.CreateOptions{})
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func TestWhatOneConfigurationAsksIsAnsweredWithoutTheOther(t *testing.T) {
	for name, configuration := range map[string]runtime.Object{
		"the mutating one": mutatingConfiguration(), "the validating one": validatingConfiguration(),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, configuration)
			k := w.keeper()
			w.steps(k)
			w.trusted(k)
			if endpoints, err := k.Endpoints(); err != nil || len(endpoints) != 1 {
				t.Errorf("endpoints %v, %v, want the one service", endpoints, err)
			}
			dir := t.TempDir()
			write(t, dir, filesOf(made(t, nil, epoch, "x")))
			f, err := w.files(dir)
			if err != nil {
				t.Fatal(err)
			}
			f.step(t.Context())
			if endpoints, err := f.Endpoints(); err != nil || len(endpoints) != 1 {
				t.Errorf("with files: endpoints %v, %v, want the one service", endpoints, err)
			}
		})
	}
}

func TestAnAPIServerThatIsAwayDoesNotMakeItUnready(t *testing.T) {
	w := newWorld(t, mutatingConfiguration(), validatingConfiguration())
	k := w.keeper()
	w.steps(k)
	w.client.PrependReactor("get", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("no connection")
	})
	w.step(k)
	w.trustedWithout(k)
	if _, err := k.Endpoints(); err != nil {
		t.Errorf("not ready: %v", err)
	}
	fresh := w.keeper()
	w.step(fresh)
	if _, err := fresh.Endpoints(); err == nil || !strings.Contains(err.Error(), "no connection") {
		t.Errorf("a replica that has seen nothing yet is ready: %v", err)
	}
}

// trustedWithout checks that a certificate is served on.
func (w *world) trustedWithout(k *Keeper) {
	w.t.Helper()
	if !k.Holder.Current().usable(w.clock.Now()) {
		w.t.Error("nothing is served any more")
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	w := newWorld(t, mutatingConfiguration(), validatingConfiguration())
	k := w.keeper()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); k.Run(ctx) }()
	for k.Holder.Current() == nil {
		w.clock.Step(busyInterval)
	}
	stop()
	<-done
}

func TestOnlyContentInOrderIsRemembered(t *testing.T) {
	first := made(t, nil, epoch, name)
	spoilt := *first
	spoilt.Authorities = nil
	k := newWorld(t).keeper()
	for _, stored := range []*Stored{first, &spoilt, nil, parseStored(nil)} {
		k.remember(Situation{Now: epoch, Stored: stored})
		if k.known != first {
			t.Errorf("after %+v something else is remembered", stored)
		}
	}
}
