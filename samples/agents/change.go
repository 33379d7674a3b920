package main

import (
	"context"
	"fmt"
	"hash/crc32"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// change adds a line to each file at or below some paths: the name of the edit, and a checksum of the file up to that line. It
// writes new files beside the old ones, in steps that take time, and renames all of them unless ctx has ended.
//
// A process that is paused between the check of ctx and the renaming still writes late. No lease helps against that, and a file
// system checks no token: see package fencing.
func change(ctx context.Context, edit string, paths []string) error {
	files, err := expand(paths)
	if err != nil {
		return err
	}
	beside := func(file string) string {
		return filepath.Join(*root, file) + "." + strings.ReplaceAll(edit, "/", "-") + "~"
	}
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(*root, file))
		if err != nil {
			return err
		}
		text = fmt.Appendf(text, "%s %08x\n", edit, crc32.ChecksumIEEE(text))
		for part := 1; part <= 3; part++ {
			if err := os.WriteFile(beside(file), text[:len(text)*part/3], 0o644); err != nil {
				return err
			}
			<-time.After(20 * time.Millisecond)
		}
	}
	slog.Debug("is in the middle of an edit", "edit", edit, "paths", files)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for _, file := range files {
		if err := os.Rename(beside(file), filepath.Join(*root, file)); err != nil {
			return err
		}
	}
	slog.Info("has edited", "edit", edit, "paths", files)
	return nil
}

// expand replaces each folder with its files.
func expand(paths []string) (files []string, err error) {
	for _, path := range paths {
		inside, err := filepath.Glob(filepath.Join(*root, path, "*[^~]"))
		if err != nil {
			return nil, err
		}
		if len(inside) == 0 {
			files = append(files, path)
		}
		for _, file := range inside {
			files = append(files, filepath.Join(path, filepath.Base(file)))
		}
	}
	return files, nil
}
