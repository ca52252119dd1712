// Package docscheck checks that what the documentation names is there. It has tests only.
package docscheck

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../../.."

// pages name tests, each at least so many.
var pages = map[string]int{"keps.md": 40, "reliability.md": 12}

// named is a test as these pages name it: `package.TestName`.
var named = regexp.MustCompile("`((?:pkg|cmd|test|hack)/[a-z0-9/]+)\\.(Test[A-Za-z0-9_]+)`")

// mention finds whatever looks like a test's name, so that one that is written otherwise
// does not go unchecked.
var mention = regexp.MustCompile(`\bTest[A-Z][A-Za-z0-9_]+`)

func TestEveryTestThatAPageNamesExists(t *testing.T) {
	for file, least := range pages {
		t.Run(file, func(t *testing.T) {
			page, err := os.ReadFile(filepath.Join(root, "docs", file))
			if err != nil {
				t.Fatal(err)
			}
			names := named.FindAllStringSubmatch(string(page), -1)
			if len(names) < least {
				t.Fatalf("the page names %d tests: is it written otherwise now?", len(names))
			}
			if got := len(mention.FindAllString(strings.ReplaceAll(string(page), "TestName", ""), -1)); got != len(names) {
				t.Errorf("%d names of tests are on the page, but only %d are written as `package.TestName`", got, len(names))
			}
			for _, name := range names {
				if folder, test := name[1], name[2]; !defined(t, folder, test) {
					t.Errorf("it names %s of package %s, which does not exist", test, folder)
				}
			}
		})
	}
}

// defined says whether a test file in a folder has a test of that name.
func defined(t *testing.T, folder, test string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(source), "\nfunc "+test+"(t *testing.T)") {
			return true
		}
	}
	return false
}
