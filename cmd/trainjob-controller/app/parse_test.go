package app

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"k8s.io/component-base/version"
)

// complaints runs the command line and returns the lines of its error but the last,
// which points to --help.
func complaints(t *testing.T, args ...string) []string {
	t.Helper()
	cmd := NewCommand()
	cmd.SetArgs(args)
	cmd.SilenceErrors = true
	err := cmd.Execute()
	if err == nil {
		t.Fatal("no error")
	}
	lines := strings.Split(err.Error(), "\n")
	if last := len(lines) - 1; lines[last] == "See 'trainjob-controller --help'" {
		return lines[:last]
	}
	return lines
}

func TestEverythingThatIsWrongIsNamedAtOnce(t *testing.T) {
	cases := map[string]struct{ args, want []string }{
		"unknown flags, values of a wrong type, values out of range": {
			[]string{"--foo", "--bar=1", "--kube-api-qps=x", "--kube-api-burst", "0", "-v", "abc", "--leader-elect=maybe", "--concurrent-jobset-syncs=-1"},
			[]string{
				"unknown flag: --foo", "unknown flag: --bar",
				`invalid argument "x" for "--kube-api-qps" flag: must be a number`,
				`invalid argument "abc" for "-v, --v" flag: strconv.ParseUint: parsing "abc": invalid syntax`,
				`invalid argument "maybe" for "--leader-elect" flag: must be true or false`,
				"--kube-api-burst: 0: must be at least 1",
				"--concurrent-jobset-syncs: -1: must be at least 1",
			},
		},
		"what follows an unknown flag is its value": {[]string{"--foo", "1", "--kube-api-burst=0"},
			[]string{"unknown flag: --foo", "--kube-api-burst: 0: must be at least 1"}},
		"what follows a switch is not": {[]string{"--leader-elect", "false"},
			[]string{`unexpected argument "false": there are only flags, and the subcommand render, which comes first`}},
		"a value is missing": {[]string{"--kube-api-burst=0", "--kubeconfig"},
			[]string{"flag needs an argument: --kubeconfig", "--kube-api-burst: 0: must be at least 1"}},
		"a value that looks like a flag": {[]string{"--kubeconfig", "--foo", "--kube-api-burst=0"},
			[]string{"--kube-api-burst: 0: must be at least 1"}},
		"unknown shorthands": {[]string{"-x", "-yz", "-v=2", "--kube-api-burst=0"},
			[]string{"unknown shorthand flag: 'x' in -x", "unknown shorthand flag: 'y' in -yz", "--kube-api-burst: 0: must be at least 1"}},
		"words that are no flags": {[]string{"rendr", "-", "--kube-api-burst=0", "--", "--kube-api-qps=0"},
			[]string{`unexpected argument "rendr": there are only flags, and the subcommand render, which comes first`, `unexpected argument "-": there are only flags, and the subcommand render, which comes first`,
				`unexpected argument "--kube-api-qps=0": there are only flags, and the subcommand render, which comes first`, "--kube-api-burst: 0: must be at least 1"}},
		"flags of logging": {[]string{"--logging-format=xml", "--log-flush-frequency=0s", "--vmodule=a=1"},
			[]string{`--log-flush-frequency: Invalid value: "0s": Must be greater than zero`, `--logging-format: Invalid value: "xml": Unsupported log format`,
				"--vmodule: Forbidden: Only supported for text log format"}},
		"flags of logging that need a feature gate": {[]string{"--log-json-split-stream", "--log-json-info-buffer-size=1Ki", "--log-text-split-stream", "--log-text-info-buffer-size", "1Ki"},
			[]string{"unknown flag: --log-json-split-stream", "unknown flag: --log-json-info-buffer-size", "unknown flag: --log-text-split-stream", "unknown flag: --log-text-info-buffer-size"}},
		"flags of debugging": {[]string{"--contention-profiling", "--bind-address=0"},
			[]string{"--contention-profiling: true: needs --profiling, which serves what is recorded"}},
		"profiles that nobody could fetch": {[]string{"--profiling", "--bind-address=0"},
			[]string{"--profiling: true: needs a --bind-address to be served on, such as 127.0.0.1:8080"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, complaints(t, tc.args...)); diff != "" {
				t.Errorf("complaints (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFlagsAreTakenInEveryWayTheyAreWritten(t *testing.T) {
	options := NewOptions()
	cmd := NewCommand()
	flags := cmd.Flags()
	sections := options.Flags()
	for _, section := range sections.FlagSets {
		section.VisitAll(func(f *pflag.Flag) { flags.Lookup(f.Name).Value = f.Value })
	}
	errs := parseFlags(flags, []string{"--kubeconfig", "-", "--kube-api-qps=7.5", "--leader-elect", "--profiling=true", "-v4", "--bind-address", ":1", "--vmodule=queue=4"})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	got := []any{options.Kubeconfig, options.KubeAPIQPS, options.LeaderElection.LeaderElect, options.Profiling, int(options.Logs.Verbosity), options.BindAddress, options.Logs.VModule[0].FilePattern}
	if diff := cmp.Diff([]any{"-", float32(7.5), true, true, 4, ":1", "queue"}, got); diff != "" {
		t.Errorf("options (-want +got):\n%s", diff)
	}
}

func TestQuestionsAreAnsweredWhateverElseIsWrong(t *testing.T) {
	for question, want := range map[string]string{
		"--help": "Leader election flags:", "-h": "--version[=true|false]", "--version": "trainjob-controller version " + version.Get().GitVersion + "\n",
	} {
		cmd := NewCommand()
		var out bytes.Buffer
		cmd.SetOut(&out)
		cmd.SetArgs([]string{"--foo", question})
		if err := cmd.Execute(); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%s: error %v, printed:\n%s", question, err, &out)
		}
	}
}
