package postgreslease

import (
	"context"
	"crypto/tls"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/distributedleasing/leasing/providers/sql/postgres/pgkit"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// pgLive makes connections with the newest contents of the files that a DSN names: sslrootcert, sslcert,
// sslkey and passfile. pgx reads them when it parses the DSN. Nothing else changes; in particular, the
// server stays the same.
type pgLive struct {
	dsn string

	mu   sync.Mutex
	good *pgx.ConnConfig
}

// newestConfig returns the configuration to use, and an error if this configuration lacks the newest contents.
func (l *pgLive) newestConfig() (*pgx.ConnConfig, error) {
	next, err := pgx.ParseConfig(l.dsn)
	var shown error
	if err == nil {
		shown = onePassword(l.dsn, next)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil:
		err = errors.Unwrap(err) // without the DSN
	case !sameServers(l.good, next):
		err = errors.New("a file or a variable of the DSN asks for another server, or for other checks of the server")
	case next.Password == "" && l.good.Password != "":
		err = errors.New("the file of passwords has no password for this server")
	default:
		err = shown
	}
	config := l.good.Copy()
	if err == nil {
		config.Password, config.TLSConfig = next.Password, next.TLSConfig
		for i, fallback := range next.Fallbacks {
			config.Fallbacks[i].TLSConfig = fallback.TLSConfig
		}
		l.good = config.Copy()
	}
	return config, err
}

// onePassword refuses a file whose passwords differ among the hosts of a DSN. pgx looks up the first host's password, and
// sends it to the other hosts (pgx v5.12, pgconn.ParseConfigWithOptions).
func onePassword(dsn string, config *pgx.ConnConfig) error {
	for _, other := range config.Fallbacks {
		if other.Host == config.Host && other.Port == config.Port {
			continue
		}
		alone, err := pgx.ParseConfig(dsnOf(dsn, other.Host, other.Port))
		if err != nil || alone.Password != config.Password {
			return errors.New("the file of passwords has another for a host of the DSN than for the first host")
		}
	}
	return nil
}

// dsnOf returns a DSN with one host. In a DSN with several values for a setting, the last value
// counts.
func dsnOf(dsn, host string, port uint16) string {
	if !strings.HasPrefix(dsn, "postgres://") && !strings.HasPrefix(dsn, "postgresql://") {
		return fmt.Sprintf("%s host='%s' port=%d", dsn, strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(host), port)
	}
	mark := "?"
	if strings.Contains(dsn, mark) {
		mark = "&"
	}
	return fmt.Sprintf("%s%shost=%s&port=%d", dsn, mark, url.QueryEscape(host), port)
}

// sameServers reports whether two configurations lead to the same servers, with the same checks.
func sameServers(a, b *pgx.ConnConfig) bool {
	return a.Host == b.Host && a.Port == b.Port && a.User == b.User && a.Database == b.Database && sameChecks(a.TLSConfig, b.TLSConfig) &&
		slices.EqualFunc(a.Fallbacks, b.Fallbacks, func(a, b *pgconn.FallbackConfig) bool {
			return a.Host == b.Host && a.Port == b.Port && sameChecks(a.TLSConfig, b.TLSConfig)
		})
}

func sameChecks(a, b *tls.Config) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.ServerName == b.ServerName && a.InsecureSkipVerify == b.InsecureSkipVerify && (a.RootCAs == nil) == (b.RootCAs == nil) &&
		(a.VerifyPeerCertificate == nil) == (b.VerifyPeerCertificate == nil) && len(a.Certificates) == len(b.Certificates)
}

// Connect implements sqldriver.Connector.
func (l *pgLive) Connect(ctx context.Context) (sqldriver.Conn, error) {
	config, stale := l.newestConfig()
	conn, err := stdlib.GetConnector(*config, pgkit.CheckIdle()...).Connect(ctx)
	return conn, staleError(err, stale)
}

// Driver implements sqldriver.Connector.
func (l *pgLive) Driver() sqldriver.Driver { return stdlib.GetDefaultDriver() }

// listen opens a connection that listens.
func (l *pgLive) listen(ctx context.Context) (*pgx.Conn, error) {
	config, stale := l.newestConfig()
	conn, err := pgkit.Listen(ctx, config)
	return conn, staleError(err, stale)
}

func staleError(err, stale error) error {
	if err != nil && stale != nil {
		return fmt.Errorf("%w (the newest files of the DSN are not in use: %v)", err, stale)
	}
	return err
}
