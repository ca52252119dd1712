package checks

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/trainjob/controller/pkg/preflight/report"
	"github.com/trainjob/controller/pkg/preflight/tool"
)

var gpuSpec = Spec{
	Name: "gpu", Proves: "the GPUs that the pod was given are there, answer, and have no memory errors",
	Stage: Local, Default: true, Timeout: 15 * time.Second, Attempts: 2, Backoff: time.Second, Exhausted: report.Reschedule, Failure: "21",
	New: func(flags *pflag.FlagSet) Check {
		c := &gpu{}
		flags.IntVar(&c.count, "gpu-count", 0, "GPUs that must be there; 0 takes the number from NVIDIA_VISIBLE_DEVICES or PET_NPROC_PER_NODE")
		flags.IntVar(&c.maxECC, "gpu-max-uncorrected-ecc", 0, "uncorrected memory errors since the driver was loaded that a GPU may have; -1 is any number")
		flags.StringVar(&c.smi, "gpu-nvidia-smi", "nvidia-smi", "program that is asked")
		return c
	},
}

type gpu struct {
	count, maxECC int
	smi           string
}

const (
	hintUtility   = "give the container NVIDIA_DRIVER_CAPABILITIES=compute,utility"
	hintExclude   = "take the node out of service and look for Xid errors in its kernel log"
	reasonNoGPU   = "NoGPU"
	reasonGPULost = "GPULost"
)

func (c *gpu) Run(ctx context.Context, env Env) report.Finding {
	listed := env.run(ctx, c.smi, "-L")
	if listed.Missing {
		return c.withoutTool(env)
	}
	if finding, bad := smiFailure(listed); bad && finding.Reason != reasonNoGPU {
		return finding
	}
	found := countGPUs(listed.Stdout)
	expected, source := c.expected(env)
	if found == 0 && expected == 0 {
		return skip(reasonNoGPU, "this container has no GPU and none is asked for")
	}
	if found < expected {
		return fewer(found, expected, source)
	}
	finding := c.health(ctx, env, found)
	if n, ok := env.number("PET_NPROC_PER_NODE"); ok && finding.Status == report.StatusPass && found < n {
		finding = warn(report.ScopeJob, "FewerGPUsThanProcesses", fmt.Sprintf("%d processes are to run here, on %d GPUs", n, found),
			"ask for as many GPUs as processes, or set --gpu-count if this is meant")
	}
	finding.Observed = with(finding.Observed, "gpus", strconv.Itoa(found))
	if expected > 0 {
		finding.Expected = with(finding.Expected, "gpus", strconv.Itoa(expected))
	}
	return finding
}

func fewer(found, expected int, source string) report.Finding {
	finding := fail(report.Reschedule, report.ScopeNode, "GPUCountTooLow",
		fmt.Sprintf("%d GPUs are here, %s asks for %d", found, source, expected), hintExclude)
	finding.Observed = map[string]string{"gpus": strconv.Itoa(found)}
	finding.Expected = map[string]string{"gpus": strconv.Itoa(expected)}
	return finding
}

// expected is how many GPUs there must be, and who says so; 0 if nobody does.
func (c *gpu) expected(env Env) (int, string) {
	if c.count > 0 {
		return c.count, "--gpu-count"
	}
	// The device plugin lists what it has given to the pod. Images say "all".
	visible := env.Get("NVIDIA_VISIBLE_DEVICES")
	switch {
	case visible == "all", visible == "", visible == "none", visible == "void":
	case strings.HasPrefix(visible, "/"): // a list of mounts
	default:
		return len(strings.Split(strings.TrimSuffix(visible, ","), ",")), "NVIDIA_VISIBLE_DEVICES"
	}
	// The number may be one of CPUs, if the job asks for no GPU: then nothing but its
	// image speaks of GPUs.
	if n, ok := env.number("PET_NPROC_PER_NODE"); ok && visible != "all" && visible != "" && visible != "none" {
		return n, "PET_NPROC_PER_NODE"
	}
	return 0, ""
}

// withoutTool counts devices where there is no nvidia-smi.
func (c *gpu) withoutTool(env Env) report.Finding {
	found := len(env.glob("/dev/nvidia[0-9]*"))
	expected, source := c.expected(env)
	switch {
	case found == 0 && expected == 0:
		return skip(reasonNoGPU, "this container has no GPU and none is asked for")
	case found < expected:
		return fewer(found, expected, source)
	}
	finding := missing(c.smi, hintUtility)
	finding.Message += fmt.Sprintf("; %d GPU devices are there, but cannot be asked", found)
	return finding
}

// health looks for memory errors.
func (c *gpu) health(ctx context.Context, env Env, count int) report.Finding {
	asked := env.run(ctx, c.smi, "--query-gpu=index,name,driver_version,ecc.errors.uncorrected.volatile.total,retired_pages.pending", "--format=csv,noheader,nounits")
	if finding, bad := smiFailure(asked); bad {
		return finding
	}
	name, driver := "GPU", ""
	for _, row := range csvRows(asked.Stdout) {
		if len(row) != 5 {
			return notRun("GPUOutputUnknown", fmt.Sprintf("nvidia-smi answered %q", strings.Join(row, ", ")), "report this with the driver's version")
		}
		name, driver = row[1], row[2]
		if errors, err := strconv.Atoi(row[3]); err == nil && c.maxECC >= 0 && errors > c.maxECC {
			return broken(row[0], "GPUMemoryErrors", fmt.Sprintf("has %d uncorrected memory errors, %d are allowed", errors, c.maxECC), driver)
		}
		if row[4] == "Yes" {
			return broken(row[0], "GPUPageRetirementPending", "must be reset: memory pages wait to be retired", driver)
		}
	}
	if finding, bad := c.remapped(ctx, env, driver); bad {
		return finding
	}
	finding := pass(fmt.Sprintf("%d × %s, driver %s, no memory errors", count, name, driver))
	if strings.Contains(asked.Stdout+asked.Stderr, "infoROM is corrupted") {
		finding = warn(report.ScopeNode, "GPUInfoROMCorrupted", "the infoROM of a GPU is corrupted", "ask the vendor for a new one")
	}
	finding.Observed = map[string]string{"driver": driver}
	return finding
}

// remapped looks for rows of memory that could not be replaced, or only after a reset.
// GPUs before A100 have no such rows, and say so.
func (c *gpu) remapped(ctx context.Context, env Env, driver string) (report.Finding, bool) {
	asked := env.run(ctx, c.smi, "--query-remapped-rows=gpu_uuid,remapped_rows.pending,remapped_rows.failure", "--format=csv,noheader,nounits")
	if asked.TimedOut || asked.ExitCode != 0 {
		if finding, bad := smiFailure(asked); bad && finding.Status == report.StatusFail {
			return finding, true
		}
		return report.Finding{}, false
	}
	for _, row := range csvRows(asked.Stdout) {
		if len(row) != 3 {
			continue
		}
		if yes(row[2]) {
			return broken(row[0], "GPURowRemapFailed", "has memory rows that could not be replaced", driver), true
		}
		if yes(row[1]) {
			return broken(row[0], "GPURowRemapPending", "must be reset: memory rows wait to be replaced", driver), true
		}
	}
	return report.Finding{}, false
}

func yes(value string) bool { return value == "Yes" || value == "1" }

func broken(gpu, reason, what, driver string) report.Finding {
	finding := fail(report.Reschedule, report.ScopeNode, reason, fmt.Sprintf("GPU %s %s", gpu, what), hintExclude)
	finding.Observed, finding.Final = map[string]string{"driver": driver, "gpu": gpu}, true
	return finding
}

// smiFailures are what nvidia-smi says when it does not answer. Its codes are never passed
// on: they mean other things here.
var smiFailures = []struct {
	code         int // 0 is none of its own
	text         string
	reason, hint string
}{
	{15, "GPU is lost", reasonGPULost, hintExclude},
	{0, "Unable to determine the device handle", reasonGPULost, hintExclude},
	{9, "couldn't communicate with the NVIDIA driver", "DriverNotLoaded", "load the NVIDIA driver on the node"},
	{18, "Driver/library version mismatch", "DriverLibraryMismatch", "reboot the node: its driver was updated underneath"},
	{0, "Failed to initialize NVML: Unknown Error", "GPUAccessLost", "delete the pod: the container lost access to its GPUs"},
	{0, "Failed to initialize NVML: Insufficient Permissions", "GPUAccessLost", "check the device files and the container runtime of the node"},
}

// smiFailure reads an answer that is none; false if it is one.
func smiFailure(result tool.Result) (report.Finding, bool) {
	said := result.Stdout + result.Stderr
	if result.TimedOut {
		return fail(report.Reschedule, report.ScopeNode, "GPUToolHung", "nvidia-smi does not answer", hintExclude), true
	}
	for _, known := range smiFailures {
		if strings.Contains(said, known.text) || known.code != 0 && result.ExitCode == known.code {
			return fail(report.Reschedule, report.ScopeNode, known.reason, "nvidia-smi: "+firstLineWith(said, known.text), known.hint), true
		}
	}
	switch {
	case result.Err != nil:
		return notRun("GPUToolFailed", result.Err.Error(), hintUtility), true
	// 14 is a warning about the infoROM, after an answer.
	case result.ExitCode == 0 || result.ExitCode == 14:
		if strings.Contains(said, "No devices were found") {
			return report.Finding{Reason: reasonNoGPU}, true
		}
		return report.Finding{}, false
	case strings.Contains(said, "No devices were found"):
		return report.Finding{Reason: reasonNoGPU}, true
	case result.ExitCode == 12 || strings.Contains(said, "couldn't find libnvidia-ml.so"):
		return notRun("NVMLMissing", "nvidia-smi: "+result.Said(), hintUtility), true
	}
	return notRun("GPUToolFailed", fmt.Sprintf("nvidia-smi ended with %d: %s", result.ExitCode, result.Said()), hintUtility), true
}

func firstLineWith(text, part string) string {
	for line := range strings.Lines(text) {
		if strings.Contains(line, part) {
			return strings.TrimSpace(line)
		}
	}
	return part
}

// countGPUs counts the lines of nvidia-smi -L: whole GPUs, or the MIG devices of those
// that are divided.
func countGPUs(listed string) int {
	count, divided := 0, false
	for line := range strings.Lines(listed) {
		switch {
		case strings.HasPrefix(line, "GPU "):
			count, divided = count+1, false
		case strings.HasPrefix(strings.TrimSpace(line), "MIG "):
			if divided {
				count++
			}
			divided = true
		}
	}
	return count
}

func csvRows(text string) [][]string {
	var rows [][]string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "WARNING:") {
			continue
		}
		row := strings.Split(line, ",")
		for i := range row {
			row[i] = strings.TrimSpace(row[i])
		}
		rows = append(rows, row)
	}
	return rows
}

func with(m map[string]string, key, value string) map[string]string {
	if m == nil {
		m = map[string]string{}
	}
	m[key] = value
	return m
}
