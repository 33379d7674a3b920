package providertest

import (
	"context"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providertest/internal/suite"
)

var limitChecks = []suite.Check{
	// The check sends invalid requests and looks for traces of them in the
	// backend.
	{Name: "Limits_BadRequestsAreInvalidAndChangeNothing", Run: func(e *suite.Env) {
		holder := e.Take(e.Name())
		fresh := e.Name()
		for what, call := range badCalls(e, fresh, holder) {
			e.Invalid(e.Call(call), what)
		}
		holder.IsHeld()
		e.False(e.Inspect(holder.Req.Name).Breaking)
		record := e.Inspect(fresh)
		e.False(record.Held)
		e.Zero(record.Token)
		e.IsFree(fresh)
	}},
	{Name: "Limits_WhatIsJustAllowedWorks", Run: func(e *suite.Env) {
		name := e.Name()
		if e.Caps.MaxNameBytes > 0 {
			name += strings.Repeat("x", max(0, e.Caps.MaxNameBytes-len(name)))
		}
		req := e.Request(name)
		req.ID = (strings.ReplaceAll(abstractions.NewID(), "-", "") + strings.Repeat("Z9-", 22))[:abstractions.MaxIDBytes]
		req.Owner = strings.Repeat("é", abstractions.MaxOwnerBytes/2)
		req.Metadata = map[string]string{"key": strings.Repeat("v", abstractions.MaxMetadataBytes-3)}
		holder := e.Acquire(e.P, req)
		record := e.Inspect(req.Name)
		e.Equal(abstractions.FingerprintOf(req.ID), record.Fingerprint)
		e.Equal(req.Owner, record.Owner)
		e.Equal(req.Metadata, record.Metadata)
		holder.Renew(e.Long)
		holder.Release()
		e.IsFree(req.Name)
	}},
	{Name: "Limits_EveryStatedTTLIsGranted", Run: func(e *suite.Env) {
		ttls := []time.Duration{e.Caps.MinTTL, e.Caps.MinTTL + max(e.Caps.Granularity, 1), e.Short, e.Long, e.Caps.MaxTTL}
		if e.Caps.MaxTTL == 0 {
			year := 365 * 24 * time.Hour
			ttls = append(ttls, time.Hour, year.Truncate(e.Caps.Granularity), (100 * year).Truncate(e.Caps.Granularity))
		}
		for _, ttl := range ttls {
			if ttl == 0 || e.Caps.MaxTTL > 0 && ttl > e.Caps.MaxTTL {
				continue
			}
			req := e.Request(e.Name())
			req.TTL = ttl
			holder := e.Acquire(e.P, req) // checks Grant.TTL
			if err := holder.TryRenew(ttl); err != nil {
				e.Lost(err, abstractions.LostExpired, abstractions.LostGone)
				e.False(holder.Alive(), "lost within its TTL of %v", ttl)
			}
			holder.Release()
		}
	}},
}

func badCalls(e *suite.Env, fresh string, holder *suite.Claim) map[string]func(ctx context.Context) error {
	calls := make(map[string]func(ctx context.Context) error)
	acquire := badCall(calls, "acquire", e.Request(fresh), e.P.Acquire)
	renew := badCall(calls, "renew", holder.RenewRequest(e.Long), e.P.Renew)
	inspect := badCall(calls, "inspect", abstractions.InspectRequest{}, e.P.Inspect)
	release := badCall(calls, "release", abstractions.ReleaseRequest{Name: fresh, ID: holder.Req.ID}, suite.Releasing(e.P))
	breaks := badCall(calls, "break", abstractions.BreakRequest{Name: holder.Req.Name, Immediate: true}, e.P.Break)
	for what, ttl := range badTTLs(e) {
		acquire(what, func(r *abstractions.AcquireRequest) { r.TTL = ttl })
		renew(what, func(r *abstractions.RenewRequest) { r.TTL = ttl })
	}
	for what, name := range badNames(e) {
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
	if waiter, ok := abstractions.As[abstractions.Waiter](e.P); ok {
		wait := badCall(calls, "wait", abstractions.WaitRequest{Name: fresh, ID: e.Id()}, waiter.Wait)
		wait("no name", func(r *abstractions.WaitRequest) { r.Name = "" })
		wait("no ID", func(r *abstractions.WaitRequest) { r.ID = "" })
	}
	breaks("negative token", func(r *abstractions.BreakRequest) { r.IfToken = -1 })
	breaks("token too high", func(r *abstractions.BreakRequest) { r.IfToken = abstractions.MaxToken + 1 })
	breaks("negative grace", func(r *abstractions.BreakRequest) { r.Grace = -1 })
	return calls
}

// badCall returns a function that adds a call of a verb with a changed request.
func badCall[Q, R any](calls map[string]func(ctx context.Context) error, verb string, good Q, send func(context.Context, Q) (R, error)) func(what string, change func(r *Q)) {
	return func(what string, change func(r *Q)) {
		req := good
		change(&req)
		calls[verb+": "+what] = suite.Sending(send, req)
	}
}

func badTTLs(e *suite.Env) map[string]time.Duration {
	bad := map[string]time.Duration{"TTL 0": 0, "negative TTL": -time.Second}
	if e.Caps.MinTTL > 1 {
		bad["TTL below the minimum"] = e.Caps.MinTTL - 1
	}
	if e.Caps.MaxTTL > 0 {
		bad["TTL above the maximum"] = e.Caps.MaxTTL + 1
	}
	if !e.Caps.Infinite {
		bad["infinite TTL"] = abstractions.Infinite
	}
	return bad
}

func badNames(e *suite.Env) map[string]string {
	bad := map[string]string{
		"no name": "", "long name": strings.Repeat("x", abstractions.MaxNameBytes+1), "NUL": "a\x00b", "newline": "a\nb",
		"delete": "a\x7fb", "C1 control character": "a\u0085b", "not UTF-8": "a\xffb", "surrogate": "a\xed\xa0\x80b",
	}
	if e.Caps.MaxNameBytes > 0 {
		bad["name longer than Capabilities.MaxNameBytes"] = strings.Repeat("x", e.Caps.MaxNameBytes+1)
	}
	return bad
}

var badIDs = map[string]string{
	"no ID": "", "long ID": strings.Repeat("x", abstractions.MaxIDBytes+1), "slash in ID": "a/b", "space in ID": "a b", "quote in ID": "a'b",
	"letter outside ASCII in ID": "é", "bracket in ID": "a[b", "at in ID": "a@b",
}
