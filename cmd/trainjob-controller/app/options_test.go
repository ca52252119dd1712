package app

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

func TestDefaultsAreValid(t *testing.T) {
	if errs := NewOptions().Validate(); len(errs) > 0 {
		t.Errorf("errors: %v", errs)
	}
}

// parsed are options that a command line has filled in.
func parsed(t *testing.T, args ...string) *Options {
	t.Helper()
	options := NewOptions()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	sections := options.Flags()
	for _, section := range sections.FlagSets {
		flags.AddFlagSet(section)
	}
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return options
}

func TestEveryWrongFlagIsNamedAtOnce(t *testing.T) {
	options := parsed(t,
		"--kube-api-qps=0", "--kube-api-burst=-1", "--concurrent-snapshot-syncs=0", "--concurrent-jobset-syncs=-3",
		"--concurrent-lifecycle-syncs=0", "--active-deadline-from=Creation", "--bind-address=8080", "--leader-elect-renew-deadline=1s",
		"--leader-elect-lease-duration=1s", "--leader-elect-resource-name=", "--leader-elect-resource-namespace=", "--leader-elect-resource-lock=endpoints",
	)
	var got []string
	for _, err := range options.Validate() {
		name, _, _ := strings.Cut(err.Error(), ":")
		got = append(got, name)
	}
	want := []string{
		"--kube-api-qps", "--kube-api-burst", "--concurrent-jobset-syncs", "--concurrent-lifecycle-syncs", "--concurrent-snapshot-syncs",
		"--active-deadline-from", "--bind-address", "--leader-elect-renew-deadline", "--leader-elect-lease-duration", "--leader-elect-resource-lock",
		"--leader-elect-resource-name", "--leader-elect-resource-namespace",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("flags complained about (-want +got):\n%s", diff)
	}
}

func TestALimitOfCallsIsANumber(t *testing.T) {
	for value, valid := range map[string]bool{"0.5": true, "500": true, "0": false, "-1": false, "NaN": false, "Inf": false, "-Inf": false, "1e39": false} {
		options := NewOptions()
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		flags.AddFlagSet(options.Flags().FlagSets["connection"])
		if err := flags.Parse([]string{"--kube-api-qps=" + value}); err != nil && !valid {
			continue // not even a float32
		}
		errs := options.Validate()
		if (len(errs) == 0) != valid {
			t.Errorf("--kube-api-qps=%s: errors %v, want it taken: %v", value, errs, valid)
		}
		for _, err := range errs {
			if !strings.HasPrefix(err.Error(), "--kube-api-qps: ") || !strings.HasSuffix(err.Error(), ": must be a number of more than 0, such as 500") {
				t.Errorf("--kube-api-qps=%s: error %q", value, err)
			}
		}
	}
}

func TestAPortIsANumber(t *testing.T) {
	for address, valid := range map[string]bool{
		":0": true, "127.0.0.1:65535": true, "[::1]:8443": true,
		":": false, ":65536": false, ":-1": false, ":https": false, "127.0.0.1": false, "": false,
	} {
		options := parsed(t, "--bind-address="+address)
		options.Webhook.Enabled = false
		want := []string{"--bind-address: " + address + ": must be host:port with a port from 0 to 65535, such as 127.0.0.1:8080 or :8080, or 0"}
		if valid {
			want = nil
		}
		var got []string
		for _, err := range options.Validate() {
			got = append(got, err.Error())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("--bind-address=%s (-want +got):\n%s", address, diff)
		}
		_, wrong := webhookFlags(t, "--webhook-bind-address="+address)
		if valid != (len(wrong) == 0) {
			t.Errorf("--webhook-bind-address=%s: flags complained about: %v", address, wrong)
		}
	}
}

func TestTheLeaseHasANameThatAnObjectCanHave(t *testing.T) {
	for _, tc := range []struct {
		name, namespace string
		want            []string
	}{
		{"trainjob.controller", "system", nil},
		{"Controller", "a.b", []string{
			`--leader-elect-resource-name: "Controller": must be the name of a Lease`,
			`--leader-elect-resource-namespace: "a.b": must be the name of a namespace`,
		}},
	} {
		options := parsed(t, "--leader-elect-resource-name="+tc.name, "--leader-elect-resource-namespace="+tc.namespace)
		var got []string
		for _, err := range options.Validate() {
			got = append(got, err.Error())
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s in %s (-want +got):\n%s", tc.name, tc.namespace, diff)
		}
	}
}

func TestTwoServersNeedTwoAddresses(t *testing.T) {
	for _, tc := range []struct {
		bind, webhook string
		valid         bool
	}{
		{":8080", ":9443", true},
		{":9443", ":9443", false},
		{"127.0.0.1:9443", "127.0.0.1:9443", false},
		{"127.0.0.1:9443", ":9443", false},
		{"0.0.0.0:9443", "127.0.0.1:9443", false},
		{"[::]:9443", "[::1]:9443", false},
		{"127.0.0.1:9443", "127.0.0.2:9443", true},
		{"127.0.0.1:0", "127.0.0.1:0", true}, // any port that is free
		{"0", ":9443", true},
	} {
		options := parsed(t, "--bind-address="+tc.bind, "--webhook-bind-address="+tc.webhook)
		want := []string{"--bind-address: " + tc.bind + ": --webhook-bind-address is " + tc.webhook + ", and only one can listen there: give one of them another port"}
		if tc.valid {
			want = nil
		}
		var got []string
		for _, err := range options.Validate() {
			got = append(got, err.Error())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s and %s (-want +got):\n%s", tc.bind, tc.webhook, diff)
		}
		options.Webhook.Enabled = false
		if errs := options.Validate(); len(errs) > 0 {
			t.Errorf("%s without the webhook: %v", tc.bind, errs)
		}
	}
}

func TestBothMeaningsOfADeadlineAreAccepted(t *testing.T) {
	for _, from := range []string{"creation", "resume"} {
		options := NewOptions()
		options.ActiveDeadlineFrom = from
		if errs := options.Validate(); len(errs) > 0 {
			t.Errorf("--active-deadline-from=%s: %v", from, errs)
		}
	}
}

func TestALeaseLastsWholeSeconds(t *testing.T) {
	for lease, valid := range map[time.Duration]bool{
		time.Second: true, 9 * time.Second: true, 2 * time.Minute: true,
		2500 * time.Millisecond: false, 999 * time.Millisecond: false, 15*time.Second + 1: false,
	} {
		options := NewOptions()
		options.LeaderElection.LeaseDuration.Duration = lease
		options.LeaderElection.RenewDeadline.Duration = lease / 2
		options.LeaderElection.RetryPeriod.Duration = lease / 4
		errs := options.Validate()
		if (len(errs) == 0) != valid {
			t.Errorf("lease of %s: errors %v, want it taken: %v", lease, errs, valid)
		}
		for _, err := range errs {
			if want := fmt.Sprintf("--leader-elect-lease-duration: %v: must be a whole number of seconds", lease); !strings.HasPrefix(err.Error(), want) {
				t.Errorf("error %q, want it to begin with %q", err, want)
			}
		}
	}
}

func TestLeaderElectionFlagsDoNotMatterWithoutIt(t *testing.T) {
	options := NewOptions()
	options.LeaderElection.LeaderElect = false
	options.LeaderElection.LeaseDuration.Duration = time.Nanosecond
	if errs := options.Validate(); len(errs) > 0 {
		t.Errorf("errors: %v", errs)
	}
}

func TestAKubeconfigThatIsNotThereIsNamed(t *testing.T) {
	_, err := restConfig(&Options{Kubeconfig: "/does/not/exist"})
	if err == nil || !strings.Contains(err.Error(), `--kubeconfig "/does/not/exist"`) {
		t.Errorf("error %v does not name the flag and the file", err)
	}
}

func TestOutsideAClusterTheRemedyIsNamed(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	_, err := restConfig(&Options{})
	if err == nil || !strings.Contains(err.Error(), "pass --kubeconfig") {
		t.Errorf("error %v does not say to pass --kubeconfig", err)
	}
}
