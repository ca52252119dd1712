package validation

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Review is what admission says about one object.
type Review struct {
	// Errors refuse the object. Paths are of the object itself.
	Errors field.ErrorList
	// Warnings are for the user to read; the object is accepted all the same.
	Warnings []string
}

// warn adds a warning. Each is a sentence about a field, which it begins with.
func (r *Review) warn(path *field.Path, format string, args ...any) {
	r.Warnings = append(r.Warnings, path.String()+": "+fmt.Sprintf(format, args...))
}

// maxErrors is how many errors, and maxWarnings how many warnings, one answer names.
// Whoever has thousands of them has made one mistake.
const (
	maxErrors   = 20
	maxWarnings = 20
)

// cut leaves out what nobody would read, and says how much that is.
func (r Review) cut() Review {
	if more := len(r.Errors) - maxErrors; more > 0 {
		next := &field.Error{Type: field.ErrorTypeForbidden, Field: r.Errors[maxErrors].Field,
			Detail: fmt.Sprintf("this and %d more errors are not listed: correct the others first", more-1)}
		r.Errors = append(r.Errors[:maxErrors:maxErrors], next)
	}
	if more := len(r.Warnings) - maxWarnings; more > 0 {
		r.Warnings = append(r.Warnings[:maxWarnings:maxWarnings], fmt.Sprintf("and %d more warnings", more))
	}
	return r
}

// maxValueBytes bounds what one wrong value takes of a message.
const maxValueBytes = 100

// shortened cuts a value that was not made for reading.
func shortened(value string) string {
	if len(value) <= maxValueBytes {
		return value
	}
	return strings.ToValidUTF8(value[:maxValueBytes], "") + "…"
}

func invalid(path *field.Path, value, format string, args ...any) *field.Error {
	return field.Invalid(path, shortened(value), fmt.Sprintf(format, args...))
}

// byPatch marks errors of a runtime that a job can put right by a patch.
const byPatch = "byPatch"

// Paths that several rules speak of.
var (
	specPath       = field.NewPath("spec")
	trainerPath    = specPath.Child("trainer")
	patchesPath    = specPath.Child("runtimePatches")
	runtimeRefPath = specPath.Child("runtimeRef")
	templatePath   = specPath.Child("template", "spec")
	jobsPath       = templatePath.Child("replicatedJobs")
)

// below says whether a path, written out, is that of a field or of something in it.
func below(path string, parent *field.Path) bool {
	rest, found := strings.CutPrefix(path, parent.String())
	return found && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// ofRuntime says whether an error of package render is about a field of the runtime.
func ofRuntime(path string) bool {
	for _, parent := range []string{"template", "mlPolicy", "podGroupPolicy"} {
		if below(path, specPath.Child(parent)) {
			return true
		}
	}
	return false
}
