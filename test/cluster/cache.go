package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// CacheEnv names the environment variable that moves the cache folder.
const CacheEnv = "TRAINJOB_CLUSTER_CACHE"

// cacheDir returns, and creates, the folder for the binaries of this source
// tree on this platform. A changed pin, toolchain or flag means another folder,
// so a cached binary never needs to be checked for being out of date.
func cacheDir(root string) (string, error) {
	base := os.Getenv(CacheEnv)
	if base == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("find a cache folder (set %s to choose one): %w", CacheEnv, err)
		}
		base = filepath.Join(user, "trainjob-controller", "cluster")
	}
	key, err := cacheKey(root, runtime.Version(), runtime.GOOS, runtime.GOARCH, ldflags)
	if err != nil {
		return "", err
	}
	dir, err := filepath.Abs(filepath.Join(base, key))
	if err != nil {
		return "", fmt.Errorf("resolve the cache folder: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("create the cache folder (set %s to choose another): %w", CacheEnv, err)
	}
	return dir, nil
}

// pinned are the nested modules that binaries are built from, and sources the files of
// ours among theirs.
var (
	pinned  = []string{"kubernetes", "jobset", "kueue", "kwok", "coredns"}
	sources = map[string][]string{"coredns": {"main.go"}}
)

// cacheKey hashes everything that decides what the binaries are. Each part goes
// in with its name and length, so that no two different sets read the same.
func cacheKey(root string, parts ...string) (string, error) {
	hash := sha256.New()
	add := func(name string, data []byte) { fmt.Fprintf(hash, "%s %d\n%s\n", name, len(data), data) }
	for _, module := range pinned {
		for _, file := range append([]string{"go.mod", "go.sum"}, sources[module]...) {
			name := filepath.Join(nestedModules, module, file)
			data, err := os.ReadFile(filepath.Join(root, name))
			if err != nil {
				return "", fmt.Errorf("read the pins of the local control plane: %w", err)
			}
			add(filepath.ToSlash(name), data)
		}
	}
	for _, part := range parts {
		add("part", []byte(part))
	}
	return hex.EncodeToString(hash.Sum(nil))[:16], nil
}

// lockFile takes an exclusive lock that ends with the process at the latest.
// It calls waiting once if somebody else holds the lock.
func lockFile(ctx context.Context, path string, waiting func()) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	told := false
	err = poll(ctx, 200*time.Millisecond, func(context.Context) (bool, error) {
		switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
		case err == nil:
			return true, nil
		case !errors.Is(err, syscall.EWOULDBLOCK):
			return false, err
		}
		if !told && waiting != nil {
			told = true
			waiting()
		}
		return false, nil
	})
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { f.Close() }, nil
}

// poll calls probe at once and then at every interval until it says true, fails
// for good, or the context ends.
func poll(ctx context.Context, interval time.Duration, probe func(context.Context) (bool, error)) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		if done, err := probe(ctx); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}

// writeFile puts a file in place in one step, so that no reader ever sees half
// of it.
func writeFile(path string, data []byte, mode os.FileMode) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("create folder: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer os.Remove(f.Name())
	_, werr := io.WriteString(f, string(data))
	if err := errors.Join(werr, f.Chmod(mode), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.Rename(f.Name(), path)
}
