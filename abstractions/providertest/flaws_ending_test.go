package providertest

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// endingFlaws are about renewal, release and break.
var endingFlaws = []flaw{
	{
		name: "only the latest ID that ended is refused",
		apply: func(f *fake) {
			latest := map[string]string{}
			f.release = func(ctx context.Context, req abstractions.ReleaseRequest) error {
				f.mu.Lock()
				latest[req.Name] = req.ID
				f.mu.Unlock()
				return f.server.Release(ctx, req)
			}
			f.acquire = func(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
				grant, err := f.server.Acquire(ctx, req)
				f.mu.Lock()
				defer f.mu.Unlock()
				if errors.Is(err, abstractions.ErrReleased) && latest[req.Name] != req.ID {
					id := req.ID
					req.ID = alias(id)
					grant, err = f.server.Acquire(ctx, req)
					grant.ID = id
				}
				return grant, err
			}
		},
		failing: []string{"Trap_T56_LastEightAreRefused", "Trap_T56_IDsOfTheLastMinuteAreRefused"},
	},
	{
		name: "who breaks a lease is not kept",
		apply: func(f *fake) {
			f.breakLease = func(ctx context.Context, req abstractions.BreakRequest) (abstractions.BreakResult, error) {
				req.Actor = ""
				return f.server.Break(ctx, req)
			}
		},
		failing: []string{"Break_RecordsActorAndReason"},
	},
	{
		name: "a renewal revives what is lost",
		apply: func(f *fake) {
			f.renew = func(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
				grant, err := f.server.Renew(ctx, req)
				if errors.Is(err, abstractions.ErrLost) {
					return abstractions.Grant{Name: req.Name, ID: req.ID, Token: req.Token, TTL: req.TTL}, nil
				}
				return grant, err
			}
		},
		failing: []string{"Trap_T20_RenewalRevivesNothingBesideNewHolder", "Expiry_RenewalIsLostOrProvablyRevives", "Model_RandomRequestsMeetTheRules", "Expiry_BrokenLeaseRunsOut"},
	},
	{
		name: "a stale holder gets the token of its successor",
		apply: func(f *fake) {
			f.renew = func(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
				grant, err := f.server.Renew(ctx, req)
				if lost := (*abstractions.LostError)(nil); errors.As(err, &lost) && lost.Reason == abstractions.LostTaken {
					record, _ := f.server.Inspect(ctx, abstractions.InspectRequest{Name: req.Name})
					return abstractions.Grant{Name: req.Name, ID: req.ID, Token: record.Token, TTL: req.TTL}, nil
				}
				return grant, err
			}
		},
		failing: []string{"Trap_T23_StaleHolderGetsNoTokenOfItsSuccessor", "Trap_T20_RenewalRevivesNothingBesideNewHolder"},
	},
	{
		name: "a lost claim is reported as an outage",
		apply: func(f *fake) {
			f.renew = func(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
				grant, err := f.server.Renew(ctx, req)
				if errors.Is(err, abstractions.ErrLost) {
					err = abstractions.ErrUnavailable
				}
				return grant, err
			}
		},
		failing: []string{"Model_RandomRequestsMeetTheRules", "Expiry_RenewalIsLostOrProvablyRevives"},
	},
	{
		name: "a renewal raises the token",
		apply: func(f *fake) {
			f.renew = func(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
				token := req.Token
				record, _ := f.server.Inspect(ctx, abstractions.InspectRequest{Name: req.Name})
				if record.Fingerprint == abstractions.FingerprintOf(req.ID) {
					req.Token = record.Token
				}
				grant, err := f.server.Renew(ctx, req)
				grant.Token = token + 1
				return grant, err
			}
		},
		failing: []string{"Trap_T22_TokenDoesNotRiseOnRenewal", "Model_RandomRequestsMeetTheRules"},
	},
	{
		name: "a renewal drops the metadata",
		apply: func(f *fake) {
			f.inspect = func(ctx context.Context, req abstractions.InspectRequest) (abstractions.Record, error) {
				record, err := f.server.Inspect(ctx, req)
				if history, _ := f.server.History(ctx, abstractions.HistoryRequest{Name: req.Name}); len(history.Entries) > 0 &&
					record.Held && !record.ExpiresAt.IsZero() && record.ExpiresAt.Sub(record.AcquiredAt) > record.TTL {
					record.Metadata = nil
				}
				return record, err
			}
			f.renew = func(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
				time.Sleep(time.Nanosecond)
				return f.server.Renew(ctx, req)
			}
		},
		failing: []string{"Model_RandomRequestsMeetTheRules"},
	},
	{
		name: "a repeated renewal is a conflict",
		apply: func(f *fake) {
			var version atomic.Int64
			f.renew = func(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
				state, _ := req.State.(int64)
				if !version.CompareAndSwap(state, state+1) {
					return abstractions.Grant{}, &abstractions.LostError{Reason: abstractions.LostTaken}
				}
				grant, err := f.server.Renew(ctx, req)
				grant.State = state + 1
				return grant, err
			}
		},
		failing: []string{"Trap_T14_RepeatedRenewalIsNoConflict", "Trap_T15_StateBeforeALostReplyStillWorks", "Renew_ManyAtOnce"},
	},
	{
		name: "a release does nothing",
		apply: func(f *fake) {
			f.release = func(context.Context, abstractions.ReleaseRequest) error { return nil }
		},
		failing: []string{"Model_RandomRequestsMeetTheRules", "Trap_T21_ReleaseKeepsTheToken", "Trap_T56_ReleasedIDIsRefused"},
	},
	{
		name: "a release needs something to release",
		apply: func(f *fake) {
			f.release = func(ctx context.Context, req abstractions.ReleaseRequest) error {
				record, _ := f.server.Inspect(ctx, abstractions.InspectRequest{Name: req.Name})
				if !record.Held || record.Fingerprint != abstractions.FingerprintOf(req.ID) {
					return &abstractions.LostError{Reason: abstractions.LostGone}
				}
				return f.server.Release(ctx, req)
			}
		},
		failing: []string{"Model_RandomRequestsMeetTheRules", "Trap_T14_SecondReleaseIsNoError", "Trap_T14_RepeatedRenewalIsNoConflict", "Expiry_ReleaseIsNoError"},
	},
	{
		name: "a release needs the token",
		apply: func(f *fake) {
			f.release = func(ctx context.Context, req abstractions.ReleaseRequest) error {
				if req.Token == 0 {
					return nil
				}
				return f.server.Release(ctx, req)
			}
		},
		failing: []string{"Model_RandomRequestsMeetTheRules", "Trap_T56_DelayedAcquireDoesNotLandAfterItsRelease"},
	},
	{
		name: "a release leaves a broken lease to run out",
		apply: func(f *fake) {
			f.release = func(ctx context.Context, req abstractions.ReleaseRequest) error {
				if record, _ := f.server.Inspect(ctx, abstractions.InspectRequest{Name: req.Name}); record.Breaking {
					return nil
				}
				return f.server.Release(ctx, req)
			}
		},
		failing: []string{"Model_RandomRequestsMeetTheRules"},
	},
	{
		name: "a release frees whoever holds",
		apply: func(f *fake) {
			f.release = func(ctx context.Context, req abstractions.ReleaseRequest) error {
				if err := f.server.Release(ctx, req); err != nil {
					return err
				}
				_, err := f.server.Break(ctx, abstractions.BreakRequest{Name: req.Name, Immediate: true})
				return err
			}
		},
		failing: []string{"Trap_T26_ReleaseByAnotherIDFreesNothing", "Trap_T26_StaleReleaseFreesNobodyElse", "Trap_T14_SecondReleaseIsNoError", "Model_RandomRequestsMeetTheRules"},
	},
	{
		name: "a broken lease is renewed once its ID is forgotten",
		apply: func(f *fake) {
			forgotten := f.forgetsTheBroken()
			f.renew = func(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
				grant, err := f.server.Renew(ctx, req)
				if errors.Is(err, abstractions.ErrLost) && forgotten(req.Name) {
					return abstractions.Grant{Name: req.Name, ID: req.ID, Token: req.Token, TTL: req.TTL, State: req.State}, nil
				}
				return grant, err
			}
		},
		failing: []string{"Break_IsNotForgottenWhileItRunsOut"},
	},
	{
		name: "a broken lease is acquired again once its ID is forgotten",
		apply: func(f *fake) {
			forgotten := f.forgetsTheBroken()
			f.acquire = func(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
				grant, err := f.server.Acquire(ctx, req)
				if record, _ := f.server.Inspect(ctx, abstractions.InspectRequest{Name: req.Name}); errors.Is(err, abstractions.ErrReleased) && record.Fingerprint == abstractions.FingerprintOf(req.ID) && forgotten(req.Name) {
					return abstractions.Grant{Name: req.Name, ID: req.ID, Token: record.Token, TTL: req.TTL}, nil
				}
				return grant, err
			}
		},
		failing: []string{"Break_IsNotForgottenWhileItRunsOut"},
	},
	{
		name: "every break is immediate",
		apply: func(f *fake) {
			f.breakLease = func(ctx context.Context, req abstractions.BreakRequest) (abstractions.BreakResult, error) {
				req.Immediate = true
				return f.server.Break(ctx, req)
			}
		},
		failing: []string{"Model_RandomRequestsMeetTheRules", "Expiry_BrokenLeaseRunsOut", "Expiry_BrokenInfiniteLeaseRunsOutAfterGrace"},
	},
	{
		name: "no break is immediate",
		apply: func(f *fake) {
			f.breakLease = func(ctx context.Context, req abstractions.BreakRequest) (abstractions.BreakResult, error) {
				req.Immediate = false
				return f.server.Break(ctx, req)
			}
		},
		failing: []string{"Model_RandomRequestsMeetTheRules", "Trap_T21_BreakKeepsTheToken"},
	},
	{
		name: "a broken lease is renewed on",
		apply: func(f *fake) {
			f.breakLease = func(ctx context.Context, req abstractions.BreakRequest) (abstractions.BreakResult, error) {
				if req.Immediate {
					return f.server.Break(ctx, req)
				}
				record, err := f.server.Inspect(ctx, abstractions.InspectRequest{Name: req.Name})
				left, _ := record.Remaining()
				return abstractions.BreakResult{WasHeld: record.Held, Token: record.Token, Remaining: left}, err
			}
		},
		failing: []string{"Model_RandomRequestsMeetTheRules", "Expiry_BrokenLeaseRunsOut", "Expiry_BrokenInfiniteLeaseRunsOutAfterGrace", "Break_InfiniteNeedsNoGrace"},
	},
	{
		name: "a renewal of a lease that runs out is reported, and not stored",
		apply: func(f *fake) {
			f.renew = func(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
				grant, err := f.server.Renew(ctx, req)
				if record, _ := f.server.Inspect(ctx, abstractions.InspectRequest{Name: req.Name}); errors.Is(err, abstractions.ErrLost) && record.Fingerprint == abstractions.FingerprintOf(req.ID) && record.Held {
					return abstractions.Grant{Name: req.Name, ID: req.ID, Token: req.Token, TTL: req.TTL}, nil
				}
				return grant, err
			}
		},
		failing: []string{"Trap_T66_ARenewalThatMeetsABreakIsStoredOrRefused", "Expiry_BrokenLeaseRunsOut"},
	},
	{
		name: "a lease ends with the one before whose place it has taken",
		apply: func(f *fake) {
			var kept time.Time
			f.release = func(ctx context.Context, req abstractions.ReleaseRequest) error {
				record, _ := f.server.Inspect(ctx, abstractions.InspectRequest{Name: req.Name})
				f.mu.Lock()
				kept = record.ExpiresAt
				f.mu.Unlock()
				return f.server.Release(ctx, req)
			}
			f.acquire = func(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
				f.mu.Lock()
				asked := req.TTL
				if left := time.Until(kept); left > 0 {
					req.TTL = min(req.TTL, left)
				}
				f.mu.Unlock()
				grant, err := f.server.Acquire(ctx, req)
				grant.TTL = asked
				return grant, err
			}
		},
		failing: []string{"Expiry_AReleaseShortensNoLeaseThatFollows"},
	},
	{
		name: "an infinite lease needs an immediate break",
		apply: func(f *fake) {
			f.breakLease = func(ctx context.Context, req abstractions.BreakRequest) (abstractions.BreakResult, error) {
				req.Grace = max(req.Grace, 24*time.Hour)
				return f.server.Break(ctx, req)
			}
		},
		failing: []string{"Break_InfiniteNeedsNoGrace", "Expiry_BrokenInfiniteLeaseRunsOutAfterGrace"},
	},
	{
		name: "grace cuts a finite lease short",
		apply: func(f *fake) {
			f.breakLease = func(ctx context.Context, req abstractions.BreakRequest) (abstractions.BreakResult, error) {
				result, err := f.server.Break(ctx, req)
				if req.Grace > 0 && req.Grace < result.Remaining {
					time.AfterFunc(req.Grace, func() {
						f.server.Break(context.Background(), abstractions.BreakRequest{Name: req.Name, Immediate: true})
					})
				}
				return result, err
			}
		},
		failing: []string{"Expiry_BrokenLeaseRunsOut"},
	},
	{
		name: "a break always meets somebody",
		apply: func(f *fake) {
			f.breakLease = func(ctx context.Context, req abstractions.BreakRequest) (abstractions.BreakResult, error) {
				result, err := f.server.Break(ctx, req)
				result.WasHeld = err == nil
				return result, err
			}
		},
		failing: []string{"Model_RandomRequestsMeetTheRules", "Expiry_BreakMeetsNobody"},
	},
	{
		name: "a second break is refused",
		apply: func(f *fake) {
			f.breakLease = func(ctx context.Context, req abstractions.BreakRequest) (abstractions.BreakResult, error) {
				if record, _ := f.server.Inspect(ctx, abstractions.InspectRequest{Name: req.Name}); record.Breaking {
					return abstractions.BreakResult{}, abstractions.ErrStale
				}
				return f.server.Break(ctx, req)
			}
		},
		failing: []string{"Model_RandomRequestsMeetTheRules"},
	},
	{
		name: "a break hits whoever holds",
		apply: func(f *fake) {
			f.breakLease = func(ctx context.Context, req abstractions.BreakRequest) (abstractions.BreakResult, error) {
				req.IfToken = 0
				return f.server.Break(ctx, req)
			}
		},
		failing: []string{"Trap_T63_BreakHitsOnlyTheLeaseItNames"},
	},
}

// forgetsTheBroken returns a function that reports whether a name's lease is broken and
// at least ten IDs of the name have been released.
func (f *fake) forgetsTheBroken() func(name string) bool {
	since := map[string]int{}
	f.release = func(ctx context.Context, req abstractions.ReleaseRequest) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		since[req.Name]++
		return f.server.Release(ctx, req)
	}
	return func(name string) bool {
		record, _ := f.server.Inspect(context.Background(), abstractions.InspectRequest{Name: name})
		f.mu.Lock()
		defer f.mu.Unlock()
		return record.Breaking && since[name] >= 10
	}
}
