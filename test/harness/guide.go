package harness

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trainjob/controller/test/cluster"
)

// Section is a part of a page of docs/ under a heading, with the commands in it.
type Section struct {
	Heading string
	Blocks  []string
}

// Guide reads the sections of a page of docs/ that have commands to run.
func Guide(t *testing.T, page string) []Section {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(SourceDir(), "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	var sections []Section
	var block *strings.Builder
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case block == nil && strings.HasPrefix(line, "## "):
			sections = append(sections, Section{Heading: strings.TrimPrefix(line, "## ")})
		case block == nil && line == "```sh":
			block = &strings.Builder{}
		case block != nil && line == "```":
			last := &sections[len(sections)-1]
			last.Blocks, block = append(last.Blocks, block.String()), nil
		case block != nil:
			block.WriteString(line + "\n")
		}
	}
	return slices.DeleteFunc(sections, func(s Section) bool { return len(s.Blocks) == 0 })
}

// Reader is somebody who follows a guide, in a folder with the repository's artifacts.
type Reader struct {
	env       *Env
	dir, path string
}

// NewReader makes a Reader who is the cluster's administrator.
func (e *Env) NewReader(t *testing.T) Reader {
	t.Helper()
	kubectl, err := cluster.FindBinary(t.Context(), os.Stderr, SourceDir(), "kubectl")
	if err != nil {
		t.Fatal(err)
	}
	r := Reader{env: e, dir: t.TempDir(), path: filepath.Dir(kubectl)}
	if err := os.Symlink(filepath.Join(SourceDir(), "artifacts"), filepath.Join(r.dir, "artifacts")); err != nil {
		t.Fatal(err)
	}
	return r
}

// Run runs the commands of a block and returns what they printed.
func (r Reader) Run(t *testing.T, block string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", block)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), "KUBECONFIG="+r.env.Cluster.Kubeconfig(), "PATH="+r.path+":"+os.Getenv("PATH"))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("the guide says\n%s\nand that fails: %v\n%s", block, err, out.String())
	}
	return out.String()
}
