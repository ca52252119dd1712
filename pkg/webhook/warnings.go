package webhook

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// What API servers are sure to pass on to the user: of each warning, and of all.
const (
	maxWarning  = 256
	maxWarnings = 4096
)

// limitWarnings makes single lines of the warnings and leaves out what is too much.
func limitWarnings(warnings []string) []string {
	var kept []string
	total := 0
	for i, warning := range warnings {
		warning = cut(strings.Join(strings.Fields(warning), " "))
		if total += utf8.RuneCountInString(warning); total > maxWarnings-maxWarning {
			return append(kept, fmt.Sprintf("and %d more warnings", len(warnings)-i))
		}
		kept = append(kept, warning)
	}
	return kept
}

// cut shortens a warning to what one may hold.
func cut(warning string) string {
	runes := []rune(warning)
	if len(runes) <= maxWarning {
		return warning
	}
	return string(runes[:maxWarning-1]) + "…"
}
