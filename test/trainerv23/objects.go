package trainerv23

import (
	"context"
	"embed"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

//go:embed testdata/*.yaml
var files embed.FS

// The jobs that are there. All but Finished and the MPI ones are of the
// ClusterTrainingRuntime "torch", whose training pods run until they are let go.
const (
	// Running has two pods.
	Running = "running"
	// Queued was created suspended, with a patch of Kueue's, and has never run.
	Queued = "queued"
	// Paused was suspended while it ran.
	Paused = "paused"
	// Finished is Complete.
	Finished = "finished"
	// MPIRunning and MPIQueued are OpenMPI jobs.
	MPIRunning = "mpi-running"
	MPIQueued  = "mpi-queued"
)

// resources in the order in which they are created: owners first.
var resources = map[string]schema.GroupVersionResource{
	"ClusterTrainingRuntime": {Group: "trainer.kubeflow.org", Version: "v1alpha1", Resource: "clustertrainingruntimes"},
	"TrainingRuntime":        {Group: "trainer.kubeflow.org", Version: "v1alpha1", Resource: "trainingruntimes"},
	"TrainJob":               {Group: "trainer.kubeflow.org", Version: "v1alpha1", Resource: "trainjobs"},
	"JobSet":                 {Group: "jobset.x-k8s.io", Version: "v1alpha2", Resource: "jobsets"},
	"ConfigMap":              {Version: "v1", Resource: "configmaps"},
	"Secret":                 {Version: "v1", Resource: "secrets"},
}

// Options says which of a job's objects are created.
type Options struct {
	// Name of the job, if it is to differ from the recorded one.
	Name string
	// Without leaves out objects of these kinds: releases before v2.3 left no ConfigMap.
	Without []string
	// JobSetStatus writes the recorded status of the JobSet too, where no JobSet
	// controller does.
	JobSetStatus bool
	// Change is applied to each object before it is created.
	Change func(*unstructured.Unstructured)
}

// CreateRuntimes creates the runtimes of all jobs. That of the cluster may exist already.
func CreateRuntimes(ctx context.Context, client dynamic.Interface, namespace string) error {
	objects, err := load("runtimes")
	if err != nil {
		return err
	}
	for _, object := range objects {
		if object.GetKind() == "TrainingRuntime" {
			object.SetNamespace(namespace)
		}
		_, err := resourceOf(client, object).Create(ctx, object, metav1.CreateOptions{})
		if err != nil && !(apierrors.IsAlreadyExists(err) && object.GetNamespace() == "") {
			return fmt.Errorf("create %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

// Create creates a job with its status and everything that it owns, in a namespace.
func Create(ctx context.Context, client dynamic.Interface, namespace, job string, options Options) error {
	objects, err := load(job)
	if err != nil {
		return err
	}
	var uid types.UID
	for _, object := range objects {
		if leftOut(object, options.Without) {
			continue
		}
		object.SetNamespace(namespace)
		if options.Name != "" {
			rename(object, job, options.Name)
		}
		if owners := object.GetOwnerReferences(); len(owners) > 0 {
			owners[0].UID = uid
			object.SetOwnerReferences(owners)
		}
		if options.Change != nil {
			options.Change(object)
		}
		created, err := create(ctx, client, object, object.GetKind() == "TrainJob" || options.JobSetStatus)
		if err != nil {
			return err
		}
		if object.GetKind() == "TrainJob" {
			uid = created.GetUID()
		}
	}
	return nil
}

// create creates an object, and writes its status if it has one and that is wanted.
func create(ctx context.Context, client dynamic.Interface, object *unstructured.Unstructured, withStatus bool) (*unstructured.Unstructured, error) {
	status, found := object.Object["status"]
	delete(object.Object, "status")
	created, err := resourceOf(client, object).Create(ctx, object, metav1.CreateOptions{FieldManager: "trainer"})
	if err != nil {
		return nil, fmt.Errorf("create %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	if !found || !withStatus {
		return created, nil
	}
	created.Object["status"] = status
	if created, err = resourceOf(client, object).UpdateStatus(ctx, created, metav1.UpdateOptions{}); err != nil {
		return nil, fmt.Errorf("write the status of %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return created, nil
}

func resourceOf(client dynamic.Interface, object *unstructured.Unstructured) dynamic.ResourceInterface {
	resource := client.Resource(resources[object.GetKind()])
	if object.GetNamespace() == "" {
		return resource
	}
	return resource.Namespace(object.GetNamespace())
}

func leftOut(object *unstructured.Unstructured, kinds []string) bool {
	for _, kind := range kinds {
		if object.GetKind() == kind {
			return true
		}
	}
	return false
}

// rename gives an object and its owner reference the name of another job.
func rename(object *unstructured.Unstructured, from, to string) {
	object.SetName(to + object.GetName()[len(from):])
	owners := object.GetOwnerReferences()
	for i := range owners {
		owners[i].Name = to
	}
	object.SetOwnerReferences(owners)
}

// load reads a file of testdata, a YAML list.
func load(name string) ([]*unstructured.Unstructured, error) {
	data, err := files.ReadFile("testdata/" + name + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("no objects of %q: %w", name, err)
	}
	var items []map[string]any
	if err := yaml.Unmarshal(data, &items); err != nil {
		return nil, fmt.Errorf("testdata/%s.yaml: %w", name, err)
	}
	var objects []*unstructured.Unstructured
	for _, item := range items {
		object := &unstructured.Unstructured{Object: item}
		if _, known := resources[object.GetKind()]; !known {
			return nil, fmt.Errorf("testdata/%s.yaml: unknown kind %q", name, object.GetKind())
		}
		objects = append(objects, object)
	}
	return objects, nil
}
