package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/trainjob/controller/pkg/preflight"
	"github.com/trainjob/controller/pkg/preflight/checks"
	"github.com/trainjob/controller/pkg/preflight/report"
	"github.com/trainjob/controller/pkg/preflight/settings"
)

// run makes the checks and reports.
func (p *program) run(cmd *cobra.Command, set *settings.Settings) error {
	// The switch works also where other settings are wrong.
	if set.Disable || !cmd.Flags().Changed("disable") && truth(settings.Variable("disable"), p.environ) {
		settings.Lenient(cmd.Flags(), p.environ)
		p.exit = p.finish(set, preflight.Disabled(version))
		return nil
	}
	notes, err := set.Resolve(cmd.Flags(), p.environ)
	if err != nil {
		settings.Lenient(cmd.Flags(), p.environ)
		p.exit = p.finish(set, preflight.Invalid(version, err, set.Rules()))
		return nil
	}
	if set.Disable { // by the file
		p.exit = p.finish(set, preflight.Disabled(version))
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	found := preflight.Run{
		Settings: set, Version: version, Notes: notes,
		Env: checks.Env{
			Environ: p.environ, Root: "/", Self: []string{self},
			Note: func(format string, args ...any) { fmt.Fprintf(p.stderr, format+"\n", args...) },
		},
	}.Report(ctx)
	if ctx.Err() != nil {
		// Whoever ends the pod wants no verdict on its node.
		fmt.Fprintln(p.stderr, "preflight: ended by a signal, no verdict")
		p.exit = report.ExitSignal
		return nil
	}
	p.exit = p.finish(set, found)
	return nil
}

// finish writes a report wherever it is wanted, the termination message last, and returns
// its exit code. What cannot be written is told and changes nothing.
func (p *program) finish(set *settings.Settings, found report.Report) int {
	for _, err := range []error{found.Text(p.stderr), p.writeJSON(set, found), writeTermination(set, found)} {
		if err != nil {
			fmt.Fprintln(p.stderr, "preflight: the report is not written:", err)
		}
	}
	return found.ExitCode
}

func (p *program) writeJSON(set *settings.Settings, found report.Report) error {
	data, err := json.MarshalIndent(found, "", "  ")
	if err != nil {
		return err
	}
	data = append(data, '\n')
	if set.Output == "json" {
		if _, err := p.stdout.Write(data); err != nil {
			return err
		}
	}
	if set.ReportFile == "" {
		return nil
	}
	return os.WriteFile(set.ReportFile, data, 0o644)
}

// writeTermination writes at once and at the end: a kubelet keeps the last bytes of the
// file, and cuts what is too long.
func writeTermination(set *settings.Settings, found report.Report) error {
	if set.TerminationLog == settings.DefaultTerminationLog {
		if _, err := os.Stat(set.TerminationLog); errors.Is(err, fs.ErrNotExist) {
			return nil // in no container of a pod
		}
	}
	if set.TerminationLog == "" {
		return nil
	}
	data, err := found.Compact(max(1, set.TerminationBytes))
	if err != nil {
		return err
	}
	return os.WriteFile(set.TerminationLog, data, 0o644)
}
