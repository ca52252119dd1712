package cluster

import (
	"context"
	_ "embed"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Annotations that a pod may carry to change what its simulated node does.
const (
	// HoldAnnotation keeps a pod where it is as long as the annotation is there:
	// HoldPending before it starts, HoldRunning before it ends by itself,
	// HoldTerminating when it is deleted.
	HoldAnnotation = "trainjob.test/hold"
	// RunForAnnotation is how long the pod of a Job runs, as a Go duration such
	// as "30s"; one second without it.
	RunForAnnotation = "trainjob.test/run-for"
	// ExitCodeAnnotation is what the containers of a Job's pod end with; any
	// other than "0" makes the pod fail, whatever its restart policy.
	ExitCodeAnnotation = "trainjob.test/exit-code"
	// InitExitCodeAnnotation is the same for init containers: other than "0",
	// the pod fails before its containers start.
	InitExitCodeAnnotation = "trainjob.test/init-exit-code"
	// FailingAttemptsAnnotation limits both exit codes to the first so many
	// attempts of a JobSet: with "1" the pod fails once and succeeds after the
	// JobSet's restart.
	FailingAttemptsAnnotation = "trainjob.test/failing-attempts"
)

// Values of HoldAnnotation.
const (
	HoldPending     = "pending"
	HoldRunning     = "running"
	HoldTerminating = "terminating"
)

const (
	kwokNodeAnnotation = "kwok.x-k8s.io/node"
	stagesFile         = "stages.yaml"
)

// nodeNames are the simulated nodes.
var nodeNames = []string{"node-0", "node-1"}

//go:embed stages.yaml
var stages []byte

// prepareNodes gives kwok its stages and frees the nodes of a kwok that was
// killed: a new one would wait until the leases of the old one expire.
func prepareNodes(ctx context.Context, c *Cluster) error {
	if err := writeFile(c.path(stagesFile), stages, 0o644); err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(c.RESTConfig())
	if err != nil {
		return err
	}
	for _, name := range nodeNames {
		err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Delete(ctx, name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("free node %s: %w", name, err)
		}
	}
	return nil
}

// createNodes adds the nodes, with room for large jobs; kwok makes them ready.
func (c *Cluster) createNodes(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.RESTConfig())
	if err != nil {
		return err
	}
	size := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("256"),
		corev1.ResourceMemory: resource.MustParse("1Ti"),
		corev1.ResourcePods:   resource.MustParse("5000"),
		"nvidia.com/gpu":      resource.MustParse("64"),
	}
	for _, name := range nodeNames {
		_, err := client.CoreV1().Nodes().Create(ctx, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{
				Name:        name,
				Annotations: map[string]string{kwokNodeAnnotation: "fake"},
				Labels:      map[string]string{corev1.LabelHostname: name, corev1.LabelOSStable: "linux"},
			},
			Status: corev1.NodeStatus{Capacity: size, Allocatable: size},
		}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create node %s: %w", name, err)
		}
	}
	return nil
}

// nodesReady fails until kwok plays every node and pods can be placed on them.
// The taint that a new node starts with is taken away by
// kube-controller-manager.
func nodesReady(ctx context.Context, c *Cluster) error {
	client, err := kubernetes.NewForConfig(c.RESTConfig())
	if err != nil {
		return err
	}
	for _, name := range nodeNames {
		// There was none at kwok's start, see prepareNodes.
		if _, err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
		node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		ready := slices.ContainsFunc(node.Status.Conditions, func(condition corev1.NodeCondition) bool {
			return condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue
		})
		if !ready {
			return fmt.Errorf("node %s is not ready", name)
		}
		if c.opts.ControllerManager && len(node.Spec.Taints) > 0 {
			return fmt.Errorf("node %s has the taint %s", name, node.Spec.Taints[0].Key)
		}
	}
	return nil
}
