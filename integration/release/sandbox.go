package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// sandbox is a temporary folder with a module proxy of files and a fresh module
// cache, and an environment for the go command that knows only these and the
// user's proxies.
type sandbox struct {
	tree *tree
	dir  string
	env  []string
}

func newSandbox(ctx context.Context, t *tree) (*sandbox, error) {
	dir, err := os.MkdirTemp("", "leasing-release-")
	if err != nil {
		return nil, err
	}
	s := &sandbox{tree: t, dir: dir}
	if s.env, err = s.environment(ctx); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// close removes the folder. -modcacherw keeps the cache's folders writable.
func (s *sandbox) close() error { return os.RemoveAll(s.dir) }

func (s *sandbox) path(elem ...string) string {
	return filepath.Join(append([]string{s.dir}, elem...)...)
}

// environment lets the user's module cache serve third parties, so that a check
// needs no network after a build; and keeps the checksum database from being
// asked about modules it can't know.
func (s *sandbox) environment(ctx context.Context) ([]string, error) {
	cmd := command(ctx, s.tree.dir, os.Environ(), "go", "env", "-json", "GOMODCACHE", "GOPROXY", "GONOSUMDB")
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	var user struct{ GOMODCACHE, GOPROXY, GONOSUMDB string }
	if err := json.Unmarshal(out, &user); err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	proxies := []string{
		fileURL(s.path("proxy")),
		fileURL(filepath.Join(user.GOMODCACHE, "cache", "download")),
		user.GOPROXY,
	}
	unsummed := strings.Split(user.GONOSUMDB, ",")
	for _, m := range s.tree.modules {
		unsummed = append(unsummed, m.path)
	}
	return append(os.Environ(),
		"GOWORK=off",
		// -trimpath makes the build cache useful across sandboxes.
		"GOFLAGS=-mod=mod -modcacherw -trimpath",
		"GOMODCACHE="+s.path("modcache"),
		"GOPROXY="+strings.Join(proxies, ","),
		"GONOSUMDB="+strings.Trim(strings.Join(unsummed, ","), ","),
		// Nothing bypasses the proxies. (Not "none": with any value the go
		// command takes a sibling that the cache has for the whole answer.)
		"GONOPROXY=",
		"GOPRIVATE=",
	), nil
}

func fileURL(path string) string {
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(path)}).String()
}

// command is exec.Command that ends the way Ctrl-C would when ctx does.
func command(ctx context.Context, dir string, env []string, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = slices.Concat(env, []string{"PWD=" + dir})
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// run runs a command in the sandbox's environment and returns its standard
// output; the error holds all that it said.
func (s *sandbox) run(ctx context.Context, dir, name string, args ...string) (string, error) {
	var out, said bytes.Buffer
	cmd := command(ctx, dir, s.env, name, args...)
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s%s", strings.Join(cmd.Args, " "), err, out.Bytes(), withoutDownloads(said.String()))
	}
	return out.String(), nil
}

// withoutDownloads drops the go command's chatter from what explains a failure.
func withoutDownloads(said string) string {
	var kept strings.Builder
	for line := range strings.Lines(said) {
		if !strings.HasPrefix(line, "go: downloading ") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// publish packs the module in dir into the proxy, in the layout of
// https://go.dev/ref/mod#goproxy-protocol.
func (s *sandbox) publish(v module.Version, dir string) error {
	escaped, err := module.EscapePath(v.Path)
	if err != nil {
		return err
	}
	base := s.path("proxy", filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(base, 0o755); err != nil {
		return err
	}
	if err := pack(v, dir, filepath.Join(base, v.Version+".zip")); err != nil {
		return err
	}
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return err
	}
	info, err := json.Marshal(struct{ Version, Time string }{v.Version, time.Now().UTC().Format(time.RFC3339)})
	if err != nil {
		return err
	}
	for name, text := range map[string][]byte{
		v.Version + ".mod":  mod,
		v.Version + ".info": info,
		"list":              []byte(v.Version + "\n"),
	} {
		if err := os.WriteFile(filepath.Join(base, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// pack writes what a proxy would serve for the module in dir: nested modules,
// vendor folders and version control are left out.
func pack(v module.Version, dir, to string) (err error) {
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if err := zip.CreateFromDir(out, v, dir); err != nil {
		return fmt.Errorf("pack %s: %w", v, err)
	}
	return nil
}

// unpack makes a writable copy of a module, of what would be published of it.
func (s *sandbox) unpack(m *repoModule) (string, error) {
	file, dir := s.path("packed", m.slug()+".zip"), s.path("unpacked", m.slug())
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return "", err
	}
	if err := pack(m.version(), m.abs, file); err != nil {
		return "", err
	}
	if err := zip.Unzip(dir, m.version(), file); err != nil {
		return "", err
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		err := os.Chmod(filepath.Join(dir, name), 0o644)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return dir, nil
}
