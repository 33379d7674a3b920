package recipes_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/recipes/election"
)

// refusingBackend is a backend whose server can be made to refuse the client of a URL.
type refusingBackend struct {
	url    string // of the client
	refuse func()
	allow  func()
}

// T187: a refusal that lasts seconds, as when a password is rotated, does not end an election. A lasting
// refusal ends the election, and the error of a lease that is lost to a refusal has the refusal as its
// cause (T189).
func TestTrap_T187_AnElectionLivesThroughARefusal(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) refusingBackend{
		"redis": guardedRedis, "postgres": guardedPostgres, "mariadb": guardedMariaDB,
		"blob": guardedBlob, "s3": guardedS3, "consul": guardedConsul,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := open(t)
			name := "elections/" + rand.Text()
			leader := manager(t, provider(t, g.url), leasing.Options{RaiseToMinTTL: true})
			standby := manager(t, provider(t, g.url), leasing.Options{TTL: 6 * time.Second, RefusalTimeout: 7 * time.Second, RaiseToMinTTL: true, Tuning: leasing.Tuning{MaxPoll: 500 * time.Millisecond}})
			hasty := manager(t, provider(t, g.url), leasing.Options{RefusalTimeout: time.Second, RaiseToMinTTL: true, Tuning: leasing.Tuning{MaxPoll: 100 * time.Millisecond}})
			held, err := leader.TryAcquire(t.Context(), name)
			require.NoError(t, err)

			ctx, end := context.WithTimeout(t.Context(), atMost)
			defer end()
			elected := make(chan *leasing.Lease, 1)
			ended := make(chan error, 1)
			go func() {
				ended <- election.Run(ctx, standby, election.Options{Name: name, OnElected: func(ctx context.Context, l *leasing.Lease) error {
					elected <- l
					<-ctx.Done()
					return nil
				}})
			}()
			for standby.Health(ctx).Waiting == 0 {
				time.Sleep(10 * time.Millisecond)
			}
			g.refuse()
			_, err = hasty.Acquire(ctx, name)
			require.ErrorIs(t, err, leasing.ErrDenied)
			require.ErrorContains(t, err, "no other answer for 1s")
			require.NotEqual(t, leasing.Healthy, standby.Health(ctx).Status)
			time.Sleep(3 * time.Second) // the refusal lasts, however long this takes
			g.allow()
			require.NoError(t, held.Release(ctx))
			var lease *leasing.Lease
			select {
			case lease = <-elected:
			case err := <-ended:
				require.FailNow(t, "the election has ended", "%v", err)
			}
			require.NoError(t, lease.Err())

			g.refuse()
			select {
			case <-lease.Done():
			case <-ctx.Done():
				require.FailNow(t, "a lease that is never renewed has not ended")
			}
			require.ErrorIs(t, lease.Err(), leasing.ErrLost)
			require.ErrorIs(t, lease.Err(), leasing.ErrDenied)
			g.allow()
			end()
			<-ended
		})
	}
}

func guardedRedis(t *testing.T) refusingBackend {
	at, err := url.Parse(redis(t, ""))
	require.NoError(t, err)
	options, err := goredis.ParseURL(serverURL(t, "LEASING_TEST_REDIS"))
	require.NoError(t, err)
	admin := goredis.NewClient(options)
	t.Cleanup(func() { _ = admin.Close() })
	user := "u" + rand.Text()
	g := refusingBackend{
		refuse: func() { require.NoError(t, admin.Do(t.Context(), "ACL", "DELUSER", user).Err()) },
		allow: func() {
			require.NoError(t, admin.Do(t.Context(), "ACL", "SETUSER", user, "on", ">secret", "~*", "&*", "+@all").Err())
		},
	}
	g.allow()
	t.Cleanup(func() { _ = admin.Do(context.Background(), "ACL", "DELUSER", user).Err() })
	at.User = url.UserPassword(user, "secret")
	g.url = at.String()
	return g
}

func guardedPostgres(t *testing.T) refusingBackend {
	at, err := url.Parse(postgres(t, ""))
	require.NoError(t, err)
	db, err := sql.Open("pgx", serverURL(t, "LEASING_TEST_POSTGRES"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	role := "r" + strings.ToLower(rand.Text())
	run := func(statement string) {
		_, err := db.ExecContext(context.Background(), statement)
		require.NoError(t, err)
	}
	run("CREATE ROLE " + role + " SUPERUSER LOGIN PASSWORD 'secret'")
	t.Cleanup(func() {
		run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '" + role + "'")
		run("REASSIGN OWNED BY " + role + " TO CURRENT_USER")
		run("DROP ROLE " + role)
	})
	at.User = url.UserPassword(role, "secret")
	return refusingBackend{
		url: at.String(),
		refuse: func() {
			run("ALTER ROLE " + role + " NOLOGIN")
			run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '" + role + "'")
		},
		allow: func() { run("ALTER ROLE " + role + " LOGIN") },
	}
}

func guardedMariaDB(t *testing.T) refusingBackend {
	at, err := url.Parse(mariadb(t, ""))
	require.NoError(t, err)
	password, _ := at.User.Password()
	db, err := sql.Open("mysql", fmt.Sprintf("%s:%s@tcp(%s)/", at.User.Username(), password, at.Host))
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	user := "u" + strings.ToLower(rand.Text()[:16])
	run := func(statement string) {
		_, err := db.ExecContext(context.Background(), statement)
		require.NoError(t, err)
	}
	g := refusingBackend{
		refuse: func() {
			run("DROP USER " + user)
			run("KILL USER " + user)
		},
		allow: func() {
			run("CREATE USER IF NOT EXISTS " + user + " IDENTIFIED BY 'secret'")
			run("GRANT ALL ON *.* TO " + user)
		},
	}
	g.allow()
	t.Cleanup(func() { run("DROP USER IF EXISTS " + user) })
	at.User = url.UserPassword(user, "secret")
	g.url = at.String()
	return g
}

// startProxy starts a proxy in front of a server that speaks HTTP. The proxy answers in the server's
// place while it refuses.
func startProxy(t *testing.T, server string, refuse http.HandlerFunc) (address string, g refusingBackend) {
	to, err := url.Parse(server)
	require.NoError(t, err)
	var refusing atomic.Bool
	pass := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = to.Scheme, to.Host, r.In.Host // the signature covers the host
	}}
	pass.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refusing.Load() {
			_, _ = io.Copy(io.Discard, r.Body)
			refuse(w, r)
			return
		}
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL, refusingBackend{refuse: func() { refusing.Store(true) }, allow: func() { refusing.Store(false) }}
}

func guardedBlob(t *testing.T) refusingBackend {
	values := map[string]string{}
	for part := range strings.SplitSeq(serverURL(t, "LEASING_TEST_AZURITE"), ";") {
		key, value, _ := strings.Cut(part, "=")
		values[key] = value
	}
	address, g := startProxy(t, values["BlobEndpoint"], func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Ms-Request-Id", rand.Text())
		w.Header().Set("X-Ms-Error-Code", "AuthorizationFailure")
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `<?xml version="1.0" encoding="utf-8"?><Error><Code>AuthorizationFailure</Code><Message>This request is not authorized to perform this operation.</Message></Error>`)
	})
	g.url = fmt.Sprintf("azblob+%s/%s/recipes?create=true", strings.Replace(address, "://", "://"+values["AccountName"]+":"+url.QueryEscape(values["AccountKey"])+"@", 1), values["AccountName"])
	return g
}

func guardedS3(t *testing.T) refusingBackend {
	at, err := url.Parse(s3(t, ""))
	require.NoError(t, err)
	query := at.Query()
	address, g := startProxy(t, query.Get("endpoint"), func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Amz-Request-Id", rand.Text())
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>`)
	})
	query.Set("endpoint", address)
	at.RawQuery = query.Encode()
	g.url = at.String()
	return g
}

func guardedConsul(t *testing.T) refusingBackend {
	at, err := url.Parse(consul(t, ""))
	require.NoError(t, err)
	address, g := startProxy(t, "http://"+at.Host, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Consul-Default-Acl-Policy", "deny")
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, "Permission denied: token lacks permission 'key:write'")
	})
	at.Host = strings.TrimPrefix(address, "http://")
	g.url = at.String()
	return g
}
