package redisauth

import (
	"encoding/json"
	"testing"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/auth"
	"github.com/stretchr/testify/require"
)

// New refuses options that can't work, and names the field.
func TestInvalidOptions(t *testing.T) {
	s := &source{}
	for field, options := range map[string]Options{
		"Options":           {},
		"Options ":          {Credential: s, Auth: auth.Options{Mode: auth.Auto}},
		"Options.User":      {Credential: s, User: "a b"},
		"Options.Scope":     {Credential: s, Scope: "a b"},
		"Options.Timeout":   {Credential: s, Timeout: -1},
		"auth.Options.Mode": {Auth: auth.Options{Mode: "none"}},
	} {
		_, err := New(options)
		var invalid *leasing.InvalidError
		require.ErrorAs(t, err, &invalid)
		require.Equal(t, field[:len(invalid.Field)], invalid.Field)
	}
}

func TestJSON(t *testing.T) {
	var o Options
	require.NoError(t, json.Unmarshal([]byte(`{"auth": {"mode":"ManagedIdentity"},"user":"u","scope":"s"}`), &o))
	require.Equal(t, Options{Auth: auth.Options{Mode: auth.ManagedIdentity}, User: "u", Scope: "s"}, o)
	for text, names := range map[string]string{
		`{"Users":"u"}`:                     "Users",
		`{"auth": {"mode":"x"}}`:            "auth.Options.Mode",
		`{"auth": {"client_secret":"s3c"}}`: "client_secret",
		`{"scope":["s3c"]}`:                 "Scope",
	} {
		err := json.Unmarshal([]byte(text), &o)
		require.ErrorIs(t, err, leasing.ErrInvalid)
		require.ErrorContains(t, err, names)
		require.NotContains(t, err.Error(), "s3c")
	}
}
