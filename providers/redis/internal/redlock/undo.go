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
	since := a.try
	if !a.mayLive() {
		since = 1 // also what earlier attempts have got
	}
	left := func(v *vote) bool { return v.ours() || v.stance == noVote && v.unsure }
	a.tell = func(i int) {
		if left(&a.votes[i]) {
			a.post(i, a.keys.Undo(a.claimAt(i), a.try, since))
		}
	}
	u := a.r.newPoll(context.WithoutCancel(a.ctx), a.r.patience(a.req.TTL), 1)
	waiting, stays := 0, false
	for i := range a.votes {
		v := &a.votes[i]
		if a.asked[i] > 0 || !left(v) {
			continue
		}
		op := a.keys.Undo(a.claimAt(i), a.try, since)
		switch _, err := u.send(i, &op); {
		case !v.ours():
		case err != nil: // the provider is closed
			stays = true
		default:
			waiting++
		}
	}
	return !stays && (waiting == 0 || wait && a.undone(u, waiting))
}

// undone waits for nodes that held the lease until they don't any more.
func (a *attempt) undone(u *poll, waiting int) bool {
	a.timer.Reset(time.Until(u.by))
	for waiting > 0 {
		select {
		case q := <-u.done:
			if i, _ := u.took(q); a.votes[i].ours() {
				if q.Ops[0].Reply.Done() != nil {
					return false
				}
				waiting--
			}
		case <-a.ctx.Done():
			return false
		case <-a.timer.C:
			return false
		}
	}
	return true
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
