package redislease

import "github.com/distributedleasing/leasing/abstractions"

// The statuses of scripts/ballot.lua, beside those of reply.go.
const (
	statusVoted     = 8 // a text: see scripts/vote.lua
	statusOvertaken = 9 // promise
)

// voteOp is an acquire at one node. channel is where that node is to wake the
// claim, floor the least token that it should make up.
func (a *attempt) voteOp(channel string, floor int64) operation {
	k, c := a.keys, a.claim
	return operation{script: voteScript, keys: [2]string{k.name, k.queue}, args: [7]string{
		c.id, milliseconds(c.ttl), k.keep(c.ttl), c.text(), channel, digits(a.try), digits(floor),
	}}
}

// confirmOp makes a node take the token that a majority has agreed on.
func (a *attempt) confirmOp(token int64) operation {
	k, c := a.keys, a.claim
	return operation{script: confirmScript, keys: [2]string{k.name}, args: [7]string{
		c.id, tokenText(token), digits(a.try), k.keep(c.ttl),
	}}
}

// undoOp takes a vote back: all says also one that an earlier attempt of this process
// got. It puts the claim back into the queue that channel belongs to.
func (a *attempt) undoOp(all bool, channel string) operation {
	k, step := a.keys, int64(0)
	if all {
		step = tryStep
	}
	return operation{script: undoScript, keys: [2]string{k.name, k.queue}, args: [7]string{
		a.claim.id, digits(a.try), digits(step), channel,
	}}
}

// relockOp is a renewal. With a state, that after it, a node that has lost the lease
// takes it again; when it was acquired is what the token says.
func relockOp(k keys, r *abstractions.RenewRequest, state *tenure) operation {
	content, try := "", int64(0)
	if state != nil {
		content, try = state.text(), state.try
	}
	return operation{script: relockScript, keys: [2]string{k.name}, args: [7]string{
		head(r.ID, r.Token), milliseconds(r.TTL), k.keep(r.TTL), content, digits(try), encodeMetadata(r.Metadata),
	}}
}
