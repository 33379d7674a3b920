package redislease

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/redistest"
	"github.com/distributedleasing/leasing/providers/redis/internal/script"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// bed is a server with a provider, and with an administrator's client that reads the keys.
type bed struct {
	*Provider
	redistest.Claimant
	t        testing.TB
	server   *redistest.Server
	admin    *redis.Client
	recorder *recorder
}

func newBed(t testing.TB, o redistest.Options) *bed {
	t.Helper()
	server := redistest.Start(t, o)
	b := &bed{t: t, server: server, admin: server.Client(t)}
	b.Provider, b.recorder = b.process()
	b.Claimant = redistest.Claimant{T: t, From: b.Provider}
	return b
}

// process opens another provider, which stands for another process.
func (b *bed) process() (*Provider, *recorder) {
	b.t.Helper()
	client, w := recordedClient(b.t, b.server)
	return openTest(b.t, Options{Client: client}), w
}

func recordedClient(t testing.TB, s *redistest.Server) (*redis.Client, *recorder) {
	client, w := s.Client(t), &recorder{}
	client.AddHook(redistest.Around(w.around))
	return client, w
}

func (b *bed) renew(g abstractions.Grant, ttl time.Duration) error {
	return second(b.RenewGrant(g, ttl))
}

func (b *bed) release(name, id string) {
	b.t.Helper()
	require.NoError(b.t, b.Release(b.t.Context(), abstractions.ReleaseRequest{Name: name, ID: id}))
}

func (b *bed) breakNow(name string) abstractions.BreakResult {
	b.t.Helper()
	r, err := b.Break(b.t.Context(), abstractions.BreakRequest{Name: name, Immediate: true})
	require.NoError(b.t, err)
	return r
}

func (b *bed) keys(name string) script.Keys { return keysOf(name) }

func (b *bed) get(key string) string {
	b.t.Helper()
	text, err := b.admin.Get(b.t.Context(), key).Result()
	require.NoError(b.t, err)
	return text
}

func (b *bed) set(key, text string, ttl time.Duration) {
	b.t.Helper()
	require.NoError(b.t, b.admin.Set(b.t.Context(), key, text, ttl).Err())
}

// left returns the remaining time of a key: -1 means no expiry, -2 no key.
func (b *bed) left(key string) time.Duration {
	b.t.Helper()
	d, err := b.admin.PTTL(b.t.Context(), key).Result()
	require.NoError(b.t, err)
	return d
}

func (b *bed) exists(key string) bool {
	b.t.Helper()
	n, err := b.admin.Exists(b.t.Context(), key).Result()
	require.NoError(b.t, err)
	return n == 1
}

func (b *bed) waitList(name string) []string {
	b.t.Helper()
	all, err := b.admin.ZRange(b.t.Context(), b.keys(name).Queue, 0, -1).Result()
	require.NoError(b.t, err)
	for i := range all {
		_, _ = fmt.Sscan(all[i], &all[i]) // without the channel
	}
	return all
}

// clock returns the server's time in microseconds.
func (b *bed) clock() int64 {
	b.t.Helper()
	now, err := b.admin.Time(b.t.Context()).Result()
	require.NoError(b.t, err)
	return now.UnixMicro()
}

// stored returns the server's record of a name.
func (b *bed) stored(name string) redistest.Stored {
	return redistest.ReadStored(b.t, b.admin, b.keys(name).Name)
}

func (b *bed) put(name string, s redistest.Stored) {
	redistest.WriteStored(b.t, b.admin, b.keys(name).Name, s)
}

// forget deletes the server's record of a name.
func (b *bed) forget(name string) {
	b.t.Helper()
	require.NoError(b.t, b.admin.Del(b.t.Context(), b.keys(name).Name).Err())
}

// waitForExpiry waits until the name's lease has run out.
func (b *bed) waitForExpiry(name string) {
	b.t.Helper()
	b.eventually(func() bool { return !b.stored(name).Held() })
}

func (b *bed) eventually(check func() bool) {
	b.t.Helper()
	require.Eventually(b.t, check, time.Minute, 2*time.Millisecond)
}

// recorder counts the commands of a client, and can make them fail.
type recorder struct {
	sent atomic.Int64 // commands

	mu     sync.Mutex
	lose   error                    // the error that applied calls return
	before func(cmds []redis.Cmder) // runs before calls are sent
}

func (w *recorder) around(ctx context.Context, cmds []redis.Cmder, send func(ctx context.Context) error) error {
	w.mu.Lock()
	lose, before := w.lose, w.before
	w.mu.Unlock()
	if before != nil {
		before(cmds)
	}
	w.sent.Add(int64(len(cmds)))
	err := send(ctx)
	if lose == nil || !strings.HasPrefix(cmds[0].Name(), "eval") || redis.HasErrorPrefix(err, "NOSCRIPT") || redis.HasErrorPrefix(cmds[0].Err(), "NOSCRIPT") {
		return err
	}
	return failCommands(cmds, lose)
}

func failCommands(cmds []redis.Cmder, err error) error {
	for _, cmd := range cmds {
		cmd.SetErr(err)
	}
	return err
}

// loseReplies makes calls take effect but fail with err; nil restores their replies.
func (w *recorder) loseReplies(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lose = err
}

func (w *recorder) doBefore(before func(cmds []redis.Cmder)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.before = before
}
