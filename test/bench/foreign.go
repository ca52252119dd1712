package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/trainjob/controller/test/builders"
	"github.com/trainjob/controller/test/harness"
)

// foreign measures what other people's objects cost a controller.
func (b *bench) foreign(ctx context.Context) error {
	n := b.options.foreign
	return b.each(ctx, nil, func(ctx context.Context, a *arena, c command) error {
		b.say("%s among %d TrainJobs while other objects change", c.name, n)
		namespace, templates, err := a.templates(ctx, c)
		if err != nil {
			return fmt.Errorf("make templates: %w", err)
		}
		if err := a.copies(ctx, templates, len(templates), max(n-len(templates), 0)); err != nil {
			return err
		}
		if err := a.complete(ctx, namespace, max(n, len(templates))); err != nil {
			return err
		}
		s, err := a.begin(ctx, c)
		if err != nil {
			return err
		}
		return a.with(s, func() error { return a.besides(ctx, a.bench.results.page("foreign", c.name, n), s) })
	})
}

// strangers is how many objects of each kind there are.
const strangers = 50

// besides changes unrelated objects and watches the controller.
func (a *arena) besides(ctx context.Context, page *page, s *subject) error {
	calls, err := a.callsOf(ctx, s.user())
	if err != nil {
		return err
	}
	if err := calls.silent(ctx); err != nil {
		return err
	}
	namespace, err := a.namespace(ctx)
	if err != nil {
		return err
	}
	if err := a.each(ctx, strangers, func(ctx context.Context, i int) error { return a.stranger(ctx, namespace, i) }); err != nil {
		return err
	}
	rss, err := s.process.memory("VmRSS")
	if err != nil {
		return err
	}
	page.add("resident memory before", "MB", rss/1e6)
	calls.all = nil
	before, err := s.process.cpu()
	if err != nil {
		return err
	}
	begin, changes := time.Now(), 0
	err = paced(ctx, a.bench.options.foreignRate, a.bench.options.foreignFor, never, func(ctx context.Context, i int) error {
		return a.change(ctx, namespace, i)
	}, &changes)
	if err != nil {
		return err
	}
	took := time.Since(begin)
	after, err := s.process.cpu()
	if err != nil {
		return err
	}
	page.add("changes", "1/s", float64(changes)/took.Seconds())
	page.add("CPU", "% of a core", 100*(after-before).Seconds()/took.Seconds())
	if rss, err = s.process.memory("VmRSS"); err != nil {
		return err
	}
	page.add("resident memory after", "MB", rss/1e6)
	if _, err := calls.settle(ctx); err != nil {
		return err
	}
	page.add("calls but the Lease's", "", float64(len(calls.all)-harness.Summary(calls.all)["get leases"]-harness.Summary(calls.all)["update leases"]))
	return a.newJob(ctx, page, "one new job afterwards, create to JobSet")
}

// name of a stranger.
func strangerName(i int) string { return fmt.Sprintf("stranger-%d", i) }

// stranger creates an object of each kind that belongs to somebody else.
func (a *arena) stranger(ctx context.Context, namespace string, i int) error {
	name := strangerName(i)
	meta := metav1.ObjectMeta{Name: name, Namespace: namespace}
	_, errConfig := a.core.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{
		ObjectMeta: meta, Data: map[string]string{"config": strings.Repeat("x", 8<<10)},
	}, metav1.CreateOptions{})
	_, errSecret := a.core.CoreV1().Secrets(namespace).Create(ctx, &corev1.Secret{
		ObjectMeta: meta, Data: map[string][]byte{"secret": []byte(strings.Repeat("x", 8<<10))},
	}, metav1.CreateOptions{})
	_, errPod := a.core.CoreV1().Pods(namespace).Create(ctx, &corev1.Pod{
		ObjectMeta: meta, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "stranger"}}, AutomountServiceAccountToken: ptr.To(false)},
	}, metav1.CreateOptions{})
	_, errJobSet := a.jobSet.JobsetV1alpha2().JobSets(namespace).Create(ctx, &jobset.JobSet{
		ObjectMeta: meta, Spec: jobset.JobSetSpec{ReplicatedJobs: []jobset.ReplicatedJob{builders.ReplicatedJob("main", "", "main")}},
	}, metav1.CreateOptions{})
	return errors.Join(errConfig, errSecret, errPod, errJobSet)
}

// change changes one of the strangers, each kind in turn.
func (a *arena) change(ctx context.Context, namespace string, i int) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"changed":"%d"}}}`, i)
	name := strangerName(i / 4 % strangers)
	var err error
	switch i % 4 {
	case 0:
		_, err = a.core.CoreV1().ConfigMaps(namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	case 1:
		_, err = a.core.CoreV1().Secrets(namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	case 2:
		_, err = a.core.CoreV1().Pods(namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	case 3:
		_, err = a.jobSet.JobsetV1alpha2().JobSets(namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	}
	return err
}
