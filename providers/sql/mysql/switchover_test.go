//go:build unix

package mysqllease

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/faulttest"
	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/stretchr/testify/require"
)

// pair is a server and its replica, which swap roles. A read-only server refuses writes from user app, but not from root.
type pair struct {
	faulttest.SwitchOver
	t              *testing.T
	source, copied *servertest.Server
}

var grants = []string{"CREATE USER app IDENTIFIED BY 'secret'", "GRANT ALL ON leasing.* TO app"}

func newPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{t: t, source: servertest.NewMariaDB(t, "--server-id=1", "--log-bin=binlog", "--binlog-format=ROW")}
	p.exec(p.source, append([]string{"CREATE DATABASE leasing"}, grants...)...)
	p.SwitchOver = faulttest.SwitchOver{Server: p.source.Addr(), Clients: map[string]func(testing.TB, string) abstractions.Provider{
		"own": func(t testing.TB, endpoint string) abstractions.Provider {
			return (&bed{url: "mysql://app:secret@" + endpoint + "/leasing"}).open(t)
		},
	}}
	return p
}

// replicate starts the replica.
func (p *pair) replicate() {
	p.t.Helper()
	p.copied = servertest.NewMariaDB(p.t, "--server-id=2", "--read-only=1")
	p.exec(p.copied,
		fmt.Sprintf("CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT=%d, MASTER_USER='root', MASTER_CONNECT_RETRY=1, MASTER_USE_GTID=slave_pos", p.source.Port()),
		"START SLAVE")
	p.awaitReplica()
}

// awaitReplica waits until the replica has all data of the source.
func (p *pair) awaitReplica() {
	p.t.Helper()
	source, replica := p.on(p.source).connect(p.t), p.on(p.copied).connect(p.t)
	defer source.Close()
	defer replica.Close()
	var position string
	require.NoError(p.t, source.QueryRowContext(bounded(p.t), "SELECT @@gtid_binlog_pos").Scan(&position))
	servertest.Eventually(p.t, "the replica follows", func(ctx context.Context) error {
		var behind int
		err := replica.QueryRowContext(ctx, "SELECT MASTER_GTID_WAIT(?, 1)", position).Scan(&behind)
		if err == nil && behind != 0 {
			err = errors.New("it is behind")
		}
		return err
	})
}

// on returns a bed for the root user of a server.
func (p *pair) on(s *servertest.Server) *bed {
	p.t.Helper()
	return rootOf(p.t, "mysql://root@"+s.Addr())
}

func (p *pair) exec(on *servertest.Server, statements ...string) {
	p.t.Helper()
	for _, statement := range statements {
		p.on(on).exec(p.t, statement)
	}
}

// T165: the endpoint leads to the new primary, and the old primary stays up and is read-only.
func TestTrap_T165_TheEndpointMoves_mariadb(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.replicate()
	p.Endures(t, func(move func(string)) {
		p.exec(p.source, "SET GLOBAL read_only = 1")
		p.awaitReplica()
		p.exec(p.copied, "STOP SLAVE", "SET GLOBAL read_only = 0")
		move(p.copied.Addr())
	})
}

// T165: the endpoint leads to a replica for a while.
func TestTrap_T165_TheEndpointLeadsToAReplica_mariadb(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	p := newPair(t)
	p.replicate()
	p.Endures(t, func(move func(string)) {
		move(p.copied.Addr())
		p.exec(p.source, "KILL USER app")
		<-time.After(2 * time.Second) // the fault
		move(p.source.Addr())
	})
}

// T166: the user does not exist for a while, and its connections are closed.
func TestTrap_T166_CredentialsAreGoneForAWhile_mariadb(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	p := newPair(t)
	p.Endures(t, func(func(string)) {
		p.exec(p.source, "DROP USER app", "KILL USER app")
		<-time.After(4 * time.Second) // the fault
		p.exec(p.source, grants...)
	})
}

// T167: a gateway forgets connections.
func TestTrap_T167_ThePathIsLost_mariadb(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	newPair(t).EnduresLostPath(t)
}
