package redislease

import (
	"cmp"
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/redistest"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// ring is a Redlock's servers.
type ring struct {
	t       testing.TB
	servers []*redistest.Server
	admins  []*redis.Client
	options Options // of processes
	// database is where they are; options can't say so with clients.
	database int
}

// newRing starts n servers that may vote.
func newRing(t testing.TB, n int, o Options) *ring {
	t.Helper()
	r := newcomers(t, n, o)
	r.bootstrap()
	return r
}

func (r *ring) bootstrap() {
	r.t.Helper()
	require.NoError(r.t, r.process().Bootstrap(r.t.Context()))
}

// newcomers starts n servers that have never been used.
func newcomers(t testing.TB, n int, o Options) *ring {
	t.Helper()
	r := &ring{t: t, servers: redistest.StartMany(t, n, redistest.Options{}), options: o}
	runs := map[*redistest.Server]string{}
	for _, server := range r.servers {
		info, err := server.Client(t).Info(t.Context(), "server").Result()
		require.NoError(t, err)
		_, runs[server], _ = strings.Cut(info, "run_id:")
	}
	// As processes order them once they have been marked.
	slices.SortFunc(r.servers, func(a, b *redistest.Server) int { return cmp.Compare(runs[a], runs[b]) })
	for _, server := range r.servers {
		r.admins = append(r.admins, server.Client(t))
	}
	return r
}

// process is a provider of its own, and what its requests go through.
func (r *ring) process() *process {
	r.t.Helper()
	return r.processWith(r.servers)
}

// processWith is a process that lists the servers in an order of its own.
func (r *ring) processWith(servers []*redistest.Server) *process {
	r.t.Helper()
	p := &process{t: r.t}
	o := r.options
	for _, server := range servers {
		client, w := server.Client(r.t), &wire{ended: r.t.Context().Done()}
		if r.database != 0 {
			o := *client.Options()
			o.DB = r.database
			client = redis.NewClient(&o)
			r.t.Cleanup(func() { _ = client.Close() })
		}
		client.AddHook(w)
		o.Clients = append(o.Clients, client)
		p.wires = append(p.wires, w)
	}
	p.Provider = openTest(r.t, o)
	p.redlock = p.topology.(*redlock)
	for i, w := range p.wires {
		w.node = p.redlock.nodes[i]
	}
	return p
}

func (r *ring) keys(name string) keys {
	return naming{prefix: cmp.Or(r.options.Prefix, DefaultPrefix)}.keys(name)
}

// stored is what a server has of a name.
func (r *ring) stored(server int, name string) stored {
	r.t.Helper()
	return look(r.t, r.admins[server], r.keys(name).name)
}

func (r *ring) put(server int, name string, s stored) {
	r.t.Helper()
	put(r.t, r.admins[server], r.keys(name).name, s)
}

// drop has a server lose a lease.
func (r *ring) drop(server int, name string) {
	r.t.Helper()
	drop(r.t, r.admins[server], r.keys(name).name)
}

// holder is the claim that a server has as the holder of a name; empty if none.
func (r *ring) holder(server int, name string) string {
	r.t.Helper()
	if s := r.stored(server, name); s.held() {
		return s.id
	}
	return ""
}

// left is the time that a name has at a server.
func (r *ring) left(server int, name string) time.Duration {
	r.t.Helper()
	return r.stored(server, name).left()
}

// fence is the latest token of a name as a server has it.
func (r *ring) fence(server int, name string) int64 {
	r.t.Helper()
	return r.stored(server, name).token
}

// holders is how many servers have a claim as the holder.
func (r *ring) holders(name, id string) (n int) {
	r.t.Helper()
	for server := range r.servers {
		if r.holder(server, name) == id {
			n++
		}
	}
	return n
}

func (r *ring) eventually(check func() bool, what ...any) {
	r.t.Helper()
	require.Eventually(r.t, check, time.Minute, 5*time.Millisecond, what...)
}

// voting waits until a server casts votes.
func (r *ring) voting(server int) {
	r.t.Helper()
	single := &single{node: newNode(r.admins[server], true, naming{prefix: DefaultPrefix}, r.maxTTL()), naming: naming{prefix: DefaultPrefix}}
	defer single.close()
	r.eventually(func() bool {
		ctx, cancel := context.WithTimeout(r.t.Context(), time.Second)
		defer cancel()
		_, err := single.inspect(ctx, "anything")
		return err == nil
	}, "the server votes")
}

func (r *ring) maxTTL() time.Duration {
	if r.options.MaxTTL == 0 {
		return DefaultMaxTTL
	}
	return r.options.MaxTTL
}

// process is one of those who use a ring.
type process struct {
	*Provider
	*redlock
	t     testing.TB
	wires []*wire // to the servers
}

func (p *process) try(name, id string, ttl time.Duration) (abstractions.Grant, error) {
	return p.Acquire(p.t.Context(), abstractions.AcquireRequest{Name: name, ID: id, Owner: "owner of " + id, TTL: ttl})
}

func (p *process) take(name, id string, ttl time.Duration) abstractions.Grant {
	p.t.Helper()
	g, err := p.try(name, id, ttl)
	require.NoError(p.t, err)
	require.Equal(p.t, abstractions.Grant{Name: name, ID: id, Token: g.Token, TTL: ttl, State: g.State}, g)
	return g
}

func (p *process) keep(g abstractions.Grant, ttl time.Duration) (abstractions.Grant, error) {
	return p.Renew(p.t.Context(), abstractions.RenewRequest{Name: g.Name, ID: g.ID, Token: g.Token, TTL: ttl, State: g.State})
}

func (p *process) giveUp(g abstractions.Grant) error {
	return p.Release(p.t.Context(), abstractions.ReleaseRequest{Name: g.Name, ID: g.ID, Token: g.Token, State: g.State})
}

func (p *process) look(name string) abstractions.Record {
	p.t.Helper()
	record, err := p.Inspect(p.t.Context(), abstractions.InspectRequest{Name: name})
	require.NoError(p.t, err)
	return record
}

// obtain asks until the name is free.
func (p *process) obtain(name, id string, ttl time.Duration) abstractions.Grant {
	p.t.Helper()
	var g abstractions.Grant
	require.Eventually(p.t, func() bool {
		var err error
		g, err = p.try(name, id, ttl)
		return err == nil
	}, time.Minute, 10*time.Millisecond)
	return g
}

// settle waits for what goes on after calls have returned.
func (p *process) settle() {
	p.t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.redlock.after.all.Wait()
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		require.Fail(p.t, "something goes on for ever")
	}
	for i, d := range p.redlock.nodes {
		ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
		op := inspectOp(p.naming.keys("settled")) // is sent after what waits for its turn
		_ = d.do(ctx, &op)
		cancel()
		require.Eventually(p.t, func() bool { return p.wires[i].flying.Load() == 0 }, time.Minute, time.Millisecond)
	}
}

var errLostOnTheWay = errors.New("lost on the way")

// fault is what happens to a call of a script.
type fault func(send func() error) error

// lostRequest never arrives.
func lostRequest(func() error) error { return errLostOnTheWay }

// lostReply is for what is done, and nobody hears of it.
func lostReply(send func() error) error {
	_ = send()
	return errLostOnTheWay
}

// delayed arrives when the gate opens.
func delayed(gate <-chan struct{}) fault {
	return func(send func() error) error {
		<-gate
		return send()
	}
}

// wire is a hook between a client and its server.
type wire struct {
	flying atomic.Int64    // calls under way
	ended  <-chan struct{} // closed with the test, which may leave calls held up
	node   *node
	mu     sync.Mutex
	faults map[*program]fault
	// admission is what happens to the first look at a run of the server.
	admission fault
}

// on sets what happens to calls of a script; nil lets them pass again.
func (w *wire) on(p *program, f fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.faults == nil {
		w.faults = map[*program]fault{}
	}
	w.faults[p] = f
}

// cut is on for all scripts.
func (w *wire) cut(f fault) {
	for _, p := range scripts {
		w.on(p, f)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.admission = f
}

var scripts = []*program{voteScript, confirmScript, undoScript, relockScript, releaseScript, breakScript, inspectScript, leaveScript}

// fault returns that of the first command that has one.
func (w *wire) fault(cmds []redis.Cmder) fault {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, cmd := range cmds {
		args := cmd.Args()
		if len(args) < 2 {
			continue
		}
		if w.admission != nil && args[1] == admitText {
			return w.admission
		}
		for p, f := range w.faults {
			if s, _ := w.node.source(p); f != nil && (args[1] == s.sha || args[1] == s.text) {
				return f
			}
		}
	}
	return nil
}

func (w *wire) around(ctx context.Context, cmds []redis.Cmder, send func(ctx context.Context) error) error {
	w.flying.Add(1)
	defer w.flying.Add(-1)
	f := w.fault(cmds)
	if f == nil {
		return send(ctx)
	}
	done := make(chan error, 1)
	var sending sync.Mutex
	givenUp := false // its connection is somebody else's then
	go func() {
		done <- f(func() error {
			sending.Lock()
			defer sending.Unlock()
			if givenUp {
				return errLostOnTheWay
			}
			return send(context.WithoutCancel(context.Background())) // however late
		})
	}()
	var err error
	select {
	case err = <-done:
	case <-w.ended:
		sending.Lock()
		givenUp = true
		sending.Unlock()
		err = errLostOnTheWay
	}
	if err != nil {
		for _, cmd := range cmds {
			cmd.SetErr(err)
		}
	}
	return err
}

func (w *wire) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (w *wire) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return w.around(ctx, []redis.Cmder{cmd}, func(ctx context.Context) error { return next(ctx, cmd) })
	}
}

func (w *wire) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return w.around(ctx, cmds, func(ctx context.Context) error { return next(ctx, cmds) })
	}
}

// isUnknown says that an error leaves open what has become of the request.
func isUnknown(t testing.TB, err error) {
	t.Helper()
	require.ErrorIs(t, err, abstractions.ErrUnavailable)
	for _, certain := range []error{abstractions.ErrHeld, abstractions.ErrLost, abstractions.ErrReleased, abstractions.ErrStale, abstractions.ErrInvalid, abstractions.ErrDenied, abstractions.ErrNotSetUp, abstractions.ErrThrottled, abstractions.ErrClosed} {
		require.NotErrorIs(t, err, certain)
	}
}
