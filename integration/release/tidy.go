package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// tidy runs go mod tidy on a copy of each module, against its already tidied
// siblings, and writes go.mod and go.sum back, or only compares.
func tidy(ctx context.Context, t *tree, compare bool) (err error) {
	s, err := newSandbox(ctx, t)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	untidy := false
	for _, m := range t.modules {
		changed, err := s.tidyModule(ctx, m, compare)
		if err != nil {
			return fmt.Errorf("%s: %w", m.dir, err)
		}
		untidy = untidy || changed
	}
	for _, dir := range t.outside {
		if err := tidyOutside(ctx, filepath.Join(t.dir, dir), compare); err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
	}
	if compare && untidy {
		return errors.New("module files are not tidy; run make tidy")
	}
	return nil
}

func (s *sandbox) tidyModule(ctx context.Context, m *repoModule, compare bool) (changed bool, err error) {
	dir, err := s.unpack(m)
	if err != nil {
		return false, err
	}
	if _, err := s.run(ctx, dir, "go", "mod", "tidy"); err != nil {
		return false, err
	}
	if err := s.dropOurSums(filepath.Join(dir, "go.sum")); err != nil {
		return false, err
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		differs, err := s.carryOver(filepath.Join(dir, name), filepath.Join(m.abs, name), compare)
		if err != nil {
			return false, err
		}
		changed = changed || differs
	}
	if !m.released {
		return changed, nil
	}
	return changed, s.publish(m.version(), dir)
}

// dropOurSums takes the lines of our own modules out of a go.sum: they are sums
// of what was packed just now.
func (s *sandbox) dropOurSums(file string) error {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(withoutOurs(s.tree, string(text))), 0o644)
}

func withoutOurs(t *tree, sums string) string {
	var kept strings.Builder
	for line := range strings.Lines(sums) {
		if !t.ours(line) {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// carryOver copies a file to where it belongs if the two differ, or only prints
// how they do. A missing file is an empty one.
func (s *sandbox) carryOver(from, to string, compare bool) (differs bool, err error) {
	var texts [2]string
	for i, file := range []string{from, to} {
		text, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
		texts[i] = string(text)
	}
	if texts[0] == texts[1] {
		return false, nil
	}
	shown, err := filepath.Rel(s.tree.dir, to)
	if err != nil {
		return false, err
	}
	if compare {
		fmt.Printf("%s:\n%s", shown, diff(strings.Split(texts[1], "\n"), strings.Split(texts[0], "\n")))
		return true, nil
	}
	fmt.Println("tidied", shown)
	return true, os.WriteFile(to, []byte(texts[0]), 0o644)
}

// tidyOutside tidies a module that has no siblings, in place.
func tidyOutside(ctx context.Context, dir string, compare bool) error {
	args := []string{"mod", "tidy"}
	if compare {
		args = append(args, "-diff") // fails, and prints how, if anything would change
	}
	cmd := command(ctx, dir, append(os.Environ(), "GOWORK=off", "GOFLAGS="), "go", args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}
