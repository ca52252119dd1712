package preflight

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// LabelQuarantined is on a node that a check has found at fault. Its value is the second,
// since 1970, at which it goes again. Runtimes that keep off such nodes say so in their
// affinity.
const LabelQuarantined = "preflight.trainer.kubeflow.org/quarantined"

// mostQuarantined bounds what reports can do: they are written by users' pods.
const mostQuarantined = 20

// often is how often marks are looked at whose time may be over.
const often = time.Minute

// quarantine marks nodes and takes the marks off. It remembers nothing: the marks say it all.
type quarantine struct {
	nodes  corev1client.NodeInterface
	clock  clock.WithTicker
	period time.Duration
}

// mark puts the label on a report's node, for the period from the time of the report on,
// so that the same report marks it once.
func (q *quarantine) mark(ctx context.Context, r ranked) error {
	until := r.finished.Add(q.period)
	if !until.After(q.clock.Now()) {
		return nil
	}
	marked, err := q.nodes.List(ctx, metav1.ListOptions{LabelSelector: LabelQuarantined})
	if err != nil {
		return fmt.Errorf("list quarantined nodes: %w", err)
	}
	for i := range marked.Items {
		if node := &marked.Items[i]; node.Name == r.node && !expiry(node.Labels[LabelQuarantined]).Before(until.Truncate(time.Second)) {
			return nil
		}
	}
	logger := klog.FromContext(ctx).WithValues("node", r.node)
	if len(marked.Items) >= mostQuarantined {
		logger.Info("Not quarantined: too many nodes are", "limit", mostQuarantined)
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]string{LabelQuarantined: strconv.FormatInt(until.Unix(), 10)}}})
	if err != nil {
		return err
	}
	_, err = q.nodes.Patch(ctx, r.node, types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		return nil // the node is gone
	}
	if err != nil {
		return fmt.Errorf("quarantine node %s: %w", r.node, err)
	}
	logger.Info("Quarantined", "until", until, "reason", r.reason)
	return nil
}

// expiry of a mark; one that nobody can read has expired.
func expiry(value string) time.Time {
	seconds, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.Unix(seconds, 0)
}

// release takes off marks whose time is over, until ctx ends.
func (q *quarantine) release(ctx context.Context) {
	ticker := q.clock.NewTicker(often)
	defer ticker.Stop()
	for {
		if err := q.sweep(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Cannot look after quarantined nodes, retrying")
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
	}
}

func (q *quarantine) sweep(ctx context.Context) error {
	marked, err := q.nodes.List(ctx, metav1.ListOptions{LabelSelector: LabelQuarantined})
	if err != nil {
		return err
	}
	for i := range marked.Items {
		node := &marked.Items[i]
		value := node.Labels[LabelQuarantined]
		if expiry(value).After(q.clock.Now()) {
			continue
		}
		// Only this mark: a later one stays.
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": node.ResourceVersion, "labels": map[string]any{LabelQuarantined: nil}}})
		if err != nil {
			return err
		}
		if _, err := q.nodes.Patch(ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return err
		}
		klog.FromContext(ctx).Info("Quarantine is over", "node", node.Name)
	}
	return nil
}
