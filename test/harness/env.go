package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	jobsetversioned "sigs.k8s.io/jobset/client-go/clientset/versioned"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/generated/clientset/versioned"
	"github.com/trainjob/controller/test/cluster"
)

// Env is a control plane with the project's CRDs, clients for it, and the controller.
type Env struct {
	Cluster *cluster.Cluster
	// Binary is the controller, built once.
	Binary string
	// Controller that runs, nil while a test has stopped it.
	Controller *Controller
	// Flags of the controller, besides those for the connection.
	Flags []string

	Config  *rest.Config
	Core    kubernetes.Interface
	Trainer versioned.Interface
	JobSet  jobsetversioned.Interface
	Dynamic dynamic.Interface

	dir string
}

// SourceDir is the root of the source tree.
func SourceDir() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..")
}

// Start brings up a control plane with the options given, the project's CRDs, an audit
// log, and the controller's ServiceAccount with its rights, enforced as strictly as any
// cluster does. It builds the controller without starting it.
func Start(ctx context.Context, options cluster.Options) (*Env, error) {
	options.CRDDirs = append(options.CRDDirs, filepath.Join(SourceDir(), "artifacts", "crds"))
	e, err := StartBare(ctx, options)
	if err != nil {
		return nil, err
	}
	if err := e.become(ctx); err != nil {
		return nil, errors.Join(err, e.Stop())
	}
	return e, nil
}

// StartBare is Start without anything of the project on the control plane.
func StartBare(ctx context.Context, options cluster.Options) (*Env, error) {
	options.SourceDir = SourceDir()
	options.AuditLog, options.EnforceOwnerReferences = true, true
	if options.Out == nil {
		options.Out = os.Stderr
	}
	dir, err := os.MkdirTemp("", "trainjob-test-")
	if err != nil {
		return nil, err
	}
	e := &Env{dir: dir}
	if e.Binary, err = Build(ctx, SourceDir(), dir, Race); err != nil {
		return nil, errors.Join(err, e.Stop())
	}
	if e.Cluster, err = cluster.Start(ctx, options); err != nil {
		return nil, errors.Join(err, e.Stop())
	}
	if err := e.connect(); err != nil {
		return nil, errors.Join(err, e.Stop())
	}
	return e, nil
}

// connect makes clients that are never the bottleneck of a test.
func (e *Env) connect() error {
	e.Config = e.Cluster.RESTConfig()
	e.Config.QPS, e.Config.Burst = -1, -1
	var errs [4]error
	e.Core, errs[0] = kubernetes.NewForConfig(e.Config)
	e.Trainer, errs[1] = versioned.NewForConfig(e.Config)
	e.JobSet, errs[2] = jobsetversioned.NewForConfig(e.Config)
	e.Dynamic, errs[3] = dynamic.NewForConfig(e.Config)
	return errors.Join(errs[:]...)
}

// StartController starts the controller, with more flags than Env.Flags if given.
func (e *Env) StartController(ctx context.Context, flags ...string) error {
	all := append(append([]string{}, e.Flags...), flags...)
	c, err := StartController(ctx, e.Binary, e.ControllerKubeconfig(), e.LogFile(), all...)
	if err != nil {
		return err
	}
	e.Controller = c
	return nil
}

// LogFile is the log of every controller this Env has started.
func (e *Env) LogFile() string { return filepath.Join(e.dir, "controller.log") }

// StopController stops the controller, and says if it did not end well.
func (e *Env) StopController() error {
	if e.Controller == nil {
		return nil
	}
	err := e.Controller.Stop()
	e.Controller = nil
	return err
}

// KillController ends the controller at whatever it is doing.
func (e *Env) KillController() error {
	err := e.Controller.Kill()
	e.Controller = nil
	return err
}

// Stop ends everything this Env has started and removes its files.
func (e *Env) Stop() error {
	err := e.StopController()
	if e.Cluster != nil {
		err = errors.Join(err, e.Cluster.Stop())
	}
	return errors.Join(err, os.RemoveAll(e.dir))
}

// Main is the TestMain of a package of integration tests: one control plane and one
// controller for all its tests, which keep apart by namespace.
func Main(m *testing.M, options cluster.Options, env *Env, flags ...string) int {
	return MainPrepared(m, options, env, func(ctx context.Context) error {
		env.Flags = flags
		return env.StartController(ctx)
	})
}

// MainPrepared is Main for a package that does more between the control plane's start and
// the tests; prepare starts the controller.
func MainPrepared(m *testing.M, options cluster.Options, env *Env, prepare func(context.Context) error) int {
	ctx := context.Background()
	// The controller's informers then check that nobody has written to a cached object.
	if err := os.Setenv("KUBE_CACHE_MUTATION_DETECTOR", "true"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return within(ctx, options, env, Start, func() int {
		if err := prepare(ctx); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		code := m.Run()
		if crashes, err := Crashes(env.LogFile()); err != nil || len(crashes) > 0 {
			fmt.Fprintf(os.Stderr, "the controller's log (%v):\n%s\n", err, strings.Join(crashes, "\n"))
			code = 1
		}
		if err := env.RecordRights(ctx); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		return code
	})
}

// MainWithoutController is Main for a package whose tests need a control plane alone, as
// Start or StartBare makes it.
func MainWithoutController(m *testing.M, options cluster.Options, env *Env, start starter) int {
	return within(context.Background(), options, env, start, m.Run)
}

type starter func(context.Context, cluster.Options) (*Env, error)

// within has the tests run while there is a control plane.
func within(ctx context.Context, options cluster.Options, env *Env, start starter, run func() int) int {
	started, err := start(ctx, options)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	*env = *started
	code := run()
	if err := env.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// Crashes are the lines of a log that no test may cause, unlike error lines, which
// some of them want.
func Crashes(logFile string) ([]string, error) {
	troubles, err := Troubles(logFile)
	return slices.DeleteFunc(troubles, func(line string) bool {
		return !strings.Contains(line, "DATA RACE") && !strings.Contains(line, "panic")
	}), err
}

// Namespace makes a namespace that is deleted after the test.
func (e *Env) Namespace(t *testing.T) string {
	t.Helper()
	ns, err := e.Core.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create a namespace: %v", err)
	}
	t.Cleanup(func() {
		err := e.Core.CoreV1().Namespaces().Delete(context.Background(), ns.Name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("delete namespace %s: %v", ns.Name, err)
		}
	})
	return ns.Name
}

// Eventually fails the test unless check returns "" within the timeout; what it
// returns is what is still missing.
func Eventually(t *testing.T, timeout time.Duration, check func() string) {
	t.Helper()
	deadline := time.Now().Add(timeout)
	for {
		missing := check()
		if missing == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %v: %s", timeout, missing)
		}
		select {
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Consistently fails the test if check returns anything but "" within the time.
func Consistently(t *testing.T, during time.Duration, check func() string) {
	t.Helper()
	for end := time.Now().Add(during); time.Now().Before(end); {
		if wrong := check(); wrong != "" {
			t.Fatal(wrong)
		}
		select {
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Create creates a TrainJob and fails the test if that is refused.
func (e *Env) Create(t *testing.T, job *trainer.TrainJob) *trainer.TrainJob {
	t.Helper()
	created, err := e.Trainer.TrainerV1alpha1().TrainJobs(job.Namespace).Create(t.Context(), job, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create TrainJob %s: %v", job.Name, err)
	}
	return created
}

// Job reads a TrainJob and fails the test if there is none.
func (e *Env) Job(t *testing.T, namespace, name string) *trainer.TrainJob {
	t.Helper()
	job, err := e.Trainer.TrainerV1alpha1().TrainJobs(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatalf("read TrainJob %s: %v", name, err)
	}
	return job
}

// AwaitState waits until the job is in a state, for a reason unless that is "", and
// checks that its status keeps the promises that hold in every state.
func (e *Env) AwaitState(t *testing.T, namespace, name string, state trainer.TrainJobState, reason string, timeout time.Duration) *trainer.TrainJob {
	t.Helper()
	var job *trainer.TrainJob
	Eventually(t, timeout, func() string {
		job = e.Job(t, namespace, name)
		if wrong := Broken(job); wrong != "" {
			t.Fatal(wrong)
		}
		if job.Status.State == state && (reason == "" || job.Status.Reason == reason) {
			return ""
		}
		return fmt.Sprintf("TrainJob %s is %s/%s (%s), want %s/%s; conditions: %s",
			name, job.Status.State, job.Status.Reason, job.Status.Message, state, reason, describe(job.Status.Conditions))
	})
	return job
}

// Broken says which promise about states a status breaks, "" if none: of the conditions of
// the five states there is none while a job waits or runs, and else exactly that of the
// state, True and with its reason and message.
func Broken(job *trainer.TrainJob) string {
	status := &job.Status
	if status.State == "" && status.Lifecycle == nil {
		return "" // not synced yet
	}
	var want, got []string
	switch status.State {
	case trainer.TrainJobSuspended, trainer.TrainJobComplete, trainer.TrainJobFailed:
		want = append(want, fmt.Sprintf("%s=True/%s (%s)", status.State, status.Reason, status.Message))
	}
	for _, c := range status.Conditions {
		switch trainer.TrainJobState(c.Type) {
		case trainer.TrainJobPending, trainer.TrainJobSuspended, trainer.TrainJobRunning, trainer.TrainJobComplete, trainer.TrainJobFailed:
			got = append(got, describe([]metav1.Condition{c}))
		}
	}
	if !slices.Equal(want, got) {
		return fmt.Sprintf("TrainJob %s: status.state is %q and the conditions of states are %v, want %v", job.Name, status.State, got, want)
	}
	return ""
}

func describe(conditions []metav1.Condition) string {
	var all []string
	for _, c := range conditions {
		all = append(all, fmt.Sprintf("%s=%s/%s (%s)", c.Type, c.Status, c.Reason, c.Message))
	}
	return strings.Join(all, "; ")
}

// WithoutController stops the controller for what a test prepares. Whatever becomes of the
// test, the next one finds a controller.
func (e *Env) WithoutController(t *testing.T) {
	t.Helper()
	if err := e.StopController(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.WithController(t) })
}

// WithController starts the controller unless it runs.
func (e *Env) WithController(t *testing.T) {
	t.Helper()
	if e.Controller != nil {
		return
	}
	// In a cleanup the test's own context has ended.
	if err := e.StartController(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
}
