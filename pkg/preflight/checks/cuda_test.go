package checks

import (
	"strings"
	"testing"
	"time"

	"github.com/trainjob/controller/pkg/preflight/report"
)

const procVersion = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  DRIVER  Sat Aug  5 00:00:00 UTC 2023\nGCC version:  gcc version 12.3.0\n"

func TestWhichDriversRunWhichCUDA(t *testing.T) {
	cases := map[string]struct {
		says, wanted string
		compat       bool
		status       report.Status
		reason       string
	}{
		"the same version":               {says: "healthy-b200-580", wanted: "13.0", status: report.StatusPass, reason: "Passed"},
		"an older one":                   {says: "healthy-b200-580", wanted: "11.8", status: report.StatusPass, reason: "Passed"},
		"a patch version":                {says: "healthy-h100-535", wanted: "12.2.140", status: report.StatusPass, reason: "Passed"},
		"a newer minor version":          {says: "healthy-h100-535", wanted: "12.8.1", status: report.StatusWarn, reason: "CUDAMinorVersionCompatibility"},
		"a newer major version":          {says: "healthy-h100-535", wanted: "13.0", status: report.StatusFail, reason: "CUDADriverTooOld"},
		"the same, with compat":          {says: "healthy-h100-535", wanted: "13.0", compat: true, status: report.StatusWarn, reason: "CUDAForwardCompatibility"},
		"a driver of the generation ago": {says: "healthy-a100-470", wanted: "12.0", status: report.StatusFail, reason: "CUDADriverTooOld"},
		"a major version nobody knows":   {says: "healthy-b200-580", wanted: "17.1", status: report.StatusFail, reason: "CUDADriverTooOld"},
		"no driver":                      {says: "not-loaded", wanted: "12.8", status: report.StatusFail, reason: "DriverNotLoaded"},
		"no GPU":                         {says: "no-devices", wanted: "12.8", status: report.StatusSkipped, reason: "NoGPU"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			env := here(t, map[string]string{"nvidia-smi": smi(t, tc.says)})
			if tc.compat {
				put(t, env, "/usr/local/cuda/compat/libcuda.so.580.65.06", "")
			}
			got := within(t, 10*time.Second, made(t, cudaSpec, "--cuda-version="+tc.wanted), env)
			expect(t, got, tc.status, tc.reason)
			if tc.reason == "CUDADriverTooOld" && got.Outcome != report.Fatal {
				t.Errorf("the outcome is %s", got.Outcome)
			}
		})
	}
}

func TestTheMessageOfAnOldDriverKeepsItsZeros(t *testing.T) {
	env := here(t, map[string]string{"nvidia-smi": smi(t, "healthy-h100-535")})
	got := within(t, 10*time.Second, made(t, cudaSpec, "--cuda-version=13.0"), env)
	if want := "driver 535.104.05 is too old: 580.65.06 or newer is required by CUDA 13.0"; got.Message != want {
		t.Errorf("%q, want %q", got.Message, want)
	}
}

func TestWhereTheCUDAVersionOfAnImageIsFound(t *testing.T) {
	driver := map[string]string{"nvidia-smi": smi(t, "healthy-b200-580")}
	torch := "__version__ = '2.13.0+cu130'\ndebug = False\ncuda: Optional[str] = '13.0'\nhip = None\n"
	cases := map[string]struct {
		env, flags    []string
		path, content string
		wanted, from  string
	}{
		"a flag":                {flags: []string{"--cuda-version=12.1"}, env: []string{"CUDA_VERSION=12.4.0"}, wanted: "12.1", from: "--cuda-version"},
		"the image's variable":  {env: []string{"CUDA_VERSION=12.4.0"}, wanted: "12.4.0", from: "CUDA_VERSION"},
		"the toolkit":           {path: "/usr/local/cuda/version.json", content: `{"cuda":{"name":"CUDA SDK","version":"12.8.1"}}`, wanted: "12.8.1", from: "/usr/local/cuda/version.json"},
		"torch under conda":     {path: "/opt/conda/lib/python3.11/site-packages/torch/version.py", content: torch, wanted: "13.0", from: "torch/version.py"},
		"torch of Debian":       {path: "/usr/local/lib/python3.12/dist-packages/torch/version.py", content: torch, wanted: "13.0", from: "torch/version.py"},
		"the library":           {path: "/usr/local/cuda-12.2/lib64/libcudart.so.12.2.140", wanted: "12.2", from: "libcudart.so"},
		"nothing, torch on CPU": {path: "/opt/conda/lib/python3.11/site-packages/torch/version.py", content: "cuda = None\n"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			env := here(t, driver, tc.env...)
			if tc.path != "" {
				put(t, env, tc.path, tc.content)
			}
			got := within(t, 10*time.Second, made(t, cudaSpec, tc.flags...), env)
			if tc.wanted == "" {
				expect(t, got, report.StatusSkipped, "NoCUDA")
				return
			}
			if got.Expected["cuda"] != tc.wanted || got.Expected["from"] != tc.from {
				t.Errorf("%v; want %s from %s", got.Expected, tc.wanted, tc.from)
			}
		})
	}
}

func TestTheDriverIsKnownWithoutNvidiaSMI(t *testing.T) {
	for driver, reason := range map[string]string{"535.104.05": "CUDAMinorVersionCompatibility", "470.57.02": "CUDADriverTooOld"} {
		env := here(t, nil)
		put(t, env, "/proc/driver/nvidia/version", strings.ReplaceAll(procVersion, "DRIVER", driver))
		got := within(t, 10*time.Second, made(t, cudaSpec, "--cuda-version=12.4", "--cuda-nvidia-smi=no-such-smi"), env)
		if got.Reason != reason || got.Observed["driver"] != driver {
			t.Errorf("%s: %+v", driver, got)
		}
	}
	open := strings.ReplaceAll("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  DRIVER  Release Build\n", "DRIVER", "580.65.06")
	env := here(t, nil)
	put(t, env, "/proc/driver/nvidia/version", open)
	if got := within(t, 10*time.Second, made(t, cudaSpec, "--cuda-version=13.0", "--cuda-nvidia-smi=no-such-smi"), env); got.Observed["driver"] != "580.65.06" {
		t.Errorf("the open driver: %+v", got)
	}
}

// The compatibility libraries would make nvidia-smi tell their own CUDA version.
func TestNvidiaSMIIsAskedWithoutTheImagesLibraries(t *testing.T) {
	env := here(t, map[string]string{"nvidia-smi": `[ -z "$LD_LIBRARY_PATH" ] || exit 1
` + smi(t, "healthy-b200-580")}, "LD_LIBRARY_PATH=/usr/local/cuda/compat")
	expect(t, within(t, 10*time.Second, made(t, cudaSpec, "--cuda-version=13.0"), env), report.StatusPass, "Passed")
}
