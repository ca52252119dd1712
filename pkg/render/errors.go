package render

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// maxErrorBytes bounds what Error returns: it becomes the message of a condition
	// and of an event, and events end at 1024 bytes.
	maxErrorBytes = 960
	// maxValueBytes bounds what one wrong value takes of it.
	maxValueBytes = 100
)

// Error says why a TrainJob cannot be built from a runtime. Paths that begin with
// spec.template, spec.mlPolicy or spec.podGroupPolicy are of the runtime, all others
// of the TrainJob; each error says what to do about it.
type Error struct {
	// Runtime is kind and name of the runtime.
	Runtime string
	// Errs are all errors found, in the order of the documents.
	Errs field.ErrorList
}

// Error lists the errors as far as they fit.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "cannot be built from %s: ", shortened(e.Runtime, 2*maxValueBytes))
	for i, err := range e.Errs {
		text := err.Error()
		rest := fmt.Sprintf("; and %d more", len(e.Errs)-i)
		if i > 0 {
			if b.Len()+len("; ")+len(text)+len(rest) > maxErrorBytes {
				b.WriteString(rest)
				break
			}
			b.WriteString("; ")
		}
		b.WriteString(shortened(text, maxErrorBytes-b.Len()-len(rest)))
	}
	return b.String()
}

// shortened cuts text to size bytes at the border of a character.
func shortened(text string, size int) string {
	const ellipsis = "…"
	if len(text) <= size {
		return text
	}
	end := max(size-len(ellipsis), 0)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + ellipsis
}

// notFound is an error about a name that leads nowhere.
func notFound(path *field.Path, name, remedy string) *field.Error {
	err := field.NotFound(path, shortened(name, maxValueBytes))
	err.Detail = remedy
	return err
}
