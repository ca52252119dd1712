package snapshot

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	fakediscovery "k8s.io/client-go/discovery/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/trainjob/controller/test/builders"
)

var slurmKind = schema.GroupKind{Group: "slurm.example.com", Kind: "SlurmRuntime"}

// serving is a discovery client of an API server with these versions of SlurmRuntime,
// the preferred one first, and with what every API server has.
func serving(namespaced bool, versions ...string) *fakediscovery.FakeDiscovery {
	f := &fakediscovery.FakeDiscovery{Fake: &clienttesting.Fake{}}
	f.Resources = served(namespaced, versions...)
	return f
}

func served(namespaced bool, versions ...string) []*metav1.APIResourceList {
	lists := []*metav1.APIResourceList{{
		GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "configmaps", Kind: "ConfigMap", Namespaced: true}},
	}}
	for _, version := range versions {
		lists = append(lists, &metav1.APIResourceList{GroupVersion: "slurm.example.com/" + version, APIResources: []metav1.APIResource{
			{Name: "slurmruntimes", SingularName: "slurmruntime", Kind: "SlurmRuntime", Namespaced: namespaced},
			{Name: "slurmruntimes/status", Kind: "SlurmRuntime", Namespaced: namespaced},
		}})
	}
	return lists
}

// asks is how often the discovery document was read.
func asks(f *fakediscovery.FakeDiscovery) (n int) {
	for _, action := range f.Actions() {
		if action.GetResource().Resource == "group" {
			n++
		}
	}
	return n
}

func finderOf(f *fakediscovery.FakeDiscovery) *kindFinder {
	return newKindFinder(f, sets.New(slurmKind, schema.GroupKind{Group: "ray.io", Kind: "RayCluster"}))
}

// find looks for SlurmRuntime at a second; what is returned is "version/resource scope".
func find(t *testing.T, f *kindFinder, second int) string {
	t.Helper()
	mapping, err := f.find(t.Context(), slurmKind, builders.At(second))
	if err != nil {
		return "error: " + err.Error()
	}
	if mapping == nil {
		return "none"
	}
	return mapping.Resource.Version + "/" + mapping.Resource.Resource + " " + string(mapping.Scope.Name())
}

func expectFound(t *testing.T, f *kindFinder, second int, want string) {
	t.Helper()
	if got := find(t, f, second); got != want {
		t.Errorf("at second %d found %s, want %s", second, got, want)
	}
}

func expectAsks(t *testing.T, f *fakediscovery.FakeDiscovery, want int) {
	t.Helper()
	if got := asks(f); got != want {
		t.Errorf("the discovery document was read %d times, want %d", got, want)
	}
}

func TestAKindIsServedInItsPreferredVersion(t *testing.T) {
	for want, client := range map[string]*fakediscovery.FakeDiscovery{
		"v1/slurmruntimes namespace": serving(true, "v1", "v1alpha1"), "v1alpha1/slurmruntimes root": serving(false, "v1alpha1", "v1"), "none": serving(true),
	} {
		expectFound(t, finderOf(client), 1, want)
	}
}

func TestAKindThatIsNotThePreferredVersionsIsFoundInAnother(t *testing.T) {
	client := serving(true, "v1", "v1alpha1")
	client.Resources[1].APIResources = []metav1.APIResource{{Name: "slurmqueues", Kind: "SlurmQueue"}}
	expectFound(t, finderOf(client), 1, "v1alpha1/slurmruntimes namespace")
}

func TestWhatWasFoundIsNotAskedForAgain(t *testing.T) {
	client := serving(true, "v1")
	finder := finderOf(client)
	for second := 1; second < 600; second += 20 {
		expectFound(t, finder, second, "v1/slurmruntimes namespace")
	}
	expectAsks(t, client, 1)
	client.Resources = served(true, "v2", "v1")
	expectFound(t, finder, 602, "v2/slurmruntimes namespace")
	expectAsks(t, client, 2)
}

func TestAMissingKindIsAskedForLessAndLess(t *testing.T) {
	client := serving(true)
	finder := finderOf(client)
	var at []int
	for second := range 400 {
		before := asks(client)
		expectFound(t, finder, second, "none") // a thousand jobs may ask, at any time
		if asks(client) > before {
			at = append(at, second)
		}
	}
	for i, want := range []int{0, 10, 30, 70, 130, 190, 250, 310, 370} {
		if i >= len(at) || at[i] != want {
			t.Fatalf("asked at seconds %v, want at 0, 10, 30, 70, and then once a minute", at)
		}
	}
	client.Resources = served(true, "v1")
	expectFound(t, finder, 429, "none")
	expectFound(t, finder, 430, "v1/slurmruntimes namespace")
}

func TestManyJobsAtOnceWaitForOneAnswer(t *testing.T) {
	client := serving(true, "v1")
	finder := finderOf(client)
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if got := find(t, finder, 1); got != "v1/slurmruntimes namespace" {
				t.Errorf("found %s", got)
			}
		})
	}
	all.Wait()
	expectAsks(t, client, 1)
}

func TestAKindThatIsGoneIsNotedAndFoundAgain(t *testing.T) {
	client := serving(true, "v1")
	finder := finderOf(client)
	expectFound(t, finder, 1, "v1/slurmruntimes namespace")
	client.Resources = served(true)
	finder.expire(slurmKind)
	expectFound(t, finder, 2, "none") // not asked for: it is too soon
	expectAsks(t, client, 1)
	expectFound(t, finder, 20, "none")
	expectAsks(t, client, 2)
	client.Resources = served(true, "v2")
	expectFound(t, finder, 100, "v2/slurmruntimes namespace")
}

func TestAKindThatIsGoneLeavesTheOthersAsTheyAre(t *testing.T) {
	client := serving(true, "v1")
	missing := schema.GroupKind{Group: "ray.io", Kind: "RayCluster"}
	gone := schema.GroupKind{Group: slurmKind.Group, Kind: "SlurmPool"}
	client.Resources[1].APIResources = append(client.Resources[1].APIResources, metav1.APIResource{Name: "slurmpools", Kind: gone.Kind})
	finder := finderOf(client)
	look := func(kind schema.GroupKind, second int, found bool) {
		t.Helper()
		if mapping, err := finder.find(t.Context(), kind, builders.At(second)); err != nil || (mapping != nil) != found {
			t.Errorf("at second %d kind %s is %v, %v, want it found: %v", second, kind, mapping, err, found)
		}
	}
	for _, second := range []int{0, 10, 30, 70} { // by now it is asked for once a minute
		look(missing, second, false)
	}
	client.Resources = served(true, "v1")
	finder.expire(gone)
	for second := 71; second < 130; second++ {
		expectFound(t, finder, second, "v1/slurmruntimes namespace")
		look(gone, second, false)
		look(missing, second, false)
	}
	expectAsks(t, client, 4)
}

func TestDiscoveryThatFailsIsNotRepeatedByEveryJob(t *testing.T) {
	client := serving(true, "v1")
	failure := apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no discovery"))
	fail := true
	client.PrependReactor("get", "group", func(clienttesting.Action) (bool, runtime.Object, error) {
		if fail {
			return true, nil, failure
		}
		return false, nil, nil
	})
	finder := finderOf(client)
	for second := 1; second < 8; second++ {
		_, err := finder.find(t.Context(), slurmKind, builders.At(second))
		if !errors.Is(err, failure) {
			t.Errorf("error %v, want the refusal", err)
		}
	}
	expectAsks(t, client, 1)
	fail = false
	expectFound(t, finder, 20, "v1/slurmruntimes namespace")
	fail = true
	expectFound(t, finder, 20+int(discoveryLifetime/time.Second), "v1/slurmruntimes namespace") // old is better than nothing
	expectAsks(t, client, 3)
}

func TestAClockThatWasSetBackDoesNotStopAsking(t *testing.T) {
	client := serving(true)
	finder := finderOf(client)
	expectFound(t, finder, 5000, "none")
	client.Resources = served(true, "v1")
	expectFound(t, finder, 10, "v1/slurmruntimes namespace")
}

// silent is an API server that does not answer before the client gives up.
type silent struct {
	*fakediscovery.FakeDiscovery
}

func (silent) ServerGroupsAndResourcesWithContext(ctx context.Context) ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	<-ctx.Done()
	return nil, nil, ctx.Err()
}

func TestAnAPIServerThatDoesNotAnswerHoldsNobodyUpForLong(t *testing.T) {
	f := newKindFinder(silent{serving(true, "v1")}, sets.New(slurmKind))
	if f.timeout != askTimeout {
		t.Errorf("the timeout is %v, want %v", f.timeout, askTimeout)
	}
	f.timeout = time.Millisecond
	if _, err := f.find(t.Context(), slurmKind, builders.At(0)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want that the time has passed", err)
	}
	if _, err := f.find(t.Context(), slurmKind, builders.At(1)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a second later got %v, want the same without asking again", err)
	}
}
