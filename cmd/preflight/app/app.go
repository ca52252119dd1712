package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/trainjob/controller/pkg/preflight"
	"github.com/trainjob/controller/pkg/preflight/checks"
	"github.com/trainjob/controller/pkg/preflight/report"
	"github.com/trainjob/controller/pkg/preflight/settings"
)

// version is set by the linker.
var version = "v0.0.0"

// program is one call of the command.
type program struct {
	environ        []string
	stdout, stderr io.Writer
	exit           int
}

// Main runs the command and returns its exit code.
func Main(args, environ []string, stdout, stderr io.Writer) (exit int) {
	p := &program{environ: environ, stdout: stdout, stderr: stderr}
	set := settings.New(pflag.NewFlagSet("", pflag.ContinueOnError))
	defer func() {
		if what := recover(); what != nil {
			fmt.Fprintf(stderr, "panic: %v\n%s", what, debug.Stack())
			exit = p.finish(set, preflight.Crashed(version, what, set.Rules()))
		}
	}()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	root := p.root()
	root.SetArgs(args)
	if err := root.ExecuteContext(ctx); err != nil {
		return p.refused(args, err)
	}
	return p.exit
}

// refused ends a call that was not understood. Of run and check that is a report too: those
// who look for the reason may read nothing else of the pod.
func (p *program) refused(args []string, err error) int {
	if len(args) == 0 || args[0] != "run" && args[0] != "check" {
		fmt.Fprintln(p.stderr, "preflight:", err)
		return report.ExitStop
	}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	set := settings.New(flags)
	settings.Lenient(flags, p.environ)
	if set.Disable {
		return p.finish(set, preflight.Disabled(version))
	}
	return p.finish(set, preflight.Invalid(version, err, set.Rules()))
}

// truth is a variable that says true.
func truth(name string, environ []string) bool {
	value, err := strconv.ParseBool(checks.Env{Environ: environ}.Get(name))
	return err == nil && value
}

func (p *program) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "preflight",
		Short: "Checks a node before a training job starts on it",
		Long: `Checks a node and the surroundings of a training job before it starts, as an init container.

Exit codes: 0 go on; 10 warning (with --detailed-exitcode alone); 20 try again; 21 this
node is at fault; 30 stop the job; 143 ended by a signal, no verdict.`,
		SilenceUsage: true, SilenceErrors: true,
		// A call that checks nothing must not pass for one that found nothing.
		RunE: func(cmd *cobra.Command, _ []string) error {
			return errors.Join(cmd.Help(), errors.New("a command is missing"))
		},
	}
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	root.AddCommand(p.runCommand(), p.checkCommand(), listCommand(), schemaCommand(), policyCommand(), installCommand(), probeCommand(),
		&cobra.Command{Use: "version", Short: "Prints the version", Args: cobra.NoArgs, Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprintln(cmd.OutOrStdout(), "preflight version "+version)
		}})
	return root
}

func (p *program) runCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "run", Short: "Makes all checks that are asked for: one report, one exit code", Args: cobra.NoArgs}
	set := settings.New(cmd.Flags())
	describeVariables(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return p.run(cmd, set) }
	return cmd
}

func (p *program) checkCommand() *cobra.Command {
	parent := &cobra.Command{Use: "check", Short: "Makes one check, with the same report", Args: cobra.ArbitraryArgs, RunE: func(_ *cobra.Command, args []string) error {
		return fmt.Errorf("there is no check %q", strings.Join(args, " "))
	}}
	for _, spec := range checks.All() {
		cmd := &cobra.Command{Use: spec.Name, Short: "Sees whether " + spec.Proves, Args: cobra.NoArgs}
		set := settings.New(cmd.Flags())
		describeVariables(cmd)
		shorten(cmd, spec.Name)
		cmd.RunE = func(cmd *cobra.Command, _ []string) error {
			if err := cmd.Flags().Set("checks", spec.Name); err != nil {
				return err
			}
			return p.run(cmd, set)
		}
		parent.AddCommand(cmd)
	}
	return parent
}

// shorten hides the settings of other checks, and takes --fallback-addr for
// --dns-fallback-addr where dns alone is checked.
func shorten(cmd *cobra.Command, name string) {
	flags := cmd.Flags()
	known := map[string]bool{}
	flags.VisitAll(func(f *pflag.Flag) {
		known[f.Name] = true
		for _, spec := range checks.All() {
			if spec.Name != name && strings.HasPrefix(f.Name, spec.Name+"-") {
				f.Hidden = true
			}
		}
	})
	flags.SetNormalizeFunc(func(_ *pflag.FlagSet, flag string) pflag.NormalizedName {
		if !known[flag] && known[name+"-"+flag] {
			flag = name + "-" + flag
		}
		return pflag.NormalizedName(flag)
	})
}

func describeVariables(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) { f.Usage += " [$" + settings.Variable(f.Name) + "]" })
}
