package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAllowListRoundTrip(t *testing.T) {
	f := footprint{byPackages: {"ex.org/a"}, byGraph: {"ex.org/a", "ex.org/b"}}
	parsed, err := parseAllow(f.format("ex.org/lease"))
	require.NoError(t, err)
	require.Empty(t, f.against(parsed))
	require.Empty(t, parsed.against(f))
}

func TestAllowListErrors(t *testing.T) {
	_, err := parseAllow("# comment\n\n[linked]\n")
	require.EqualError(t, err, `line 3: unknown section "[linked]"`)
	_, err = parseAllow("ex.org/a # why\n")
	require.EqualError(t, err, "line 1: ex.org/a stands in no section")
}

func TestDiff(t *testing.T) {
	require.Empty(t, diff([]string{"a", "b"}, []string{"a", "b"}))
	require.Equal(t, "  - a\n  + c\n", diff([]string{"a", "b"}, []string{"b", "c"}))
	require.Equal(t, "  + b\n", diff([]string{"b"}, []string{"b", "b"}))
	require.Equal(t, "  the same lines in another order\n", diff([]string{"a", "b"}, []string{"b", "a"}))
}
