package redislease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/redis/go-redis/v9"
)

// node is one place where leases are: a server, the master that a Sentinel
// names, or a Cluster. A Redlock has several.
type node struct {
	client  redis.UniversalClient
	cluster *redis.ClusterClient // the client, if it is one
	header  [2]string            // the first arguments of the scripts
	marker  string               // the key of a Redlock node's marker; "" elsewhere
	timely  bool                 // the client gives up when the context's deadline passes
	repeats bool                 // the client may send a command more than once
	lanes   lanes
	waiters waiters
}

// errNoReply is for an operation that a call has no reply for.
var errNoReply = fmt.Errorf("%w: Redis did not reply to this operation", abstractions.ErrUnavailable)

// unknownScript tells the scripts that a node of Redlock did not know them, and so
// may have been started again: see scripts/prelude.lua.
const unknownScript = "new"

// newNode is a node that decides alone or, unless quarantine is 0, one of Redlock.
func newNode(client redis.UniversalClient, n naming, quarantine time.Duration) *node {
	d := &node{client: client, header: [...]string{"0", "0"}}
	switch client := client.(type) {
	case *redis.ClusterClient:
		d.cluster, d.header[0] = client, "1"
		d.timely, d.repeats = client.Options().ContextTimeoutEnabled, true
	case *redis.Client:
		d.timely, d.repeats = client.Options().ContextTimeoutEnabled, client.Options().MaxRetries > 0
	}
	if quarantine > 0 {
		d.marker, d.header[1] = n.node(), milliseconds(quarantine)
	}
	d.lanes.node = d
	d.waiters.init(d, n.channel(abstractions.NewID()))
	return d
}

// close ends what outlives a request: the subscription, and calls under way.
func (d *node) close() {
	d.waiters.close()
	d.lanes.close()
}

// send runs operations and fills in their replies. A call has operations of one
// script, and on a Cluster, where its keys must be of one slot, only one. Several
// calls go in a pipeline.
func (d *node) send(ctx context.Context, ops []*operation) {
	calls := d.calls(ops)
	if len(calls) == 1 {
		d.call(ctx, calls[0])
		return
	}
	d.pipeline(ctx, calls)
}

// calls divides operations among calls: releases before the acquires that may
// wait for them, otherwise in order.
func (d *node) calls(ops []*operation) [][]*operation {
	if len(ops) == 1 {
		return [][]*operation{ops}
	}
	slices.SortStableFunc(ops, func(a, b *operation) int { return a.script.rank - b.script.rank })
	var calls [][]*operation
	for first, i := 0, 1; i <= len(ops); i++ {
		if i == len(ops) || d.cluster != nil || ops[i].script != ops[first].script || ops[i].script.single {
			calls = append(calls, ops[first:i])
			first = i
		}
	}
	return calls
}

func (d *node) call(ctx context.Context, ops []*operation) {
	cmd := d.command(ctx, "evalsha", ops[0].script.sha, ops)
	if err := d.client.Process(ctx, d.sent(cmd, ops)); isNoScript(err) { // it was not run
		cmd = d.command(ctx, "eval", ops[0].script.text, ops)
		_ = d.client.Process(ctx, d.sent(cmd, ops))
	}
	d.take(cmd, ops)
}

// once is a command that no client sends again by itself, unless it was redirected.
// That of a Cluster, and a user's own, do so with others after a connection has failed,
// although they may have been done.
type once struct{ *redis.Cmd }

func (once) NoRetry() bool { return true }

// sent is a command as the client is to have it. Done twice, a break hits the next holder.
func (d *node) sent(cmd *redis.Cmd, ops []*operation) redis.Cmder {
	if d.repeats && ops[0].script == breakScript {
		return once{cmd}
	}
	return cmd
}

func (d *node) pipeline(ctx context.Context, calls [][]*operation) {
	cmds, all := make([]*redis.Cmd, len(calls)), make([]redis.Cmder, len(calls))
	for i, ops := range calls {
		cmds[i] = d.command(ctx, "evalsha", ops[0].script.sha, ops)
		all[i] = d.sent(cmds[i], ops)
	}
	d.exec(ctx, all)
	var again []redis.Cmder
	for i, ops := range calls {
		if isNoScript(cmds[i].Err()) {
			cmds[i] = d.command(ctx, "eval", ops[0].script.text, ops)
			again = append(again, d.sent(cmds[i], ops))
		}
	}
	d.exec(ctx, again)
	for i, ops := range calls {
		d.take(cmds[i], ops)
	}
}

func (d *node) exec(ctx context.Context, cmds []redis.Cmder) {
	if len(cmds) == 0 {
		return
	}
	pipe := d.client.Pipeline()
	for _, cmd := range cmds {
		_ = pipe.Process(ctx, cmd) // only queues it
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
}

func isNoScript(err error) bool { return redis.HasErrorPrefix(err, "NOSCRIPT") }

// command is EVALSHA or EVAL with the script, the number of keys, keys and
// arguments. They are pointers, since a string in an interface is allocated;
// but for the first key, by which a Cluster's client finds the slot.
func (d *node) command(ctx context.Context, command, script string, ops []*operation) *redis.Cmd {
	p := ops[0].script
	keys, args := p.keys*len(ops), p.args*len(ops)
	if d.marker != "" {
		keys++
	}
	header := &d.header
	if d.marker != "" && command == "eval" {
		header = &[...]string{unknownScript, d.header[1]}
	}
	list := make([]any, 0, 3+keys+len(d.header)+args)
	list = append(list, command, script, count(keys))
	if d.marker != "" {
		list = append(list, &d.marker)
	}
	for _, op := range ops {
		for j := range op.keys[:p.keys] {
			list = append(list, &op.keys[j])
		}
	}
	if d.cluster != nil {
		list[3] = ops[0].keys[0]
	}
	for i := range header {
		if !p.single {
			list = append(list, &header[i])
		}
	}
	for _, op := range ops {
		for j := range op.args[:p.args] {
			list = append(list, &op.args[j])
		}
	}
	cmd := redis.NewCmd(ctx, list...)
	cmd.SetFirstKeyPos(3)
	return cmd
}

// smallCounts are numbers as texts, made once.
var smallCounts = func() (texts [1024]string) {
	for i := range texts {
		texts[i] = strconv.Itoa(i)
	}
	return
}()

func count(n int) any {
	if n < len(smallCounts) {
		return &smallCounts[n]
	}
	return n
}

// take hands the reply to a call to its operations.
func (d *node) take(cmd *redis.Cmd, ops []*operation) {
	values, err := cmd.Slice()
	err = d.failure(err)
	for i, op := range ops {
		switch {
		case err != nil:
			op.reply = reply{err: err}
		case i >= len(values):
			op.reply = reply{err: errNoReply}
		default:
			op.reply = reply{value: values[i]}
		}
	}
}

// failure is that of a call. If the client may have sent it before, and the reply was
// lost, that it was refused now says nothing of that.
func (d *node) failure(err error) error {
	failed := failure(err)
	if d.repeats && errors.Is(failed, abstractions.ErrThrottled) {
		return fmt.Errorf("%w: %w", abstractions.ErrUnavailable, err)
	}
	return failed
}
