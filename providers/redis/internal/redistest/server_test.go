package redistest

import (
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

func TestServerAnswersOnLoopback(t *testing.T) {
	s := Start(t, Options{})
	client := s.Client(t)
	set(t, client, "key", "value")
	require.Equal(t, "value", get(t, client, "key"))
	host, _, err := net.SplitHostPort(s.Addr())
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1", host)
	require.Equal(t, "redis://"+s.Addr()+"/0", s.URL())
	require.Nil(t, s.TLSConfig())
	require.True(t, client.Options().ContextTimeoutEnabled, "or a frozen server holds a test up")
	require.Zero(t, client.Options().MaxRetries)
}

func TestPasswordIsAskedFor(t *testing.T) {
	s := Start(t, Options{Password: `p@ss "w/o rd\`})
	set(t, s.Client(t), "key", "value")

	options, err := redis.ParseURL(s.URL())
	require.NoError(t, err)
	byURL := redis.NewClient(options)
	defer byURL.Close()
	require.Equal(t, "value", get(t, byURL, "key"))

	for _, wrong := range []string{"", "guess"} {
		stranger := s.newClient("", wrong)
		require.Error(t, stranger.Get(t.Context(), "key").Err(), wrong)
		require.NoError(t, stranger.Close())
	}
}

func TestUsersHaveTheirRights(t *testing.T) {
	s := Start(t, Options{Users: []string{"reader on >secret ~a* +get", "default off"}})
	reader := s.newClient("reader", "secret")
	defer reader.Close()
	absent(t, reader, "apple")
	require.True(t, redis.HasErrorPrefix(reader.Get(t.Context(), "banana").Err(), "NOPERM"))
	require.True(t, redis.HasErrorPrefix(reader.Set(t.Context(), "apple", 1, 0).Err(), "NOPERM"))
	require.Error(t, s.Client(t).Ping(t.Context()).Err(), "the default user is off")
}

func TestArgsReachTheServer(t *testing.T) {
	s := Start(t, Options{Args: []string{"--maxmemory", "7mb"}})
	config, err := s.Client(t).ConfigGet(t.Context(), "maxmemory").Result()
	require.NoError(t, err)
	require.Equal(t, map[string]string{"maxmemory": "7340032"}, config)
}

func TestTLSOnly(t *testing.T) {
	s := Start(t, Options{TLS: true, Password: "secret"})
	set(t, s.Client(t), "key", "value")
	require.Equal(t, "rediss://:secret@"+s.Addr()+"/0", s.URL())

	for name, config := range map[string]*tls.Config{
		"no TLS":                 nil,
		"TLS that does not know": {MinVersion: tls.VersionTLS12},
		"another name":           {RootCAs: s.TLSConfig().RootCAs, ServerName: "example.org", MinVersion: tls.VersionTLS12},
	} {
		stranger := redis.NewClient(&redis.Options{
			Addr: s.Addr(), Password: "secret", TLSConfig: config, MaxRetries: -1, ContextTimeoutEnabled: true,
		})
		require.Error(t, stranger.Ping(t.Context()).Err(), name)
		require.NoError(t, stranger.Close())
	}
}

func TestManyServersKnowNothingOfEachOther(t *testing.T) {
	servers := StartMany(t, 3, Options{})
	set(t, servers[0].Client(t), "key", "value")
	for _, other := range servers[1:] {
		absent(t, other.Client(t), "key")
	}
}

func TestMissingProgramSaysWhatToDo(t *testing.T) {
	t.Setenv(programVariable, filepath.Join(t.TempDir(), "redis-server"))
	_, err := newServer(t, Options{}).command()
	require.ErrorContains(t, err, "apt-get install redis-server")
	require.ErrorContains(t, err, "or set REDIS_SERVER to the path of the program")
}

func TestVariableNamesTheProgram(t *testing.T) {
	real, err := newServer(t, Options{}).command()
	require.NoError(t, err)
	link := filepath.Join(t.TempDir(), "my-redis")
	require.NoError(t, os.Symlink(real.Path, link))
	t.Setenv(programVariable, link)
	linked, err := Start(t, Options{}).command()
	require.NoError(t, err)
	require.Equal(t, link, linked.Path)
}
