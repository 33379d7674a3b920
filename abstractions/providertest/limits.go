package providertest

import (
	"context"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

var limitChecks = []check{
	// It sends invalid requests and looks for traces of them in the backend.
	{name: "Limits_BadRequestsAreInvalidAndChangeNothing", run: func(e *env) {
		holder := e.take(e.name())
		fresh := e.name()
		for what, call := range e.badCalls(fresh, holder) {
			e.invalid(e.call(call), what)
		}
		holder.isHeld()
		e.False(e.inspect(holder.req.Name).Breaking)
		record := e.inspect(fresh)
		e.False(record.Held)
		e.Zero(record.Token)
		e.isFree(fresh)
	}},
	{name: "Limits_WhatIsJustAllowedWorks", run: func(e *env) {
		name := e.name()
		if e.caps.MaxNameBytes > 0 {
			name += strings.Repeat("x", max(0, e.caps.MaxNameBytes-len(name)))
		}
		req := e.request(name)
		req.ID = (strings.ReplaceAll(abstractions.NewID(), "-", "") + strings.Repeat("Z9-", 22))[:abstractions.MaxIDBytes]
		req.Owner = strings.Repeat("é", abstractions.MaxOwnerBytes/2)
		req.Metadata = map[string]string{"key": strings.Repeat("v", abstractions.MaxMetadataBytes-3)}
		holder := e.acquire(e.p, req)
		record := e.inspect(req.Name)
		e.Equal(abstractions.FingerprintOf(req.ID), record.Fingerprint)
		e.Equal(req.Owner, record.Owner)
		e.Equal(req.Metadata, record.Metadata)
		holder.renew(e.long)
		holder.release()
		e.isFree(req.Name)
	}},
	{name: "Limits_EveryStatedTTLIsGranted", run: func(e *env) {
		ttls := []time.Duration{e.caps.MinTTL, e.caps.MinTTL + max(e.caps.Granularity, 1), e.short, e.long, e.caps.MaxTTL}
		if e.caps.MaxTTL == 0 {
			year := 365 * 24 * time.Hour
			ttls = append(ttls, time.Hour, year.Truncate(e.caps.Granularity), (100 * year).Truncate(e.caps.Granularity))
		}
		for _, ttl := range ttls {
			if ttl == 0 || e.caps.MaxTTL > 0 && ttl > e.caps.MaxTTL {
				continue
			}
			req := e.request(e.name())
			req.TTL = ttl
			holder := e.acquire(e.p, req) // holds Grant.TTL against it
			if err := holder.tryRenew(ttl); err != nil {
				e.lost(err, abstractions.LostExpired, abstractions.LostGone)
				e.False(holder.alive(), "lost within its TTL of %v", ttl)
			}
			holder.release()
		}
	}},
}

func (e *env) badCalls(fresh string, holder *claim) map[string]func(ctx context.Context) error {
	calls := make(map[string]func(ctx context.Context) error)
	acquire := badCall(calls, "acquire", e.request(fresh), e.p.Acquire)
	renew := badCall(calls, "renew", holder.renewRequest(e.long), e.p.Renew)
	inspect := badCall(calls, "inspect", abstractions.InspectRequest{}, e.p.Inspect)
	release := badCall(calls, "release", abstractions.ReleaseRequest{Name: fresh, ID: holder.req.ID}, releasing(e.p))
	breaks := badCall(calls, "break", abstractions.BreakRequest{Name: holder.req.Name, Immediate: true}, e.p.Break)
	for what, ttl := range e.badTTLs() {
		acquire(what, func(r *abstractions.AcquireRequest) { r.TTL = ttl })
		renew(what, func(r *abstractions.RenewRequest) { r.TTL = ttl })
	}
	for what, name := range e.badNames() {
		acquire(what, func(r *abstractions.AcquireRequest) { r.Name = name })
		renew(what, func(r *abstractions.RenewRequest) { r.Name = name })
		breaks(what, func(r *abstractions.BreakRequest) { r.Name = name })
		release(what, func(r *abstractions.ReleaseRequest) { r.Name = name })
		inspect(what, func(r *abstractions.InspectRequest) { r.Name = name })
	}
	for what, id := range badIDs {
		acquire(what, func(r *abstractions.AcquireRequest) { r.ID = id })
		renew(what, func(r *abstractions.RenewRequest) { r.ID = id })
		release(what, func(r *abstractions.ReleaseRequest) { r.ID = id })
	}
	for what, owner := range map[string]string{
		"no owner": "", "long owner": strings.Repeat("x", abstractions.MaxOwnerBytes+1), "control character in owner": "a\nb", "owner not UTF-8": "a\xff",
	} {
		acquire(what, func(r *abstractions.AcquireRequest) { r.Owner = owner })
	}
	for what, metadata := range map[string]map[string]string{
		"empty key": {"": "x"}, "control character in key": {"a\x01": "x"}, "NUL in value": {"a": "\x00"}, "value not UTF-8": {"a": "\xff"},
		"too much": {"a": strings.Repeat("x", abstractions.MaxMetadataBytes)},
	} {
		acquire(what, func(r *abstractions.AcquireRequest) { r.Metadata = metadata })
	}
	if waiter, ok := abstractions.As[abstractions.Waiter](e.p); ok {
		wait := badCall(calls, "wait", abstractions.WaitRequest{Name: fresh, ID: e.id()}, waiter.Wait)
		wait("no name", func(r *abstractions.WaitRequest) { r.Name = "" })
		wait("no ID", func(r *abstractions.WaitRequest) { r.ID = "" })
	}
	breaks("negative token", func(r *abstractions.BreakRequest) { r.IfToken = -1 })
	breaks("token too high", func(r *abstractions.BreakRequest) { r.IfToken = abstractions.MaxToken + 1 })
	breaks("negative grace", func(r *abstractions.BreakRequest) { r.Grace = -1 })
	return calls
}

// badCall adds calls of a verb, each with a request that is changed.
func badCall[Q, R any](calls map[string]func(ctx context.Context) error, verb string, good Q, send func(context.Context, Q) (R, error)) func(what string, change func(r *Q)) {
	return func(what string, change func(r *Q)) {
		req := good
		change(&req)
		calls[verb+": "+what] = sending(send, req)
	}
}

func (e *env) badTTLs() map[string]time.Duration {
	bad := map[string]time.Duration{"TTL 0": 0, "negative TTL": -time.Second}
	if e.caps.MinTTL > 1 {
		bad["TTL below the minimum"] = e.caps.MinTTL - 1
	}
	if e.caps.MaxTTL > 0 {
		bad["TTL above the maximum"] = e.caps.MaxTTL + 1
	}
	if !e.caps.Infinite {
		bad["infinite TTL"] = abstractions.Infinite
	}
	return bad
}

func (e *env) badNames() map[string]string {
	bad := map[string]string{
		"no name": "", "long name": strings.Repeat("x", abstractions.MaxNameBytes+1), "NUL": "a\x00b", "newline": "a\nb",
		"delete": "a\x7fb", "C1 control character": "a\u0085b", "not UTF-8": "a\xffb", "surrogate": "a\xed\xa0\x80b",
	}
	if e.caps.MaxNameBytes > 0 {
		bad["name longer than Capabilities.MaxNameBytes"] = strings.Repeat("x", e.caps.MaxNameBytes+1)
	}
	return bad
}

var badIDs = map[string]string{
	"no ID": "", "long ID": strings.Repeat("x", abstractions.MaxIDBytes+1), "slash in ID": "a/b", "space in ID": "a b", "quote in ID": "a'b",
	"letter outside ASCII in ID": "é", "bracket in ID": "a[b", "at in ID": "a@b",
}
