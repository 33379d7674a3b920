// Package node represents one place that stores leases: a server, the master that sentinels
// name, or a Cluster. It sends the operations of package script to that place, combines
// concurrent operations into one call, and lists names by SCAN. [Single] is a node that decides alone; a
// Redlock has several nodes.
package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/batch"
	"github.com/distributedleasing/leasing/providers/redis/internal/failure"
	"github.com/distributedleasing/leasing/providers/redis/internal/script"
	"github.com/distributedleasing/leasing/providers/redis/internal/waitqueue"
	"github.com/redis/go-redis/v9"
)

type batcher = batch.Batcher[*script.Operation]

// Request is a set of operations that are sent together.
type Request = batch.Request[*script.Operation]

// Node is one place that stores leases. A Redlock has several nodes.
type Node struct {
	Client         redis.UniversalClient
	direct         time.Duration        // for batchers: see directTime
	batcher        *batcher             // of all operations, except on a Cluster
	cluster        *redis.ClusterClient // nil elsewhere
	header         [2]string            // the first arguments of the scripts, except during a quarantine
	member         *member              // of a Redlock; nil elsewhere
	resends        bool                 // the client may send a command more than once
	credentialFunc bool                 // the client has a function for its credentials
	pipelinePool   bool                 // the client has a second pool for pipelines, which a link does not see
	Waiters        *waitqueue.Queue
	background     Background // requests that are not scripts
	batches        sync.Pool  // of *operations

	slotsKnown atomic.Bool // the client has read the Cluster's slots
	mu         sync.Mutex
	byMaster   map[*redis.Client]*batcher // nil after Close
}

// errNoReply is the error of an operation without a reply in its call.
var errNoReply = fmt.Errorf("%w: Redis did not reply to this operation", abstractions.ErrUnavailable)

// directTime bounds a call on its caller's own goroutine.
const directTime = 100 * time.Millisecond

// New returns a node that decides alone. timely says that the client ends a call when its
// context's deadline passes.
func New(client redis.UniversalClient, timely bool, n script.Naming) *Node {
	d := &Node{Client: client, header: [...]string{"0", ""}, byMaster: map[*redis.Client]*batcher{}}
	if timely {
		d.direct = directTime
	}
	switch client := client.(type) {
	case *redis.ClusterClient:
		d.cluster, d.header[0], d.resends = client, "1", true
		o := client.Options()
		d.pipelinePool = o.PipelinePoolSize >= 0
		d.credentialFunc = o.CredentialsProvider != nil || o.CredentialsProviderContext != nil || o.StreamingCredentialsProvider != nil
	case *redis.Client:
		o := client.Options()
		d.resends, d.pipelinePool = o.MaxRetries > 0, o.PipelinePoolSize >= 0
		d.credentialFunc = o.CredentialsProvider != nil || o.CredentialsProviderContext != nil || o.StreamingCredentialsProvider != nil
	}
	d.batcher = d.newBatcher(client)
	channel := n.Channel(abstractions.NewID())
	d.Waiters = waitqueue.New(client, channel, func(ctx context.Context, k script.Keys, id, at string) {
		d.Do(ctx, k.Leave(id, at))
	})
	return d
}

// newBatcher makes the batcher of one server's operations.
func (d *Node) newBatcher(client redis.UniversalClient) *batcher {
	l := newLink(client)
	return batch.New(func(ctx context.Context, ops []*script.Operation, _ bool) { d.send(ctx, l, ops) }, d.direct)
}

// Close ends the work that outlives a request: the connection of waiters, and calls in flight.
func (d *Node) Close() {
	d.Waiters.Close()
	d.batcher.Close()
	d.mu.Lock()
	masters := d.byMaster
	d.byMaster = nil
	d.mu.Unlock()
	var all providerkit.Group
	for _, b := range masters {
		all.Go(func() error { b.Close(); return nil }, nil)
	}
	all.Wait()
	d.background.Close()
}

// batcherOf returns the batcher for an operation. On a Cluster, each master has its own.
func (d *Node) batcherOf(ctx context.Context, op *script.Operation) (*batcher, error) {
	if d.cluster == nil {
		return d.batcher, nil
	}
	return d.batcherOfMaster(ctx, op)
}

// Do runs an operation and waits for its reply, or for the end of ctx, which must have a deadline.
func (d *Node) Do(ctx context.Context, op script.Operation) script.Reply {
	b, err := d.batcherOf(ctx, &op)
	if err == nil {
		err = b.Do(ctx, &op)
	}
	if err != nil {
		return script.Reply{Err: err}
	}
	return op.Reply
}

// operations is a set of operations that run together.
type operations struct {
	ops  []script.Operation
	list []*script.Operation // pointers to ops
}

// DoAll runs n operations in as few calls as possible, concurrently. op returns the
// i-th operation, and take receives its reply, or an error if there is no reply when ctx ends.
func (d *Node) DoAll(ctx context.Context, n int, op func(i int) script.Operation, take func(i int, r script.Reply)) {
	s := d.newOperations(n)
	for i := range s.ops {
		s.ops[i] = op(i)
	}
	of := func(one *script.Operation) (*batcher, error) { return d.batcherOf(ctx, one) }
	done := true
	for i, err := range batch.DoAll(ctx, s.list, of) {
		if done = done && err == nil; err != nil {
			take(i, script.Reply{Err: err})
		} else {
			take(i, s.ops[i].Reply)
		}
	}
	if done { // otherwise a call may still use some of them
		clear(s.ops)
		d.batches.Put(s)
	}
}

// newOperations returns n operations, reused from an earlier call if possible: the operations of 256
// renewals take 50 KB, which was a third of all garbage before operations were reused.
func (d *Node) newOperations(n int) *operations {
	s, _ := d.batches.Get().(*operations)
	if s == nil || cap(s.ops) < n {
		s = &operations{make([]script.Operation, n), make([]*script.Operation, n)}
		for i := range s.ops {
			s.list[i] = &s.ops[i]
		}
	}
	s.ops, s.list = s.ops[:n], s.list[:n]
	return s
}

// Start begins a request, whose operations all belong to one master.
func (d *Node) Start(r *Request) error {
	b, err := d.batcherOf(r.Context, r.Ops[0])
	if err != nil {
		return err
	}
	return b.Start(r)
}

// send runs operations and fills in their replies. A call has operations of one script and one
// span, and on a Cluster, where its keys must be of one slot, only one operation. Several calls
// share a pipeline. If the server does not have a call's script, it has not run the call, and send
// repeats the call with the text of the script.
func (d *Node) send(ctx context.Context, l *link, ops []*script.Operation) {
	calls := d.calls(ops)
	cmds := make([]*redis.Cmd, len(calls))
	use := kept
	c, conn := caller(d.Client), l.begin(ctx, d)
	defer func() { // even after a panic in a hook
		if conn != nil {
			_ = conn.Close()
		}
		l.end(ctx, use)
	}()
	if conn == nil && d.pipelinePool && l != nil && len(calls) > 1 {
		conn = l.client.Conn()
	}
	if conn != nil {
		c = conn
	}
	if d.member == nil || d.member.run.Load() != nil {
		d.exec(ctx, c, "evalsha", calls, cmds)
	}
	var err error
	if slices.ContainsFunc(cmds, isUnknown) {
		if client, ok := c.(*redis.Client); ok && d.member != nil {
			conn = client.Conn()
			c = conn
		}
		if conn != nil && d.member != nil {
			_, err = d.member.ask(ctx, conn, script.Admit)
		}
		if err == nil {
			d.exec(ctx, c, "eval", calls, cmds)
		}
	}
	for i, ops := range calls {
		if err != nil && isUnknown(cmds[i]) {
			use = max(use, useOf(err))
			d.take(nil, err, ops)
		} else {
			values, err := cmds[i].Slice()
			use = max(use, useOf(err), d.take(values, d.clientError(err), ops))
		}
	}
}

// isUnknown reports whether a call was not run: it was not sent yet, the server does not
// have its script, or a server of Redlock has lost its marker.
func isUnknown(cmd *redis.Cmd) bool {
	if cmd == nil {
		return true
	}
	err := cmd.Err()
	return err != nil && (redis.HasErrorPrefix(err, "NOSCRIPT") || redis.HasErrorPrefix(err, "UNMARKED"))
}

// exec sends the calls that were not run yet.
func (d *Node) exec(ctx context.Context, c caller, verb any, calls [][]*script.Operation, cmds []*redis.Cmd) {
	sent := make([]redis.Cmder, 0, len(calls))
	for i, ops := range calls {
		if !isUnknown(cmds[i]) {
			continue
		}
		cmds[i] = d.command(ctx, verb, ops)
		if d.resends && ops[0].Script == script.Break { // a second break could end the next holder's lease
			sent = append(sent, sentOnce{cmds[i]})
		} else {
			sent = append(sent, cmds[i])
		}
	}
	if len(sent) == 1 {
		_ = c.Process(ctx, sent[0]) // each command has its own error
	} else {
		pipe := c.Pipeline()
		for _, cmd := range sent {
			_ = pipe.Process(ctx, cmd) // only queues the command
		}
		_, _ = pipe.Exec(ctx)
	}
	if _, direct := c.(*redis.Conn); !direct || d.cluster == nil {
		return
	}
	for _, cmd := range sent { // a connection does not follow redirections, unlike the client of a Cluster
		if redis.HasErrorPrefix(cmd.Err(), "MOVED") || redis.HasErrorPrefix(cmd.Err(), "ASK") {
			_ = d.cluster.Process(ctx, cmd)
		}
	}
}

// calls groups operations of the same script and span into calls. Releases come before
// the acquires that may wait for the names.
func (d *Node) calls(ops []*script.Operation) [][]*script.Operation {
	if len(ops) == 1 {
		return [][]*script.Operation{ops}
	}
	slices.SortStableFunc(ops, func(a, b *script.Operation) int {
		return cmp.Or(a.Script.Rank-b.Script.Rank, cmp.Compare(a.Span.TTL, b.Span.TTL))
	})
	var calls [][]*script.Operation
	for first, i := 0, 1; i <= len(ops); i++ {
		if i == len(ops) || d.cluster != nil || ops[i].Script != ops[first].Script || ops[i].Span != ops[first].Span {
			calls = append(calls, ops[first:i])
			first = i
		}
	}
	return calls
}

// caller is a client, or a connection of a client.
type caller interface {
	redis.Scripter
	Process(ctx context.Context, cmd redis.Cmder) error
	Pipeline() redis.Pipeliner
}

// sentOnce is a command that no client resends, unless it was redirected. The client of a
// Cluster, and an application's own client, resend other commands after a connection has
// failed, although the commands may have been run.
type sentOnce struct{ *redis.Cmd }

func (sentOnce) NoRetry() bool { return true }

// command returns EVALSHA or EVAL (verb) with the script, the number of keys, keys and
// arguments. Keys and arguments are pointers, since a string in an interface is
// allocated. On a Cluster the first key is a string, by which the client finds the slot.
// A server of Redlock gets the remaining time of its quarantine by this process' clock,
// in milliseconds.
func (d *Node) command(ctx context.Context, verb any, ops []*script.Operation) *redis.Cmd {
	p := ops[0].Script
	src, quarantine := p.Source, &d.header[1]
	keys, args := p.Keys*len(ops), p.Args*len(ops)
	if d.member != nil {
		src = d.Source(p)
		keys++
		if left := d.Quarantine(); left > 0 {
			text := strconv.FormatInt(script.Milliseconds(left), 10)
			quarantine = &text
		}
	}
	source := src.SHA
	if verb == "eval" {
		source = src.Text
	}
	list := make([]any, 0, 3+keys+4+args)
	list = append(list, verb, source, keys)
	if d.member != nil {
		list = append(list, &d.member.marker)
	}
	for _, op := range ops {
		for j := range op.Keys[:p.Keys] {
			list = append(list, &op.Keys[j])
		}
	}
	if d.cluster != nil {
		list[3] = ops[0].Keys[0]
	}
	list = append(list, &d.header[0], quarantine, &ops[0].Span.TTL, &ops[0].Span.Keep)
	for _, op := range ops {
		for j := range op.Args[:p.Args] {
			list = append(list, &op.Args[j])
		}
	}
	cmd := redis.NewCmd(ctx, list...)
	cmd.SetFirstKeyPos(3)
	return cmd
}

// take passes the reply to a call on to the call's operations, and returns the state of the connection. A client that repeats
// calls may have sent the call before, and lost the reply. Then a refusal or a failed connection proves nothing about the earlier
// attempt.
func (d *Node) take(values []any, err error, ops []*script.Operation) (use connectionUse) {
	if err != nil {
		failed := failure.Of(err)
		if d.cluster != nil {
			failed = failure.OfCluster(err)
		}
		switch {
		case d.resends && (errors.Is(failed, abstractions.ErrThrottled) || isCredentialError(failed)):
			failed = providerkit.Partial(failed)
		case !d.resends && providerkit.NotSent(err):
			failed = providerkit.MarkNotApplied(failed)
		}
		err = failed
	}
	for i, op := range ops {
		switch {
		case err != nil:
			op.Reply = script.Reply{Err: err}
		case i >= len(values):
			op.Reply = script.Reply{Err: errNoReply}
		default:
			op.Reply = script.Reply{Value: values[i]}
			err := op.Reply.Failure()
			if err == nil {
				continue
			}
			if failure.MustReconnect(err) {
				use = keptUnusable
			}
			if d.resends && errors.Is(err, abstractions.ErrThrottled) {
				op.Reply = script.Reply{Err: providerkit.Partial(err)}
			}
		}
	}
	return use
}

// clientError classifies an error from the client, which may come from its credentials function.
func (d *Node) clientError(err error) error {
	if d.credentialFunc {
		return failure.OfSource(err)
	}
	return err
}

// isCredentialError reports whether the last connection of a call failed to sign in, because the source of its
// credentials failed.
func isCredentialError(err error) bool {
	var source *providerkit.CredentialError
	return errors.As(err, &source)
}
