package output

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// An error uses the names of the command line and of URLs.
func TestErrorsNameFlagsAndParameters(t *testing.T) {
	type Options struct {
		Key        string        `json:"key"`
		SecretFile string        `json:"secret_file"`
		Secret     func() string `json:"-"`
	}
	_, none := providerkit.ExactlyOne(Options{}, "Key", "SecretFile", "Secret")
	_, both := providerkit.ExactlyOne(Options{Key: "k", SecretFile: "f"}, "Key", "SecretFile", "Secret")
	for _, c := range []struct {
		err  error
		want string
	}{
		{&leasing.InvalidError{Field: "Options.MaxTTL", Value: -1, Want: "more than 0"}, `invalid URL parameter "max_ttl" -1: want more than 0`},
		{&leasing.InvalidError{Field: "Options.CAFile", Value: "x", Want: "a file"}, `invalid URL parameter "ca_file" "x": want a file`},
		{&leasing.InvalidError{Field: `Options.URL parameter "x"`, Value: "y", Want: "z"}, `invalid URL parameter "x" "y": want z`},
		{&leasing.InvalidError{Field: "AcquireOptions.TTL", Value: 1, Want: "at least 15s; or set RaiseToMinTTL"}, "invalid --ttl 1: want at least 15s"},
		{providerkit.Meaning{Class: providerkit.NotSetUp, Advice: "create the folder, or set Options.Create"}.Of(os.ErrNotExist), "backend not set up: file does not exist; create the folder, or add create=true to the URL"},
		{none, "invalid URL with none set: want exactly one of key, secret_file"},
		{both, "invalid URL with key and secret_file: want exactly one of key, secret_file"},
	} {
		require.Equal(t, c.want, OneLine(c.err))
	}
}

// The lines of an error become one line without repetitions.
func TestTrap_T271_LinesThatSayTheSame(t *testing.T) {
	refused := fmt.Errorf("leasing: migrate (postgres): %w: refused", leasing.ErrUnavailable)
	for want, err := range map[string]error{
		"migrate (postgres): backend unavailable: refused":                        errors.Join(refused, refused),
		"migrate (postgres): backend unavailable: refused; context canceled":      errors.Join(refused, context.Canceled, context.Canceled),
		"before: migrate (postgres): backend unavailable: refused":                fmt.Errorf("before: %w", refused),
		`unknown command "lss" for "leasing"; Did you mean this? ls`:              errors.New("unknown command \"lss\" for \"leasing\"\n\nDid you mean this?\n\tls\n"),
		"failed to connect to `x`: 1 (h): refused; 2 (h): refused by another one": errors.New("failed to connect to `x`:\n\t1 (h): refused\n\t1 (h): refused\n\t2 (h): refused by another one"),
		"resolving: lookup h: no such host":                                       errors.New("resolving: lookup h: no such host\nlookup h: no such host"),
	} {
		require.Equal(t, want, OneLine(err))
	}
}
