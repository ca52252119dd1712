package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	controller = "trainjob-controller" // the image that is built unless another is named
	// nobody in particular. A number, so that a kubelet can see that it is not root; there
	// is no file with names in the image.
	nobody = "65532:65532"
)

// descriptions of the programs; what else is built is for tests.
var descriptions = map[string]string{
	controller:  "Runs TrainJobs of the API group trainer.kubeflow.org",
	"preflight": "Checks a node before a training job starts on it",
}

// pack writes the archive of an image with one binary for each platform, and returns the
// digest of its index.
func pack(o options, binaries map[string]string) (v1.Hash, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, platform := range o.platforms {
		image, err := imageOf(o, platform, binaries[platform])
		if err != nil {
			return v1.Hash{}, fmt.Errorf("image for %s: %w", platform, err)
		}
		system, arch, _ := strings.Cut(platform, "/")
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: system, Architecture: arch}},
		})
	}
	digest, err := index.Digest()
	if err != nil {
		return v1.Hash{}, err
	}
	dir, err := os.MkdirTemp("", "layout-")
	if err != nil {
		return v1.Hash{}, err
	}
	defer os.RemoveAll(dir)
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return v1.Hash{}, err
	}
	// The first name is for tools that go by the OCI's words, the second for containerd
	// and Docker.
	err = path.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": o.version,
		"io.containerd.image.name":          o.name + ":" + o.version,
	}))
	if err != nil {
		return v1.Hash{}, err
	}
	return digest, archive(dir, o.out, o.created)
}

// imageOf is an image with nothing in it but the binary, and the root below it if there is
// one.
func imageOf(o options, platform, binary string) (v1.Image, error) {
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if o.root != "" {
		root, err := rootLayer(o.root, o.created)
		if err != nil {
			return nil, err
		}
		if image, err = add(image, root, o.created); err != nil {
			return nil, err
		}
	}
	content, err := layerOf(o.name, binary, o.created)
	if err != nil {
		return nil, err
	}
	if image, err = add(image, content, o.created); err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	system, arch, _ := strings.Cut(platform, "/")
	config.OS, config.Architecture, config.Created = system, arch, v1.Time{Time: o.created}
	config.Config = v1.Config{
		Entrypoint: []string{"/" + o.name}, User: o.user, WorkingDir: "/",
		Labels: map[string]string{
			"org.opencontainers.image.title":       o.name,
			"org.opencontainers.image.description": descriptions[o.name],
			"org.opencontainers.image.version":     o.version,
			"org.opencontainers.image.revision":    o.revision,
			"org.opencontainers.image.created":     o.created.Format(time.RFC3339),
			"org.opencontainers.image.licenses":    "Apache-2.0",
		},
	}
	return mutate.ConfigFile(image, config)
}

// add puts a layer, a tar archive, on an image.
func add(image v1.Image, content []byte, created time.Time) (v1.Image, error) {
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	return mutate.Append(image, mutate.Addendum{
		Layer: layer, MediaType: types.OCILayer,
		History: v1.History{Created: v1.Time{Time: created}, CreatedBy: "hack/image"},
	})
}

// rootLayer is a file system as it lies in a folder, all of it root's.
func rootLayer(root string, modified time.Time) ([]byte, error) {
	var out bytes.Buffer
	files := tar.NewWriter(&out)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		return addEntry(files, root, path, modified)
	})
	return out.Bytes(), errors.Join(err, files.Close())
}

// addEntry adds one file, folder or link to the layer of a root file system.
func addEntry(files *tar.Writer, root, path string, modified time.Time) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	target := ""
	if info.Mode()&fs.ModeSymlink != 0 {
		if target, err = os.Readlink(path); err != nil {
			return err
		}
	}
	header, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return err
	}
	inside, err := filepath.Rel(root, path)
	if err != nil {
		return err
	}
	header.Name, header.Format = filepath.ToSlash(inside), tar.FormatPAX
	if info.IsDir() {
		header.Name += "/"
	}
	header.Uid, header.Gid, header.Uname, header.Gname = 0, 0, "", ""
	header.ModTime, header.AccessTime, header.ChangeTime = modified, time.Time{}, time.Time{}
	if err := files.WriteHeader(header); err != nil || !info.Mode().IsRegular() {
		return err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	_, err = files.Write(data)
	return err
}

// layerOf is a file system with the binary alone.
func layerOf(name, binary string, modified time.Time) ([]byte, error) {
	data, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	files := tar.NewWriter(&out)
	err = files.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: name, Mode: 0o555, Size: int64(len(data)), ModTime: modified, Format: tar.FormatPAX,
	})
	if err != nil {
		return nil, err
	}
	_, err = files.Write(data)
	return out.Bytes(), errors.Join(err, files.Close())
}

// archive packs a folder into a file, in the order of names and with one time for all.
func archive(dir, out string, modified time.Time) (err error) {
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return err
	}
	partial := out + ".partial"
	f, err := os.Create(partial)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ignoreMissing(os.Remove(partial))) }()
	files := tar.NewWriter(f)
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		inside, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		return addBlob(files, path, filepath.ToSlash(inside), entry.IsDir(), modified)
	})
	if err := errors.Join(err, files.Close(), f.Close()); err != nil {
		return err
	}
	return os.Rename(partial, out)
}

func addBlob(files *tar.Writer, path, inside string, isDir bool, modified time.Time) error {
	if isDir {
		return files.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: inside + "/", Mode: 0o755, ModTime: modified, Format: tar.FormatPAX})
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := files.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: inside, Mode: 0o644, Size: int64(len(data)), ModTime: modified, Format: tar.FormatPAX}); err != nil {
		return err
	}
	_, err = files.Write(data)
	return err
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
