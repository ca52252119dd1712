package app

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	cliflag "k8s.io/component-base/cli/flag"
	"sigs.k8s.io/yaml"

	"github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/render"
	"github.com/trainjob/controller/pkg/runtimesnapshot"
	"github.com/trainjob/controller/pkg/validation"
)

// newRenderCommand is the command that shows, without a cluster, what the controller
// would build.
func newRenderCommand() *cobra.Command {
	files, sections := newRenderFlags()
	cmd := &cobra.Command{
		Use:   "render -f FILE...",
		Short: "Prints what would be built for TrainJobs, without a cluster",
		Long: `render reads TrainJobs and the runtimes they refer to, and prints the objects that
the controller would build for them, in the order in which it creates them. A Secret
has no data: its keys are made when it is created. Documents of other API groups are
passed over.

  trainjob-controller render -f trainjob.yaml -f runtime.yaml
  kubectl get clustertrainingruntime NAME -o yaml | trainjob-controller render -f - -f trainjob.yaml

Unknown fields are errors, and so is what the admission webhook would refuse of a
TrainJob; its warnings go to the standard error. The rules of the CRDs, such as
lowest values and patterns, are the API server's to check.`,
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		// In place of the one of the root, which would turn an error into a log line.
		PersistentPreRunE: func(*cobra.Command, []string) error { return nil },
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(*files) == 0 {
				return errors.New("name at least one file with -f, or - for the standard input")
			}
			return renderFiles(*files, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().AddFlagSet(sections.FlagSet("render"))
	cliflag.SetUsageAndHelpFunc(cmd, sections, 0)
	return cmd
}

// newRenderFlags are the flags of render, and the names of files they hold.
func newRenderFlags() (*[]string, cliflag.NamedFlagSets) {
	var files []string
	var sections cliflag.NamedFlagSets
	sections.FlagSet("render").StringSliceVarP(&files, "filename", "f", nil,
		"`file` with TrainJobs and runtimes, - for the standard input; may be repeated")
	return &files, sections
}

// renderFiles prints the objects of all TrainJobs, or nothing and all errors. It warns in
// either case.
func renderFiles(names []string, stdin io.Reader, out, warnings io.Writer) error {
	var read manifests
	var errs []error
	for _, name := range names {
		if err := readFile(&read, name, stdin); err != nil {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if len(read.jobs) == 0 {
		return fmt.Errorf("there is no TrainJob in %s", strings.Join(names, ", "))
	}
	var printed bytes.Buffer
	for _, job := range read.jobs {
		if err := renderJob(&read, job, &printed, warnings); err != nil {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	_, err := printed.WriteTo(out)
	return err
}

func readFile(into *manifests, name string, stdin io.Reader) error {
	if name == "-" {
		return into.read("standard input", stdin)
	}
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	return into.read(name, file)
}

// renderJob goes the controller's way: the job is admitted, its runtime frozen and read
// back, and the job built from that.
func renderJob(read *manifests, job document[*v1alpha1.TrainJob], out, warnings io.Writer) error {
	about := fmt.Sprintf("%s: TrainJob %s/%s", job.source, job.object.Namespace, job.object.Name)
	found, err := read.runtimeOf(job.object)
	if err != nil {
		return fmt.Errorf("%s: %w", about, err)
	}
	about += ", runtime in " + found.source
	snapshot, err := runtimesnapshot.Encode(job.object, found.object)
	if err != nil {
		return fmt.Errorf("%s: %w", about, err)
	}
	frozen, err := runtimesnapshot.Decode(snapshot)
	if err != nil {
		return fmt.Errorf("%s: %w", about, err)
	}
	if err := admit(job.object, frozen, about, warnings); err != nil {
		return err
	}
	objects, err := render.Render(job.object, render.FromSnapshot(frozen))
	if err != nil {
		return fmt.Errorf("%s: %w", about, err)
	}
	return printObjects(out, objects.All()...)
}

// admit says what the admission webhook would say of a new job.
func admit(job *v1alpha1.TrainJob, runtime *runtimesnapshot.Runtime, about string, warnings io.Writer) error {
	review := validation.CreateTrainJob(job, runtime)
	for _, warning := range review.Warnings {
		if _, err := fmt.Fprintf(warnings, "Warning: %s: %s\n", about, warning); err != nil {
			return err
		}
	}
	var errs []error
	for _, refusal := range review.Errors {
		errs = append(errs, fmt.Errorf("%s: %w", about, refusal))
	}
	return errors.Join(errs...)
}

// printObjects writes objects as they would be created: without a status.
func printObjects(out io.Writer, objects ...any) error {
	for _, object := range objects {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			return err
		}
		unstructured.RemoveNestedField(content, "status")
		text, err := yaml.Marshal(content)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "---\n%s", text); err != nil {
			return err
		}
	}
	return nil
}
