// Package node is one place where leases are: a server, the master that sentinels name, or a
// Cluster. It sends the operations of package script there, those that are made at the same
// time in one call, and lists names by SCAN. [Single] is a node that decides alone; a
// Redlock has several.
package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/providers/redis/internal/failure"
	"github.com/distributedleasing/leasing/providers/redis/internal/script"
	"github.com/distributedleasing/leasing/providers/redis/internal/waitqueue"
	"github.com/redis/go-redis/v9"
)

// Node is one place where leases are: a server, the master that a Sentinel
// names, or a Cluster. A Redlock has several.
type Node struct {
	Client  redis.UniversalClient
	cluster *redis.ClusterClient // the client, if it is one
	header  [2]string            // the first arguments of the scripts, but for a quarantine
	member  *member              // of a Redlock; nil elsewhere
	repeats bool                 // the client may send a command more than once
	batches batches
	Waiters *waitqueue.Queue
	after   Aftermath // requests that are none of the scripts'
}

// errNoReply is for an operation that a call has no reply for.
var errNoReply = fmt.Errorf("%w: Redis did not reply to this operation", abstractions.ErrUnavailable)

// New is a node that decides alone. timely says that the client ends a call when its
// context's deadline passes.
func New(client redis.UniversalClient, timely bool, n script.Naming) *Node {
	d := &Node{Client: client, header: [...]string{"0", ""}}
	switch client := client.(type) {
	case *redis.ClusterClient:
		d.cluster, d.header[0] = client, "1"
		d.repeats = true
	case *redis.Client:
		d.repeats = client.Options().MaxRetries > 0
	}
	d.batches.node, d.batches.timely, d.batches.byMaster = d, timely, map[*redis.Client]*batcher{}
	channel := n.Channel(abstractions.NewID())
	d.Waiters = waitqueue.New(client, channel, func(ctx context.Context, k script.Keys, id string) {
		op := k.Leave(id, channel)
		_ = d.Do(ctx, &op)
	})
	return d
}

// Close ends what outlives a request: the subscription, and calls under way.
func (d *Node) Close() {
	d.Waiters.Close()
	d.batches.close()
	d.after.Close()
}

// send runs operations and fills in their replies. A call has operations of one
// script, and on a Cluster, where its keys must be of one slot, only one. Several
// calls go in a pipeline.
func (d *Node) send(ctx context.Context, ops []*script.Operation) {
	if len(ops) > 1 {
		if calls := d.calls(ops); len(calls) > 1 {
			d.pipeline(ctx, calls)
			return
		}
	}
	d.call(ctx, ops)
}

// calls divides operations among calls: releases before the acquires that may
// wait for them, otherwise in order.
func (d *Node) calls(ops []*script.Operation) [][]*script.Operation {
	slices.SortStableFunc(ops, func(a, b *script.Operation) int { return a.Script.Rank - b.Script.Rank })
	var calls [][]*script.Operation
	for first, i := 0, 1; i <= len(ops); i++ {
		if i == len(ops) || d.cluster != nil || ops[i].Script != ops[first].Script {
			calls = append(calls, ops[first:i])
			first = i
		}
	}
	return calls
}

// caller is a client, or a connection of one.
type caller interface {
	redis.Scripter
	Process(ctx context.Context, cmd redis.Cmder) error
	Pipeline() redis.Pipeliner
}

// Source is a script as this node has it; none of a Redlock's before its server is known.
func (d *Node) Source(p *script.Program) (s script.Source, known bool) {
	if d.member == nil {
		return p.Source, true
	}
	if r := d.member.run.Load(); r != nil {
		return r.scripts[p], true
	}
	return s, false
}

// load sends calls whose script the server does not know, with the text.
func (d *Node) load(ctx context.Context, send func(c caller)) error {
	client, ok := d.Client.(*redis.Client)
	if d.member == nil || !ok {
		send(d.Client)
		return nil
	}
	conn := client.Conn()
	defer func() { _ = conn.Close() }()
	_, err := d.member.ask(ctx, conn, script.Admit)
	if err == nil {
		send(conn)
	}
	return err
}

func (d *Node) call(ctx context.Context, ops []*script.Operation) {
	cmd := d.bySHA(ctx, ops)
	if !isUnknownScript(cmd.Err()) {
		_ = d.Client.Process(ctx, d.sent(cmd, ops))
	}
	if isUnknownScript(cmd.Err()) { // it was not run
		err := d.load(ctx, func(c caller) {
			cmd = d.byText(ctx, ops)
			_ = c.Process(ctx, d.sent(cmd, ops))
		})
		if err != nil {
			cmd.SetErr(err)
		}
	}
	d.take(cmd, ops)
}

// once is a command that no client sends again by itself, unless it was redirected.
// That of a Cluster, and a user's own, do so with others after a connection has failed,
// although they may have been done.
type once struct{ *redis.Cmd }

func (once) NoRetry() bool { return true }

// sent is a command as the client is to have it. Done twice, a break hits the next holder.
func (d *Node) sent(cmd *redis.Cmd, ops []*script.Operation) redis.Cmder {
	if d.repeats && ops[0].Script == script.Break {
		return once{cmd}
	}
	return cmd
}

func (d *Node) pipeline(ctx context.Context, calls [][]*script.Operation) {
	cmds, sent := make([]*redis.Cmd, len(calls)), make([]redis.Cmder, 0, len(calls))
	for i, ops := range calls {
		cmds[i] = d.bySHA(ctx, ops)
		if !isUnknownScript(cmds[i].Err()) {
			sent = append(sent, d.sent(cmds[i], ops))
		}
	}
	exec(ctx, d.Client, sent)
	var unknown []int
	for i := range calls {
		if isUnknownScript(cmds[i].Err()) {
			unknown = append(unknown, i)
		}
	}
	if len(unknown) > 0 {
		d.pipelineTexts(ctx, calls, cmds, unknown)
	}
	for i, ops := range calls {
		d.take(cmds[i], ops)
	}
}

// pipelineTexts sends those calls again that are unknown scripts'.
func (d *Node) pipelineTexts(ctx context.Context, calls [][]*script.Operation, cmds []*redis.Cmd, unknown []int) {
	err := d.load(ctx, func(c caller) {
		again := make([]redis.Cmder, 0, len(unknown))
		for _, i := range unknown {
			cmds[i] = d.byText(ctx, calls[i])
			again = append(again, d.sent(cmds[i], calls[i]))
		}
		exec(ctx, c, again)
	})
	if err == nil {
		return
	}
	for _, i := range unknown {
		cmds[i].SetErr(err)
	}
}

func exec(ctx context.Context, c caller, cmds []redis.Cmder) {
	if len(cmds) == 0 {
		return
	}
	pipe := c.Pipeline()
	for _, cmd := range cmds {
		_ = pipe.Process(ctx, cmd) // only queues it
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
}

// errNotAdmitted is for scripts of a Redlock server that this process has not looked at.
const errNotAdmitted = failure.ScriptError("NOSCRIPT not sent")

// isUnknownScript says that a call was not run and has to be sent with its script: also
// to a server of Redlock that lost its marker, for which that is so late.
func isUnknownScript(err error) bool {
	return err != nil && (redis.HasErrorPrefix(err, "NOSCRIPT") || redis.HasErrorPrefix(err, "UNMARKED"))
}

// bySHA is a call of a script that the server is likely to know. It has an error if
// there is no use in sending it.
func (d *Node) bySHA(ctx context.Context, ops []*script.Operation) *redis.Cmd {
	src, known := d.Source(ops[0].Script)
	cmd := d.command(ctx, "evalsha", src.SHA, ops)
	if !known {
		cmd.SetErr(errNotAdmitted)
	}
	return cmd
}

func (d *Node) byText(ctx context.Context, ops []*script.Operation) *redis.Cmd {
	src, _ := d.Source(ops[0].Script)
	return d.command(ctx, "eval", src.Text, ops)
}

// command is EVALSHA or EVAL with the script, the number of keys, keys and
// arguments. They are pointers, since a string in an interface is allocated;
// but for the first key, by which a Cluster's client finds the slot.
func (d *Node) command(ctx context.Context, command any, source string, ops []*script.Operation) *redis.Cmd {
	p := ops[0].Script
	keys, args := p.Keys*len(ops), p.Args*len(ops)
	if d.member != nil {
		keys++
	}
	list := make([]any, 0, 3+keys+len(d.header)+args)
	list = append(list, command, source, count(keys))
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
	list = append(list, &d.header[0], d.quarantine())
	for _, op := range ops {
		for j := range op.Args[:p.Args] {
			list = append(list, &op.Args[j])
		}
	}
	cmd := redis.NewCmd(ctx, list...)
	cmd.SetFirstKeyPos(3)
	return cmd
}

// quarantine is for how long a server of Redlock casts no vote by this process' count, in
// milliseconds, as an argument.
func (d *Node) quarantine() *string {
	if d.member != nil {
		if left := d.member.quarantine(); left > 0 {
			text := script.Milliseconds(left)
			return &text
		}
	}
	return &d.header[1]
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
func (d *Node) take(cmd *redis.Cmd, ops []*script.Operation) {
	values, err := cmd.Slice()
	err = d.failure(err)
	for i, op := range ops {
		switch {
		case err != nil:
			op.Reply = script.Reply{Err: err}
		case i >= len(values):
			op.Reply = script.Reply{Err: errNoReply}
		default:
			op.Reply = script.Reply{Value: values[i]}
		}
	}
}

// failure is that of a call. If the client may have sent it before, and the reply was
// lost, that it was refused now, or has found no server, says nothing of that.
func (d *Node) failure(err error) error {
	if err == nil {
		return nil
	}
	failed := failure.Of(err)
	switch {
	case d.repeats && errors.Is(failed, abstractions.ErrThrottled):
		return fmt.Errorf("%w: %w", abstractions.ErrUnavailable, err)
	case !d.repeats && providerkit.NotSent(err):
		return providerkit.MarkNotApplied(failed)
	}
	return failed
}
