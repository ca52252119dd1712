package nodes

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// unified is the folder of the second version's hierarchy beside those of the first, which
// has no controllers of its own. Container runtimes make groups in it all the same.
const unified = "unified"

// hierarchies are the folders of control groups of this machine.
func hierarchies() ([]string, error) {
	all, err := filepath.Glob(filepath.Join(cgroups, "*"))
	return slices.DeleteFunc(all, func(path string) bool {
		info, err := os.Lstat(path)
		return err != nil || !info.IsDir()
	}), err
}

// makeGroups makes the control group of a node, empty as after a reboot.
func makeGroups(world, node string) error {
	folders, err := hierarchies()
	if err != nil {
		return err
	}
	for _, folder := range folders {
		group := filepath.Join(folder, world, node)
		if err := removeTree(group); err != nil {
			return err
		}
		if filepath.Base(folder) == unified {
			continue
		}
		if err := os.MkdirAll(group, 0o755); err != nil {
			return err
		}
		if filepath.Base(folder) != "cpuset" {
			continue
		}
		// A cpuset without processors takes no process.
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			value, err := os.ReadFile(filepath.Join(folder, file))
			if err != nil {
				return err
			}
			for _, each := range []string{filepath.Dir(group), group} {
				if err := os.WriteFile(filepath.Join(each, file), value, 0o644); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// removeGroups removes the control groups of a world.
func removeGroups(world string) error {
	folders, err := hierarchies()
	if err != nil {
		return err
	}
	for _, folder := range folders {
		if err := removeTree(filepath.Join(folder, world)); err != nil {
			return err
		}
	}
	return nil
}

// removeTree removes a group and those below it, the lowest first. The files in them
// cannot be removed and need not be.
func removeTree(group string) error {
	var groups []string
	err := filepath.WalkDir(group, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && entry.IsDir() {
			groups = append(groups, path)
		}
		return err
	})
	if err != nil {
		return err
	}
	slices.SortFunc(groups, func(a, b string) int {
		return strings.Count(b, string(filepath.Separator)) - strings.Count(a, string(filepath.Separator))
	})
	for _, path := range groups {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
