package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/version"
	"k8s.io/klog/v2"
)

const name = "trainjob-controller"

// NewCommand is the command line of the controller.
func NewCommand() *cobra.Command {
	options := NewOptions()
	cmd := &cobra.Command{
		Use:     name,
		Version: version.Get().GitVersion,
		Short:   "Runs TrainJobs of the API group trainer.kubeflow.org",
		Long: `trainjob-controller takes a snapshot of the runtime that a TrainJob refers to,
builds a JobSet from it, follows the JobSet, enforces the job's deadline, and
deletes the job when its time to live after finishing has passed.

Inside a cluster it needs no flags. From outside, name a kubeconfig, and see that
no other controller is at work:

  trainjob-controller --kubeconfig ~/.kube/config --leader-elect=false --webhook=false

To see what would be built for a TrainJob, without a cluster:

  trainjob-controller render -f trainjob.yaml -f runtime.yaml`,
		SilenceUsage: true,
		// parseFlags does it, to name everything that is wrong at once. An error from
		// here is printed as it is, one from RunE as a line of the log.
		DisableFlagParsing: true,
		Args:               func(cmd *cobra.Command, args []string) error { return configure(cmd, options, args) },
		RunE: func(cmd *cobra.Command, _ []string) error {
			if answered, err := answerQuestion(cmd); answered || err != nil {
				return err
			}
			if err := logsapi.ValidateAndApply(options.Logs, nil); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			// A second signal ends the process at once.
			context.AfterFunc(ctx, stop)
			return Run(klog.NewContext(ctx, klog.Background()), options)
		},
	}
	sections := flagSections(options)
	for _, section := range sections.FlagSets {
		cmd.Flags().AddFlagSet(section)
	}
	cliflag.SetUsageAndHelpFunc(cmd, sections, 0)
	cmd.AddCommand(newRenderCommand())
	cmd.CompletionOptions.DisableDefaultCmd = true
	cmd.SetContext(context.Background())
	cmd.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return fmt.Errorf("%w\nSee '%s --help'", err, c.CommandPath())
	})
	return cmd
}

// flagSections are all flags of the controller, in the sections of --help and of
// docs/flags.md.
func flagSections(options *Options) cliflag.NamedFlagSets {
	sections := options.Flags()
	global := sections.FlagSet("global")
	globalflag.AddGlobalFlags(global, name, logs.SkipLoggingConfigurationFlags())
	global.Bool("version", false, "version of "+name) // cobra's own would not be in the sections
	return sections
}

// configure fills in the options from the arguments and names all that is wrong with
// them.
func configure(cmd *cobra.Command, options *Options, args []string) error {
	wrong := parseFlags(cmd.Flags(), args)
	if asked(cmd, "help") || asked(cmd, "version") {
		return nil
	}
	wrong = append(wrong, options.Validate()...)
	for _, err := range logsapi.Validate(options.Logs, nil, nil) {
		wrong = append(wrong, fmt.Errorf("--%s: %s", logFlag(err.Field), err.ErrorBody()))
	}
	if len(wrong) == 0 {
		return nil
	}
	return fmt.Errorf("%w\nSee '%s --help'", errors.Join(wrong...), cmd.CommandPath())
}

// logFlag is the flag of a field of the logging configuration.
func logFlag(field string) string {
	switch {
	case field == "format":
		return "logging-format"
	case field == "verbosity":
		return "v"
	case field == "flushFrequency":
		return "log-flush-frequency"
	}
	return field
}

func asked(cmd *cobra.Command, question string) bool {
	yes, err := cmd.Flags().GetBool(question)
	return yes && err == nil
}

// answerQuestion answers --help and --version, and says whether there was anything to
// answer.
func answerQuestion(cmd *cobra.Command) (bool, error) {
	switch {
	case asked(cmd, "help"):
		return true, cmd.Help()
	case asked(cmd, "version"):
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s version %s\n", name, cmd.Version)
		return true, err
	}
	return false, nil
}
