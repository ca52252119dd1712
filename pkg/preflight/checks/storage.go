package checks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/trainjob/controller/pkg/preflight/report"
	"github.com/trainjob/controller/pkg/preflight/tool"
)

var storageSpec = Spec{
	Name: "storage", Proves: "data written to the volumes comes back unchanged, and what is to be read can be",
	Stage: Local, Default: true, Timeout: 30 * time.Second, Attempts: 2, Backoff: time.Second, Exhausted: report.Fatal, Failure: "30",
	New: func(flags *pflag.FlagSet) Check {
		c := &storage{}
		flags.StringSliceVar(&c.paths, "storage-path", nil, "folders to try, each /folder, or /folder:ro to read only")
		flags.IntVar(&c.bytes, "storage-bytes", 1<<20, "how much is written")
		flags.DurationVar(&c.slow, "storage-slow", 5*time.Second, "a folder that takes longer is warned of")
		flags.StringVar(&c.owner, "storage-owner", "", "part of the name of the file that is written, such as the pod's UID; by default the pod's name")
		return c
	},
}

type storage struct {
	paths []string
	bytes int
	slow  time.Duration
	owner string
}

// ProbeCommand is the hidden command of the binary that tries one folder. It is a process
// of its own because a broken file system may hold it for ever.
const ProbeCommand = "probe-storage"

func (c *storage) Run(ctx context.Context, env Env) report.Finding {
	if len(c.paths) == 0 {
		return skip("NoPaths", "--storage-path names nothing")
	}
	owner := c.owner
	for _, name := range []string{"PREFLIGHT_POD", "HOSTNAME"} {
		if owner == "" {
			owner = env.Get(name)
		}
	}
	worst := pass(fmt.Sprintf("%s: written and read back", strings.Join(c.paths, ", ")))
	for _, entry := range c.paths {
		finding := c.try(ctx, env, entry, owner)
		worst.Observed = with(worst.Observed, entry, finding.Observed["took"])
		if rank[finding.Status] > rank[worst.Status] {
			finding.Observed = worst.Observed
			worst = finding
		}
	}
	return worst
}

var rank = map[report.Status]int{report.StatusWarn: 1, report.StatusError: 2, report.StatusFail: 3}

func (c *storage) try(ctx context.Context, env Env, entry, owner string) report.Finding {
	path, mode, _ := strings.Cut(entry, ":")
	job, err := json.Marshal(Probe{Path: path, ReadOnly: mode == "ro", Bytes: c.bytes, Owner: owner})
	if err != nil {
		return notRun("StorageNotTried", err.Error(), "")
	}
	start := time.Now()
	args := append(append([]string{}, env.Self[1:]...), ProbeCommand, string(job))
	result := tool.Run(ctx, tool.Command{Path: env.Self[0], Args: args, Env: env.Environ})
	took := time.Since(start)
	finding := c.verdict(path, result, took)
	finding.Observed = map[string]string{"took": took.Round(time.Millisecond).String()}
	return finding
}

func (c *storage) verdict(path string, result tool.Result, took time.Duration) report.Finding {
	if result.TimedOut {
		message := path + ": no answer in time"
		if result.Abandoned {
			message += "; the process that tries it cannot even be killed"
		}
		return fail(report.Fatal, report.ScopeCluster, "StorageTimeout", message, "look at the file server, and at the mount on this node")
	}
	var answer ProbeResult
	if err := json.Unmarshal([]byte(result.Stdout), &answer); err != nil {
		return notRun("StorageNotTried", "the probe said "+result.Said(), "report this")
	}
	if answer.Step != "" {
		return answer.finding(path)
	}
	if took > c.slow {
		return warn(report.ScopeCluster, "StorageSlow", fmt.Sprintf("%s: took %s", path, took.Round(time.Millisecond)), "look at the load of the file server, or raise --storage-slow")
	}
	return pass(path)
}

// storageErrors are what file systems answer, by the number of the error.
var storageErrors = map[syscall.Errno]struct {
	reason, hint string
	final        bool
}{
	syscall.EROFS:  {"StorageReadOnly", "mount the volume for writing, or name it with :ro", true},
	syscall.EACCES: {"StoragePermissionDenied", "set fsGroup or runAsUser so that the pod may use the folder", true},
	syscall.EPERM:  {"StoragePermissionDenied", "set fsGroup or runAsUser so that the pod may use the folder", true},
	syscall.ENOENT: {"StorageMissing", "mount the volume into this container too", true},
	syscall.ENOSPC: {"StorageFull", "free some space, or take a larger volume", false},
	syscall.EDQUOT: {"StorageFull", "free some space, or raise the quota", false},
}

func (r ProbeResult) finding(path string) report.Finding {
	reason, hint, final := "StorageFailed", "look at the file server, and at the mount on this node", false
	if r.Corrupt {
		reason = "StorageCorrupt"
	} else if known, ok := storageErrors[syscall.Errno(r.Errno)]; ok {
		reason, hint, final = known.reason, known.hint, known.final
	}
	finding := fail(report.Fatal, report.ScopeCluster, reason, fmt.Sprintf("%s: %s: %s", path, r.Step, r.Error), hint)
	finding.Final = final
	return finding
}

// errno is the number of an operating system's error, or 0.
func errno(err error) int {
	var number syscall.Errno
	if errors.As(err, &number) {
		return int(number)
	}
	return 0
}
