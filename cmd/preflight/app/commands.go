package app

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/trainjob/controller/pkg/preflight/checks"
	"github.com/trainjob/controller/pkg/preflight/policy"
	"github.com/trainjob/controller/pkg/preflight/report"
)

// listed is a check as list -o json prints it.
type listed struct {
	Name     string `json:"name"`
	Proves   string `json:"proves"`
	Default  bool   `json:"default"`
	Timeout  string `json:"timeout"`
	Attempts int    `json:"attempts"`
	Failure  string `json:"failure"`
}

func listCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{Use: "list", Short: "Lists the checks and their defaults", Args: cobra.NoArgs}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var all []listed
		for _, spec := range checks.All() {
			all = append(all, listed{spec.Name, spec.Proves, spec.Default, spec.Timeout.String(), spec.Attempts, spec.Failure})
		}
		switch output {
		case "json":
			encoder := json.NewEncoder(cmd.OutOrStdout())
			encoder.SetIndent("", "  ")
			return encoder.Encode(all)
		case "text":
			return table(cmd.OutOrStdout(), all)
		}
		return fmt.Errorf("output is %q, not text or json", output)
	}
	return cmd
}

func table(w io.Writer, all []listed) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "CHECK\tDEFAULT\tTIMEOUT\tATTEMPTS\tFAILURE\tPROVES THAT")
	for _, check := range all {
		on := "off"
		if check.Default {
			on = "on"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%s\n", check.Name, on, check.Timeout, check.Attempts, check.Failure, check.Proves)
	}
	return t.Flush()
}

func schemaCommand() *cobra.Command {
	return &cobra.Command{Use: "schema", Short: "Prints the JSON Schema of reports", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		_, err := cmd.OutOrStdout().Write(report.Schema)
		return err
	}}
}

func policyCommand() *cobra.Command {
	var output, container string
	cmd := &cobra.Command{Use: "policy", Short: "Prints the failure policies of a runtime with preflight", Args: cobra.NoArgs}
	cmd.Flags().StringVarP(&output, "output", "o", "", "job, jobset or container; all by default")
	cmd.Flags().StringVar(&container, "container", "preflight", "name of the init container")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		forms := policy.Forms
		if output != "" {
			forms = []policy.Form{policy.Form(output)}
		}
		for i, form := range forms {
			text, err := policy.YAML(form, container)
			if err != nil {
				return err
			}
			if i > 0 {
				text = "---\n" + text
			}
			fmt.Fprint(cmd.OutOrStdout(), text)
		}
		return nil
	}
	return cmd
}

func installCommand() *cobra.Command {
	var folder string
	cmd := &cobra.Command{Use: "install", Short: "Copies this program into a volume, for a container of another image", Args: cobra.NoArgs}
	cmd.Flags().StringVar(&folder, "dest", "", "folder to copy it to")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if folder == "" {
			return fmt.Errorf("--dest is missing: the folder to copy to")
		}
		self, err := os.Executable()
		if err != nil {
			return err
		}
		target := filepath.Join(folder, "preflight")
		if err := install(self, target); err != nil {
			return err
		}
		fmt.Fprintln(cmd.OutOrStdout(), "installed", target)
		return nil
	}
	return cmd
}

// install renames a complete copy into place.
func install(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	partial := to + ".partial"
	copied, err := os.OpenFile(partial, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(copied, source); err != nil {
		copied.Close()
		return err
	}
	if err := copied.Close(); err != nil {
		return err
	}
	return os.Rename(partial, to)
}

func probeCommand() *cobra.Command {
	return &cobra.Command{Use: checks.ProbeCommand, Hidden: true, Args: cobra.ExactArgs(1), RunE: func(cmd *cobra.Command, args []string) error {
		return checks.RunProbe(args[0], cmd.OutOrStdout())
	}}
}
