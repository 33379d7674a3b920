package providertest

import (
	"context"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// recordFlaws are about names, tokens and the records that Inspect shows.
var recordFlaws = []flaw{
	{
		name: "a lease ends before its TTL is over",
		apply: func(f *fake) {
			f.inspect = func(ctx context.Context, req abstractions.InspectRequest) (abstractions.Record, error) {
				record, err := f.server.Inspect(ctx, req)
				record.ExpiresAt = record.ExpiresAt.Add(-2 * time.Millisecond)
				return record, err
			}
		},
		failing: []string{"Expiry_TheBackendCountsAllOfTheTTL"},
	},
	{
		name: "a record shows another TTL than the renewal granted",
		apply: func(f *fake) {
			f.onInspect(func(record *abstractions.Record) { record.TTL *= 2 })
		},
		failing: []string{"Expiry_TheLastRenewalIsKnown"},
	},
	{
		name: "a renewal forgets the metadata that it brings",
		apply: func(f *fake) {
			f.renew = func(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
				req.Metadata = nil
				return f.server.Renew(ctx, req)
			}
		},
		failing: []string{"Model_RandomRequestsMeetTheRules"},
	},
	{
		name: "a lease is acquired again and again",
		apply: func(f *fake) {
			var inspected atomic.Int64
			f.onInspect(func(record *abstractions.Record) {
				record.AcquiredAt = record.AcquiredAt.Add(time.Duration(inspected.Add(1)) * time.Second)
			})
		},
		failing: []string{"Model_RandomRequestsMeetTheRules"},
	},
	{
		name: "a break does not say by whom",
		apply: func(f *fake) {
			f.breakLease = func(ctx context.Context, req abstractions.BreakRequest) (abstractions.BreakResult, error) {
				req.Actor = ""
				return f.server.Break(ctx, req)
			}
		},
		failing: []string{"Model_RandomRequestsMeetTheRules"},
	},
	{
		name:    "tokens count from 1 after each release",
		apply:   func(f *fake) { f.countTokens(true) },
		failing: []string{"Trap_T21_ReleaseKeepsTheToken", "Model_RandomRequestsMeetTheRules"},
	},
	{
		name:    "tokens count from 1 after forgetting",
		apply:   func(f *fake) { f.countTokens(false) },
		failing: []string{"Trap_T28_TokenRisesThroughForgetting", "Trap_T54_TokenFollowsTheClock"},
	},
	{
		name: "a break resets the token",
		apply: func(f *fake) {
			f.breakLease = func(ctx context.Context, req abstractions.BreakRequest) (abstractions.BreakResult, error) {
				result, err := f.server.Break(ctx, req)
				result.Token = 0
				return result, err
			}
		},
		failing: []string{"Trap_T21_BreakKeepsTheToken", "Model_RandomRequestsMeetTheRules"},
	},
	{
		name: "tokens lose digits",
		apply: func(f *fake) {
			f.onInspect(func(record *abstractions.Record) { record.Token = int64(float32(record.Token)) })
		},
		failing: []string{"Trap_T65_TokenIsTheSameEverywhere"},
	},
	{
		name:    "names are folded to lower case",
		apply:   func(f *fake) { f.renameTo(strings.ToLower) },
		failing: []string{"Trap_T25_NamesAreInjective"},
	},
	{
		name: "names are cleaned like paths",
		apply: func(f *fake) {
			f.renameTo(func(name string) string { return strings.TrimPrefix(path.Clean("/"+name), "/") })
		},
		failing: []string{"Trap_T25_HostileNamesAreOnlyNames"},
	},
	{
		name: "spaces and hyphens are the same",
		apply: func(f *fake) {
			f.renameTo(func(name string) string { return strings.ReplaceAll(name, " ", "-") })
		},
		failing: []string{"Trap_T25_NamesAreInjective"},
	},
	{
		name: "long names are cut",
		apply: func(f *fake) {
			f.renameTo(func(name string) string { return strings.ToValidUTF8(name[:min(len(name), 255)], "") })
		},
		failing: []string{"Trap_T25_LongestNamesAreToldApart"},
	},
	{
		name: "long requests are refused",
		apply: func(f *fake) {
			f.acquire = func(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
				if len(req.Owner) > 100 {
					return abstractions.Grant{}, &abstractions.InvalidError{Field: "Owner", Value: req.Owner, Want: "100 bytes"}
				}
				return f.server.Acquire(ctx, req)
			}
		},
		failing: []string{"Limits_WhatIsJustAllowedWorks"},
	},
	{
		name: "a TTL of nothing is a default",
		apply: func(f *fake) {
			f.acquire = func(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
				if req.TTL == 0 {
					req.TTL = time.Minute
				}
				return f.server.Acquire(ctx, req)
			}
		},
		failing: []string{"Limits_BadRequestsAreInvalidAndChangeNothing"},
	},
	{
		name: "requests are validated after they were sent",
		apply: func(f *fake) {
			f.acquire = func(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
				sent := req
				sent.Owner, sent.Metadata, sent.TTL = "x", nil, max(req.TTL, time.Minute)
				if grant, err := f.server.Acquire(ctx, sent); err != nil {
					return grant, err
				}
				return f.server.Acquire(ctx, req)
			}
		},
		failing: []string{"Limits_BadRequestsAreInvalidAndChangeNothing"},
	},
	{
		name: "an unseen name has a token",
		apply: func(f *fake) {
			f.onInspect(func(record *abstractions.Record) { record.Token = max(record.Token, 1) })
		},
		failing: []string{"Model_RandomRequestsMeetTheRules"},
	},
	{
		name: "the owner is not shown",
		apply: func(f *fake) {
			f.onInspect(func(record *abstractions.Record) { record.Owner = "" })
		},
		failing: []string{"Model_RandomRequestsMeetTheRules"},
	},
	{
		name: "an inspection prolongs the lease",
		apply: func(f *fake) {
			f.recordIDs()
			f.inspect = func(ctx context.Context, req abstractions.InspectRequest) (abstractions.Record, error) {
				record, err := f.server.Inspect(ctx, req)
				if id := knownID(record.Fingerprint); err == nil && id != "" {
					f.server.Renew(ctx, abstractions.RenewRequest{Name: req.Name, ID: id, Token: record.Token, TTL: record.TTL + time.Second})
				}
				return record, err
			}
		},
		failing: []string{"Model_RandomRequestsMeetTheRules", "Expiry_InspectShowsAFreeName"},
	},
	{
		name: "an inspection shows the ID of the claim",
		apply: func(f *fake) {
			f.recordIDs()
			f.onInspect(func(record *abstractions.Record) { record.Owner += knownID(record.Fingerprint) })
		},
		failing: []string{"Trap_T141_NoAnswerHasAnID"},
	},
	{
		name: "the case of metadata keys is lost",
		apply: func(f *fake) {
			f.onInspect(func(record *abstractions.Record) {
				folded := make(map[string]string)
				for key, value := range record.Metadata {
					folded[strings.ToLower(key)] = value
				}
				record.Metadata = folded
			})
		},
		failing: []string{"Model_RandomRequestsMeetTheRules"},
	},
	{
		name: "metadata outlives its holder",
		apply: func(f *fake) {
			seen := make(map[string]string)
			f.onInspect(func(record *abstractions.Record) {
				f.mu.Lock()
				defer f.mu.Unlock()
				for key, value := range record.Metadata {
					seen[key] = value
				}
				for key, value := range seen {
					if record.Metadata == nil {
						record.Metadata = make(map[string]string)
					}
					record.Metadata[key] = value
				}
			})
		},
		failing: []string{"Model_RandomRequestsMeetTheRules"},
	},
	{
		name: "the map of the request is kept",
		apply: func(f *fake) {
			f.acquire = func(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
				grant, err := f.server.Acquire(ctx, req)
				if err == nil {
					shared.Store(req.Name, req.Metadata)
				}
				return grant, err
			}
			f.onInspect(func(record *abstractions.Record) {
				if metadata, ok := shared.Load(record.Name); ok {
					record.Metadata = metadata.(map[string]string)
				}
			})
		},
		failing: []string{"Inspect_MapsAreNotShared"},
	},
}

// shared is the state that two clients of a flawed provider share in addition to the server.
var shared sync.Map

func (f *fake) onInspect(change func(record *abstractions.Record)) {
	f.inspect = func(ctx context.Context, req abstractions.InspectRequest) (abstractions.Record, error) {
		record, err := f.server.Inspect(ctx, req)
		if err == nil {
			change(&record)
		}
		return record, err
	}
}

// countTokens makes the tokens of each name a plain counter, which starts over when
// the name is forgotten, and with untilRelease also when the name is released.
func (f *fake) countTokens(untilRelease bool) {
	counts := make(map[string]int64)
	f.acquire = func(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
		grant, err := f.server.Acquire(ctx, req)
		if err == nil {
			counts[req.Name]++
			grant.Token = counts[req.Name]
			shared.Store(req.Name, grant.Token)
		}
		return grant, err
	}
	f.onInspect(func(record *abstractions.Record) {
		if token, ok := shared.Load(record.Name); ok && record.Token > 0 {
			record.Token = token.(int64)
		}
	})
	f.release = func(ctx context.Context, req abstractions.ReleaseRequest) error {
		if untilRelease {
			delete(counts, req.Name)
		}
		return f.server.Release(ctx, req)
	}
	f.forget = func(name string) {
		delete(counts, name)
		f.forgetAtServer(name)
	}
}

// renameTo folds the names of requests. Its replies have the requested name, as
// from a provider that does not compare names.
func (f *fake) renameTo(fold func(name string) string) {
	f.acquire = func(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
		name := req.Name
		req.Name = fold(name)
		grant, err := f.server.Acquire(ctx, req)
		grant.Name = name
		return grant, err
	}
	f.renew = func(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
		name := req.Name
		req.Name = fold(name)
		grant, err := f.server.Renew(ctx, req)
		grant.Name = name
		return grant, err
	}
	f.release = func(ctx context.Context, req abstractions.ReleaseRequest) error {
		req.Name = fold(req.Name)
		return f.server.Release(ctx, req)
	}
	f.inspect = func(ctx context.Context, req abstractions.InspectRequest) (abstractions.Record, error) {
		name := req.Name
		req.Name = fold(name)
		record, err := f.server.Inspect(ctx, req)
		record.Name = name
		return record, err
	}
}

// knownIDs holds the IDs of all clients' acquires by their fingerprints, for flaws that need a key.
var knownIDs sync.Map

func (f *fake) recordIDs() {
	f.acquire = func(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
		knownIDs.Store(abstractions.FingerprintOf(req.ID), req.ID)
		return f.server.Acquire(ctx, req)
	}
}

func knownID(f abstractions.Fingerprint) string {
	id, _ := knownIDs.Load(f)
	key, _ := id.(string)
	return key
}
