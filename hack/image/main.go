// Command image builds the container image of one of the programs without a container runtime: a
// static binary on an empty root, for several platforms, as an OCI archive. The same
// source, version and toolchain give the same bytes, wherever and whenever it runs. Images
// of other programs of this repository, and such with a root file system below them, are
// built in the same way for tests.
//
// It knows Go's compiler and the OCI image format, and nothing about what is in the
// binary. It is a module of its own so that its dependencies stay out of theirs.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

// options say what to build.
type options struct {
	source    string // root of the source tree
	name      string // of the image and of the binary in it
	pkg       string // the Go package to build; ./cmd/NAME if empty
	user      string
	root      string // folder with what is in the image besides the binary, or empty
	out       string // archive to write
	platforms []string
	ldflags   string
	version   string
	revision  string
	created   time.Time
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	var o options
	var epoch int64
	var platforms string
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	flags.StringVar(&o.source, "source", filepath.Join("..", ".."), "`folder` with the source tree")
	flags.StringVar(&o.name, "name", controller, "`name` of the image and of the binary in it")
	flags.StringVar(&o.pkg, "package", "", "Go package of the binary; by default ./cmd/NAME")
	flags.StringVar(&o.user, "user", nobody, "user and group that it runs as, `uid:gid`")
	flags.StringVar(&o.root, "root", "", "`folder` with the root file system below the binary; nothing if empty")
	flags.StringVar(&o.out, "out", "", "`file` to write the archive to; by default bin/NAME.tar")
	flags.StringVar(&platforms, "platforms", "linux/amd64,linux/arm64", "what to build for, `os/arch,…`")
	flags.StringVar(&o.ldflags, "ldflags", "-s -w", "flags of the linker")
	flags.StringVar(&o.version, "version", "v0.0.0", "version of the image, also its tag")
	flags.StringVar(&o.revision, "revision", "", "commit that it is built from")
	flags.Int64Var(&epoch, "epoch", 0, "time of that commit, in `seconds` since 1970: the time of everything in the image")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.out == "" {
		o.out = filepath.Join("..", "..", "bin", o.name+".tar")
	}
	o.platforms, o.created = strings.Split(platforms, ","), time.Unix(epoch, 0).UTC()
	dir, err := os.MkdirTemp("", "image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binaries := map[string]string{}
	for _, platform := range o.platforms {
		if binaries[platform], err = compile(ctx, o, platform, dir); err != nil {
			return err
		}
	}
	digest, err := pack(o, binaries)
	if err != nil {
		return err
	}
	info, err := os.Stat(o.out)
	if err != nil {
		return err
	}
	fmt.Printf("%s:%s\n  archive  %s, %.1f MB for %s\n  digest   %s\n",
		o.name, o.version, o.out, float64(info.Size())/1e6, strings.Join(o.platforms, " and "), digest)
	return nil
}

// compile builds the program for a platform. -trimpath keeps the folder it was built
// in out of it, and without version control data it does not matter whether there is any.
func compile(ctx context.Context, o options, platform, dir string) (string, error) {
	system, arch, ok := strings.Cut(platform, "/")
	if !ok || system == "" || arch == "" {
		return "", fmt.Errorf("platform %q is not os/arch, such as linux/amd64", platform)
	}
	binary := filepath.Join(dir, system+"-"+arch, o.name)
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", o.ldflags, "-o", binary, cmp.Or(o.pkg, "./cmd/"+o.name))
	cmd.Dir, cmd.Stderr = o.source, os.Stderr
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOOS="+system, "GOARCH="+arch,
		// What else goes into a binary. -mod=readonly is the default; an empty GOFLAGS would
		// let in what `go env -w` has set.
		"GOFLAGS=-mod=readonly", "GOEXPERIMENT=", "GOFIPS140=off", "GOAMD64=v1", "GOARM64=v8.0")
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("build for %s: %w", platform, err)
	}
	return binary, nil
}
