package snapshot

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/restmapper"
)

const (
	// minPoll and maxPoll bound the time between two looks for something opaque that is
	// missing: a kind, or a runtime. No event would tell of it.
	minPoll, maxPoll = 5 * time.Second, time.Minute
	// discoveryLifetime is how long a kind that was found is believed to be served as
	// it was: a version that becomes the preferred one is noticed after this time.
	discoveryLifetime = 10 * time.Minute
	// askTimeout is how long the workers of all jobs may be held up by an API server that
	// does not answer.
	askTimeout = 5 * time.Second
)

// kindFinder knows how the API server serves the kinds that are listed as opaque. It
// asks once for all jobs, and again only when something is missing or old.
type kindFinder struct {
	discovery discovery.DiscoveryInterfaceWithContext
	groups    sets.Set[string] // those of the kinds
	timeout   time.Duration    // of one look

	mu     sync.Mutex // held while asking, so that everybody waits for one answer
	mapper meta.RESTMapper
	asked  time.Time // zero before the first time
	every  time.Duration
	failed error // of the last time
	// expired are the kinds that were found not to be served as the mapper says.
	expired sets.Set[schema.GroupKind]
}

func newKindFinder(client discovery.DiscoveryInterfaceWithContext, kinds sets.Set[schema.GroupKind]) *kindFinder {
	groups := sets.New[string]()
	for kind := range kinds {
		groups.Insert(kind.Group)
	}
	return &kindFinder{discovery: client, groups: groups, timeout: askTimeout, every: minPoll, expired: sets.New[schema.GroupKind]()}
}

// find says how a kind is served, in its preferred version; nil if it is not.
func (f *kindFinder) find(ctx context.Context, kind schema.GroupKind, now time.Time) (*meta.RESTMapping, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	known, err := f.known(kind)
	if err != nil {
		return nil, err
	}
	age := now.Sub(f.asked)
	switch fresh := known != nil && !f.expired.Has(kind) && age < discoveryLifetime; {
	case fresh && age >= 0:
		return known, nil
	case !f.asked.IsZero() && age >= 0 && age < f.every:
		return f.believed(kind, known)
	}
	f.asked = now
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	if f.failed = f.ask(ctx); f.failed == nil {
		f.expired.Clear()
		if known, err = f.known(kind); err != nil {
			return nil, err
		}
	}
	if known != nil && f.failed == nil {
		f.every = minPoll
	} else {
		f.every = min(2*f.every, maxPoll)
	}
	return f.believed(kind, known)
}

// believed is what to go by without asking: what is old is better than nothing, unless
// it was found to be wrong.
func (f *kindFinder) believed(kind schema.GroupKind, known *meta.RESTMapping) (*meta.RESTMapping, error) {
	if known != nil && !f.expired.Has(kind) {
		return known, nil
	}
	return nil, f.failed
}

// known looks into the last answer.
func (f *kindFinder) known(kind schema.GroupKind) (*meta.RESTMapping, error) {
	if f.mapper == nil {
		return nil, nil
	}
	mapping, err := f.mapper.RESTMapping(kind)
	if meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find out how kind %s is served: %w", kind, err)
	}
	return mapping, nil
}

// ask reads the discovery document, and keeps what it says about the groups in question.
func (f *kindFinder) ask(ctx context.Context) error {
	groups, err := restmapper.GetAPIGroupResourcesWithContext(ctx, f.discovery)
	if err != nil {
		return fmt.Errorf("discover what the API server serves: %w", err)
	}
	groups = slices.DeleteFunc(groups, func(g *restmapper.APIGroupResources) bool { return !f.groups.Has(g.Group.Name) })
	f.mapper = restmapper.NewDiscoveryRESTMapper(groups)
	return nil
}

// expire notes that a kind was found not to be served as the last answer says.
func (f *kindFinder) expire(kind schema.GroupKind) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.expired.Insert(kind)
}
