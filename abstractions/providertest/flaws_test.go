package providertest

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// flaw is one way in which a provider can be wrong.
type flaw struct {
	name    string // as a sentence about the provider
	apply   func(f *fake)
	failing []string // checks that must fail
	// real runs the checks without a synctest bubble, in which the flaw would
	// hang for ever.
	real bool
}

func allFlaws() []flaw {
	return slices.Concat(holdingFlaws, endingFlaws, recordFlaws, clientFlaws, abilityFlaws)
}

// alias returns another ID for a client that pretends to be another claim.
func alias(id string) string { return id[:len(id)-1] + "-" }

// holdingFlaws are about who gets a name, for how long, and with which token.
var holdingFlaws = []flaw{
	{
		name: "a renewal does not look at the token",
		apply: func(f *fake) {
			f.renew = func(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
				record, err := f.server.Inspect(ctx, abstractions.InspectRequest{Name: req.Name})
				if err == nil && record.Fingerprint == abstractions.FingerprintOf(req.ID) {
					req.Token = record.Token
				}
				return f.server.Renew(ctx, req)
			}
		},
		failing: []string{"Trap_T84_RenewalIsTheHolders", "Model_RandomRequestsMeetTheRules"},
	},
	{
		name: "the token is the clock",
		apply: func(f *fake) {
			f.acquire = func(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
				_, _ = f.server.Acquire(ctx, req) // the server has no token left in the year 2255
				return abstractions.Grant{Name: req.Name, ID: req.ID, TTL: req.TTL, Token: time.Now().UnixMicro() + f.ahead.Load()/1000}, nil
			}
		},
		failing: []string{"Trap_T54_TokenRisesAlthoughTheClockWentBack", "Trap_T54_TokenRisesAlthoughItIsAheadOfTheClock", "Trap_T65_NoTokenFollowsTheLast"},
	},
	{
		name: "what a server loses frees the name",
		apply: func(f *fake) {
			f.lose = func(name string) {
				f.server.Break(context.Background(), abstractions.BreakRequest{Name: name, Immediate: true})
			}
		},
		failing: []string{"Lose_TakesNoLease"},
	},
	{
		name: "whoever asks together with one that is refused is refused",
		apply: func(f *fake) {
			var refused time.Time
			f.acquire = func(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
				f.mu.Lock()
				defer f.mu.Unlock()
				if refused.Equal(time.Now()) {
					return abstractions.Grant{}, &abstractions.HeldError{}
				}
				grant, err := f.server.Acquire(ctx, req)
				if errors.Is(err, abstractions.ErrHeld) {
					refused = time.Now()
				}
				return grant, err
			}
		},
		failing: []string{"Trap_T66_EachOfManyAtOnceIsDecidedByItself"},
	},
	{
		name: "a lease that the backend no longer has is renewed",
		apply: func(f *fake) {
			f.renew = func(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
				grant, err := f.server.Renew(ctx, req)
				if errors.Is(err, abstractions.ErrLost) {
					return abstractions.Grant{Name: req.Name, ID: req.ID, Token: req.Token, TTL: req.TTL}, nil
				}
				return grant, err
			}
		},
		failing: []string{"Remove_EndsTheLease"},
	},
	{
		name: "a record shows the present as when it was acquired",
		apply: func(f *fake) {
			f.renew = func(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
				time.Sleep(time.Millisecond)
				return f.server.Renew(ctx, req)
			}
			f.inspect = func(ctx context.Context, req abstractions.InspectRequest) (abstractions.Record, error) {
				record, err := f.server.Inspect(ctx, req)
				if record.Held {
					record.AcquiredAt = record.Now
				}
				return record, err
			}
		},
		failing: []string{"Inspect_ShowsTheLease"},
	},
	{
		name: "names are forgotten while they are held",
		real: true,
		apply: func(f *fake) {
			f.forget = func(string) {
				page, _ := f.server.List(context.Background(), abstractions.ListRequest{Prefix: "pt/", HeldOnly: true})
				for _, record := range page.Records {
					f.server.Break(context.Background(), abstractions.BreakRequest{Name: record.Name, Immediate: true})
				}
			}
		},
		failing: []string{"Trap_T28_ForgettingMeetsNoHolder"},
	},
	{
		name: "to forget a name takes others from their holders",
		apply: func(f *fake) {
			f.forget = func(name string) {
				f.forgetAtServer(name)
				page, _ := f.server.List(context.Background(), abstractions.ListRequest{Prefix: "pt/", HeldOnly: true})
				for _, record := range page.Records {
					f.server.Break(context.Background(), abstractions.BreakRequest{Name: record.Name, Immediate: true})
				}
			}
		},
		failing: []string{"Trap_T28_ForgettingTakesNoLease"},
	},
	{
		name: "a name has two holders",
		apply: func(f *fake) {
			f.acquire = func(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
				grant, err := f.server.Acquire(ctx, req)
				if held := (*abstractions.HeldError)(nil); errors.As(err, &held) {
					return abstractions.Grant{Name: req.Name, ID: req.ID, Token: held.Holder.Token + 1, TTL: req.TTL}, nil
				}
				return grant, err
			}
		},
		failing: []string{"Model_RandomRequestsMeetTheRules", "Trap_T18_OneOfManyRacersWins", "Expiry_OneOfManyTakesOver", "Expiry_NeverEarlyNorLate", "Concurrent_HandoversNeverOverlap", "Manager_OverThisProvider"},
	},
	{
		name: "a late copy of an acquire shortens the lease",
		apply: func(f *fake) {
			f.acquire = func(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
				record, err := f.server.Inspect(ctx, abstractions.InspectRequest{Name: req.Name})
				if err == nil && record.Held && record.Fingerprint == abstractions.FingerprintOf(req.ID) {
					return f.server.Renew(ctx, abstractions.RenewRequest{Name: req.Name, ID: req.ID, Token: record.Token, TTL: req.TTL})
				}
				return f.server.Acquire(ctx, req)
			}
		},
		failing: []string{"Model_RandomRequestsMeetTheRules"},
	},
	{
		name: "a name is checked before it is taken",
		apply: func(f *fake) {
			f.acquire = func(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
				record, err := f.server.Inspect(ctx, abstractions.InspectRequest{Name: req.Name})
				if err == nil && !record.Held {
					time.Sleep(time.Millisecond)
					f.server.Break(ctx, abstractions.BreakRequest{Name: req.Name, Immediate: true})
				}
				return f.server.Acquire(ctx, req)
			}
		},
		failing: []string{"Trap_T18_OneOfManyRacersWins", "Expiry_OneOfManyTakesOver", "Concurrent_HandoversNeverOverlap"},
	},
	{
		name: "the backend forgets a record after an hour",
		apply: func(f *fake) {
			f.acquire = func(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
				asked := req.TTL
				req.TTL = min(req.TTL, time.Hour)
				grant, err := f.server.Acquire(ctx, req)
				grant.TTL = asked
				return grant, err
			}
		},
		failing: []string{"Trap_T45_ALongLeaseOutlivesTheMemoryOfIdleNames"},
	},
	{
		name:    "leases end at half of their TTL",
		apply:   func(f *fake) { f.scaleTTL(0.5) },
		failing: []string{"Expiry_NeverEarlyNorLate", "Trap_T07_RenewalExtendsByItsTTLFromNow", "Expiry_RepeatedAcquireGrantsTTLAnew", "Trap_T24_RecordOutlivesALongRenewal"},
	},
	{
		name:    "leases end a nanosecond early",
		apply:   func(f *fake) { f.shiftTTL(-1) },
		failing: []string{"Expiry_NeverEarlyNorLate", "Trap_T07_RenewalExtendsByItsTTLFromNow"},
	},
	{
		name:    "leases end late",
		apply:   func(f *fake) { f.scaleTTL(1.5) },
		failing: []string{"Expiry_NeverEarlyNorLate", "Trap_T19_ExpiredLeaseBlocksNobody", "Expiry_InspectShowsAFreeName"},
	},
	{
		name: "a lease with metadata never ends",
		apply: func(f *fake) {
			f.acquire = func(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
				ttl := req.TTL
				if len(req.Metadata) > 0 {
					req.TTL = abstractions.Infinite
				}
				grant, err := f.server.Acquire(ctx, req)
				grant.TTL = ttl
				return grant, err
			}
		},
		failing: []string{"Trap_T17_MetadataLeavesNoImmortalRecord"},
	},
	{
		name: "a long renewal lasts no longer than the acquire",
		apply: func(f *fake) {
			f.renew = func(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
				ttl := req.TTL
				if req.TTL > 10*time.Second {
					req.TTL = 10 * time.Second
				}
				grant, err := f.server.Renew(ctx, req)
				grant.TTL = ttl
				return grant, err
			}
		},
		failing: []string{"Trap_T24_RecordOutlivesALongRenewal", "Model_RandomRequestsMeetTheRules"},
	},
	{
		name: "infinite is an hour",
		apply: func(f *fake) {
			f.acquire = func(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
				ttl := req.TTL
				req.TTL = min(ttl, time.Hour)
				grant, err := f.server.Acquire(ctx, req)
				grant.TTL = ttl
				return grant, err
			}
		},
		failing: []string{"Model_RandomRequestsMeetTheRules"},
	},
	{
		name: "a TTL is granted up to an hour only",
		apply: func(f *fake) {
			f.acquire = func(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
				req.TTL = min(req.TTL, time.Hour)
				return f.server.Acquire(ctx, req)
			}
		},
		failing: []string{"Limits_EveryStatedTTLIsGranted"},
	},
	{
		name: "a grant does not say whose it is",
		apply: func(f *fake) {
			f.acquire = func(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
				grant, err := f.server.Acquire(ctx, req)
				grant.ID = ""
				return grant, err
			}
		},
		failing: []string{"Model_RandomRequestsMeetTheRules"},
	},
	{
		name: "a repeated acquire meets its own lease",
		apply: func(f *fake) {
			f.acquire = func(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
				record, _ := f.server.Inspect(ctx, abstractions.InspectRequest{Name: req.Name})
				if record.Held {
					return abstractions.Grant{}, &abstractions.HeldError{Holder: record}
				}
				return f.server.Acquire(ctx, req)
			}
		},
		failing: []string{"Trap_T13_LostReplyIsTriedAgain", "Trap_T13_RepetitionsAtOnceAreOneClaim"},
	},
	{
		name: "a repeated acquire is a change of ownership",
		apply: func(f *fake) {
			var n atomic.Int64
			f.acquire = func(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
				grant, err := f.server.Acquire(ctx, req)
				grant.Token += n.Add(1)
				return grant, err
			}
		},
		failing: []string{"Trap_T13_LostReplyIsTriedAgain", "Trap_T13_RepetitionsAtOnceAreOneClaim"},
	},
	{
		name: "a repeated acquire extends nothing",
		apply: func(f *fake) {
			f.acquire = func(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
				record, err := f.server.Inspect(ctx, abstractions.InspectRequest{Name: req.Name})
				if err == nil && record.Held && record.Fingerprint == abstractions.FingerprintOf(req.ID) {
					return abstractions.Grant{Name: req.Name, ID: req.ID, Token: record.Token, TTL: req.TTL}, nil
				}
				return f.server.Acquire(ctx, req)
			}
		},
		failing: []string{"Expiry_RepeatedAcquireGrantsTTLAnew"},
	},
	{
		name: "all claims of an owner are one",
		apply: func(f *fake) {
			f.acquire = func(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
				grant, err := f.server.Acquire(ctx, req)
				if held := (*abstractions.HeldError)(nil); errors.As(err, &held) && held.Holder.Owner == req.Owner {
					return abstractions.Grant{Name: req.Name, ID: req.ID, Token: held.Holder.Token, TTL: req.TTL}, nil
				}
				return grant, err
			}
		},
		failing: []string{"Model_RandomRequestsMeetTheRules", "Trap_T23_StaleHolderGetsNoTokenOfItsSuccessor"},
	},
	{
		name: "an ID that was given up is taken again",
		apply: func(f *fake) {
			f.acquire = func(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
				grant, err := f.server.Acquire(ctx, req)
				if errors.Is(err, abstractions.ErrReleased) {
					req.ID = alias(req.ID)
					grant, err = f.server.Acquire(ctx, req)
				}
				return grant, err
			}
		},
		failing: []string{"Trap_T56_ReleasedIDIsRefused", "Trap_T56_DelayedAcquireDoesNotLandAfterItsRelease", "Model_RandomRequestsMeetTheRules", "Expiry_ReleaseIsNoError"},
	},
	{
		name: "a refusal does not say what it is",
		apply: func(f *fake) {
			f.acquire = func(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
				grant, err := f.server.Acquire(ctx, req)
				if errors.Is(err, abstractions.ErrHeld) {
					err = errors.New("conflict")
				}
				return grant, err
			}
		},
		failing: []string{"Model_RandomRequestsMeetTheRules", "Concurrent_EverythingAtOnce"},
	},
	{
		name: "held and lost are the same",
		apply: func(f *fake) {
			f.acquire = func(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
				grant, err := f.server.Acquire(ctx, req)
				if errors.Is(err, abstractions.ErrHeld) {
					err = errors.Join(err, abstractions.ErrLost)
				}
				return grant, err
			}
		},
		failing: []string{"Model_RandomRequestsMeetTheRules", "Trap_T23_StaleHolderGetsNoTokenOfItsSuccessor"},
	},
	{
		name: "a refusal has a wrong time",
		apply: func(f *fake) {
			f.acquire = func(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
				grant, err := f.server.Acquire(ctx, req)
				if held := (*abstractions.HeldError)(nil); errors.As(err, &held) {
					held.Holder.ExpiresAt = held.Holder.ExpiresAt.Add(time.Second)
				}
				return grant, err
			}
		},
		failing: []string{"Model_RandomRequestsMeetTheRules", "Expiry_NeverEarlyNorLate"},
	},
}

// scaleTTL makes the server's leases longer or shorter than granted.
func (f *fake) scaleTTL(factor float64) {
	f.changeTTL(func(ttl time.Duration) time.Duration { return time.Duration(float64(ttl) * factor) })
}

func (f *fake) shiftTTL(by time.Duration) {
	f.changeTTL(func(ttl time.Duration) time.Duration { return ttl + by })
}

func (f *fake) changeTTL(change func(time.Duration) time.Duration) {
	f.acquire = func(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
		ttl := req.TTL
		req.TTL = change(ttl)
		grant, err := f.server.Acquire(ctx, req)
		grant.TTL = ttl
		return grant, err
	}
	f.renew = func(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
		ttl := req.TTL
		req.TTL = change(ttl)
		grant, err := f.server.Renew(ctx, req)
		grant.TTL = ttl
		return grant, err
	}
}
