package certificate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// Intervals between two looks at the API server, for certificates that live for long.
// Those that do not are looked after more often.
const (
	steadyInterval = 10 * time.Second // nothing is under way
	busyInterval   = time.Second      // something is
	callTimeout    = 10 * time.Second // of all calls of one look
	maxSettle      = 10 * time.Second // until every API server goes by a configuration
)

// KeeperConfig is what a Keeper works with.
type KeeperConfig struct {
	Configurations Configurations
	// Secrets of the namespace; only the one of SecretName is read and written.
	Secrets    corev1client.SecretInterface
	SecretName string
	// Names the certificate is for.
	Names []string
	// Lifetime of a certificate; it is replaced after two thirds.
	Lifetime time.Duration
	Holder   *Holder
	Clock    clock.Clock
}

// Keeper makes certificates, rotates them and tells the API server whom to trust,
// together with the Keepers of other replicas.
type Keeper struct {
	KeeperConfig
	watch

	// known is the content of the Secret when it was last read and in order, for the case
	// that somebody deletes or spoils it.
	known *Stored
	trust Trust
}

// NewKeeper returns a Keeper that does nothing before Run.
func NewKeeper(config KeeperConfig) *Keeper {
	return &Keeper{KeeperConfig: config}
}

// Run keeps the certificate until ctx ends.
func (k *Keeper) Run(ctx context.Context) { run(ctx, k.Clock, k.step) }

// run calls step, waits for as long as it says, and calls it again.
func run(ctx context.Context, c clock.Clock, step func(context.Context) time.Duration) {
	for {
		timer := c.NewTimer(step(ctx))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
		}
	}
}

func (k *Keeper) steady() time.Duration { return min(steadyInterval, k.Lifetime/60) }
func (k *Keeper) busy() time.Duration   { return min(busyInterval, k.Lifetime/60) }

// step looks once, does what is to be done, and says when to look again.
func (k *Keeper) step(ctx context.Context) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	// In this order: see the package's comment.
	configurations, missing, err := k.Configurations.read(ctx)
	found := troubles(configurations, missing, err)
	settled, err := k.look(ctx, configurations, found)
	switch {
	case apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err):
		return k.busy() // another replica was faster: see what it has written
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return k.busy() // being stopped
	}
	logger := klog.FromContext(ctx)
	k.note(logger, err)
	// Where nobody is to be told anything, nothing is under way.
	if (err == nil && settled) || isMissing(err) {
		return k.wait(logger, configurations, missing, k.busy(), k.steady())
	}
	return k.busy()
}

// look is one round: gather, decide, write.
func (k *Keeper) look(ctx context.Context, configurations []configuration, troubles error) (settled bool, err error) {
	secret, err := k.readSecret(ctx)
	if err != nil {
		return false, errors.Join(troubles, err)
	}
	now := k.Clock.Now()
	situation := Situation{
		Now: now, Names: k.Names, Lifetime: k.Lifetime, Bundles: bundles(configurations),
		Serving: k.Holder.Current(), Settle: min(maxSettle, k.Lifetime/30),
	}
	if secret != nil {
		situation.Stored = parseStored(secret.Data)
	}
	k.remember(situation)
	k.trust = k.trust.Observe(now, situation.Bundles, situation.pairs()...)
	situation.Trusted = k.trust
	plan := Decide(situation)
	logger := klog.FromContext(ctx)
	if plan.Serve != nil && k.Holder.set(plan.Serve) {
		logger.Info("Serving a certificate", "expires", plan.Serve.NotAfter().UTC().Format(time.RFC3339), "names", strings.Join(plan.Serve.Names(), ","))
	}
	if plan.Issue != "" {
		written, err := k.renew(ctx, secret, situation)
		if err != nil {
			return false, errors.Join(troubles, err)
		}
		logger.Info("Made a new webhook certificate", "reason", plan.Issue, "secret", klog.KObj(written))
		return false, troubles
	}
	if plan.Publish {
		if err := k.Configurations.publish(ctx, configurations, situation.Stored.Authorities); err != nil {
			return false, errors.Join(troubles, err)
		}
		logger.Info("Told the API server which authorities to trust", "configurations", k.Configurations.Name)
	}
	return plan.Settled, k.observed(configurations, troubles)
}

// remember keeps the content of the Secret for when it is deleted or spoilt.
func (k *Keeper) remember(s Situation) {
	if s.Stored != nil && s.Stored.Current != nil && s.Stored.Current.trustedBy(s.Stored.Authorities, s.Now) {
		k.known = s.Stored
	}
}

// pairs are the certificates that may be served.
func (s Situation) pairs() []*Pair {
	if s.Stored == nil {
		return []*Pair{s.Serving}
	}
	return []*Pair{s.Stored.Current, s.Stored.Previous, s.Serving}
}

// readSecret returns nil if there is none.
func (k *Keeper) readSecret(ctx context.Context) (*corev1.Secret, error) {
	secret, err := k.Secrets.Get(ctx, k.SecretName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read Secret %q: %w", k.SecretName, err)
	}
	return secret, nil
}

// renew writes a new certificate into the Secret, or makes the Secret.
func (k *Keeper) renew(ctx context.Context, secret *corev1.Secret, s Situation) (*corev1.Secret, error) {
	var before *Pair
	if s.Stored != nil {
		before = s.Stored.Current
	}
	next, err := succeed(k.known, before, k.Holder.Current(), s.Bundles, s.Now, k.Lifetime, k.Names)
	if err != nil {
		return nil, err
	}
	if secret == nil {
		made, err := k.Secrets.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: k.SecretName}, Type: corev1.SecretTypeTLS, Data: next.into(nil),
		}, metav1.CreateOptions{})
		if apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("create Secret %q: %w: create the namespace, or name another one with --webhook-namespace", k.SecretName, err)
		}
		if err != nil {
			return nil, fmt.Errorf("create Secret %q: %w", k.SecretName, err)
		}
		return made, nil
	}
	secret = secret.DeepCopy()
	secret.Data = next.into(secret.Data)
	if secret, err = k.Secrets.Update(ctx, secret, metav1.UpdateOptions{}); err != nil {
		return nil, fmt.Errorf("update Secret %q: %w", k.SecretName, err)
	}
	return secret, nil
}
