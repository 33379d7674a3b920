package open_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/open"
	filelease "github.com/distributedleasing/leasing/providers/file"
	memlease "github.com/distributedleasing/leasing/providers/memory"
)

func TestURLOpensTheProviderOfItsScheme(t *testing.T) {
	for url, name := range map[string]string{"memory://": "memory", "file://" + t.TempDir(): "file"} {
		provider, err := open.URL(t.Context(), url, memlease.Opener(), filelease.Opener())
		require.NoError(t, err, url)
		defer provider.Close()
		require.Equal(t, name, provider.Capabilities().Provider)
		_, err = leasing.NewManager(provider, leasing.Options{TTL: -1})
		require.ErrorIs(t, err, leasing.ErrInvalid, "it is what NewManager takes")
	}
}

func TestURLWithAnotherSchemeSaysWhatThereIsAndShowsNoPassword(t *testing.T) {
	for _, url := range []string{"mysql://me:geheim@host/db", "geheim", "", "geheim!://x", "://geheim", "file:geheim", "FILE://geheim"} {
		provider, err := open.URL(t.Context(), url, memlease.Opener(), filelease.Opener())
		require.ErrorIs(t, err, leasing.ErrInvalid, url)
		require.ErrorContains(t, err, "want one that begins with memory:// or file://", url)
		require.NotContains(t, err.Error(), "geheim", url)
		requireNone(t, provider)
	}
	_, err := open.URL(t.Context(), "mysql://host")
	require.ErrorContains(t, err, `"mysql"`)
}

// After an error the provider is a nil interface, not an interface with a nil pointer.
func TestURLReturnsNoProviderBesideAnError(t *testing.T) {
	down := errors.New("down")
	theirs := abstractions.NewOpener(func(context.Context, string) (*memlease.Provider, error) { return nil, down }, "theirs", "memory")
	var provider abstractions.Provider
	provider, err := open.URL(t.Context(), "theirs://x", theirs)
	require.Same(t, down, err)
	requireNone(t, provider)
	_, err = open.URL(t.Context(), "memory://", theirs, memlease.Opener())
	require.Same(t, down, err, "the first that has the scheme")
}

// requireNone requires a nil interface. (require.Nil also accepts a nil pointer in an interface.)
func requireNone(t *testing.T, provider abstractions.Provider) {
	t.Helper()
	if provider != nil {
		t.Fatalf("a provider beside the error: %T", provider)
	}
}

func TestSchemes(t *testing.T) {
	require.Empty(t, open.Schemes())
	require.Equal(t, "memory://", open.Schemes(memlease.Opener()))
	require.Equal(t, "memory:// or file://", open.Schemes(memlease.Opener(), filelease.Opener()))
	require.Equal(t, "postgres", open.Scheme("postgres://host"))
}
