package mysqllease

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"strconv"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	sqllease "github.com/distributedleasing/leasing/providers/sql"
	"github.com/distributedleasing/leasing/providers/sql/sqlkit"
	"github.com/go-sql-driver/mysql"
)

// Options are those of package sqllease, with a URL that begins with mysql:// or mariadb://, which mean the same:
// "mysql://user:password@host:port/database", port 3306 by default, and a password whose special characters are escaped. Its query may
// set options, from Table on, and
//
//   - tls: "true", "skip-verify", "preferred", or a name given to mysql.RegisterTLSConfig; no TLS by default;
//   - allowCleartextPasswords and allowFallbackToPlaintext: as in go-sql-driver/mysql;
//   - pool_max_conns: the most connections at a time, 2 or more; default 8. One of them is for renewals.
//
// DSN, DB, Pool, Schema and NoWakeups have no meaning here.
type Options = sqllease.Options

const (
	defaultConns = "8"
	// connectTimeout bounds attempts to connect whose context allows more.
	connectTimeout = 5 * time.Second
)

// Open makes a provider: see sqllease.Open. A URL that can't be is leasing.ErrInvalid, and nothing of it is shown.
func Open(ctx context.Context, options Options) (*sqllease.Provider, error) {
	u, err := providerkit.ParseURL(options.URL, urlSchemes...)
	if err != nil {
		return nil, err
	}
	rest, err := providerkit.SetQuery(&options, u.Query)
	if err != nil {
		return nil, err
	}
	client, err := clientOf(u, rest)
	if err != nil {
		return nil, err
	}
	options.URL, options.MySQL = "", client
	return sqllease.Open(ctx, options)
}

// OpenURL is Open with Options.URL.
func OpenURL(ctx context.Context, rawURL string) (*sqllease.Provider, error) {
	return Open(ctx, Options{URL: rawURL})
}

// Opener opens this provider by URLs that begin with mysql:// or mariadb://: see package open.
func Opener() abstractions.Opener { return abstractions.NewOpener(OpenURL, urlSchemes...) }

var urlSchemes = []string{"mysql", "mariadb"}

// clientOf makes a client of what is left of the URL. Parameters of the library that could undo what the
// statements rely on are none of ours.
func clientOf(u providerkit.URL, rest url.Values) (*sqllease.MySQLClient, error) {
	conns, err := strconv.Atoi(cmp.Or(rest.Get("pool_max_conns"), defaultConns))
	if err != nil || conns < 2 {
		return nil, providerkit.BadURL("pool_max_conns to be 2 or more")
	}
	known := url.Values{}
	for _, key := range []string{"tls", "allowCleartextPasswords", "allowFallbackToPlaintext"} {
		if value := rest.Get(key); value != "" {
			known.Set(key, value)
		}
		rest.Del(key)
	}
	rest.Del("pool_max_conns")
	if err := providerkit.UnknownParameter(&Options{}, rest); err != nil {
		return nil, err
	}
	database, err := url.PathUnescape(u.Path)
	host := providerkit.HostPort(u.Host, "3306")
	if err != nil || host == "" || len(database) < 2 {
		return nil, providerkit.BadURL("mysql://user:password@host:port/database, with % written as %25")
	}
	config, err := mysql.ParseDSN("tcp(" + host + ")/?" + known.Encode())
	if err != nil { // its text may quote what was meant to be a secret
		return nil, providerkit.BadURL("a host and parameters that go-sql-driver/mysql understands")
	}
	config.User, config.Passwd, config.DBName = u.User, u.Password.Reveal(), database[1:]
	config.Timeout, config.MultiStatements, config.InterpolateParams = connectTimeout, true, true
	config.DialFunc = providerkit.NewDialer().DialContext
	config.Logger = &mysql.NopLogger{} // what goes wrong is in the errors
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, providerkit.BadURL("a host and parameters that go-sql-driver/mysql understands")
	}
	return &sqllease.MySQLClient{Connector: connector, MaxConns: conns, ErrorNumber: errorNumber}, nil
}

// errorNumber is the server's code in an error of the library. Where the library itself ends a log-in it is the code of
// MySQL's own client.
func errorNumber(err error) int {
	if coded := (*mysql.MySQLError)(nil); errors.As(err, &coded) {
		return int(coded.Number)
	}
	for _, ended := range []error{mysql.ErrNoTLS, mysql.ErrCleartextPassword, mysql.ErrNativePassword, mysql.ErrOldPassword, mysql.ErrUnknownPlugin} {
		if errors.Is(err, ended) {
			return sqlkit.MySQLAuthError
		}
	}
	return 0
}
