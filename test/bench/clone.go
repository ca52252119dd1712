package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/runtimesnapshot"
)

// template is a TrainJob with its children, as the API server stores them, from which
// others are copied. It was made through the API, by the controller that is measured.
type template struct {
	name    string
	uids    []string
	objects map[string]string // key in etcd: JSON
}

// templateOf reads a job and its children. The JobSet of one that was never started does
// not exist.
func (a *arena) templateOf(ctx context.Context, job *trainer.TrainJob) (*template, error) {
	t := &template{name: job.Name, objects: map[string]string{}}
	for _, o := range []struct{ api, stored, resource, name string }{
		{"/apis/trainer.kubeflow.org/v1alpha1", "/registry/trainer.kubeflow.org", "trainjobs", job.Name},
		{"/apis/jobset.x-k8s.io/v1alpha2", "/registry/jobset.x-k8s.io", "jobsets", job.Name},
		{"/api/v1", "/registry", "configmaps", runtimesnapshot.Name(job.Name)},
	} {
		list := o.api + "/namespaces/" + job.Namespace + "/" + o.resource
		raw, err := a.core.CoreV1().RESTClient().Get().AbsPath(list).SetHeader("Accept", "application/json").
			Param("fieldSelector", "metadata.name="+o.name).DoRaw(ctx)
		if err != nil {
			return nil, fmt.Errorf("read %s %s: %w", o.resource, o.name, err)
		}
		var found struct {
			APIVersion string           `json:"apiVersion"`
			Kind       string           `json:"kind"`
			Items      []map[string]any `json:"items"`
		}
		if err := json.Unmarshal(raw, &found); err != nil {
			return nil, err
		}
		for _, object := range found.Items {
			// The items of a list of a built-in kind do not say what they are.
			object["apiVersion"], object["kind"] = found.APIVersion, strings.TrimSuffix(found.Kind, "List")
			stored, err := json.Marshal(object)
			if err != nil {
				return nil, err
			}
			t.uids = append(t.uids, object["metadata"].(map[string]any)["uid"].(string))
			t.objects[o.stored+"/"+o.resource+"/"+job.Namespace+"/"+o.name] = string(stored)
		}
	}
	return t, nil
}

// copies writes n copies into etcd, numbered on from `from`, in turn of each template.
// The API server takes some hundred writes a second, and would need minutes; what it
// then shows of these objects is no different. Each job is a transaction of its own: a
// watch cannot tell two objects of a kind apart that have the same revision.
func (a *arena) copies(ctx context.Context, templates []*template, from, n int) error {
	return a.each(ctx, n, func(ctx context.Context, i int) error {
		t := templates[(from+i)%len(templates)]
		replace := []string{t.name, fmt.Sprintf("%s-%06d", t.name, from+i)}
		for _, uid := range t.uids {
			replace = append(replace, uid, string(uuid.NewUUID()))
		}
		renamed := strings.NewReplacer(replace...)
		var puts []put
		for key, object := range t.objects {
			puts = append(puts, put{Key: []byte(renamed.Replace(key)), Value: []byte(renamed.Replace(object))})
		}
		return a.store(ctx, puts)
	})
}

// put is one write to etcd, as its JSON gateway takes it.
type put struct {
	Key   []byte `json:"key"`
	Value []byte `json:"value"`
}

func (a *arena) store(ctx context.Context, puts []put) error {
	type operation struct {
		RequestPut put `json:"requestPut"`
	}
	var txn struct {
		Success []operation `json:"success"`
	}
	for _, p := range puts {
		txn.Success = append(txn.Success, operation{p})
	}
	body, err := json.Marshal(txn)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, a.cluster.EtcdURL()+"/v3/kv/txn", bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && (response.StatusCode != http.StatusOK || !bytes.Contains(answer, []byte(`"succeeded":true`))) {
		err = fmt.Errorf("etcd: %s: %s", response.Status, answer)
	}
	return err
}

// genuine checks a copy: the API server must find nothing wrong with it when it is
// written back as it is, and nothing to change.
func (a *arena) genuine(ctx context.Context, namespace, name string) error {
	client := a.trainer.TrainerV1alpha1().TrainJobs(namespace)
	job, err := client.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	before, err := json.Marshal(job)
	if err != nil {
		return err
	}
	for _, write := range []func() (*trainer.TrainJob, error){
		func() (*trainer.TrainJob, error) {
			return client.Update(ctx, job, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
		},
		func() (*trainer.TrainJob, error) {
			return client.UpdateStatus(ctx, job, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
		},
	} {
		written, err := write()
		if err != nil {
			return fmt.Errorf("the API server refuses copy %s: %w", name, err)
		}
		written.ManagedFields = job.ManagedFields // who wrote last is all that may differ
		after, err := json.Marshal(written)
		if err != nil {
			return err
		}
		if !bytes.Equal(before, after) {
			return fmt.Errorf("copy %s is not what the API server would store:\n%s\n%s", name, before, after)
		}
	}
	return nil
}
