package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The beginning of mutants.txt describes its format.
//
//go:embed mutants.txt
var listText string

// mutant is one named change.
type mutant struct {
	name, class string
	breaks      string // the promise that it breaks; "" if it breaks none
	equivalent  string // why it breaks none
	edits       []edit
	asked       *area // the area of a drawn mutant; nil if the changed file determines the area
}

// edit replaces lines of a file.
type edit struct {
	file     string // from the repository's root
	old, new []string
	line     int // where the old lines begin; 0 if the file has them once
}

// classes are those of mutants.txt, in the order of the table.
var classes = []string{
	"trust", "renewal", "loss", "release", "clean-up", "waiting", "tokens", "records", "batches", "votes", "quarantine", "sweep", "fence", "events",
	"history", "sequence", "recipes", "command", "console", "auth", "chaos",
}

// parse reads the list. The beginning of a line shows its kind.
func parse(text string) (list []*mutant, err error) {
	names := map[string]bool{}
	var m *mutant
	var e *edit
	flush := func() {
		if e != nil {
			m.edits = append(m.edits, *e)
			e = nil
		}
	}
	for i, line := range strings.Split(text, "\n") {
		key, value, _ := strings.Cut(line, " ")
		switch {
		case line == "" || key == "#":
		case key == "mutant":
			if m != nil {
				flush()
			}
			class, _, _ := strings.Cut(value, ": ")
			m = &mutant{name: value, class: class}
			if names[value] {
				return nil, fmt.Errorf("line %d: a second mutant %q", i+1, value)
			}
			names[value] = true
			list = append(list, m)
		case m == nil:
			return nil, fmt.Errorf("line %d: no mutant before it", i+1)
		case key == "breaks":
			m.breaks = value
		case key == "equivalent":
			m.equivalent = value
		case key == "file":
			flush()
			e = &edit{file: value}
		case e == nil:
			return nil, fmt.Errorf("line %d: no file before it", i+1)
		case line[0] == '-':
			e.old = append(e.old, line[1:])
		case line[0] == '+':
			e.new = append(e.new, line[1:])
		case line[0] == ' ':
			e.old, e.new = append(e.old, line[1:]), append(e.new, line[1:])
		default:
			return nil, fmt.Errorf("line %d: what is it? %q", i+1, line)
		}
	}
	if m != nil {
		flush()
	}
	return list, nil
}

// apply returns the text of a file with the edit. The file must have the old lines
// once, whatever their indentation.
func (e edit) apply(text string) (string, error) {
	lines := strings.Split(text, "\n")
	found := -1
	for at := range lines {
		if e.line > 0 && at != e.line-1 || !e.isAt(lines[at:]) {
			continue
		}
		if found >= 0 {
			return "", fmt.Errorf("%s has the old lines twice: lines %d and %d", e.file, found+1, at+1)
		}
		found = at
	}
	if found < 0 || len(e.old) == 0 {
		return "", fmt.Errorf("%s has no such lines:\n%s", e.file, strings.Join(e.old, "\n"))
	}
	changed := append(append(append([]string(nil), lines[:found]...), e.new...), lines[found+len(e.old):]...)
	return strings.Join(changed, "\n"), nil
}

func (e edit) isAt(lines []string) bool {
	if len(lines) < len(e.old) {
		return false
	}
	for i, old := range e.old {
		if strings.TrimSpace(lines[i]) != strings.TrimSpace(old) {
			return false
		}
	}
	return true
}

// files returns the changed files, by their path from the root.
func (m *mutant) files(root string) (map[string]string, error) {
	changed := map[string]string{}
	for _, e := range m.edits {
		text, ok := changed[e.file]
		if !ok {
			data, err := os.ReadFile(filepath.Join(root, e.file))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", m.name, err)
			}
			text = string(data)
		}
		text, err := e.apply(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
		changed[e.file] = text
	}
	return changed, nil
}

// overlay writes the changed files into a folder, and the file for the go command's flag -overlay,
// which also applies to embedded files.
func (m *mutant) overlay(root, folder string) (file string, err error) {
	changed, err := m.files(root)
	if err != nil {
		return "", err
	}
	replace := map[string]string{}
	for path, text := range changed {
		copied := filepath.Join(folder, strings.ReplaceAll(path, "/", "_"))
		if err := os.WriteFile(copied, []byte(text), 0o644); err != nil {
			return "", err
		}
		replace[filepath.Join(root, path)] = copied
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	file = filepath.Join(folder, "overlay.json")
	return file, os.WriteFile(file, data, 0o644)
}
