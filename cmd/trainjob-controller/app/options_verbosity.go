package app

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"

	"github.com/trainjob/controller/pkg/metrics"
	"github.com/trainjob/controller/pkg/verbosity"
)

const verbosityFlag = "verbosity-of"

// admissionComponent is everything about the admission webhooks, in --verbosity-of.
const admissionComponent = "webhook"

// components are what --verbosity-of can name: each queue by its name, and the webhooks.
func components() []string {
	var all []string
	for _, queue := range metrics.Queues() {
		all = append(all, string(queue))
	}
	return append(all, admissionComponent)
}

func (o *Options) addVerbosityFlag(fs *pflag.FlagSet) {
	fs.StringSliceVar(&o.VerbosityOf, verbosityFlag, o.VerbosityOf, fmt.Sprintf(
		"Verbosity of single components in place of that of -v and --vmodule, each component=level as in snapshot=4, with every --logging-format. Components are %s. Separated by commas.",
		strings.Join(components(), ", ")))
}

// validateVerbosity names every entry that is wrong.
func (o *Options) validateVerbosity() []error {
	var errs []error
	seen := map[string]bool{}
	for _, entry := range o.VerbosityOf {
		component, _, err := verbosityOf(entry)
		if err == nil && seen[component] {
			err = fmt.Errorf("%s is listed twice: leave one out", component)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("--%s: %q: %w", verbosityFlag, entry, err))
		}
		seen[component] = true
	}
	return errs
}

// verbosities are the entries that are valid.
func (o *Options) verbosities() map[string]int {
	levels := map[string]int{}
	for _, entry := range o.VerbosityOf {
		if component, level, err := verbosityOf(entry); err == nil {
			levels[component] = level
		}
	}
	return levels
}

// withVerbosities is a context in which each component finds its verbosity.
func withVerbosities(ctx context.Context, o *Options) context.Context {
	return verbosity.NewContext(ctx, o.verbosities())
}

// admissionContext is that context for everything about the admission webhooks.
func admissionContext(ctx context.Context) context.Context {
	return klog.NewContext(ctx, verbosity.LoggerOf(ctx, admissionComponent))
}

// verbosityOf reads one entry.
func verbosityOf(entry string) (component string, level int, err error) {
	component, text, found := strings.Cut(entry, "=")
	if !found {
		return "", 0, fmt.Errorf("must be component=level, such as %s=4", metrics.QueueSnapshot)
	}
	if !slices.Contains(components(), component) {
		return "", 0, fmt.Errorf("there is no component %q: name one of %s", component, strings.Join(components(), ", "))
	}
	const highest = 100
	level, err = strconv.Atoi(text)
	if err != nil || level < 0 || level > highest {
		return "", 0, fmt.Errorf("the level must be a whole number from 0 to %d, such as %s=4", highest, component)
	}
	return component, level, nil
}
