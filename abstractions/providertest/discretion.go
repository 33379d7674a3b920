package providertest

import (
	"context"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providertest/internal/suite"
)

// A claim's ID is a key, and only the holder has the ID. In every check, the suite searches each
// answer for the IDs of the check's claims. This check tests each kind of answer explicitly.
var discretionChecks = []suite.Check{
	{Name: "Trap_T141_NoAnswerHasAnID", Run: func(e *suite.Env) {
		holder, gone, broken := e.Take(e.Name()), e.Take(e.Name()), e.Take(e.Name())
		name := holder.Req.Name
		gone.Release()
		for client, p := range e.Clients() {
			record, err := suite.Send(e, p.Inspect, abstractions.InspectRequest{Name: name})
			e.NoError(err)
			e.Equal(abstractions.FingerprintOf(holder.Req.ID), record.Fingerprint, client)
			refused := e.Held(suite.Second(suite.Send(e, p.Acquire, e.Request(name))))
			e.True(refused.Holder.Fingerprint.IsZero() || refused.Holder.Fingerprint == record.Fingerprint, client)
			e.Is(suite.Second(suite.Send(e, p.Acquire, gone.Req)), abstractions.ErrReleased)
			stranger := holder.RenewRequest(e.Long)
			stranger.ID = record.Fingerprint.String()
			e.Invalid(suite.Second(suite.Send(e, p.Renew, stranger)), "a fingerprint is no ID")
			stranger.ID = holder.Req.ID + "\n"
			e.Invalid(suite.Second(suite.Send(e, p.Renew, stranger)), "nearly an ID")
			stranger.ID = e.Id()
			e.Lost(suite.Second(suite.Send(e, p.Renew, stranger)))
			e.Lost(suite.Second(suite.Send(e, p.Renew, gone.RenewRequest(e.Long))))
			if lister, ok := abstractions.As[abstractions.Lister](p); ok {
				e.List(lister, abstractions.ListRequest{Prefix: name})
			}
		}
		for _, immediate := range []bool{false, true} {
			_, err := suite.Send(e, e.Peer.Break, abstractions.BreakRequest{Name: broken.Req.Name, Immediate: immediate})
			e.NoError(err)
			e.Lost(suite.Second(suite.Send(e, broken.P.Renew, broken.RenewRequest(e.Long))))
			_, err = suite.Send(e, e.Peer.Inspect, abstractions.InspectRequest{Name: broken.Req.Name})
			e.NoError(err)
		}
		if waiter, ok := abstractions.As[abstractions.Waiter](e.P); ok {
			ctx, cancel := context.WithCancel(e.T.Context())
			defer cancel()
			waiting := e.Request(name)
			_, err := waiter.Wait(ctx, abstractions.WaitRequest{Name: name, ID: waiting.ID, Owner: waiting.Owner})
			e.NoError(err)
			e.Held(suite.Second(suite.Send(e, e.P.Acquire, waiting)))
			if lister, ok := abstractions.As[abstractions.WaiterLister](e.P); ok {
				_, err := suite.Send(e, lister.Waiters, abstractions.WaitersRequest{Name: name})
				e.NoError(err)
			}
		}
		if reader, ok := abstractions.As[abstractions.HistoryReader](e.P); ok {
			entries := e.History(reader, abstractions.HistoryRequest{Name: gone.Req.Name})
			e.Equal(abstractions.FingerprintOf(gone.Req.ID), entries[len(entries)-1].Fingerprint)
		}
		holder.Renew(e.Long)
	}},
}
