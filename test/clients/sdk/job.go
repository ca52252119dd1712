package sdk

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The statuses of a job that the SDK knows.
const (
	Created  = "Created"
	Running  = "Running"
	Complete = "Complete"
	Failed   = "Failed"
)

// The labels by which the SDK finds the pods of a job.
const (
	jobSetLabel        = "jobset.sigs.k8s.io/jobset-name"
	replicatedJobLabel = "jobset.sigs.k8s.io/replicatedjob-name"
	indexLabel         = "batch.kubernetes.io/job-completion-index"
)

// Job is what the SDK tells of a TrainJob.
type Job struct {
	Name, Status string
	Runtime      Runtime
	NumNodes     int32
	Steps        []Step
}

// Step is one pod of a job: node-0, node-1, …, or an initializer.
type Step struct {
	Name, Status, Pod   string
	Device, DeviceCount string
}

// GetJob asks for the job, its runtime and its pods.
func (c *Client) GetJob(ctx context.Context, name string) (Job, error) {
	var model trainJobModel
	if err := c.get(ctx, c.namespaced("trainjobs", name), nil, &model); err != nil {
		return Job{}, err
	}
	return c.readJob(ctx, model)
}

// ListJobs are the jobs of the namespace, only those of one runtime unless that is "". One
// that cannot be read fails the whole call.
func (c *Client) ListJobs(ctx context.Context, runtime string) ([]Job, error) {
	var found list[trainJobModel]
	if err := c.get(ctx, c.namespaced("trainjobs", ""), nil, &found); err != nil {
		return nil, err
	}
	var jobs []Job
	for _, model := range found.Items {
		if runtime != "" && model.Spec != nil && model.Spec.RuntimeRef.Name != runtime {
			continue
		}
		job, err := c.readJob(ctx, model)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, job)
	}
	return jobs, nil
}

func (c *Client) readJob(ctx context.Context, model trainJobModel) (Job, error) {
	meta := model.Metadata
	if meta.Name == "" || meta.Namespace == "" || meta.CreationTimestamp.IsZero() || model.Spec == nil {
		return Job{}, fmt.Errorf("job %q: the SDK wants a name, a namespace, a time of creation and a spec", meta.Name)
	}
	runtime, err := c.GetRuntime(ctx, model.Spec.RuntimeRef.Name)
	if err != nil {
		return Job{}, fmt.Errorf("job %q: %w", meta.Name, err)
	}
	job := Job{Name: meta.Name, Runtime: runtime, NumNodes: runtime.NumNodes}
	if trainer := model.Spec.Trainer; trainer != nil && trainer.NumNodes != nil && *trainer.NumNodes > 0 {
		job.NumNodes = *trainer.NumNodes
	}
	if job.Steps, err = c.steps(ctx, meta.Name, runtime); err != nil {
		return Job{}, fmt.Errorf("job %q: %w", meta.Name, err)
	}
	var conditions []metav1.Condition
	if model.Status != nil {
		conditions = model.Status.Conditions
	}
	job.Status = status(conditions, job.Steps, job.NumNodes)
	return job, nil
}

// steps are the pods of a job whose replicated jobs have the names that the SDK knows.
func (c *Client) steps(ctx context.Context, job string, runtime Runtime) ([]Step, error) {
	selector := fmt.Sprintf("%s=%s,%s in (%s)", jobSetLabel, job, replicatedJobLabel,
		strings.Join([]string{datasetInitializer, modelInitializer, launcher, node}, ", "))
	var pods list[corev1.Pod]
	if err := c.get(ctx, "/api/v1/namespaces/"+c.namespace+"/pods", url.Values{"labelSelector": {selector}}, &pods); err != nil {
		return nil, err
	}
	var steps []Step
	for _, pod := range pods.Items {
		step, err := readStep(pod, runtime)
		if err != nil {
			return nil, fmt.Errorf("pod %q: %w", pod.Name, err)
		}
		steps = append(steps, step)
	}
	return steps, nil
}

func readStep(pod corev1.Pod, runtime Runtime) (Step, error) {
	step := Step{Status: string(pod.Status.Phase), Pod: pod.Name}
	wanted := []string{node}
	rjob := pod.Labels[replicatedJobLabel]
	if rjob == datasetInitializer || rjob == modelInitializer {
		wanted = []string{datasetInitializer, modelInitializer}
	}
	i := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return slices.Contains(wanted, c.Name) })
	if i < 0 {
		return Step{}, fmt.Errorf("the SDK finds no container %v", wanted)
	}
	container := pod.Spec.Containers[i]
	step.Name = container.Name
	var err error
	if step.Device, step.DeviceCount, err = devices(container.Resources); err != nil {
		return Step{}, err
	}
	if container.Name != node {
		return step, nil
	}
	index, err := strconv.Atoi(pod.Labels[indexLabel])
	if err != nil {
		return Step{}, fmt.Errorf("the SDK wants a number in the label %s: %w", indexLabel, err)
	}
	// Under mpirun the launcher is the first node.
	if runtime.Entrypoint == "mpirun" && rjob != launcher {
		index++
	}
	step.Name = fmt.Sprintf("%s-%d", node, index)
	for _, variable := range container.Env {
		if _, err := strconv.ParseUint(variable.Value, 10, 32); variable.Name == "PET_NPROC_PER_NODE" && err == nil {
			step.DeviceCount = variable.Value
		}
	}
	return step, nil
}

// status goes by the conditions if there is any, and by the pods if there is none.
func status(conditions []metav1.Condition, steps []Step, numNodes int32) string {
	status := Created
	for _, condition := range conditions {
		if condition.Status == metav1.ConditionTrue && (condition.Type == Complete || condition.Type == Failed) {
			status = condition.Type
		}
	}
	if len(conditions) > 0 {
		return status
	}
	var nodes int32
	for _, step := range steps {
		if strings.HasPrefix(step.Name, node) && (step.Status == string(corev1.PodRunning) || step.Status == string(corev1.PodSucceeded)) {
			nodes++
		}
	}
	if nodes == numNodes {
		return Running
	}
	return status
}

// ErrFailed is what WaitForJobStatus raises for a job that has failed although that was
// not waited for.
var ErrFailed = errors.New("the job has failed")

// WaitForJobStatus polls until the job has one of the statuses, as the SDK does but more
// often, and returns what it saw last.
func (c *Client) WaitForJobStatus(ctx context.Context, name string, timeout time.Duration, statuses ...string) (Job, error) {
	for deadline := time.Now().Add(timeout); ; {
		job, err := c.GetJob(ctx, name)
		switch {
		case err != nil:
			return Job{}, err
		case slices.Contains(statuses, job.Status):
			return job, nil
		case job.Status == Failed:
			return job, fmt.Errorf("job %q: %w", name, ErrFailed)
		case time.Now().After(deadline):
			return job, fmt.Errorf("job %q is %s after %v, want %v; its steps are %+v", name, job.Status, timeout, statuses, job.Steps)
		}
		select {
		case <-ctx.Done():
			return job, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// stepNumber is what a step's name has more than its container's.
var stepNumber = regexp.MustCompile(`-\d+$`)

// LogOf is the pod and the container that GetJobLogs reads for a step: that of a step that
// is not pending. ok is false if the SDK would return nothing.
func (j Job) LogOf(step string) (pod, container string, ok bool) {
	for _, s := range j.Steps {
		if s.Name == step && s.Status != string(corev1.PodPending) {
			return s.Pod, stepNumber.ReplaceAllString(step, ""), true
		}
	}
	return "", "", false
}

// GetJobLogs reads the log of a step's container.
func (c *Client) GetJobLogs(ctx context.Context, name, step string) (string, error) {
	job, err := c.GetJob(ctx, name)
	if err != nil {
		return "", err
	}
	pod, container, ok := job.LogOf(step)
	if !ok {
		return "", nil
	}
	path := "/api/v1/namespaces/" + c.namespace + "/pods/" + pod + "/log?" + url.Values{"container": {container}}.Encode()
	log, err := c.send(ctx, http.MethodGet, path, nil)
	return string(log), err
}

// Event is what the SDK tells of an event.
type Event struct{ Kind, Name, Reason, Message string }

// GetJobEvents are the events of the job and its pods that have a time of their own.
func (c *Client) GetJobEvents(ctx context.Context, name string) ([]Event, error) {
	job, err := c.GetJob(ctx, name)
	if err != nil {
		return nil, err
	}
	names := []string{name}
	for _, step := range job.Steps {
		names = append(names, step.Name, step.Pod)
	}
	var found list[corev1.Event]
	if err := c.get(ctx, "/api/v1/namespaces/"+c.namespace+"/events", nil, &found); err != nil {
		return nil, err
	}
	var events []Event
	for _, event := range found.Items {
		object := event.InvolvedObject
		known := slices.Contains([]string{"TrainJob", "JobSet", "Job", "Pod"}, object.Kind)
		if known && slices.Contains(names, object.Name) && !event.FirstTimestamp.IsZero() {
			events = append(events, Event{Kind: object.Kind, Name: object.Name, Reason: event.Reason, Message: event.Message})
		}
	}
	return events, nil
}

// DeleteJob deletes a job.
func (c *Client) DeleteJob(ctx context.Context, name string) error {
	_, err := c.send(ctx, http.MethodDelete, c.namespaced("trainjobs", name), nil)
	return err
}
