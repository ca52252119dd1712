package checks

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/trainjob/controller/pkg/preflight/report"
)

// mounted is a file system of the test's own.
func mounted(t *testing.T, fstype string, flags uintptr, data string) string {
	t.Helper()
	folder := t.TempDir()
	if err := syscall.Mount("none", folder, fstype, flags, data); err != nil {
		t.Skipf("a %s cannot be mounted (%v): this needs root", fstype, err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(folder, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return folder
}

func TestAReadOnlyFileSystem(t *testing.T) {
	folder := mounted(t, "tmpfs", syscall.MS_RDONLY, "size=64k")
	env := here(t, nil)
	expect(t, within(t, 10*time.Second, made(t, storageSpec, "--storage-path="+folder), env), report.StatusFail, "StorageReadOnly")
	expect(t, within(t, 10*time.Second, made(t, storageSpec, "--storage-path="+folder+":ro"), env), report.StatusPass, "Passed")
}

func TestAFullFileSystem(t *testing.T) {
	folder := mounted(t, "tmpfs", 0, "size=64k")
	env := here(t, nil)
	got := within(t, 10*time.Second, made(t, storageSpec, "--storage-path="+folder), env)
	expect(t, got, report.StatusFail, "StorageFull")
	if got.Final {
		t.Error("space may become free again")
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 0 {
		t.Errorf("%v: it left %v, and the folder full", err, left)
	}
	expect(t, within(t, 10*time.Second, made(t, storageSpec, "--storage-path="+folder, "--storage-bytes=1000"), env), report.StatusPass, "Passed")
}

// frozen is a file system on a disk in a file that holds every writer, so that not even
// SIGKILL ends it, until it is thawed: as a file server that does not answer.
func frozen(t *testing.T) (folder string, thaw func()) {
	t.Helper()
	disk := filepath.Join(t.TempDir(), "disk")
	folder = t.TempDir()
	for _, command := range [][]string{
		{"truncate", "-s", "16M", disk}, {"mkfs.ext4", "-q", disk}, {"mount", "-o", "loop", disk, folder}, {"fsfreeze", "-f", folder},
	} {
		if out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Skipf("no file system can be frozen (%v: %s: %s): this needs root, e2fsprogs and loop devices", command, err, out)
		}
		if command[0] == "mount" {
			t.Cleanup(func() {
				if out, err := exec.Command("umount", "-l", folder).CombinedOutput(); err != nil {
					t.Errorf("%v: %s", err, out)
				}
			})
		}
	}
	thaw = sync.OnceFunc(func() {
		if out, err := exec.Command("fsfreeze", "-u", folder).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	t.Cleanup(thaw)
	return folder, thaw
}

func TestAFileSystemThatHangsIsLeftBehind(t *testing.T) {
	folder, _ := frozen(t)
	got := within(t, time.Second, made(t, storageSpec, "--storage-path="+folder), here(t, nil))
	expect(t, got, report.StatusFail, "StorageTimeout")
}

func TestAFileSystemThatTakesItsTimeIsSlow(t *testing.T) {
	folder, thaw := frozen(t)
	timer := time.AfterFunc(time.Second, thaw)
	defer timer.Stop()
	got := within(t, 30*time.Second, made(t, storageSpec, "--storage-path="+folder, "--storage-slow=500ms"), here(t, nil))
	expect(t, got, report.StatusWarn, "StorageSlow")
}
