package app

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
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

Inside a cluster it needs no flags. From outside, name a kubeconfig:

  trainjob-controller --kubeconfig ~/.kube/config

To see what would be built for a TrainJob, without a cluster:

  trainjob-controller render -f trainjob.yaml -f runtime.yaml`,
		SilenceUsage: true,
		Args:         cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := logsapi.ValidateAndApply(options.Logs, nil); err != nil {
				return err
			}
			if err := utilerrors.NewAggregate(options.Validate()); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			// A second signal ends the process at once.
			context.AfterFunc(ctx, stop)
			return Run(klog.NewContext(ctx, klog.Background()), options)
		},
	}
	sections := options.Flags()
	globalflag.AddGlobalFlags(sections.FlagSet("global"), cmd.Name(), logs.SkipLoggingConfigurationFlags())
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
