package checks

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/trainjob/controller/pkg/preflight/report"
	"github.com/trainjob/controller/pkg/preflight/tool"
)

var cudaSpec = Spec{
	Name: "cuda", Proves: "the node's driver can run the CUDA version of the image",
	Stage: Local, Default: true, Timeout: 10 * time.Second, Attempts: 1, Exhausted: report.Fatal, Failure: "30; newer CUDA of the same major version, or with cuda-compat: warning",
	New: func(flags *pflag.FlagSet) Check {
		c := &cuda{}
		flags.StringVar(&c.version, "cuda-version", "", "CUDA version that the training needs, such as 12.8; by default it is looked for in the image")
		flags.StringVar(&c.smi, "cuda-nvidia-smi", "nvidia-smi", "program that is asked")
		return c
	},
}

type cuda struct{ version, smi string }

// floors are the oldest drivers that run any minor version of a CUDA major version. From
// NVIDIA's CUDA compatibility guide.
var floors = map[int]string{11: "450.80.02", 12: "525.60.13", 13: "580.65.06"}

func (c *cuda) Run(ctx context.Context, env Env) report.Finding {
	wanted, source := c.wanted(env)
	if wanted == nil {
		return skip("NoCUDA", "the image has no CUDA that could be found")
	}
	driver, most, finding := c.installed(ctx, env)
	if finding != nil {
		return *finding
	}
	verdict := compatible(wanted, driver, most, len(env.glob("/usr/local/cuda*/compat/libcuda.so.*")) > 0)
	verdict.Observed = with(verdict.Observed, "driver", driver.text)
	if most != nil {
		verdict.Observed = with(verdict.Observed, "maxCuda", most.text)
	}
	verdict.Expected = map[string]string{"cuda": wanted.text, "from": source}
	verdict.Final = true
	return verdict
}

// compatible judges by NVIDIA's rules: a driver runs the CUDA version it was made for and
// all before; within a major version newer ones too, with limits; beyond, only with the
// compatibility libraries of a data center GPU. most may be unknown.
func compatible(wanted, driver, most *version, compat bool) report.Finding {
	if most != nil && !most.before(wanted) {
		return pass(fmt.Sprintf("driver %s runs CUDA %s, the image has %s", driver.text, most.text, wanted.text))
	}
	floor := parseVersion(floors[wanted.numbers[0]])
	if floor != nil && !driver.before(floor) {
		return warn(report.ScopeNode, "CUDAMinorVersionCompatibility",
			fmt.Sprintf("driver %s is older than CUDA %s, but runs it within the limits of minor version compatibility", driver.text, wanted.text),
			"update the driver if kernels are compiled at run time (PTX) or the newest features are used")
	}
	if compat {
		return warn(report.ScopeNode, "CUDAForwardCompatibility",
			fmt.Sprintf("driver %s is too old for CUDA %s but for the image's cuda-compat libraries, which work on data center GPUs alone", driver.text, wanted.text),
			"update the driver")
	}
	if most == nil && floor == nil {
		return warn(report.ScopeNode, "CUDASupportUnknown", fmt.Sprintf("whether driver %s runs CUDA %s is not known", driver.text, wanted.text), hintUtility)
	}
	need := "a newer one is"
	if floor != nil {
		need = floor.text + " or newer is"
	}
	return fail(report.Fatal, report.ScopeJob, "CUDADriverTooOld",
		fmt.Sprintf("driver %s is too old: %s required by CUDA %s", driver.text, need, wanted.text),
		fmt.Sprintf("update the driver, or use an image with an older CUDA than %d", wanted.numbers[0]))
}

var (
	headerCUDA = regexp.MustCompile(`CUDA (?:UMD )?Version:\s*([0-9]+\.[0-9]+)`)
	headerSMI  = regexp.MustCompile(`Driver Version:\s*([0-9][0-9.]*)`)
	procDriver = regexp.MustCompile(`Kernel Module[^\n]*?\s([0-9]+\.[0-9]+(?:\.[0-9]+)?)\s`)
)

// installed finds the driver and the newest CUDA it was made for, or says why not.
func (c *cuda) installed(ctx context.Context, env Env) (driver, most *version, finding *report.Finding) {
	if data, err := os.ReadFile(env.path("/proc/driver/nvidia/version")); err == nil {
		if match := procDriver.FindSubmatch(data); match != nil {
			driver = parseVersion(string(match[1]))
		}
	}
	// The compatibility libraries would answer for the driver.
	result := tool.Run(ctx, tool.Command{Path: c.smi, Env: env.without("LD_LIBRARY_PATH=")})
	if match := headerCUDA.FindStringSubmatch(result.Stdout); match != nil {
		most = parseVersion(match[1])
	}
	if match := headerSMI.FindStringSubmatch(result.Stdout); match != nil && driver == nil {
		driver = parseVersion(match[1])
	}
	if driver != nil {
		return driver, most, nil
	}
	if len(env.glob("/dev/nvidia[0-9]*")) == 0 && result.Missing {
		none := skip(reasonNoGPU, "this container has no GPU")
		return nil, nil, &none
	}
	if failure, bad := smiFailure(result); bad {
		if failure.Reason == reasonNoGPU {
			failure = skip(reasonNoGPU, "this container has no GPU")
		}
		return nil, nil, &failure
	}
	unknown := missing(c.smi, hintUtility)
	if !result.Missing {
		unknown = notRun("DriverUnknown", "the driver's version could not be found", hintUtility)
	}
	return nil, nil, &unknown
}

var (
	torchCUDA = regexp.MustCompile(`(?m)^cuda[^=]*=\s*['"]([0-9.]+)['"]`)
	runtimeSO = regexp.MustCompile(`libcudart\.so\.([0-9]+\.[0-9]+)`)
)

// wanted finds the CUDA version of the image, and says where.
func (c *cuda) wanted(env Env) (*version, string) {
	if v := parseVersion(c.version); v != nil {
		return v, "--cuda-version"
	}
	if v := parseVersion(env.Get("CUDA_VERSION")); v != nil {
		return v, "CUDA_VERSION"
	}
	if data, err := os.ReadFile(env.path("/usr/local/cuda/version.json")); err == nil {
		var file struct{ CUDA struct{ Version string } }
		if json.Unmarshal(data, &file) == nil {
			if v := parseVersion(file.CUDA.Version); v != nil {
				return v, "/usr/local/cuda/version.json"
			}
		}
	}
	for _, lib := range []string{"/opt/conda/lib", "/opt/venv/lib", "/usr/local/lib", "/usr/lib"} {
		for _, path := range append(env.glob(lib+"/python3*/site-packages/torch/version.py"), env.glob(lib+"/python3*/dist-packages/torch/version.py")...) {
			data, err := os.ReadFile(path)
			if err != nil {
				continue
			}
			if match := torchCUDA.FindSubmatch(data); match != nil {
				return parseVersion(string(match[1])), "torch/version.py"
			}
		}
	}
	for _, path := range env.glob("/usr/local/cuda*/lib64/libcudart.so.*") {
		if match := runtimeSO.FindStringSubmatch(path); match != nil {
			return parseVersion(match[1]), "libcudart.so"
		}
	}
	return nil, ""
}

// version is a dotted number; its text keeps zeros that lead, as in 580.65.06.
type version struct {
	text    string
	numbers []int
}

// parseVersion gives nil for what is none.
func parseVersion(text string) *version {
	v := &version{text: text}
	for part := range strings.SplitSeq(text, ".") {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 {
			return nil
		}
		v.numbers = append(v.numbers, n)
	}
	return v
}

// before compares as many numbers as both have: CUDA 12.8.1 is no newer than 12.8.
func (v *version) before(other *version) bool {
	for i := range min(len(v.numbers), len(other.numbers)) {
		if v.numbers[i] != other.numbers[i] {
			return v.numbers[i] < other.numbers[i]
		}
	}
	return false
}
