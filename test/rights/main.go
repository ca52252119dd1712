package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/trainjob/controller/test/harness"
)

// exceptions are rights that no test can be seen to use, and why they are there.
var exceptions = []exception{
	{"update", "trainer.kubeflow.org", "trainjobs/finalizers",
		"nobody calls it: OwnerReferencesPermissionEnforcement asks for it"},
	{"list", "", "pods",
		"client-go lists where an API server does not stream lists, and the watch of pods begins too late for the tests of that"},
}

// exception is a right and the reason why it stays although it is not used.
type exception struct{ verb, group, resource, reason string }

func main() {
	roles := flag.String("roles", filepath.Join(harness.SourceDir(), "artifacts", "rbac"), "`folder` of the roles")
	used := flag.String("used", os.Getenv(harness.RightsEnv), "`folder` that the tests were told by "+harness.RightsEnv)
	flag.Parse()
	if err := run(*roles, *used); err != nil {
		fmt.Fprintln(os.Stderr, "rights:", err)
		os.Exit(1)
	}
}

func run(roles, used string) error {
	files, err := filepath.Glob(filepath.Join(used, "*.tsv"))
	if err != nil {
		return err
	}
	if used == "" || len(files) == 0 {
		return fmt.Errorf("no package has left what it used in %q: run them all with %s set, as `make test-integration` does", used, harness.RightsEnv)
	}
	granted, err := readRoles(roles)
	if err != nil {
		return err
	}
	rights, err := readUsed(files)
	if err != nil {
		return err
	}
	if err := errors.Join(compare(granted, rights, exceptions)...); err != nil {
		return err
	}
	fmt.Printf("rights: each of the %d rights in %s is used (%d exceptions), as %d packages of tests have shown\n",
		len(granted), filepath.Base(roles), len(exceptions), len(files))
	return nil
}

func readUsed(files []string) ([]harness.Right, error) {
	var all []harness.Right
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		rights, err := harness.ParseRights(f)
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, rights...)
	}
	return all, nil
}

// compare names the rights that are granted and not used, and the exceptions that are
// none.
func compare(granted []grant, used []harness.Right, exceptions []exception) []error {
	var errs []error
	excused := map[exception]bool{}
	for _, g := range granted {
		isUsed := slices.ContainsFunc(used, g.covers)
		at := slices.IndexFunc(exceptions, func(e exception) bool {
			return e.verb == g.verb && e.group == g.group && e.resource == g.resource
		})
		if at >= 0 && !isUsed {
			excused[exceptions[at]] = true
		}
		if at < 0 && !isUsed {
			errs = append(errs, fmt.Errorf("%s is never used: take it out, or name it among the exceptions in test/rights with the reason", g))
		}
	}
	for _, e := range exceptions {
		if !excused[e] {
			errs = append(errs, fmt.Errorf("%s %s of %q is an exception in test/rights, but it is used, or in no role: take the exception out", e.verb, e.resource, e.group))
		}
	}
	return errs
}
