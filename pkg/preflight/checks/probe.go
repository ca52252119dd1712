package checks

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Probe is what the storage probe is to try.
type Probe struct {
	Path     string `json:"path"`
	ReadOnly bool   `json:"readOnly"`
	Bytes    int    `json:"bytes"`
	Owner    string `json:"owner"`
}

// ProbeResult is what it met: nothing if Step is empty.
type ProbeResult struct {
	Step    string `json:"step,omitempty"`
	Error   string `json:"error,omitempty"`
	Errno   int    `json:"errno,omitempty"`
	Corrupt bool   `json:"corrupt,omitempty"`
}

// RunProbe is the hidden command: it tries a folder as its argument says, and writes the
// result as JSON.
func RunProbe(argument string, w io.Writer) error {
	var probe Probe
	if err := json.Unmarshal([]byte(argument), &probe); err != nil {
		return err
	}
	return json.NewEncoder(w).Encode(probe.try())
}

func (p Probe) try() ProbeResult {
	if p.ReadOnly {
		return result("list the folder", p.list())
	}
	name := filepath.Join(p.Path, ".preflight-"+strings.Map(fileCharacter, p.Owner))
	data := make([]byte, p.Bytes)
	if _, err := rand.Read(data); err != nil {
		return result("make data", err)
	}
	// What an earlier probe that was killed has left goes too.
	defer os.Remove(name)
	if step, err := write(name, data); err != nil {
		return result(step, err)
	}
	back, err := os.ReadFile(name)
	if err != nil {
		return result("read", err)
	}
	if !bytes.Equal(back, data) {
		return ProbeResult{Step: "compare", Error: fmt.Sprintf("%d bytes came back, and not those that were written", len(back)), Corrupt: true}
	}
	// Checkpoints are made complete by renaming them.
	renamed := name + "-renamed"
	if err := os.Rename(name, renamed); err != nil {
		return result("rename", err)
	}
	return result("delete", os.Remove(renamed))
}

// list reads a name, so that the server behind the folder has to answer.
func (p Probe) list() error {
	folder, err := os.Open(p.Path)
	if err != nil {
		return err
	}
	defer folder.Close()
	if _, err := folder.Readdirnames(1); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

func write(name string, data []byte) (string, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return "create", err
	}
	if _, err := f.Write(data); err != nil {
		return "write", errors.Join(err, f.Close())
	}
	if err := f.Sync(); err != nil {
		return "sync", errors.Join(err, f.Close())
	}
	return "close", f.Close()
}

func result(step string, err error) ProbeResult {
	if err == nil {
		return ProbeResult{}
	}
	return ProbeResult{Step: step, Error: err.Error(), Errno: errno(err)}
}

func fileCharacter(r rune) rune {
	if r == '-' || r == '.' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
		return r
	}
	return '-'
}
