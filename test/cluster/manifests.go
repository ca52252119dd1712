package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"
)

// fieldManager owns what this package applies.
const fieldManager = "trainjob-cluster"

var crdResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// InstallCRDs applies the CRDs found in a folder (not in its subfolders) or
// file, skips everything else, and returns when the API server serves them. It
// is an error if there are none.
//
// On a cluster whose kube-controller-manager already runs, its garbage
// collector takes up to 30 seconds to notice; Options.CRDDirs is faster.
func (c *Cluster) InstallCRDs(ctx context.Context, path string) error {
	objects, err := readManifests(path)
	if err != nil {
		return err
	}
	objects = slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() != "CustomResourceDefinition" })
	if len(objects) == 0 {
		return fmt.Errorf("no CRD in %s: generate the manifests first", path)
	}
	return c.installCRDs(ctx, objects)
}

// installCRDs applies CRDs and returns when the API server serves them.
func (c *Cluster) installCRDs(ctx context.Context, objects []*unstructured.Unstructured) error {
	client, err := dynamic.NewForConfig(c.RESTConfig())
	if err != nil {
		return err
	}
	for _, crd := range objects {
		if err := apply(ctx, client.Resource(crdResource), crd); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("not served after a minute"))
	defer cancel()
	for _, crd := range objects {
		if err := c.awaitServed(ctx, client, crd); err != nil {
			return fmt.Errorf("wait for CRD %s: %w", crd.GetName(), err)
		}
	}
	return nil
}

// awaitServed waits until a CRD is established and its kind can be discovered:
// the one comes a moment after the other, and clients need both.
func (c *Cluster) awaitServed(ctx context.Context, client dynamic.Interface, crd *unstructured.Unstructured) error {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	disco, err := discovery.NewDiscoveryClientForConfig(c.RESTConfig())
	if err != nil {
		return err
	}
	return poll(ctx, 50*time.Millisecond, func(ctx context.Context) (bool, error) {
		live, err := client.Resource(crdResource).Get(ctx, crd.GetName(), metav1.GetOptions{})
		if err != nil || !established(live) {
			return false, err
		}
		for _, version := range versions {
			v, _ := version.(map[string]any)
			if served, _ := v["served"].(bool); !served {
				continue
			}
			list, err := disco.ServerResourcesForGroupVersion(fmt.Sprintf("%s/%s", group, v["name"]))
			if apierrors.IsNotFound(err) {
				return false, nil
			}
			if err != nil {
				return false, err
			}
			if !slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == plural }) {
				return false, nil
			}
		}
		return true, nil
	})
}

func established(crd *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(entry any) bool {
		condition, _ := entry.(map[string]any)
		return condition["type"] == "Established" && condition["status"] == "True"
	})
}

// Apply applies every object of a folder (not of its subfolders) or file, in
// the order of file names, by server-side apply with force. It neither runs
// kustomize nor waits for what the objects may start.
func (c *Cluster) Apply(ctx context.Context, path string) error {
	objects, err := readManifests(path)
	if err != nil {
		return err
	}
	disco, err := discovery.NewDiscoveryClientForConfig(c.RESTConfig())
	if err != nil {
		return err
	}
	groups, err := restmapper.GetAPIGroupResources(disco)
	if err != nil {
		return fmt.Errorf("discover the API: %w", err)
	}
	mapper := restmapper.NewDiscoveryRESTMapper(groups)
	client, err := dynamic.NewForConfig(c.RESTConfig())
	if err != nil {
		return err
	}
	for _, object := range objects {
		kind := object.GroupVersionKind()
		mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			return fmt.Errorf("apply %s %s: %w", object.GetKind(), object.GetName(), err)
		}
		var resource dynamic.ResourceInterface = client.Resource(mapping.Resource)
		if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
			namespace := object.GetNamespace()
			if namespace == "" {
				namespace = metav1.NamespaceDefault
			}
			resource = client.Resource(mapping.Resource).Namespace(namespace)
		}
		if err := apply(ctx, resource, object); err != nil {
			return err
		}
	}
	return nil
}

func apply(ctx context.Context, resource dynamic.ResourceInterface, object *unstructured.Unstructured) error {
	_, err := resource.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	if err != nil {
		return fmt.Errorf("apply %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}

// readManifests decodes the YAML documents of a file or of a folder's files.
// Kustomize's own files are instructions, not objects, and are left out.
func readManifests(path string) ([]*unstructured.Unstructured, error) {
	files, err := manifestFiles(path)
	if err != nil {
		return nil, fmt.Errorf("read manifests: %w", err)
	}
	var objects []*unstructured.Unstructured
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read manifests: %w", err)
		}
		decoded, err := decodeManifests(data)
		if err != nil {
			return nil, fmt.Errorf("decode %s: %w", file, err)
		}
		objects = append(objects, decoded...)
	}
	return objects, nil
}

// manifestFiles is the file itself, or the YAML files of a folder.
func manifestFiles(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return []string{path}, err
	}
	return filepath.Glob(filepath.Join(path, "*.yaml"))
}

func decodeManifests(data []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	documents := utilyaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(data)))
	defer documents.Close()
	for {
		// The decoder fails on a document that is longer than the buffer.
		buffer := make([]byte, len(data)+1)
		n, err := documents.Read(buffer)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(buffer[:n], &object.Object); err != nil {
			return nil, err
		}
		if len(object.Object) > 0 && object.GroupVersionKind().Group != "kustomize.config.k8s.io" {
			objects = append(objects, object)
		}
	}
}
