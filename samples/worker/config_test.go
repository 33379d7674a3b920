package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
)

func no(string) (string, bool) { return "", false }

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
	return settingsOf(append([]string{"-config", file}, args...), env)
}

func TestFileIsLaidUnderTheCommandLine(t *testing.T) {
	const text = `{"Provider": "sqlite", "SQLite": {"url": "sqlite://a.db"}, "Redis": 7,
		"Name": "n", "Owner": "o", "Ledger": "l", "Metadata": {"a": "b"}, "Pace": "3s", "Show": "4s",
		"Leasing": {"TTL": "5s", "RenewFraction": 0.5, "RenewCadence": "1s", "MaxPoll": "2s"}}`
	s, err := configure(t, text, no)
	require.NoError(t, err)
	require.Equal(t, "n o l", s.Name+" "+s.Owner+" "+s.Ledger)
	require.Equal(t, map[string]string{"a": "b"}, s.Metadata)
	require.Equal(t, []duration{duration(3 * time.Second), duration(4 * time.Second)}, []duration{s.Pace, s.Show})
	require.Equal(t, leasing.Options{Owner: "o", TTL: 5 * time.Second, RenewFraction: 0.5, RenewCadence: time.Second, MaxPoll: 2 * time.Second, RaiseToMinTTL: true}, s.options())

	s, err = configure(t, text, no, "-name", "N", "-owner", "O", "-ledger", "L", "-ttl", "6s", "-pace", "7s", "-show", "8s", "-output", "json")
	require.NoError(t, err)
	require.Equal(t, "N O L json", s.Name+" "+s.Owner+" "+s.Ledger+" "+s.output)
	require.Equal(t, []duration{duration(6 * time.Second), duration(7 * time.Second), duration(8 * time.Second)}, []duration{s.Leasing.TTL, s.Pace, s.Show})
	require.Equal(t, 0.5, s.Leasing.RenewFraction)
}

func TestDefaults(t *testing.T) {
	s, err := settingsOf(nil, vars(urlVariable, "sqlite://a.db"))
	require.NoError(t, err)
	require.Equal(t, "sqlite://a.db", s.url)
	require.Equal(t, defaultName, s.Name)
	require.NotEmpty(t, s.Owner)
	require.Empty(t, s.Ledger)
	require.Equal(t, defaultTTL, s.options().TTL)
}

func TestVariablesOfOtherBackendsAreNotLookedUp(t *testing.T) {
	const text = `{"Provider": "${WHERE:-sqlite}", "SQLite": {"url": "sqlite://${FILE:-a.db}"}, "Redis": {"url": "${REDIS}"}, "Name": "${NAME}"}`
	s, err := configure(t, text, vars("NAME", "n"))
	require.NoError(t, err)
	require.Equal(t, "sqlite n", s.Provider+" "+s.Name)
	require.JSONEq(t, `{"url": "sqlite://a.db"}`, string(s.Section))
	s, err = configure(t, text, vars("NAME", "n", "WHERE", "redis", "REDIS", `redis://:"\$@h`))
	require.NoError(t, err)
	require.JSONEq(t, `{"url": "redis://:\"\\$@h"}`, string(s.Section), "a value is no JSON")
}

func TestReferences(t *testing.T) {
	env := vars("A", "1", "EMPTY", "", "SELF", "${A}")
	for in, want := range map[string]string{
		`"${A}${A}"`: `"11"`, `"x${A:-2}y"`: `"x1y"`, `"${B:-2}"`: `"2"`, `"${B:-}"`: `""`, `"${EMPTY:-2}"`: `"2"`,
		`"$A {A} ${1} ${a-b}"`: `"$A {A} ${1} ${a-b}"`, `"${SELF}"`: `"${A}"`,
		`12345678901234567890`: `12345678901234567890`, `[{"${A}": ["${A}", true, null]}]`: `[{"${A}": ["1", true, null]}]`,
	} {
		got, err := expand("x", []byte(in), env)
		require.NoError(t, err, in)
		require.JSONEq(t, want, string(got), in)
	}
	_, err := expand("Blob", []byte(`{"list": ["a", "${NO_SUCH}"]}`), env)
	require.EqualError(t, err, "Blob.list[1]: the environment variable NO_SUCH is not set")
}

func TestFilesThatCanNotWorkAreRefusedWithoutTheirSecrets(t *testing.T) {
	for text, want := range map[string]string{
		`{`:                     "unexpected end",
		`{}`:                    `"Provider" is "": there are `,
		`{"Provider": "etcd"}`:  `"Provider" is "etcd": there are `,
		`{"Provider": "redis"}`: `no section "Redis"`,
		`{"Provider": "sqlite", "SQLite": {}, "TTL": 1}`:                            `unknown field "TTL"`,
		`{"Provider": "sqlite", "SQLite": {}, "Pace": "1"}`:                         "missing unit",
		`{"Provider": "sqlite", "SQLite": {}, "Pace": "-1s"}`:                       "want more than 0",
		`{"Provider": "sqlite", "SQLite": {}, "Name": "${NONE}"}`:                   "Name: the environment variable NONE is not set",
		`{"Provider": "redis", "Redis": {"url": "redis://:geheim@${HOST}"}}`:        "Redis.url: the environment variable HOST is not set",
		`{"Provider": "redis", "Redis": {"url": "${URL}"}}`:                         "Redis.url: the environment variable URL is not set",
		`{"Provider": "sqlite", "SQLite": {}, "Leasing": {"Fit": true}}`:            `unknown field "Fit"`,
		`{"Provider": "sqlite", "SQLite": {}, "Metadata": {"a": 1}}`:                "cannot unmarshal number",
		`{"Provider": "sqlite", "SQLite": {}, "Leasing": {"TTL": "geheim-geheim"}}`: "invalid duration",
	} {
		_, err := configure(t, text, no)
		require.ErrorContains(t, err, want, text)
	}
	for text, want := range map[string]string{
		`{"Provider": "redis", "Redis": {"url": "redis://:geheim@host:port"}}`:          "Options.URL",
		`{"Provider": "redis", "Redis": {"url": "redis://h", "passwort": "geheim"}}`:    "passwort",
		`{"Provider": "postgres", "Postgres": {"url": "postgres://me:geheim@h:port/"}}`: "Options.URL",
		`{"Provider": "redis", "Redis": {"url": "redis://:geheim@a,b,c?mode=redlock"}}`: `"Provider" is "redis", but the section "Redis" opens redlock, not redis or redis-cluster`,
	} {
		s, err := configure(t, text, no)
		require.NoError(t, err, text)
		_, err = s.open(t.Context())
		require.ErrorContains(t, err, want, text)
		require.NotContains(t, err.Error(), "geheim")
	}
}

func TestCommandLinesThatCanNotWork(t *testing.T) {
	for want, args := range map[string][]string{
		"which backend?": {}, "give one of them": {"-provider", "a://b", "-config", "c"},
		"what is \"start\"": {"-provider", "a://b", "start"}, "there are text and json": {"-provider", "a://b", "-output", "xml"},
		"no such file": {"-config", "configs/none.json"},
	} {
		_, err := settingsOf(args, no)
		require.ErrorContains(t, err, want)
	}
}

// The example files say what they should, and their providers take it.
func TestExampleFiles(t *testing.T) {
	env := func(name string) (string, bool) { return exampleValues[name], exampleValues[name] != "" }
	files, err := filepath.Glob(filepath.Join("configs", "*.json"))
	require.NoError(t, err)
	require.Greater(t, len(files), len(backends))
	for _, file := range files {
		s, err := settingsOf([]string{"-config", file}, env)
		require.NoError(t, err, file)
		if s.Provider == "sqlite" {
			continue // would make a file here
		}
		provider, err := s.open(t.Context())
		if errors.Is(err, leasing.ErrUnavailable) {
			continue // one that creates what it needs has looked for its server
		}
		require.NoError(t, err, file)
		require.NoError(t, provider.Close())
	}
}

var exampleValues = map[string]string{
	"BACKEND": "redis", "LEASING_TEST_REDIS": "redis://127.0.0.1:1",
	"DATABASE_URL": "postgres://app@127.0.0.1:1/app", "REDIS_PASSWORD": "geheim",
	"AZURE_TENANT_ID": "11111111-2222-3333-4444-555555555555", "AZURE_CLIENT_ID": "11111111-2222-3333-4444-666666666666", "AZURE_CLIENT_SECRET": "geheim",
}
