package providertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/distributedleasing/leasing/abstractions"
)

// A claim's ID is a key, and only its holder has the ID. Each answer of each check is held against all
// IDs of the check. This check goes through each answer by itself.
var discretionChecks = []check{
	{name: "Trap_T141_NoAnswerHasAnID", run: func(e *env) {
		holder, gone, broken := e.take(e.name()), e.take(e.name()), e.take(e.name())
		name := holder.req.Name
		gone.release()
		for client, p := range e.clients() {
			record, err := send(e, p.Inspect, abstractions.InspectRequest{Name: name})
			e.NoError(err)
			e.Equal(abstractions.FingerprintOf(holder.req.ID), record.Fingerprint, client)
			refused := e.held(second(send(e, p.Acquire, e.request(name))))
			e.True(refused.Holder.Fingerprint.IsZero() || refused.Holder.Fingerprint == record.Fingerprint, client)
			e.is(second(send(e, p.Acquire, gone.req)), abstractions.ErrReleased)
			stranger := holder.renewRequest(e.long)
			stranger.ID = record.Fingerprint.String()
			e.invalid(second(send(e, p.Renew, stranger)), "a fingerprint is no ID")
			stranger.ID = holder.req.ID + "\n"
			e.invalid(second(send(e, p.Renew, stranger)), "nearly an ID")
			stranger.ID = e.id()
			e.lost(second(send(e, p.Renew, stranger)))
			e.lost(second(send(e, p.Renew, gone.renewRequest(e.long))))
			if lister, ok := abstractions.As[abstractions.Lister](p); ok {
				e.list(lister, abstractions.ListRequest{Prefix: name})
			}
		}
		for _, immediate := range []bool{false, true} {
			_, err := send(e, e.peer.Break, abstractions.BreakRequest{Name: broken.req.Name, Immediate: immediate})
			e.NoError(err)
			e.lost(second(send(e, broken.p.Renew, broken.renewRequest(e.long))))
			_, err = send(e, e.peer.Inspect, abstractions.InspectRequest{Name: broken.req.Name})
			e.NoError(err)
		}
		if waiter, ok := abstractions.As[abstractions.Waiter](e.p); ok {
			ctx, cancel := context.WithCancel(e.t.Context())
			defer cancel()
			waiting := e.request(name)
			_, err := waiter.Wait(ctx, abstractions.WaitRequest{Name: name, ID: waiting.ID, Owner: waiting.Owner})
			e.NoError(err)
			e.held(second(send(e, e.p.Acquire, waiting)))
			if lister, ok := abstractions.As[abstractions.WaiterLister](e.p); ok {
				_, err := send(e, lister.Waiters, abstractions.WaitersRequest{Name: name})
				e.NoError(err)
			}
		}
		if reader, ok := abstractions.As[abstractions.HistoryReader](e.p); ok {
			entries := e.history(reader, abstractions.HistoryRequest{Name: gone.req.Name})
			e.Equal(abstractions.FingerprintOf(gone.req.ID), entries[len(entries)-1].Fingerprint)
		}
		holder.renew(e.long)
	}},
}

// id makes an ID, which no answer may show from now on.
func (e *env) id() string {
	id := abstractions.NewID()
	e.ids.Store(id, true)
	return id
}

// discreet fails the check if an answer shows an ID. A grant may, since the holder has the ID.
func (e *env) discreet(answer any) {
	switch answer := answer.(type) {
	case abstractions.Grant:
		return
	case []abstractions.RenewResult:
		for _, result := range answer {
			e.discreetError(result.Err)
		}
		return
	}
	text, _ := json.Marshal(answer)
	e.hides(fmt.Sprintf("%v %+v %#v %s", answer, answer, answer, text))
}

// discreetError is discreet of an error and of all that it wraps.
func (e *env) discreetError(err error) {
	if err == nil {
		return
	}
	e.hides(fmt.Sprintf("%v %+v %#v", err, err, err))
	switch err := err.(type) {
	case *abstractions.HeldError:
		e.discreet(*err)
	case interface{ Unwrap() []error }:
		for _, one := range err.Unwrap() {
			e.discreetError(one)
		}
	default:
		e.discreetError(errors.Unwrap(err))
	}
}

func (e *env) hides(text string) {
	const before, length = 8, 36 // of an ID of NewID: the bytes before its first hyphen, and all
	for i := before; i+length-before <= len(text); i++ {
		if text[i] != '-' {
			continue
		}
		if id := text[i-before : i-before+length]; strings.Count(id, "-") == 4 {
			_, known := e.ids.Load(id)
			e.False(known, "an answer shows a claim's ID: %s in: %s", id, text)
		}
	}
}
