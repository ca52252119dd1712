package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// packed is an archive of binaries that are no programs, written at a time of the
// file system's own.
func packed(t *testing.T, amd64, arm64 string) ([]byte, v1.Hash) {
	t.Helper()
	dir := t.TempDir()
	o := options{
		name: controller, user: nobody,
		out: filepath.Join(dir, "out", "image.tar"), platforms: []string{"linux/amd64", "linux/arm64"},
		version: "v1.2.3", revision: "abc", created: time.Unix(1700000000, 0).UTC(),
	}
	binaries := map[string]string{}
	for platform, content := range map[string]string{"linux/amd64": amd64, "linux/arm64": arm64} {
		binaries[platform] = filepath.Join(dir, strings.ReplaceAll(platform, "/", "-"))
		if err := os.WriteFile(binaries[platform], []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return archived(t, o, binaries)
}

// archived packs binaries, and reads what that has written.
func archived(t *testing.T, o options, binaries map[string]string) ([]byte, v1.Hash) {
	t.Helper()
	digest, err := pack(o, binaries)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(o.out)
	if err != nil {
		t.Fatal(err)
	}
	return data, digest
}

func TestTheSameBinariesMakeTheSameArchive(t *testing.T) {
	first, digest := packed(t, "one", "two")
	second, again := packed(t, "one", "two")
	if !bytes.Equal(first, second) || digest != again {
		t.Errorf("two archives of the same binaries differ: %s and %s", digest, again)
	}
	if _, other := packed(t, "one", "three"); other == digest {
		t.Error("another binary makes the same digest")
	}
}

func TestImagesHoldTheBinaryAndNothingElse(t *testing.T) {
	data, digest := packed(t, "one", "two")
	dir := t.TempDir()
	unpack(t, data, dir)
	path, err := layout.FromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	index, err := path.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	outer, err := index.IndexManifest()
	if err != nil || len(outer.Manifests) != 1 || outer.Manifests[0].Digest != digest {
		t.Fatalf("%v; the archive holds %+v, want one index of digest %s", err, outer, digest)
	}
	if ref := outer.Manifests[0].Annotations["org.opencontainers.image.ref.name"]; ref != "v1.2.3" {
		t.Errorf("the tag is %q", ref)
	}
	inner, err := index.ImageIndex(digest)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := inner.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"linux/amd64": "one", "linux/arm64": "two"}
	for _, descriptor := range manifest.Manifests {
		image, err := inner.Image(descriptor.Digest)
		if err != nil {
			t.Fatal(err)
		}
		platform := descriptor.Platform.String()
		checkImage(t, image, platform, want[platform])
		delete(want, platform)
	}
	if len(want) > 0 {
		t.Errorf("no image for %v", want)
	}
}

func TestEveryProgramHasADescription(t *testing.T) {
	programs, err := os.ReadDir(filepath.Join("..", "..", "cmd"))
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range programs {
		if descriptions[program.Name()] == "" {
			t.Errorf("the image of %s has no description", program.Name())
		}
	}
}

func checkImage(t *testing.T, image v1.Image, platform, content string) {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if got := config.OS + "/" + config.Architecture; got != platform {
		t.Errorf("the configuration is for %s, want %s", got, platform)
	}
	if config.Config.User != nobody || config.Config.Entrypoint[0] != "/"+controller {
		t.Errorf("user %q, entrypoint %v", config.Config.User, config.Config.Entrypoint)
	}
	if label := config.Config.Labels["org.opencontainers.image.version"]; label != "v1.2.3" {
		t.Errorf("the version is labelled %q", label)
	}
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%v; %d layers, want one", err, len(layers))
	}
	files, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	reader := tar.NewReader(files)
	header, err := reader.Next()
	if err != nil || header.Name != controller || header.Mode != 0o555 || header.Uid != 0 {
		t.Fatalf("%v; the first file is %+v", err, header)
	}
	if got, err := io.ReadAll(reader); err != nil || string(got) != content {
		t.Errorf("%v; the binary is %q, want %q", err, got, content)
	}
	if _, err := reader.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("there is another file (%v)", err)
	}
}

func unpack(t *testing.T, data []byte, dir string) {
	t.Helper()
	files := tar.NewReader(bytes.NewReader(data))
	for {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, filepath.FromSlash(header.Name))
		if header.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o755)
		} else if content, readErr := io.ReadAll(files); readErr != nil {
			err = readErr
		} else {
			err = os.WriteFile(path, content, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// The controller itself, built in two folders, of which one is no git repository, and with
// settings of Go that would make another binary, or none.
func TestTheBinaryDoesNotTellWhereItWasBuilt(t *testing.T) {
	source, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	copied := t.TempDir()
	for _, part := range []string{"go.mod", "go.sum", "apis", "cmd", "generated", "pkg"} {
		if out, err := exec.CommandContext(t.Context(), "cp", "-R", filepath.Join(source, part), copied).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	platform := "linux/" + runtime.GOARCH
	var sums [][32]byte
	for i, folder := range []string{source, copied} {
		if i == 1 {
			for _, setting := range []string{"GOAMD64=v3", "GOARM64=v8.2", "GOEXPERIMENT=nosuch", "GOFLAGS=-tags=nosuch", "GOFIPS140=latest"} {
				name, value, _ := strings.Cut(setting, "=")
				t.Setenv(name, value)
			}
		}
		o := options{source: folder, name: controller, ldflags: "-s -w -X k8s.io/component-base/version.gitVersion=v1.2.3"}
		binary, err := compile(t.Context(), o, platform, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(binary)
		if err != nil {
			t.Fatal(err)
		}
		if size := len(data); size > 40_000_000 {
			t.Errorf("the binary, which is all of the image, has %d bytes", size)
		}
		sums = append(sums, sha256.Sum256(data))
	}
	if sums[0] != sums[1] {
		t.Error("the same source makes another binary in another folder")
	}
}

// The controller itself, for the machine that this is, as `make image` does it: small to
// pull, and the program that runs out of the image.
func TestTheImageHoldsTheController(t *testing.T) {
	o := options{
		name: controller, user: nobody,
		source: filepath.Join("..", ".."), ldflags: "-s -w -X k8s.io/component-base/version.gitVersion=v1.2.3", version: "v1.2.3",
		out: filepath.Join(t.TempDir(), "image.tar"), platforms: []string{"linux/" + runtime.GOARCH},
	}
	binaries := map[string]string{}
	for _, platform := range o.platforms {
		binary, err := compile(t.Context(), o, platform, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		binaries[platform] = binary
	}
	data, digest := archived(t, o, binaries)
	if limit := 20_000_000 * len(o.platforms); len(data) > limit {
		t.Errorf("the image has %d bytes, want at most %d", len(data), limit)
	}
	dir := t.TempDir()
	unpack(t, data, dir)
	path, err := layout.FromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	index, err := path.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	inner, err := index.ImageIndex(digest)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := inner.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	ran := false
	for _, descriptor := range manifest.Manifests {
		if descriptor.Platform.String() != runtime.GOOS+"/"+runtime.GOARCH {
			continue
		}
		image, err := inner.Image(descriptor.Digest)
		if err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), extracted(t, image), "--version").CombinedOutput()
		if err != nil || string(out) != controller+" version v1.2.3\n" {
			t.Errorf("%v; --version of the binary in the image says %q", err, out)
		}
		ran = true
	}
	if !ran && runtime.GOOS == "linux" {
		t.Errorf("there is no image for %s/%s, only %+v", runtime.GOOS, runtime.GOARCH, manifest.Manifests)
	}
}

// extracted writes what the image runs to a file, with the mode that it has there.
func extracted(t *testing.T, image v1.Image) string {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	files := mutate.Extract(image)
	defer files.Close()
	for reader := tar.NewReader(files); ; {
		header, err := reader.Next()
		if err != nil {
			t.Fatalf("%s: %v", config.Config.Entrypoint[0], err)
		}
		if "/"+header.Name != config.Config.Entrypoint[0] {
			continue
		}
		path := filepath.Join(t.TempDir(), filepath.Base(header.Name))
		content, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, header.FileInfo().Mode()); err != nil {
			t.Fatal(err)
		}
		return path
	}
}

func TestARootFileSystemLiesBelowTheBinary(t *testing.T) {
	root := t.TempDir()
	write := func(name string, mode os.FileMode, content string) {
		t.Helper()
		path := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), mode), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
	}
	write("usr/bin/sh", 0o755, "a shell")
	write("etc/shadow", 0o600, "")
	if err := os.Symlink("usr/bin", filepath.Join(root, "bin")); err != nil {
		t.Fatal(err)
	}
	modified := time.Unix(1700000000, 0).UTC()
	content, err := rootLayer(root, modified)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	files := tar.NewReader(bytes.NewReader(content))
	for {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Uid != 0 || header.Gid != 0 || !header.ModTime.Equal(modified) {
			t.Errorf("%s belongs to %d:%d and is of %v", header.Name, header.Uid, header.Gid, header.ModTime)
		}
		got = append(got, strings.TrimSpace(header.FileInfo().Mode().String()+" "+header.Name+" "+header.Linkname))
	}
	want := []string{"Lrwxrwxrwx bin usr/bin", "drwxr-xr-x etc/", "-rw------- etc/shadow", "drwxr-xr-x usr/", "drwxr-xr-x usr/bin/", "-rwxr-xr-x usr/bin/sh"}
	if !slices.Equal(got, want) {
		t.Errorf("the layer holds\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
