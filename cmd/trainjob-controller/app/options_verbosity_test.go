package app

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/trainjob/controller/pkg/verbosity"
)

func TestVerbositiesAreReadFromOneFlagOrSeveral(t *testing.T) {
	options := parsed(t, "--verbosity-of=snapshot=4,jobset=0", "--verbosity-of=webhook=2", "--verbosity-of=deadline=1,ttl=100")
	if errs := options.Validate(); len(errs) > 0 {
		t.Error(errs)
	}
	want := map[string]int{"snapshot": 4, "jobset": 0, "webhook": 2, "deadline": 1, "ttl": 100}
	if diff := cmp.Diff(want, options.verbosities()); diff != "" {
		t.Errorf("verbosities (-want +got):\n%s", diff)
	}
}

func TestEveryVerbosityThatIsWrongIsNamedWithItsRemedy(t *testing.T) {
	options := parsed(t, "--verbosity-of=snapshot,queue=4,jobset=much,deadline=-1,ttl=101,webhook=,snapshot=2,snapshot=3")
	var got []string
	for _, err := range options.Validate() {
		got = append(got, err.Error())
	}
	want := []string{
		`--verbosity-of: "snapshot": must be component=level, such as snapshot=4`,
		`--verbosity-of: "queue=4": there is no component "queue": name one of snapshot, jobset, deadline, ttl, preflight, webhook`,
		`--verbosity-of: "jobset=much": the level must be a whole number from 0 to 100, such as jobset=4`,
		`--verbosity-of: "deadline=-1": the level must be a whole number from 0 to 100, such as deadline=4`,
		`--verbosity-of: "ttl=101": the level must be a whole number from 0 to 100, such as ttl=4`,
		`--verbosity-of: "webhook=": the level must be a whole number from 0 to 100, such as webhook=4`,
		`--verbosity-of: "snapshot=3": snapshot is listed twice: leave one out`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("complaints (-want +got):\n%s", diff)
	}
}

// Nothing runs in this context: it only must carry what the components ask for.
func TestTheVerbositiesReachTheComponents(t *testing.T) {
	var out bytes.Buffer
	ctx := klog.NewContext(t.Context(), textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&out))))
	ctx = withVerbosities(ctx, parsed(t, "--verbosity-of=snapshot=4,webhook=2"))
	for component, want := range map[string]int{"snapshot": 4, "webhook": 2, "jobset": 0} {
		logger := verbosity.LoggerOf(ctx, component)
		if !logger.V(want).Enabled() || logger.V(want+1).Enabled() {
			t.Errorf("%s has not the verbosity %d", component, want)
		}
	}
	logger := klog.FromContext(admissionContext(ctx))
	if !logger.V(2).Enabled() || logger.V(3).Enabled() {
		t.Error("the webhooks' own context has not the verbosity 2")
	}
}
