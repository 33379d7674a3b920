package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/providers/redis/internal/failure"
	"github.com/distributedleasing/leasing/providers/redis/internal/node"
	"github.com/distributedleasing/leasing/providers/redis/internal/redistest"
	"github.com/distributedleasing/leasing/providers/redis/internal/script"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// ring is the set of servers of a Redlock.
type ring struct {
	t       testing.TB
	servers []*redistest.Server
	admins  []*redis.Client
	options Options // of the processes
	// database is the database that processWith selects in each client, since Options has no such field.
	database int
}

const prefix = "leasing"

// rings numbers the rings, so that each has a prefix of its own: attempts on the same key take turns in this process.
var rings atomic.Int64

// newRing starts n servers that may vote.
func newRing(t testing.TB, n int, o Options) *ring {
	t.Helper()
	r := newServers(t, n, o)
	r.bootstrap()
	return r
}

func (r *ring) bootstrap() {
	r.t.Helper()
	require.NoError(r.t, r.process().bootstrap())
}

// newRingOfThree starts three servers and a process. The test runs in parallel.
func newRingOfThree(t *testing.T) (*ring, *process) {
	t.Helper()
	t.Parallel()
	r := newRing(t, 3, Options{})
	return r, r.process()
}

// newServers starts n servers that have never been used.
func newServers(t testing.TB, n int, o Options) *ring {
	t.Helper()
	o.Naming.Prefix = fmt.Sprint(prefix, rings.Add(1))
	defaultTo(&o.Naming.Retention, providerkit.DefaultRetention)
	defaultTo(&o.MaxTTL, time.Minute)
	r := &ring{t: t, servers: redistest.StartMany(t, n, redistest.Options{}), options: o}
	runs := map[*redistest.Server]string{}
	for _, server := range r.servers {
		info, err := server.Client(t).Info(t.Context(), "server").Result()
		require.NoError(t, err)
		_, runs[server], _ = strings.Cut(info, "run_id:")
	}
	// This is the order that all processes use once the servers have been marked.
	slices.SortFunc(r.servers, func(a, b *redistest.Server) int { return cmp.Compare(runs[a], runs[b]) })
	for _, server := range r.servers {
		r.admins = append(r.admins, server.Client(t))
	}
	return r
}

// process opens a provider with a wire to each server.
func (r *ring) process() *process {
	r.t.Helper()
	return r.processWith(r.servers)
}

// processWith opens a process that lists the servers in this order.
func (r *ring) processWith(servers []*redistest.Server) *process {
	r.t.Helper()
	var clients []redis.UniversalClient
	var wires []*wire
	for _, server := range servers {
		client, w := server.Client(r.t), &wire{ended: r.t.Context().Done()}
		if r.database != 0 {
			o := *client.Options()
			o.DB = r.database
			client = redis.NewClient(&o)
			r.t.Cleanup(func() { _ = client.Close() })
		}
		client.AddHook(redistest.Around(w.around))
		clients = append(clients, client)
		wires = append(wires, w)
	}
	p := r.processOf(clients...)
	p.wires = wires
	for i, w := range p.wires {
		w.node = p.redlock.nodes[i]
	}
	return p
}

// processOf opens a process with these clients.
func (r *ring) processOf(clients ...redis.UniversalClient) *process {
	r.t.Helper()
	p := &process{t: r.t, redlock: New(clients, false, r.options)}
	p.Provider = providerkit.New(&driver{p.redlock}, providerkit.Config{Timeout: providerkit.DefaultTimeout})
	p.Claimant = redistest.Claimant{T: r.t, From: p.Provider}
	r.t.Cleanup(func() { require.NoError(r.t, p.Close()) })
	return p
}

// driver adapts a Redlock to the kit, like the driver of package redislease.
type driver struct{ *Redlock }

func (d *driver) Capabilities() abstractions.Capabilities {
	return abstractions.Capabilities{Provider: "redlock", MinTTL: 200 * time.Millisecond, MaxTTL: d.MaxTTL, Granularity: time.Millisecond, RemainingKnown: true, HeedsContext: true}
}

func (d *driver) Renew(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
	results, err := d.RenewBatch(ctx, []abstractions.RenewRequest{req})
	return results[0].Grant, errors.Join(err, results[0].Err)
}

func (d *driver) Classify(err error) providerkit.Meaning { return failure.Classify(err) }

func (d *driver) Close() error {
	d.Redlock.Close()
	return nil
}

func (r *ring) keys(name string) script.Keys {
	return r.options.Naming.Keys(name)
}

// stored returns a server's record of a name.
func (r *ring) stored(server int, name string) redistest.Stored {
	r.t.Helper()
	return redistest.ReadStored(r.t, r.admins[server], r.keys(name).Name)
}

func (r *ring) put(server int, name string, s redistest.Stored) {
	r.t.Helper()
	redistest.WriteStored(r.t, r.admins[server], r.keys(name).Name, s)
}

// drop makes a server lose a lease.
func (r *ring) drop(server int, name string) {
	r.t.Helper()
	redistest.DropLease(r.t, r.admins[server], r.keys(name).Name)
}

// holder returns the ID of the claim that holds a name on a server; empty if the name is free.
func (r *ring) holder(server int, name string) string {
	r.t.Helper()
	if s := r.stored(server, name); s.Held() {
		return s.ID
	}
	return ""
}

// left returns the time left of a name on a server.
func (r *ring) left(server int, name string) time.Duration {
	r.t.Helper()
	return r.stored(server, name).Left()
}

// fence returns the latest token of a name on a server.
func (r *ring) fence(server int, name string) int64 {
	r.t.Helper()
	return r.stored(server, name).Token
}

// holders returns the number of servers on which a claim holds the name.
func (r *ring) holders(name, id string) (n int) {
	r.t.Helper()
	for server := range r.servers {
		if r.holder(server, name) == id {
			n++
		}
	}
	return n
}

// take acquires a name on all servers.
func (r *ring) take(p *process, name, id string, ttl time.Duration) abstractions.Grant {
	r.t.Helper()
	g := p.Take(name, id, ttl)
	r.eventually(func() bool { return r.holders(name, id) == len(r.servers) })
	return g
}

func (r *ring) eventually(check func() bool, what ...any) {
	r.t.Helper()
	require.Eventually(r.t, check, time.Minute, 5*time.Millisecond, what...)
}

// awaitVoting waits until a server casts votes.
func (r *ring) awaitVoting(server int) {
	r.t.Helper()
	d := node.NewMember(r.admins[server], true, r.options.Naming, r.options.MaxTTL, func(script.Admission) error { return nil })
	defer d.Close()
	r.eventually(func() bool {
		ctx, cancel := context.WithTimeout(r.t.Context(), time.Second)
		defer cancel()
		_, err := d.Do(ctx, r.keys("anything").Inspect()).Record("anything")
		return err == nil
	}, "the server votes")
}

// process is a process that uses a ring.
type process struct {
	*providerkit.Provider
	redistest.Claimant
	redlock *Redlock
	t       testing.TB
	wires   []*wire // to the servers
}

func (p *process) bootstrap() error {
	return providerkit.Call(p.t.Context(), p.Provider, "bootstrap", "", p.redlock.Bootstrap)
}

// settle waits for the work that continues after calls have returned.
func (p *process) settle() {
	p.t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.redlock.background.All.Wait()
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		require.Fail(p.t, "something goes on for ever")
	}
	for i, d := range p.redlock.nodes {
		ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
		d.Do(ctx, p.redlock.Naming.Keys("settled").Inspect()) // sent after all requests that wait for their turn
		cancel()
		require.Eventually(p.t, func() bool { return p.wires[i].inFlight.Load() == 0 }, time.Minute, time.Millisecond)
	}
}

var errLostOnTheWay = errors.New("lost on the way")

// fault replaces the sending of a script's call.
type fault func(send func() error) error

// lostRequest drops the call.
func lostRequest(func() error) error { return errLostOnTheWay }

// lostReply sends the call and loses its reply.
func lostReply(send func() error) error {
	_ = send()
	return errLostOnTheWay
}

// delayed sends the call when the gate opens.
func delayed(gate <-chan struct{}) fault {
	return func(send func() error) error {
		<-gate
		return send()
	}
}

// wire is a hook between a client and its server.
type wire struct {
	inFlight atomic.Int64    // calls in flight
	ended    <-chan struct{} // closed when the test ends, maybe with calls that are still blocked
	node     *node.Node
	mu       sync.Mutex
	faults   map[*script.Program]fault
	// admission is the fault for calls of admit.lua.
	admission fault
}

// on sets the fault for calls of a script; nil removes the fault.
func (w *wire) on(p *script.Program, f fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.faults == nil {
		w.faults = map[*script.Program]fault{}
	}
	w.faults[p] = f
}

// cut sets the fault for all scripts.
func (w *wire) cut(f fault) {
	for _, p := range scripts {
		w.on(p, f)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.admission = f
}

var scripts = []*script.Program{script.Vote, script.Confirm, script.Undo, script.Relock, script.Release, script.Break, script.Inspect, script.Leave}

// fault returns the fault of the first command that has a fault.
func (w *wire) fault(cmds []redis.Cmder) fault {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, cmd := range cmds {
		args := cmd.Args()
		if len(args) < 2 {
			continue
		}
		if w.admission != nil && args[1] == script.AdmitText {
			return w.admission
		}
		for p, f := range w.faults {
			if s := w.node.Source(p); f != nil && (args[1] == s.SHA || args[1] == s.Text) {
				return f
			}
		}
	}
	return nil
}

func (w *wire) around(ctx context.Context, cmds []redis.Cmder, send func(ctx context.Context) error) error {
	w.inFlight.Add(1)
	defer w.inFlight.Add(-1)
	f := w.fault(cmds)
	if f == nil {
		return send(ctx)
	}
	done := make(chan error, 1)
	var sending sync.Mutex
	givenUp := false // once true, another request may use the connection
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

func defaultTo[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
