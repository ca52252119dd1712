package nodes

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// enterEnv has this test binary enter a world in which nothing happens.
const enterEnv = "TRAINJOB_NODES_TEST"

func TestMain(m *testing.M) {
	switch os.Getenv(enterEnv) {
	case "":
	case "lab":
		os.Exit(Enter(prepareLab, living))
	default:
		os.Exit(Enter(func() error { return nil }, idle))
	}
	os.Exit(m.Run())
}

// idle has a process in a control group, tells the folder, and ends by itself only if
// enterEnv says so.
func idle(w World) int {
	child := exec.Command("sleep", "1000")
	group := filepath.Join(cgroups, "pids", filepath.Base(w.Dir), "n1", "pod")
	err := errors.Join(makeGroups(filepath.Base(w.Dir), "n1"), os.Mkdir(group, 0o755), child.Start())
	if err == nil {
		err = os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(fmt.Sprint(child.Process.Pid)), 0o644)
	}
	if err != nil {
		return report(err)
	}
	fmt.Println(w.Dir)
	if os.Getenv(enterEnv) == "end" {
		return 3
	}
	_ = child.Wait() // until somebody ends it
	return 0
}

// entered starts this program in a world, and returns it and the world's folder.
func entered(t *testing.T, how string) (*exec.Cmd, string) {
	t.Helper()
	if err := missing(); err != nil {
		t.Skip(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), enterEnv+"="+how, DirEnv+"="+t.TempDir())
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("nothing was said inside: %v", err)
	}
	return cmd, strings.TrimSpace(line)
}

// left says what there still is of a world: processes, folders, control groups.
func left(t *testing.T, dir string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(cgroups, "*", filepath.Base(dir)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		found = append(found, dir)
	}
	environs, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, environ := range environs {
		data, err := os.ReadFile(environ)
		if err == nil && strings.Contains(string(data), dirEnv+"="+dir) {
			found = append(found, filepath.Dir(environ))
		}
	}
	return strings.Join(found, " ")
}

func awaitNothing(t *testing.T, dir string) {
	t.Helper()
	var still string
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if still = left(t, dir); still == "" {
			return
		}
	}
	t.Errorf("left behind: %s", still)
}

func TestNothingIsLeftOfAWorld(t *testing.T) {
	cmd, dir := entered(t, "end")
	err := cmd.Wait()
	if cmd.ProcessState.ExitCode() != 3 {
		t.Errorf("ended with %v, want the exit code of the work inside, 3", err)
	}
	if still := left(t, dir); still != "" {
		t.Errorf("left behind when it ended: %s", still)
	}
}

func TestNothingIsLeftAfterAKill(t *testing.T) {
	cmd, dir := entered(t, "stay")
	if still := left(t, dir); !strings.Contains(still, "/proc/") || !strings.Contains(still, cgroups) || !strings.Contains(still, dir) {
		t.Fatalf("this test sees only %q of a world that is there", still)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed, as it says
	awaitNothing(t, dir)
}
