package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// vars returns an environment with the given pairs.
func vars(pairs ...string) lookup {
	return func(name string) (string, bool) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

// configure reads a file with this text, and the command line.
func configure(t *testing.T, text string, env lookup, args ...string) (settings, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.json")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return parse(append([]string{"-config", file}, args...), env)
}

func TestFileIsLaidUnderTheCommandLine(t *testing.T) {
	const text = `{"provider": "sqlite", "backends": {"sqlite": {"url": "sqlite://a.db"}, "redis": {"url": "${NONE}"}},
		"name": "n", "owner": "o", "metadata": {"a": "b"}, "ttl": "5s"}`
	s, err := configure(t, text, vars())
	require.NoError(t, err)
	require.Equal(t, "n o b", s.Name+" "+s.Owner+" "+s.Metadata["a"])
	require.Equal(t, duration(5*time.Second), s.TTL)
	require.NotEmpty(t, s.Metadata["pid"])
	s, err = configure(t, text, vars(), "-name", "N", "-owner", "O", "-ttl", "6s", "-pace", "7s")
	require.NoError(t, err)
	require.Equal(t, "N O", s.Name+" "+s.Owner)
	require.Equal(t, []time.Duration{6 * time.Second, 7 * time.Second}, []time.Duration{time.Duration(s.TTL), s.pace})
}

func TestURLFromTheEnvironment(t *testing.T) {
	s, err := parse(nil, vars(urlVariable, "sqlite://a.db"))
	require.NoError(t, err)
	require.Equal(t, "sqlite://a.db sample/worker", s.url+" "+s.Name)
	require.NotEmpty(t, s.Owner)
	require.Equal(t, duration(30*time.Second), s.TTL)
}

func TestReferencesToTheEnvironment(t *testing.T) {
	env := vars("A", "1", "EMPTY", "", "SELF", "${A}", "QUOTE", `"\`)
	for in, want := range map[string]string{
		"${A}${A}": "11", "x${A:-2}y": "x1y", "${B:-2}": "2", "${B:-}": "", "${EMPTY:-2}": "2", "${SELF}": "${A}", "${QUOTE}": `\"\\`,
	} {
		got, err := expand(in, env)
		require.NoError(t, err, in)
		require.Equal(t, want, got, in)
	}
	_, err := expand(`{"list": ["a", "${NO_SUCH}"]}`, env)
	require.EqualError(t, err, "the environment variable NO_SUCH is not set")
}

func TestFilesThatCanNotWorkAreRefusedWithoutTheirSecrets(t *testing.T) {
	for text, want := range map[string]string{
		`{`:                     "unexpected EOF",
		`{}`:                    `"provider" is ""`,
		`{"provider": "etcd"}`:  `"provider" is "etcd"`,
		`{"provider": "redis"}`: `options of []`,
		`{"ttl": "1"}`:          "missing unit",
		`{"Pace": 1}`:           `unknown field "Pace"`,
		`{"provider": "redis", "backends": {"redis": {"url": "redis://:geheim@${HOST}"}}}`:         "HOST is not set",
		`{"provider": "redis", "backends": {"redis": {"url": "redis://:geheim@host:port"}}}`:       "Options.URL",
		`{"provider": "redis", "backends": {"redis": {"url": "redis://h", "passwort": "geheim"}}}`: "passwort",
	} {
		s, err := configure(t, text, vars())
		if err == nil {
			_, err = s.open(t.Context())
		}
		require.ErrorContains(t, err, want, text)
		require.NotContains(t, err.Error(), "geheim")
	}
}

func TestCommandLinesThatCanNotWork(t *testing.T) {
	for want, args := range map[string][]string{
		"which backend?": {}, "or -config with a file": {"-provider", "a://b", "-config", "configs/sqlite.json"},
		"what is \"start\"": {"-provider", "a://b", "start"}, "-pace 0s": {"-provider", "a://b", "-pace", "0s"},
		"no such file": {"-config", "configs/none.json"},
	} {
		_, err := parse(args, vars())
		require.ErrorContains(t, err, want)
	}
}

// The example files have the expected settings, and their providers accept these.
func TestExampleFiles(t *testing.T) {
	disableAWS(t)
	ca, token := writeServiceAccount(t, t.TempDir())
	env := vars("CA_FILE", ca, "TOKEN_FILE", token, "BACKEND", "redis", "LEASING_TEST_REDIS", "redis://127.0.0.1:1",
		"DATABASE_URL", "postgres://app@127.0.0.1:1/app", "MARIADB_URL", "mysql://app@127.0.0.1:1/app", "REDIS_PASSWORD", "geheim",
		"AZURE_TENANT_ID", "11111111-2222-3333-4444-555555555555", "AZURE_CLIENT_ID", "11111111-2222-3333-4444-666666666666", "AZURE_CLIENT_SECRET", "geheim")
	files, err := filepath.Glob(filepath.Join("configs", "*.json"))
	require.NoError(t, err)
	require.Greater(t, len(files), len(backends))
	for _, file := range files {
		s, err := parse([]string{"-config", file}, env)
		require.NoError(t, err, file)
		if s.Provider == "sqlite" {
			continue // would make a file here
		}
		provider, err := s.open(t.Context())
		checkOpened(t, provider, err, file)
	}
}
