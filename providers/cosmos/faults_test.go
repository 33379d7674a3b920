package cosmoslease

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/cosmos/cosmostest"
	"github.com/stretchr/testify/require"
)

func TestTrap_T13_AnAcquireWithoutAnAnswerIsRepeated(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bed) {
		for _, verb := range []cosmostest.Verb{cosmostest.CreateItem, cosmostest.ReplaceItem} { // a new name, and a known name
			id := fmt.Sprint("a-", verb[:6])
			b.loseReply(verb, func() error { _, err := b.try("n", id); return err })
			require.True(t, b.inspect("n").Held, "it was applied")
			g := b.acquire("n", id)
			require.Equal(t, b.inspect("n").Token, g.Token)
			g, err := b.renew(g)
			require.NoError(t, err)
			b.release(g)
		}
	})
}

func TestTrap_T14_ARepetitionIsNoConflict(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bed) {
		g := b.acquire("n", "a")
		b.loseReply(cosmostest.ReplaceItem, func() error { _, err := b.renew(g); return err })
		_, err := b.renew(g)
		require.NoError(t, err)
		breaks := abstractions.BreakRequest{Name: "n", IfToken: g.Token}
		b.loseReply(cosmostest.ReplaceItem, func() error { _, err := b.Break(t.Context(), breaks); return err })
		r, err := b.Break(t.Context(), breaks)
		require.NoError(t, err)
		require.True(t, r.WasHeld)
		g.State = nil // with the old state, the first write would be refused
		b.loseReply(cosmostest.ReplaceItem, func() error { return b.Release(t.Context(), releaseRequest(g)) })
		next := b.acquire("n", "b")
		b.release(g)
		_, err = b.renew(next)
		require.NoError(t, err, "the repetition does not touch the next holder")

		breaks = abstractions.BreakRequest{Name: "n", IfToken: next.Token, Immediate: true}
		b.loseReply(cosmostest.ReplaceItem, func() error { _, err := b.Break(t.Context(), breaks); return err })
		last := b.acquire("n", "c")
		_, err = b.Break(t.Context(), breaks)
		require.ErrorIs(t, err, abstractions.ErrStale)
		_, err = b.renew(last)
		require.NoError(t, err)
	})
}

// An acquire that is given up at any step leaves no lease behind.
func TestTrap_T16_NothingLeaksFromAnAttempt(t *testing.T) {
	for _, verb := range []cosmostest.Verb{cosmostest.ReadItem, cosmostest.CreateItem} {
		for _, fault := range []cosmostest.Fault{{Drop: true}, {Drop: true, Applied: true}, {Status: 500}, {Status: 500, Applied: true}} {
			t.Run(fmt.Sprintf("%s %+v", verb, fault), func(t *testing.T) {
				inBubble(t, func(t *testing.T, b *bed) {
					// azcosmos repeats failed reads.
					b.account.Before(faultOn(verb, fault))
					_, err := b.try("n", "a")
					b.account.Before(nil)
					if fault.Applied && verb == cosmostest.CreateItem {
						require.NoError(t, err, "it was looked up")
					} else {
						requireUnknown(t, err)
					}
					require.NoError(t, b.Release(t.Context(), abstractions.ReleaseRequest{Name: "n", ID: "a"}))
					_, err = b.try("n", "a")
					require.ErrorIs(t, err, abstractions.ErrReleased)
					b.release(b.acquire("n", "b"))
				})
			})
		}
	}
}

// An acquire that was sent before the release of its claim, and arrives after the release,
// has no effect.
func TestTrap_T56_ADelayedAcquireDoesNotLandAfterItsRelease(t *testing.T) {
	for name, prepare := range map[string]func(b *bed){
		"new name": func(*bed) {},
		"free":     func(b *bed) { b.release(b.acquire("n", "before")) },
		"expired":  func(b *bed) { b.acquire("n", "before"); time.Sleep(time.Minute + b.Capabilities().Lateness.Fixed) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bed) {
				prepare(b)
				late := cosmostest.Fault{Delay: 20 * time.Second, Late: true}
				b.account.Before(func(op cosmostest.Operation) cosmostest.Fault {
					if op.Write() {
						return late
					}
					return cosmostest.Fault{}
				})
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := b.Acquire(ctx, acquireRequest("n", "a", time.Minute))
				requireUnknown(t, err)
				b.account.Before(nil)
				require.NoError(t, b.process().Release(t.Context(), abstractions.ReleaseRequest{Name: "n", ID: "a"}))
				time.Sleep(time.Minute)
				require.False(t, b.inspect("n").Held, "a ghost")
				_, err = b.try("n", "a")
				require.ErrorIs(t, err, abstractions.ErrReleased)
			})
		})
	}
}

// A delayed acquire also has no effect after its release if the acquiring process has watched
// the previous lease run out, although by the service's time the name is still held.
func TestTrap_T56_ADelayedTakeOverDoesNotLandAfterItsRelease(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bed) {
		b.acquire("n", "before")
		watcher := b.process()
		_, err := watcher.Acquire(t.Context(), acquireRequest("n", "a", time.Minute))
		require.ErrorIs(t, err, abstractions.ErrHeld)
		time.Sleep(time.Minute + time.Second) // expired only for the watcher
		require.True(t, b.inspect("n").Held)
		b.account.Before(faultOn(cosmostest.ReplaceItem, cosmostest.Fault{Delay: 20 * time.Second, Late: true}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = watcher.Acquire(ctx, acquireRequest("n", "a", time.Minute))
		requireUnknown(t, err)
		b.account.Before(nil)
		require.NoError(t, b.Release(t.Context(), abstractions.ReleaseRequest{Name: "n", ID: "a"}))
		time.Sleep(time.Minute)
		require.False(t, b.inspect("n").Held, "a ghost")
	})
}

// verbsOf returns a call of each kind that writes. All except the acquire use the held lease g.
func verbsOf(b *bed, g abstractions.Grant) map[string]func() error {
	ctx := b.t.Context()
	return map[string]func() error{
		"acquire": func() error { _, err := b.try("free", "x"); return err },
		"renew":   func() error { _, err := b.renew(g); return err },
		"release": func() error { return b.Release(ctx, releaseRequest(g)) },
		"break": func() error {
			_, err := b.Break(ctx, abstractions.BreakRequest{Name: g.Name, Immediate: true})
			return err
		},
	}
}

// Each status replaces the answer to a write. A status with an expected error means that the
// write was not applied. After any other status the call can be repeated, whether or not
// the write was applied.
func TestEveryStatusOnEveryVerb(t *testing.T) {
	for _, test := range []struct {
		status, substatus int
		want              error
	}{
		{401, 0, abstractions.ErrDenied}, {403, 0, abstractions.ErrDenied}, {408, 0, nil}, {410, 0, nil}, {410, 1002, nil}, {404, 1024, nil},
		{413, 0, abstractions.ErrNotSetUp}, {429, 3200, abstractions.ErrThrottled}, {449, 0, nil}, {500, 0, nil}, {502, 0, nil}, {503, 0, nil}, {504, 0, nil},
		{404, 1003, abstractions.ErrNotSetUp}, {400, 0, abstractions.ErrNotSetUp}, {404, 1002, nil},
	} {
		for _, verb := range []string{"acquire", "renew", "release", "break"} {
			for _, applied := range []bool{false, true} {
				if applied && test.want != nil {
					continue
				}
				t.Run(fmt.Sprintf("%d.%d %s %v", test.status, test.substatus, verb, applied), func(t *testing.T) {
					inBubble(t, func(t *testing.T, b *bed) {
						b.release(b.acquire("free", "f"))
						g := b.acquire("held", "a")
						call := verbsOf(b, g)[verb]
						// The fault hits every replace, because azcosmos repeats some requests.
						b.account.Before(faultOn(cosmostest.ReplaceItem, cosmostest.Fault{Status: test.status, Substatus: test.substatus, Applied: applied, RetryAfter: 250 * time.Millisecond}))
						err := call()
						b.account.Before(nil)
						switch {
						case applied:
							require.NoError(t, err, "it was looked up")
							return
						case test.want == nil:
							requireUnknown(t, err)
						default:
							require.ErrorIs(t, err, test.want)
							require.True(t, b.inspect("held").Held, "nothing was done")
							require.False(t, b.inspect("free").Held, "nothing was done")
						}
						if throttled := (*abstractions.ThrottledError)(nil); errors.As(err, &throttled) {
							require.Equal(t, 250*time.Millisecond, throttled.RetryAfter)
						}
						require.NoError(t, call(), "again")
					})
				})
			}
		}
	}
}

// If its read is refused, a call does not report a held, lost, released or stale lease.
func TestEveryStatusOnReads(t *testing.T) {
	for _, status := range []int{401, 403, 408, 410, 429, 449, 500, 503} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bed) {
				g := b.acquire("held", "a")
				b.account.Before(faultOn(cosmostest.ReadItem, cosmostest.Fault{Status: status}))
				for _, call := range []func() error{
					func() error { _, err := b.try("held", "x"); return err },
					func() error { _, err := b.try("free", "x"); return err },
					func() error {
						_, err := b.Inspect(t.Context(), abstractions.InspectRequest{Name: "held"})
						return err
					},
					func() error { return b.Ping(t.Context()) },
					func() error { _, err := b.Break(t.Context(), abstractions.BreakRequest{Name: "held"}); return err },
				} {
					err := call()
					require.Error(t, err)
					for _, wrong := range []error{abstractions.ErrHeld, abstractions.ErrLost, abstractions.ErrReleased, abstractions.ErrStale} {
						require.NotErrorIs(t, err, wrong)
					}
				}
				_, err := b.renew(g)
				require.NoError(t, err, "a renewal reads nothing")
			})
		})
	}
}

// If a document can be neither created nor read, the call fails instead of retrying without
// end.
func TestAConflictWithNothingToReadIsUnavailable(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bed) {
		b.try("warm", "up")
		b.account.Before(faultOn(cosmostest.CreateItem, cosmostest.Fault{Status: 409}))
		b.account.Record()
		_, err := b.try("n", "a")
		requireUnknown(t, err)
		require.Len(t, b.verbs(), 3*3+2)
	})
}

// A call that gets only conflicts fails after a bounded number of attempts.
func TestEndlessConflictsAreUnavailable(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bed) {
		g := b.acquire("n", "a")
		b.account.Before(faultOn(cosmostest.ReplaceItem, cosmostest.Fault{Status: 412}))
		b.account.Record()
		_, err := b.renew(g)
		requireUnknown(t, err)
		require.Len(t, b.verbs(), 2*16-1)
	})
}
