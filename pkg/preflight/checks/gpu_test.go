package checks

import (
	"testing"
	"time"

	"github.com/trainjob/controller/pkg/preflight/report"
)

func TestWhatNvidiaSMISaysOfGPUs(t *testing.T) {
	cases := map[string]struct {
		says    string
		flags   []string
		env     []string
		status  report.Status
		reason  string
		outcome report.Outcome
	}{
		"A100, driver 470":                       {says: "healthy-a100-470", status: report.StatusPass, reason: "Passed"},
		"H100, driver 535":                       {says: "healthy-h100-535", flags: []string{"--gpu-count=8"}, status: report.StatusPass, reason: "Passed"},
		"A40, driver 550":                        {says: "healthy-a40-550", status: report.StatusPass, reason: "Passed"},
		"B200, driver 580":                       {says: "healthy-b200-580", env: []string{"PET_NPROC_PER_NODE=auto"}, status: report.StatusPass, reason: "Passed"},
		"a GPU that counts no errors":            {says: "healthy-consumer", status: report.StatusPass, reason: "Passed"},
		"one too few for the flag":               {says: "healthy-a40-550", flags: []string{"--gpu-count=3"}, status: report.StatusFail, reason: "GPUCountTooLow", outcome: report.Reschedule},
		"one too few for the device plugin":      {says: "healthy-a40-550", env: []string{"NVIDIA_VISIBLE_DEVICES=GPU-a,GPU-b,GPU-c"}, status: report.StatusFail, reason: "GPUCountTooLow", outcome: report.Reschedule},
		"too few for the processes":              {says: "healthy-a40-550", env: []string{"NVIDIA_VISIBLE_DEVICES=void", "PET_NPROC_PER_NODE=4"}, status: report.StatusFail, reason: "GPUCountTooLow", outcome: report.Reschedule},
		"a number that may be one of CPUs":       {says: "healthy-a40-550", env: []string{"NVIDIA_VISIBLE_DEVICES=all", "PET_NPROC_PER_NODE=64"}, status: report.StatusWarn, reason: "FewerGPUsThanProcesses"},
		"memory errors":                          {says: "ecc", status: report.StatusFail, reason: "GPUMemoryErrors", outcome: report.Reschedule},
		"memory errors, and more are allowed":    {says: "ecc", flags: []string{"--gpu-max-uncorrected-ecc=20"}, status: report.StatusPass, reason: "Passed"},
		"memory errors, and all are allowed":     {says: "ecc", flags: []string{"--gpu-max-uncorrected-ecc=-1"}, status: report.StatusPass, reason: "Passed"},
		"pages to be retired":                    {says: "retirement-pending", status: report.StatusFail, reason: "GPUPageRetirementPending", outcome: report.Reschedule},
		"rows to be replaced":                    {says: "remap-pending", status: report.StatusFail, reason: "GPURowRemapPending", outcome: report.Reschedule},
		"rows that could not be":                 {says: "remap-failed", status: report.StatusFail, reason: "GPURowRemapFailed", outcome: report.Reschedule},
		"MIG devices are counted":                {says: "mig", flags: []string{"--gpu-count=2"}, status: report.StatusPass, reason: "Passed"},
		"a GPU lost":                             {says: "lost", status: report.StatusFail, reason: "GPULost", outcome: report.Reschedule},
		"a GPU lost that is still listed":        {says: "lost-later", status: report.StatusFail, reason: "GPULost", outcome: report.Reschedule},
		"no driver":                              {says: "not-loaded", status: report.StatusFail, reason: "DriverNotLoaded", outcome: report.Reschedule},
		"a driver updated underneath":            {says: "mismatch", status: report.StatusFail, reason: "DriverLibraryMismatch", outcome: report.Reschedule},
		"a container that lost its GPUs":         {says: "unknown-error", status: report.StatusFail, reason: "GPUAccessLost", outcome: report.Reschedule},
		"no GPU, and none wanted":                {says: "no-devices", status: report.StatusSkipped, reason: "NoGPU"},
		"no GPU where there should be":           {says: "no-devices", flags: []string{"--gpu-count=1"}, status: report.StatusFail, reason: "GPUCountTooLow", outcome: report.Reschedule},
		"a container without NVML":               {says: "no-library", status: report.StatusError, reason: "NVMLMissing"},
		"a driver that does not know a question": {says: "old-fields", status: report.StatusError, reason: "GPUToolFailed"},
		"a corrupted infoROM":                    {says: "inforom", status: report.StatusWarn, reason: "GPUInfoROMCorrupted"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			env := here(t, map[string]string{"nvidia-smi": smi(t, tc.says)}, tc.env...)
			got := within(t, 20*time.Second, made(t, gpuSpec, tc.flags...), env)
			expect(t, got, tc.status, tc.reason)
			if tc.outcome != "" && got.Outcome != tc.outcome {
				t.Errorf("the outcome is %s", got.Outcome)
			}
		})
	}
}

func TestAHungNvidiaSMIIsCut(t *testing.T) {
	env := here(t, map[string]string{"nvidia-smi": "trap '' TERM; sleep 600"})
	expect(t, within(t, 300*time.Millisecond, made(t, gpuSpec), env), report.StatusFail, "GPUToolHung")
}

func TestWithoutNvidiaSMIDevicesAreCounted(t *testing.T) {
	env := here(t, nil)
	check := made(t, gpuSpec, "--gpu-nvidia-smi=no-such-smi")
	expect(t, within(t, time.Second, check, env), report.StatusSkipped, "NoGPU")
	put(t, env, "/dev/nvidia0", "")
	put(t, env, "/dev/nvidiactl", "")
	expect(t, within(t, time.Second, check, env), report.StatusError, "ToolMissing")
	expect(t, within(t, time.Second, made(t, gpuSpec, "--gpu-nvidia-smi=no-such-smi", "--gpu-count=2"), env), report.StatusFail, "GPUCountTooLow")
}
