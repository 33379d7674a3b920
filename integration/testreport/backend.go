package main

import "strings"

// backends are the names by which tests and packages say what they run
// against: TestConformancePostgres, TestMigrate/sqlite, providers/memory. Redis
// is one node; in its module a test of several says which kind:
// TestConformanceRedlock3.
var backends = []string{"memory", "sqlite", "postgres", "redis", "redlock", "cluster", "sentinel", "blob", "cosmos"}

// noBackend stands for tests of the core, of pure functions and of tools.
const noBackend = "-"

// backendOf prefers what the test says over what its package says, and what is
// said first over what follows.
func backendOf(pkg, test string) string {
	for _, text := range []string{test, pkg} {
		if name := firstBackend(strings.ToLower(text)); name != "" {
			return name
		}
	}
	return noBackend
}

func firstBackend(text string) string {
	found, at := "", len(text)
	for _, name := range backends {
		if i := strings.Index(text, name); i >= 0 && i < at {
			found, at = name, i
		}
	}
	return found
}

// moduleOf is the module with the longest path that holds the package.
func moduleOf(modules []string, pkg string) string {
	longest := ""
	for _, m := range modules {
		if (pkg == m || strings.HasPrefix(pkg, m+"/")) && len(m) > len(longest) {
			longest = m
		}
	}
	return longest
}
