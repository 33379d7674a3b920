package redislease

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/credentialtest"
	"github.com/distributedleasing/leasing/providers/redis/internal/redistest"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/stretchr/testify/require"
)

// T49: no error, no log and no printed struct shows a password, even if the options
// with the password contain a mistake.
func TestTrap_T49_SecretsAreNotShown(t *testing.T) {
	s := new(credentialtest.Shown)
	for _, options := range []Options{
		{URL: "redis://user:s3cret@127.0.0.1:1/0"},
		{URL: "redis://:s3cret@127.0.0.1:1,127.0.0.1:2?mode=cluster"},
		{URL: "redis://:s3cret@127.0.0.1:1/0?master=m", SentinelPassword: "s3cret"},
		{URL: "redis://:s3cret@127.0.0.1:1,127.0.0.1:2,127.0.0.1:3?mode=redlock"},
		{URL: "unix://:s3cret@/nowhere.sock"},
		{URL: "redis://user:s3cret@127.0.0.1:bad/0"},
		{URL: "redis://user:s3cret"},
		{URL: "redis://s3cret@h"},
		{URL: "redis://user:12/s3cret@h:1"},
		{URL: "redis://user:12/s3cret@h:1", Mode: Cluster},
		{URL: "redis://user:12?s3cret@h:1/0"},
		{URL: "redis://user:12?x=s3cret@h:1/0"},
		{URL: "redis://user:12?s3cret=x@h:1/0"},
		{URL: "redis://user:12?s3cret=#@h:1/0"},
		{URL: "redis://user:12?s3cret"},
		{URL: "redis://user:12#s3cret@h:1/0"},
		{URL: "redis://user:1@s3cret,x@h:1/0?pool_size=bad"},
		{URL: "redis://user:%zzs3cret@h"},
		{URL: "redis://user:s3cret @h:bad"},
		{URL: "redis://user:s3cret\x00@h:1\x7f"},
		{URL: "redis://user:s3cret@h1,h2,h3"},
		{URL: "redis://user:s3cret@h/9?mode=cluster"},
		{URL: "redis://user:s3cret@h?ttl=3"},
		{URL: "redis://user:s3cret@h?mode=cluster&ttl=3"},
		{URL: "redis://user:s3cret@h?master=m&ttl=3"},
		{URL: "redis://h?password=s3cret"},
		{URL: "redis://h?master=m&sentinel_password=s3cret"},
		{URL: "redis://user:s3cret@h", SentinelPassword: "s3cret"},
		{URL: "unix://user:s3cret/path"},
		{URL: "mysql://user:s3cret@h"},
		{URL: "user:s3cret@h"},
	} {
		s.Show(options, &options, struct{ O Options }{options})
		p, err := Open(t.Context(), options)
		if err == nil {
			err = tryEverything(t, s, p)
		}
		require.Error(t, err)
		s.Show(err)
	}
	s.Show(json.Unmarshal([]byte(`{"url": "redis://u:s3cret@h", "ttl": 3}`), &Options{}))
	s.Show(json.Unmarshal([]byte(`{"sentinel_password": "s3cret", "retention": "x"}`), &Options{}))
	s.Hides(t, "s3cret")
}

// tryEverything makes every call, passes the provider and the errors to s.Show, and closes the provider.
func tryEverything(t *testing.T, s *credentialtest.Shown, p *Provider) (last error) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for name, call := range everyCall(p) {
		if name != "wait" { // wait retries
			err := call(ctx)
			require.Error(t, err, name)
			s.Show(err, &abstractions.Error{Op: name, Err: err})
			last = err
		}
	}
	s.Show(p, p.Capabilities())
	require.NoError(t, p.Close())
	return last
}

// A server that refuses the password does not repeat it in the error, and neither does the provider.
func TestTrap_T49_WrongPasswordIsDeniedAndNotShown(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{Password: "right"})
	for _, user := range []string{"", "nobody"} {
		s := new(credentialtest.Shown)
		p, err := Open(t.Context(), Options{URL: strings.Replace(server.URL(), ":right@", user+":s3cret@", 1)})
		require.NoError(t, err)
		require.ErrorIs(t, tryEverything(t, s, p), abstractions.ErrDenied)
		s.Hides(t, "s3cret")
	}
	_, err := openTest(t, Options{URL: "redis://" + server.Addr()}).Acquire(t.Context(), claimOf("name"))
	require.ErrorIs(t, err, abstractions.ErrDenied, "none at all")
	require.ErrorContains(t, err, "NOAUTH")
}

// go-redis has a log of its own.
func TestTrap_T49_LibraryLogsNoSecret(t *testing.T) {
	var l logLines
	redis.SetLogger(&l)
	t.Cleanup(func() { redis.SetLogger(&logging.VoidLogger{}) })
	for _, url := range []string{"redis://u:s3cret@127.0.0.1:1", "redis://u:s3cret@127.0.0.1:1?mode=cluster", "redis://u:s3cret@127.0.0.1:1?master=m"} {
		p, err := OpenURL(t.Context(), url)
		require.NoError(t, err)
		_, err = p.Acquire(t.Context(), claimOf("name"))
		require.Error(t, err)
		require.NoError(t, p.Close())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	require.Contains(t, l.text.String(), "127.0.0.1:1")
	require.NotContains(t, l.text.String(), "s3cret")
}

type logLines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logLines) Printf(_ context.Context, format string, v ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(&l.text, format+"\n", v...)
}
