package process

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trainjob/controller/test/harness"
)

const (
	// foreignEnv is the number of ConfigMaps, and of Secrets, for runs smaller or larger
	// than the usual.
	foreignEnv    = "TRAINJOB_FOREIGN"
	configMapSize = 200_000
	secretSize    = 8_000
	mayGrow       = 5 << 20
)

func TestMemoryDoesNotGrowWithWhatOthersKeep(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	count := 1000
	if more := os.Getenv(foreignEnv); more != "" {
		var err error
		if count, err = strconv.Atoi(more); err != nil || count < 1 {
			t.Fatalf("%s=%q: want a number of objects", foreignEnv, more)
		}
	}
	alone(t)
	// What is measured is what is shipped: no race detector, no checks of the cache.
	t.Setenv("KUBE_CACHE_MUTATION_DETECTOR", "false")
	binary, err := harness.Build(t.Context(), harness.SourceDir(), t.TempDir(), false)
	if err != nil {
		t.Fatal(err)
	}
	start := func(name string) *harness.Controller {
		c, err := harness.StartController(t.Context(), binary, env.ControllerKubeconfig(), filepath.Join(t.TempDir(), name+".log"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Kill() })
		return c
	}
	running := start("before")
	empty := settledRSS(t, running.Pid())
	createForeign(t, env.Namespace(t), count)
	after := settledRSS(t, running.Pid())
	if err := running.Stop(); err != nil {
		t.Error(err)
	}
	anew := settledRSS(t, start("after").Pid())
	t.Logf("resident: %.1f MB; beside %d ConfigMaps of %d KB and %d Secrets of %d KB of others %.1f MB, and after a restart %.1f MB",
		megabytes(empty), count, configMapSize/1000, count, secretSize/1000, megabytes(after), megabytes(anew))
	for when, now := range map[string]int{"while it runs": after, "after a restart": anew} {
		if now-empty > mayGrow {
			t.Errorf("%s, others' objects cost %.1f MB, want at most %d MB", when, megabytes(now-empty), mayGrow>>20)
		}
	}
}

func megabytes(bytes int) float64 { return float64(bytes) / (1 << 20) }

// createForeign makes ConfigMaps and Secrets that are none of the controller's business.
func createForeign(t *testing.T, namespace string, count int) {
	t.Helper()
	var creators sync.WaitGroup
	const clients = 8
	for client := range clients {
		creators.Go(func() {
			for i := client; i < count; i += clients {
				meta := metav1.ObjectMeta{Name: fmt.Sprintf("foreign-%d", i)}
				cm := &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"data": strings.Repeat("x", configMapSize)}}
				if _, err := env.Core.CoreV1().ConfigMaps(namespace).Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
					t.Error(err)
					return
				}
				secret := &corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"data": bytes.Repeat([]byte("x"), secretSize)}}
				if _, err := env.Core.CoreV1().Secrets(namespace).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	creators.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// settledRSS is the resident memory of a process that has had time to do what there is
// to do, in bytes.
func settledRSS(t *testing.T, pid int) int {
	t.Helper()
	var samples []int
	harness.Consistently(t, 10*time.Second, func() string {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			return err.Error()
		}
		for line := range strings.Lines(string(status)) {
			if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
				kb, err := strconv.Atoi(strings.Fields(value)[0])
				if err != nil {
					return err.Error()
				}
				samples = append(samples, kb<<10)
			}
		}
		return ""
	})
	if len(samples) == 0 {
		t.Fatal("the memory of the process cannot be read")
	}
	slices.Sort(samples)
	return samples[len(samples)/2]
}
