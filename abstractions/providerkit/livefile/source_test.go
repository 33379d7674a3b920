package livefile

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

var errBad = &abstractions.InvalidError{Field: "Secret", Value: providerkit.NotShown, Want: "another"}

func notBad(text string) error {
	if text == "bad" {
		return errBad
	}
	return nil
}

// T182: the function is called for each secret, and an invalid secret is not sent.
func TestTrap_T182_ASecretOfAFunction(t *testing.T) {
	text, failure := "first", error(nil)
	source, err := NewSource(func(context.Context) (string, error) { return text, failure }, "", notBad)
	require.NoError(t, err)
	for _, text = range []string{"first", "first", "second", "first"} {
		got, err := source(t.Context())
		require.NoError(t, err)
		require.Equal(t, text, got)
	}
	for _, c := range []struct {
		text    string
		failure error
	}{{"", nil}, {"bad", nil}, {"first", errors.New("vault is sealed")}, {"first", abstractions.ErrLost}, {"first", errBad}} {
		text, failure = c.text, c.failure
		_, err := source(t.Context())
		var own *providerkit.CredentialError
		require.ErrorAs(t, err, &own, "%v", c)
		require.ErrorIs(t, err, abstractions.ErrUnavailable)
		require.NotErrorIs(t, err, abstractions.ErrLost)
		require.NotErrorIs(t, err, abstractions.ErrInvalid)
		require.True(t, abstractions.NotApplied(err))
	}
	text, failure = "third", nil
	got, err := source(t.Context())
	require.NoError(t, err)
	require.Equal(t, "third", got)

	panics, err := NewSource(func(context.Context) (string, error) { panic("of the application") }, "", notBad)
	require.NoError(t, err)
	_, err = panics(t.Context())
	require.ErrorContains(t, err, "of the application")
}

// T182: a secret in a file is read again, and invalid contents do not replace the last
// valid secret.
func TestTrap_T182_ASecretOfAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	_, err := NewSource(nil, path, notBad)
	require.ErrorIs(t, err, abstractions.ErrNotSetUp)
	write(t, path, "bad", old)
	_, err = NewSource(nil, path, notBad)
	require.ErrorIs(t, err, abstractions.ErrInvalid)
	for i, text := range []string{"one\n", "two\n", "bad"} {
		write(t, path, text, old.Add(time.Duration(i)*time.Minute))
		source, err := NewSource(nil, path, notBad)
		if text == "bad" {
			require.ErrorIs(t, err, abstractions.ErrInvalid)
			continue
		}
		require.NoError(t, err)
		for j, next := range []string{"three", "bad", ""} {
			write(t, path, next, old.Add(time.Hour+time.Duration(j)*time.Minute))
			got, err := source(t.Context())
			require.NoError(t, err)
			require.Equal(t, "three", got)
		}
	}
}
