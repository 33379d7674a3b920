package redlock

import (
	"context"
	"time"

	"github.com/distributedleasing/leasing/providers/redis/internal/script"
)

// undo takes the votes for this attempt back. Only with the caller's patience, wait,
// does it say whether that is done; else it goes on beside. Nodes that have not
// answered yet are told when they do.
func (a *attempt) undo(wait bool) (done bool) {
	since, left := a.try, 0
	if !a.mayLive() {
		since = 1 // also what earlier attempts have got
	}
	undo := func(i int) []*script.Operation {
		v := &a.votes[i]
		if a.asked[i] > 0 || !v.ours() && !(v.stance == noVote && v.unsure) {
			return nil
		}
		op := a.keys.Undo(a.claimAt(i), a.try, since)
		return []*script.Operation{&op}
	}
	a.tell = func(i int) {
		for _, op := range undo(i) {
			a.post(i, *op)
		}
	}
	for i := range a.votes {
		if a.votes[i].ours() && a.asked[i] == 0 {
			left++
		}
	}
	u := a.r.newPoll(context.WithoutCancel(a.ctx), a.r.patience(a.req.TTL), 1)
	u.ctx = a.ctx // its end ends the waiting
	failed := false
	u.gather(undo, func(i, _ int, ops []*script.Operation) {
		if a.votes[i].ours() {
			left--
			failed = failed || ops[0].Reply.Done() != nil
		}
	}, func() bool { return !wait || failed || left == 0 })
	return left == 0 && !failed
}

// post sends an operation whose outcome nobody waits for: the node's batcher does.
func (a *attempt) post(i int, op script.Operation) {
	p := a.r.newPoll(context.WithoutCancel(a.ctx), a.r.patience(a.req.TTL), 1)
	_, _ = p.send(i, &op) // it fails when the provider is closed
}

// afterwards hears the nodes that have not answered yet, and tells them then what
// has become of the attempt.
func (a *attempt) afterwards() {
	if a.open == 0 {
		return
	}
	end := time.Until(a.by) + a.r.patience(a.req.TTL)
	a.r.after.Start(func() {
		timer := time.NewTimer(end)
		defer timer.Stop()
		for a.open > 0 {
			select {
			case q := <-a.done:
				a.hear(q)
				a.tell(q.Tag)
			case <-timer.C:
				return
			}
		}
	})
}
