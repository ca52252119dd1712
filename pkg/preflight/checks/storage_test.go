package checks

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trainjob/controller/pkg/preflight/report"
)

func TestAFolderThatHoldsWhatIsWritten(t *testing.T) {
	folder := t.TempDir()
	got := within(t, 10*time.Second, made(t, storageSpec, "--storage-path="+folder, "--storage-owner=../uid"), here(t, nil))
	expect(t, got, report.StatusPass, "Passed")
	if left, err := os.ReadDir(folder); err != nil || len(left) != 0 {
		t.Errorf("%v: it left %v", err, left)
	}
	if got.Observed[folder] == "" {
		t.Errorf("nothing is said of the time: %v", got.Observed)
	}
}

func TestFoldersThatAreNotThereOrNotOurs(t *testing.T) {
	env := here(t, nil)
	missing := filepath.Join(t.TempDir(), "none")
	for _, mode := range []string{"", ":ro"} {
		got := within(t, 10*time.Second, made(t, storageSpec, "--storage-path="+missing+mode), env)
		expect(t, got, report.StatusFail, "StorageMissing")
		if got.Outcome != report.Fatal || !got.Final {
			t.Errorf("%+v", got)
		}
	}
	expect(t, within(t, time.Second, made(t, storageSpec), env), report.StatusSkipped, "NoPaths")
	if os.Getuid() == 0 {
		return // may write anywhere
	}
	locked := t.TempDir()
	if err := os.Chmod(locked, 0o500); err != nil {
		t.Fatal(err)
	}
	expect(t, within(t, 10*time.Second, made(t, storageSpec, "--storage-path="+locked), env), report.StatusFail, "StoragePermissionDenied")
}

// One bad folder among good ones decides, and all are told of.
func TestTheWorstOfSeveralFoldersDecides(t *testing.T) {
	good, other := t.TempDir(), t.TempDir()
	missing := filepath.Join(good, "none")
	got := within(t, 10*time.Second, made(t, storageSpec, "--storage-path="+strings.Join([]string{good, missing, other + ":ro"}, ",")), here(t, nil))
	expect(t, got, report.StatusFail, "StorageMissing")
	if len(got.Observed) != 3 || !strings.Contains(got.Message, missing) {
		t.Errorf("%+v", got)
	}
}

func TestASlowFolderIsWarnedOf(t *testing.T) {
	got := within(t, 10*time.Second, made(t, storageSpec, "--storage-path="+t.TempDir(), "--storage-slow=1ns"), here(t, nil))
	expect(t, got, report.StatusWarn, "StorageSlow")
}
