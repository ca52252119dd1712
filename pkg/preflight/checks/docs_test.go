package checks

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table of the checks in docs/preflight.md")

const (
	page  = "../../../docs/preflight.md"
	begin = "<!-- checks -->\n"
	end   = "<!-- end of checks -->"
)

func TestThePageListsTheChecksAsTheyAre(t *testing.T) {
	var rows strings.Builder
	for _, spec := range All() {
		on := "off"
		if spec.Default {
			on = "on"
		}
		fmt.Fprintf(&rows, "| `%s` | %s | %s | %s × %d | %s |\n", spec.Name, spec.Proves, on, spec.Timeout, spec.Attempts, spec.Failure)
	}
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(data), begin)
	table, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatal("the page has no place for the table")
	}
	if *update {
		if err := os.WriteFile(page, []byte(before+begin+rows.String()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		table = rows.String()
	}
	if table != rows.String() {
		t.Errorf("the table is not up to date: go test ./pkg/preflight/checks -run ThePage -update")
	}
}

var reason = regexp.MustCompile(`"([A-Z][A-Za-z]*[a-z][A-Z][A-Za-z]*|[A-Z]{3,}[A-Z][a-z][A-Za-z]*)"`)

// A reason that nobody can look up helps nobody.
func TestThePageExplainsEveryReason(t *testing.T) {
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, file := range append(files, "../run.go", "../report/types.go") {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range reason.FindAllStringSubmatch(string(source), -1) {
			if match[1] == "PreflightReport" {
				continue
			}
			count++
			if !strings.Contains(string(data), "`"+match[1]+"`") {
				t.Errorf("%s: docs/preflight.md does not explain %s", file, match[1])
			}
		}
	}
	if count < 60 {
		t.Errorf("only %d reasons were found", count)
	}
}
