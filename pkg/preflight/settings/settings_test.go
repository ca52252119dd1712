package settings

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/trainjob/controller/pkg/preflight/report"
)

// resolved reads settings out of flags, variables and a file.
func resolved(t *testing.T, args, environ []string, file string) (*Settings, []string, error) {
	t.Helper()
	if file != "" {
		path := filepath.Join(t.TempDir(), "preflight.yaml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		environ = append(environ, "PREFLIGHT_CONFIG="+path)
	}
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	s := New(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	notes, err := s.Resolve(flags, environ)
	return s, notes, err
}

func TestAFlagWinsOverAVariableOverTheFile(t *testing.T) {
	file := "timeout: 3m\nreport-only: true\nmax-attempts: 7\nnode: file\n"
	s, _, err := resolved(t, []string{"--timeout=1m"}, []string{"PREFLIGHT_TIMEOUT=2m", "PREFLIGHT_MAX_ATTEMPTS=5", "PREFLIGHT_POD="}, file)
	if err != nil {
		t.Fatal(err)
	}
	if s.Timeout != time.Minute || s.MaxAttempts != 5 || !s.ReportOnly || s.Node != "file" || s.FailOn != "retryable" || s.Pod != "" {
		t.Errorf("%+v", s)
	}
}

func TestTheFileNamesChecksAndTheirSettings(t *testing.T) {
	s, _, err := resolved(t, nil, []string{"PREFLIGHT_STORAGE_ATTEMPTS=4"}, `
checks:
- dcgm
- {name: storage, required: true, timeout: 45s, attempts: 3, backoff: 2s, exhausted: Reschedule, max-attempts: 2, params: {path: [/ckpt, "/data:ro"], bytes: 4096}}
`)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, check := range s.Chosen() {
		names = append(names, check.Name)
	}
	if !slices.Equal(names, []string{"storage", "dcgm"}) {
		t.Errorf("chosen: %v", names)
	}
	storage := s.Each["storage"]
	if storage.Timeout != 45*time.Second || storage.Attempts != 4 || storage.Backoff != 2*time.Second {
		t.Errorf("%+v", storage)
	}
	if want := (report.CheckPolicy{MustRun: true, MaxAttempts: 2, Exhausted: report.Reschedule}); storage.Policy("warn") != want {
		t.Errorf("the policy is %+v", storage.Policy("warn"))
	}
	if s.Each["dcgm"].Policy("warn").MustRun || !s.Each["dcgm"].Policy("fail").MustRun {
		t.Error("on-error is not what decides about a check whose required is auto")
	}
}

func TestEveryFlagHasAVariable(t *testing.T) {
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	New(flags)
	count := 0
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name == "config" {
			return
		}
		count++
		value := f.DefValue
		switch f.Value.Type() {
		case "bool":
			value = "true"
		case "int", "float64":
			value = "1"
		case "duration":
			value = "7s"
		case "stringSlice":
			value = "dns"
		}
		again := pflag.NewFlagSet("again", pflag.ContinueOnError)
		s := New(again)
		// Some values are refused as a whole; what counts is that they have arrived.
		_, _ = s.Resolve(again, []string{Variable(f.Name) + "=" + value})
		got := again.Lookup(f.Name).Value.String()
		if f.Value.Type() != "string" && got == f.DefValue && value != strings.Trim(f.DefValue, "[]") {
			t.Errorf("%s=%s leaves --%s at %s", Variable(f.Name), value, f.Name, got)
		}
		if f.Usage == "" {
			t.Errorf("--%s has no description", f.Name)
		}
	})
	if count < 70 {
		t.Errorf("there are only %d settings", count)
	}
}

func TestWhatIsWrongIsNamed(t *testing.T) {
	cases := map[string]struct {
		args, environ []string
		file          string
		want          string
	}{
		"a variable that is no duration":    {environ: []string{"PREFLIGHT_TIMEOUT=soon"}, want: `variable PREFLIGHT_TIMEOUT is "soon"`},
		"a key nobody knows":                {file: "timeot: 5m", want: "there is no setting timeot"},
		"a key of a check nobody knows":     {file: "checks: [{name: dns, params: {sucesses: 3}}]", want: "there is no setting checks[0].params.sucesses"},
		"a check nobody knows":              {file: "checks: [{name: gpus}]", want: `there is no check "gpus"`},
		"a check without a name":            {file: "checks: [{timeout: 5s}]", want: "checks[0] has no name"},
		"a setting of a check nobody knows": {file: "checks: [{name: gpus, timeout: 5s}]", want: "there is no setting checks[0].timeout"},
		"a value that is none":              {file: "timeout: {a: b}", want: "timeout: it is neither a value"},
		"a bad value in the file":           {file: "max-attempts: many", want: `max-attempts is "many"`},
		"a file that is no mapping":         {file: "- a", want: "no mapping"},
		"a key twice":                       {file: "timeout: 5m\ntimeout: 6m", want: "timeout"},
		"a file that is not there":          {args: []string{"--config=/no/such/file"}, want: "/no/such/file"},
		"a check to skip that is not there": {args: []string{"--skip=dcmg"}, want: `there is no check "dcmg"`},
		"an output nobody knows":            {args: []string{"-o", "xml"}, want: `output is "xml", not one of text, json`},
		"an exit code nobody knows":         {args: []string{"--node-failure-exit-code=1"}, want: "node-failure-exit-code is 1, not 21 or 30"},
		"no attempt at all":                 {args: []string{"--dns-attempts=0"}, want: "dns-attempts (0) must be positive"},
		"no time at all":                    {args: []string{"--timeout=0s"}, want: "timeout (0s)"},
		"required that is nothing":          {environ: []string{"PREFLIGHT_DNS_REQUIRED=yes"}, want: `dns-required is "yes", not auto, true or false`},
		"exhausted that is nothing":         {args: []string{"--dns-exhausted=Retry"}, want: `dns-exhausted is "Retry", not Stop or Reschedule`},
		"fail-on that is nothing":           {args: []string{"--fail-on=never"}, want: `fail-on is "never"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, _, err := resolved(t, tc.args, tc.environ, tc.file)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v; want %q in it", err, tc.want)
			}
		})
	}
}

// A Service named preflight must not break every job of its namespace.
func TestVariablesThatAreNoSettings(t *testing.T) {
	_, notes, err := resolved(t, nil, []string{
		"PREFLIGHT_TIMEOT=5m", "PREFLIGHT_SERVICE_HOST=10.0.0.1", "PREFLIGHT_SERVICE_PORT=80", "PREFLIGHT_PORT=tcp://10.0.0.1:80",
		"PREFLIGHT_PORT_80_TCP_ADDR=10.0.0.1", "HOME=/root",
	}, "")
	if err != nil || !slices.Equal(notes, []string{"no setting has the variable PREFLIGHT_TIMEOT"}) {
		t.Errorf("%v: %q", err, notes)
	}
}
