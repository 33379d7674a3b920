package sqllease

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/jackc/pgx/v5"
)

// wakeups sends hints that a name may be free with NOTIFY, in the transaction
// that frees it, and receives them with LISTEN.
type wakeups struct {
	providerkit.Wakeups
	channel string
}

// newWakeups takes a function that connects, nil if the driver can't listen.
func newWakeups(schema, table string, connect func(context.Context) (*pgx.Conn, error)) *wakeups {
	w := &wakeups{channel: "leasing_" + digest(fmt.Sprintf("%q %q", schema, table))}
	if connect != nil {
		w.Connect = func(ctx context.Context) (providerkit.Connection, error) { return w.listen(ctx, connect) }
	}
	return w
}

func (w *wakeups) canListen() bool { return w != nil && w.Connect != nil }

// address is where a hint about a name goes: a channel of the tables, with a
// payload that is short and tells the name to nobody. No channel, no hint.
func (w *wakeups) address(name string) (channel, payload string) {
	if w == nil {
		return "", ""
	}
	return w.channel, digest(name)
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

func (w *wakeups) wait(ctx context.Context, name string) (abstractions.Wakeups, error) {
	_, payload := w.address(name)
	return w.Wait(ctx, payload)
}

func (w *wakeups) close() {
	if w != nil {
		w.Close()
	}
}

func (w *wakeups) listen(ctx context.Context, connect func(context.Context) (*pgx.Conn, error)) (providerkit.Connection, error) {
	conn, err := connect(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{w.channel}.Sanitize()); err != nil {
		hangUp(conn)
		return nil, err
	}
	return listener{conn}, nil
}

// listener is a connection that listens for all the waiters of a provider.
type listener struct{ conn *pgx.Conn }

func (l listener) Receive(ctx context.Context) (string, error) {
	notification, err := l.conn.WaitForNotification(ctx)
	if err != nil {
		return "", err
	}
	return notification.Payload, nil
}

func (l listener) Ping(ctx context.Context) error { return l.conn.Ping(ctx) }

func (l listener) Close() { hangUp(l.conn) }

func hangUp(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	conn.Close(ctx)
}
