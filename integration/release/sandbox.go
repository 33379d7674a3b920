package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// sandbox is a temporary folder with a module proxy of files and a fresh module
// cache, and an environment for the go command that names only these and the user's
// proxies.
type sandbox struct {
	root string // of the repository
	dir  string
	env  []string
}

// newSandbox lets the user's module cache serve third-party modules, so that a check needs no network after a build. It also
// keeps the go command from asking the checksum database about unpublished modules.
func newSandbox(root string, user goSettings, modules []released) (*sandbox, error) {
	dir, err := os.MkdirTemp("", "leasing-release-")
	if err != nil {
		return nil, err
	}
	unsummed := user.GONOSUMDB
	for _, m := range modules {
		unsummed += "," + m.Path
	}
	return &sandbox{root: root, dir: dir, env: append(os.Environ(),
		"GOWORK=off",
		// -trimpath makes the build cache useful across sandboxes.
		"GOFLAGS=-mod=mod -modcacherw -trimpath",
		"GOMODCACHE="+filepath.Join(dir, "modcache"),
		"GOPROXY="+fileURL(filepath.Join(dir, "proxy"))+","+fileURL(filepath.Join(user.GOMODCACHE, "cache", "download"))+","+user.GOPROXY,
		"GONOSUMDB="+strings.Trim(unsummed, ","),
		// Nothing bypasses the proxies. (The value is empty, not "none": with any
		// value the go command treats a sibling in the cache as the whole answer.)
		"GONOPROXY=",
		"GOPRIVATE=",
	)}, nil
}

func fileURL(path string) string {
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(path)}).String()
}

// publish packs the module in dir into the proxy, in the layout of
// https://go.dev/ref/mod#goproxy-protocol. Like a real proxy, it leaves out nested modules, vendor
// folders and version control files.
func (s *sandbox) publish(m module.Version, dir string) error {
	escaped, err := module.EscapePath(m.Path)
	if err != nil {
		return err
	}
	versions := filepath.Join(s.dir, "proxy", filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(versions, 0o755); err != nil {
		return err
	}
	var packed bytes.Buffer
	if err := zip.CreateFromDir(&packed, m, dir); err != nil {
		return fmt.Errorf("pack %s: %w", m, err)
	}
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return err
	}
	info, err := json.Marshal(map[string]any{"Version": m.Version, "Time": time.Now().UTC()})
	if err != nil {
		return err
	}
	for name, text := range map[string][]byte{
		m.Version + ".zip": packed.Bytes(), m.Version + ".mod": mod, m.Version + ".info": info, "list": []byte(m.Version + "\n"),
	} {
		if err := os.WriteFile(filepath.Join(versions, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

var downloading = regexp.MustCompile(`(?m)^go: downloading .*\n`)

// run runs a command in the sandbox's environment and returns its standard output. An error
// contains all output. At the end of ctx the command is interrupted, as by Ctrl-C.
func (s *sandbox) run(ctx context.Context, dir string, command ...string) (string, error) {
	var out, messages bytes.Buffer
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir, cmd.Env = dir, append(s.env, "PWD="+dir)
	cmd.Stdout, cmd.Stderr = &out, &messages
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s%s", strings.Join(command, " "), err, out.Bytes(), downloading.ReplaceAll(messages.Bytes(), nil))
	}
	return out.String(), nil
}
