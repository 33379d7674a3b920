package sqlserverlease

import (
	"context"
	sqldriver "database/sql/driver"
	"net"
	"sync"
	"time"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/netdial"
	"github.com/distributedleasing/leasing/providers/sql/sqlkit"
	mssql "github.com/microsoft/go-mssqldb"
)

// sessions is a connector of the provider's own connections. These connections end with the context of a request, because
// go-mssqldb reads the log-in without a time limit, and waits up to 10 s for the server's confirmation that it has cancelled a
// statement (v1.11.2, connect and nextToken).
type sessions struct{ sqldriver.Connector }

// recordDials returns a connector whose connections are recorded in the loginConns of the log-in's context.
func (c sessions) recordDials() sessions {
	if connector, ours := c.Connector.(*mssql.Connector); ours {
		connector.Dialer = dialer{}
	}
	return c
}

// connectTimeout bounds attempts to connect whose context allows more.
const connectTimeout = 5 * time.Second

// Connect implements sqldriver.Connector.
func (c sessions) Connect(ctx context.Context) (sqldriver.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	l := new(loginConns)
	defer providerkit.AfterFunc(ctx, l.hangUp)()
	conn, err := c.Connector.Connect(context.WithValue(ctx, loginConnsKey{}, l))
	if err != nil {
		l.hangUp()
		return nil, err
	}
	return &session{conn.(driverConn), l, time.Now()}, nil
}

// driverConn has the methods of go-mssqldb's connection that package sql looks for.
type driverConn interface {
	sqldriver.Conn
	sqldriver.ConnPrepareContext
	sqldriver.ConnBeginTx
	sqldriver.NamedValueChecker
	sqldriver.Pinger
	sqldriver.SessionResetter
	sqldriver.Validator
}

// session is a connection that is checked after an idle period.
type session struct {
	driverConn
	netConns *loginConns
	used     time.Time
}

// ResetSession implements sqldriver.SessionResetter.
func (s *session) ResetSession(ctx context.Context) error {
	if err := s.driverConn.ResetSession(ctx); err != nil {
		return err
	}
	now := time.Now()
	idle := now.Sub(s.used)
	if s.used = now; idle <= sqlkit.Idle {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, sqlkit.CheckTime(ctx))
	defer cancel()
	defer providerkit.AfterFunc(ctx, s.netConns.hangUp)()
	if err := s.Ping(ctx); err != nil {
		return sqldriver.ErrBadConn
	}
	return nil
}

// IsValid implements sqldriver.Validator.
func (s *session) IsValid() bool { return s.driverConn.IsValid() && s.netConns.alive() }

// loginConns has the network connections of one log-in: the client library may dial several addresses, and may follow a
// redirection.
type loginConns struct {
	mu    sync.Mutex
	conns []net.Conn
	ended bool
}

type loginConnsKey struct{}

func (l *loginConns) add(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns = append(l.conns, conn)
	if l.ended {
		_ = conn.Close()
	}
}

// hangUp closes the connections. The server then cancels the running statement and rolls its transaction back.
func (l *loginConns) hangUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	for _, conn := range l.conns {
		_ = conn.Close()
	}
}

func (l *loginConns) alive() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.ended
}

// dialer adds each connection to the loginConns of its context.
type dialer struct{}

// DialContext implements mssql.Dialer.
func (dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := netdial.New().DialContext(ctx, network, address)
	if l, on := ctx.Value(loginConnsKey{}).(*loginConns); err == nil && on {
		l.add(conn)
	}
	return conn, err
}
