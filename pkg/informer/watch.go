package informer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// watchErrorInterval is the least time between two log lines about the same
// kind of trouble of one watch. While an API server is away each informer tries
// again every half minute or less, and a line for each attempt says nothing new.
const watchErrorInterval = 5 * time.Minute

// Prepare sets up an informer that has not been started: what to trim from its
// objects, and how to log its troubles.
func Prepare(informer cache.SharedIndexInformer, clock clock.PassiveClock, trim ...func(metav1.Object)) error {
	return errors.Join(
		informer.SetTransform(Transform(trim...)),
		informer.SetWatchErrorHandlerWithContext(WatchErrors(clock)),
	)
}

// ConfigMaps returns an informer of the ConfigMaps that carry the label, with
// whatever value. The API server does the selecting, so that nobody else's
// ConfigMaps reach this process. It has the namespace index that listers use, does
// not resync, holds equal data once, and of ConfigMaps not controlled by an owner of the
// kind no more than whose they are.
func ConfigMaps(client kubernetes.Interface, clock clock.PassiveClock, labelKey string, owner schema.GroupKind) (cache.SharedIndexInformer, error) {
	informer := coreinformers.NewFilteredConfigMapInformer(client, metav1.NamespaceAll, 0,
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
		func(options *metav1.ListOptions) { options.LabelSelector = labelKey },
	)
	if err := Prepare(informer, clock, Strip, TrimConfigMap(owner), ShareData()); err != nil {
		return nil, fmt.Errorf("prepare the ConfigMap informer: %w", err)
	}
	return informer, nil
}

// Pods returns an informer of the pods that carry the label, with whatever value, and of
// them only how one init container has ended. It has no indexes but those that are added.
func Pods(client kubernetes.Interface, clock clock.PassiveClock, labelKey, initContainer string) (cache.SharedIndexInformer, error) {
	informer := coreinformers.NewFilteredPodInformer(client, metav1.NamespaceAll, 0, cache.Indexers{},
		func(options *metav1.ListOptions) { options.LabelSelector = labelKey },
	)
	if err := Prepare(informer, clock, TrimPod(initContainer)); err != nil {
		return nil, fmt.Errorf("prepare the pod informer: %w", err)
	}
	return informer, nil
}

// WatchErrors returns a handler for the errors that end a list or a watch of one
// informer. The informer itself tries again; all there is to do is to tell.
// Watches end all the time, which is worth a line only to who asks for detail;
// the rest is logged at its first occurrence and then once per interval.
func WatchErrors(clock clock.PassiveClock) cache.WatchErrorHandlerWithContext {
	log := &watchErrorLog{clock: clock, last: map[metav1.StatusReason]time.Time{}}
	return func(ctx context.Context, r *cache.Reflector, err error) {
		logger := klog.FromContext(ctx).WithValues("type", r.TypeDescription())
		switch {
		case routine(err):
			logger.V(4).Info("Watch ended", "err", err)
		case ctx.Err() != nil:
			// The informer is being stopped; its requests fail with it.
		default:
			if unreported, due := log.due(apierrors.ReasonForError(err)); due {
				logger.Error(err, "Cannot list or watch, retrying", "unreported", unreported)
			}
		}
	}
}

// routine reports whether a watch ended the way watches do: closed by the
// server, or from a version that the server no longer keeps.
func routine(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
}

// watchErrorLog decides which errors of one informer are logged.
type watchErrorLog struct {
	clock clock.PassiveClock

	mu         sync.Mutex
	last       map[metav1.StatusReason]time.Time // by kind of trouble; a handful
	unreported int
}

// due reports whether an error of this reason is to be logged, and how many
// errors have gone unlogged since the last one that was.
func (l *watchErrorLog) due(reason metav1.StatusReason) (unreported int, due bool) {
	now := l.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if last, seen := l.last[reason]; seen && now.Sub(last) < watchErrorInterval {
		l.unreported++
		return 0, false
	}
	unreported, l.unreported = l.unreported, 0
	l.last[reason] = now
	return unreported, true
}
