package providerkit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
)

// runDetachedAndNot runs a test twice: with calls on their caller's goroutine, and with detached calls.
func runDetachedAndNot(t *testing.T, test func(t *testing.T, detach bool)) {
	for _, detach := range []bool{false, true} {
		t.Run(fmt.Sprintf("Detach=%t", detach), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, detach) })
		})
	}
}

func open(t *testing.T, d Driver, detach bool) *Provider {
	p := New(d, Config{Timeout: 5 * time.Second, Detach: detach})
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

func TestEveryCallSaysWhatItWas(t *testing.T) {
	runDetachedAndNot(t, func(t *testing.T, detach bool) {
		d := &ableFake{fake: &fake{do: func(context.Context) error { return errClient }}}
		for what, call := range verbs(open(t, d, detach)) {
			err := call(t.Context())
			var failed *abstractions.Error
			require.ErrorAs(t, err, &failed, what)
			require.Contains(t, what, failed.Op)
			require.Equal(t, "fake", failed.Provider)
			require.ErrorIs(t, err, errClient, what)
			require.ErrorIs(t, err, abstractions.ErrUnavailable, what)
			require.False(t, abstractions.NotApplied(err), what)
			require.Contains(t, err.Error(), ": backend unavailable: E42", what)
		}
	})
}

func TestTrap_T265_TheErrorOfACallNamesItsClaim(t *testing.T) {
	runDetachedAndNot(t, func(t *testing.T, detach bool) {
		d := &ableFake{fake: &fake{do: func(context.Context) error { return errClient }}}
		p := open(t, d, detach)
		for what, call := range verbs(p) {
			id := "x"
			switch what {
			case "acquire": // has a new claim: see below
				continue
			case "break", "inspect", "list", "ping", "history", "waiters", "sweep":
				id = ""
			}
			var failed *abstractions.Error
			require.ErrorAs(t, call(t.Context()), &failed, what)
			require.Equal(t, abstractions.FingerprintOf(id), failed.Fingerprint, what)
		}
		claim := newClaim()
		_, err := p.Acquire(t.Context(), claim)
		var refused *abstractions.Error
		require.ErrorAs(t, err, &refused)
		require.Equal(t, abstractions.FingerprintOf(claim.ID), refused.Fingerprint)
		results, err := p.RenewBatch(t.Context(), []abstractions.RenewRequest{{Name: "", ID: "y", TTL: time.Minute}, {Name: "a", ID: "x", TTL: time.Minute}})
		require.NoError(t, err)
		for i, id := range []string{"y", "x"} { // the first is not sent
			var failed *abstractions.Error
			require.ErrorAs(t, results[i].Err, &failed)
			require.Equal(t, abstractions.FingerprintOf(id), failed.Fingerprint)
		}
	})
}

func TestCallsSucceed(t *testing.T) {
	runDetachedAndNot(t, func(t *testing.T, detach bool) {
		d := &ableFake{fake: &fake{do: func(ctx context.Context) error {
			deadline, ok := ctx.Deadline()
			if !ok || time.Until(deadline) > 5*time.Second {
				return errors.New("no deadline")
			}
			return nil
		}}}
		for what, call := range verbs(open(t, d, detach)) {
			ctx, cancel := context.WithCancel(t.Context())
			if what == "wait" { // its context is the caller's own
				ctx, cancel = context.WithTimeout(ctx, time.Second)
			}
			require.NoError(t, call(ctx), what)
			cancel()
			ctx, cancel = context.WithTimeout(t.Context(), time.Second)
			require.NoError(t, call(ctx), what)
			cancel()
		}
	})
}

func TestInvalidRequestsAreNotSent(t *testing.T) {
	runDetachedAndNot(t, func(t *testing.T, detach bool) {
		d := &ableFake{fake: &fake{do: func(context.Context) error { panic("sent") }}}
		p := open(t, d, detach)
		_, err := p.Break(t.Context(), abstractions.BreakRequest{Name: "a", Grace: -1})
		require.ErrorIs(t, err, abstractions.ErrInvalid)
		for field, req := range map[string]abstractions.AcquireRequest{
			"Name": {ID: "x", Owner: "o", TTL: 1}, "ID": {Name: "a", Owner: "o", TTL: 1}, "Owner": {Name: "a", ID: "x", TTL: 1},
			"Metadata": {Name: "a", ID: "x", Owner: "o", TTL: 1, Metadata: map[string]string{"k": "\x00"}},
			"TTL":      {Name: "a", ID: "x", Owner: "o"},
		} {
			_, err = p.Acquire(t.Context(), req)
			require.ErrorContains(t, err, "invalid "+field)
			if field != "Owner" {
				_, err = p.Renew(t.Context(), abstractions.RenewRequest{Name: req.Name, ID: req.ID, TTL: req.TTL, Metadata: req.Metadata})
				require.ErrorContains(t, err, "invalid "+field)
			}
		}
		require.ErrorIs(t, p.Release(t.Context(), abstractions.ReleaseRequest{Name: "a"}), abstractions.ErrInvalid)
		_, err = p.Inspect(t.Context(), abstractions.InspectRequest{Name: "\n"})
		require.ErrorIs(t, err, abstractions.ErrInvalid)
		_, err = p.Wait(t.Context(), abstractions.WaitRequest{Name: "a"})
		require.ErrorIs(t, err, abstractions.ErrInvalid)
		_, err = p.History(t.Context(), abstractions.HistoryRequest{})
		require.ErrorIs(t, err, abstractions.ErrInvalid)
		for _, req := range []abstractions.ListRequest{{Prefix: "\xff"}, {After: "a\x00"}} {
			_, err = p.List(t.Context(), req)
			require.ErrorIs(t, err, abstractions.ErrInvalid)
		}
	})
}

// A batch with invalid items sends the other items.
func TestBatchItemsThatCannotWorkHaveTheirOwnErrors(t *testing.T) {
	runDetachedAndNot(t, func(t *testing.T, detach bool) {
		d := &ableFake{fake: &fake{}}
		good := func(name string) abstractions.RenewRequest {
			return abstractions.RenewRequest{Name: name, ID: "x", TTL: time.Minute}
		}
		var sent []abstractions.RenewRequest
		d.renew = func(_ context.Context, reqs []abstractions.RenewRequest) ([]abstractions.RenewResult, error) {
			sent = reqs
			var results []abstractions.RenewResult
			for _, req := range reqs {
				r := abstractions.RenewResult{Grant: abstractions.Grant{Name: req.Name, ID: req.ID}}
				if req.Name == "b" {
					r = abstractions.RenewResult{Err: &abstractions.LostError{Reason: abstractions.LostTaken}}
				}
				results = append(results, r)
			}
			return results, nil
		}
		p := open(t, d, detach)
		results, err := p.RenewBatch(t.Context(), []abstractions.RenewRequest{good("a"), {}, good("b"), {Name: "c"}, good("d")})
		require.NoError(t, err)
		require.Len(t, results, 5)
		require.Equal(t, []abstractions.RenewRequest{good("a"), good("b"), good("d")}, sent)
		require.Equal(t, "a", results[0].Grant.Name)
		require.ErrorIs(t, results[1].Err, abstractions.ErrInvalid)
		require.ErrorIs(t, results[2].Err, abstractions.ErrLost)
		require.ErrorIs(t, results[3].Err, abstractions.ErrInvalid)
		require.ErrorContains(t, results[3].Err, `renew "c"`)
		require.Equal(t, "d", results[4].Grant.Name)

		d.renew = func(context.Context, []abstractions.RenewRequest) ([]abstractions.RenewResult, error) { panic("sent") }
		results, err = p.RenewBatch(t.Context(), []abstractions.RenewRequest{{}})
		require.NoError(t, err)
		require.ErrorIs(t, results[0].Err, abstractions.ErrInvalid)
	})
}

// T66: the outcome of an item without an answer is unknown: the item counts as neither renewed nor
// lost.
func TestTrap_T66_MissingItemsOfABatchAreUnknown(t *testing.T) {
	runDetachedAndNot(t, func(t *testing.T, detach bool) {
		d := &ableFake{fake: &fake{}}
		reqs := []abstractions.RenewRequest{{Name: "a", ID: "x", TTL: time.Minute}, {Name: "b", ID: "y", TTL: time.Minute}}
		answered := abstractions.RenewResult{Grant: abstractions.Grant{Name: "a", ID: "x"}}
		p := open(t, d, detach)
		for _, got := range [][]abstractions.RenewResult{nil, {}, {answered}, {answered, {}}, {answered, answered}, {answered, {}, answered}} {
			for _, batchErr := range []error{nil, errClient} {
				d.renew = func(context.Context, []abstractions.RenewRequest) ([]abstractions.RenewResult, error) {
					return slices.Clone(got), batchErr
				}
				results, err := p.RenewBatch(t.Context(), reqs)
				require.NoError(t, err)
				require.Len(t, results, 2)
				require.ErrorIs(t, results[1].Err, abstractions.ErrUnavailable)
				require.False(t, abstractions.NotApplied(results[1].Err))
				if batchErr != nil {
					require.ErrorIs(t, results[1].Err, errClient)
				}
				if len(got) > 0 {
					require.NoError(t, results[0].Err)
				}
			}
		}
	})
}

func TestEndedContextTouchesNothing(t *testing.T) {
	runDetachedAndNot(t, func(t *testing.T, detach bool) {
		d := &ableFake{fake: &fake{do: func(context.Context) error { panic("touched") }}}
		p := open(t, d, detach)
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(abstractions.ErrLost)
		for what, call := range verbs(p) {
			err := call(ctx)
			require.ErrorIs(t, err, context.Canceled, what)
			require.NotErrorIs(t, err, abstractions.ErrLost, what)
			require.True(t, abstractions.NotApplied(err), "nothing was sent")
		}
	})
}

// T88, R10: the cause of a context's end says nothing about the lease of a
// call, however the client library reports that cause.
func TestTrap_T88_CauseOfAContextIsNoAnswer(t *testing.T) {
	causes := []error{
		abstractions.ErrReleased, abstractions.ErrClosed, &abstractions.LostError{Reason: abstractions.LostTaken},
		&abstractions.HeldError{}, fmt.Errorf("the other lease: %w", abstractions.ErrLost), errors.New("my own"),
	}
	reports := map[string]func(ctx context.Context) error{
		"the cause": context.Cause,
		"wrapped":   func(ctx context.Context) error { return fmt.Errorf("Get: %w", context.Cause(ctx)) },
		"called unknown": func(ctx context.Context) error {
			return fmt.Errorf("%w: %w", abstractions.ErrUnavailable, context.Cause(ctx))
		},
		"begun":             func(ctx context.Context) error { return Partial(context.Cause(ctx)) },
		"the context's":     func(ctx context.Context) error { return ctx.Err() },
		"the library's own": func(context.Context) error { return errClient },
	}
	for what, report := range reports {
		for _, cause := range causes {
			runDetachedAndNot(t, func(t *testing.T, detach bool) {
				d := &ableFake{fake: &fake{do: func(ctx context.Context) error {
					<-ctx.Done()
					return report(ctx)
				}}}
				p := open(t, d, detach)
				for verb, call := range verbs(p) {
					ctx, cancel := context.WithCancelCause(t.Context())
					go func() { time.Sleep(time.Second); cancel(cause) }()
					err := call(ctx)
					require.ErrorIs(t, err, context.Canceled, "%s, %s", verb, what)
					require.ErrorIs(t, err, abstractions.ErrUnavailable, "%s, %s", verb, what)
					require.NotErrorIs(t, err, cause, "%s, %s", verb, what)
					require.False(t, abstractions.NotApplied(err), "%s, %s: %v", verb, what, err)
				}
			})
		}
	}
}

// A definite answer counts even if the context has ended.
func TestAnswerOutlivesTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &fake{do: func(ctx context.Context) error {
			<-ctx.Done()
			return &abstractions.LostError{Reason: abstractions.LostTaken}
		}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := open(t, d, false).Renew(ctx, abstractions.RenewRequest{Name: "a", ID: "x", TTL: time.Minute})
		require.ErrorIs(t, err, abstractions.ErrLost)
		require.NotErrorIs(t, err, context.DeadlineExceeded)
	})
}

// A refusal after the end of the context does not count as a refusal by the backend.
func TestRefusalAfterTheContextIsUnknown(t *testing.T) {
	runDetachedAndNot(t, func(t *testing.T, detach bool) {
		d := &fake{class: func(error) Meaning { return Meaning{Class: Refused} }}
		d.do = func(ctx context.Context) error { <-ctx.Done(); return errClient }
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		p := open(t, d, detach)
		_, err := p.Acquire(ctx, newClaim())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, abstractions.ErrThrottled)
		require.False(t, abstractions.NotApplied(err))
		now := &fake{class: d.class, do: func(context.Context) error { return errClient }}
		_, err = open(t, now, detach).Acquire(t.Context(), newClaim())
		require.ErrorIs(t, err, abstractions.ErrThrottled)
	})
}

func TestCallWithoutADeadlineIsBounded(t *testing.T) {
	runDetachedAndNot(t, func(t *testing.T, detach bool) {
		d := &ableFake{fake: &fake{do: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}}
		p := open(t, d, detach)
		for what, call := range verbs(p) {
			if what == "wait" {
				continue
			}
			began := time.Now()
			err := call(t.Context())
			require.ErrorIs(t, err, context.DeadlineExceeded, what)
			require.ErrorIs(t, err, abstractions.ErrUnavailable, what)
			require.Equal(t, 5*time.Second, time.Since(began))
		}
	})
}

// T42: a detached call ends with its context, even if the client library ignores contexts.
func TestTrap_T42_DetachedCallEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hung := make(chan struct{})
		d := &fake{do: func(context.Context) error { <-hung; return nil }}
		p := New(d, Config{Timeout: 5 * time.Second, Detach: true})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := p.Acquire(ctx, newClaim())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, abstractions.ErrUnavailable)

		began := time.Now()
		err = p.Close()
		require.ErrorContains(t, err, "1 calls have not ended")
		require.ErrorIs(t, err, abstractions.ErrUnavailable)
		require.Equal(t, 5*time.Second, time.Since(began))
		close(hung)
	})
}

// T303: the driver may still read the metadata after its caller has changed the map.
func TestTrap_T303_ADetachedCallHasItsOwnRequest(t *testing.T) {
	metadata := map[string]string{"k": "v"}
	claim := newClaim()
	claim.Metadata = metadata
	renewals := []abstractions.RenewRequest{{Name: claim.Name, ID: claim.ID, Token: 1, TTL: claim.TTL, Metadata: metadata}}
	for name, call := range map[string]func(ctx context.Context, p *Provider) error{
		"Acquire": func(ctx context.Context, p *Provider) error { _, err := p.Acquire(ctx, claim); return err },
		"Renew":   func(ctx context.Context, p *Provider) error { _, err := p.Renew(ctx, renewals[0]); return err },
		"RenewBatch": func(ctx context.Context, p *Provider) error {
			_, err := p.RenewBatch(ctx, renewals)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &metadataDriver{seen: make(chan string, 1)}
				p := open(t, d, true)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				require.Error(t, call(ctx, p))
				metadata["k"], renewals[0].Metadata = "changed", nil
				require.Equal(t, "v", <-d.seen)
				metadata["k"], renewals[0].Metadata = "v", metadata
			})
		})
	}
}

// metadataDriver reads the metadata of a request a second after the caller has left.
type metadataDriver struct {
	fake
	seen chan string
}

func (d *metadataDriver) read(ctx context.Context, metadata func() map[string]string) error {
	<-ctx.Done()
	time.Sleep(time.Second)
	d.seen <- metadata()["k"]
	return ctx.Err()
}

func (d *metadataDriver) Acquire(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
	return abstractions.Grant{}, d.read(ctx, func() map[string]string { return req.Metadata })
}

func (d *metadataDriver) Renew(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
	return abstractions.Grant{}, d.read(ctx, func() map[string]string { return req.Metadata })
}

func (d *metadataDriver) RenewBatch(ctx context.Context, reqs []abstractions.RenewRequest) ([]abstractions.RenewResult, error) {
	return nil, d.read(ctx, func() map[string]string { return reqs[0].Metadata })
}

func TestAfterCloseEveryCallIsClosed(t *testing.T) {
	runDetachedAndNot(t, func(t *testing.T, detach bool) {
		closes := 0
		d := &ableFake{fake: &fake{do: func(context.Context) error { panic("called") }, closed: func() error { closes++; return errClient }}}
		p := New(d, Config{Timeout: time.Second, Detach: detach})
		require.ErrorIs(t, p.Close(), errClient)
		require.NoError(t, p.Close())
		require.Equal(t, 1, closes)
		for what, call := range verbs(p) {
			require.ErrorIs(t, call(t.Context()), abstractions.ErrClosed, what)
		}
		require.Equal(t, "fake", p.Capabilities().Provider)
	})
}

// Close ends detached calls at once. Their outcome is unknown: the error is neither
// ErrClosed, which would promise that nothing was done, nor that of the caller's context.
func TestCloseEndsDetachedCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p *Provider
		ended := 0
		d := &fake{
			do:     func(ctx context.Context) error { <-ctx.Done(); ended++; return ctx.Err() },
			closed: func() error { require.Equal(t, 1, ended, "the driver is closed last"); return nil },
		}
		p = New(d, Config{Timeout: time.Minute, Detach: true})
		failed := make(chan error)
		go func() { _, err := p.Acquire(t.Context(), newClaim()); failed <- err }()
		synctest.Wait()
		began := time.Now()
		require.NoError(t, p.Close())
		require.Zero(t, time.Since(began))
		err := <-failed
		require.ErrorIs(t, err, abstractions.ErrUnavailable)
		require.NotErrorIs(t, err, abstractions.ErrClosed)
		require.NotErrorIs(t, err, context.Canceled)
		require.False(t, abstractions.NotApplied(err))
	})
}

// Without Detach the driver's own Close ends the calls in flight, and Close waits for those calls.
func TestCloseWaitsForCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := make(chan struct{})
		d := &fake{
			do:     func(context.Context) error { <-stop; time.Sleep(time.Second); return nil },
			closed: func() error { close(stop); return nil },
		}
		p := New(d, Config{Timeout: time.Minute})
		done := make(chan error)
		go func() { done <- p.Release(t.Context(), abstractions.ReleaseRequest{Name: "a", ID: "x"}) }()
		synctest.Wait()
		began := time.Now()
		go func() {
			time.Sleep(time.Second / 2)
			_, err := p.Inspect(t.Context(), abstractions.InspectRequest{Name: "a"})
			require.ErrorIs(t, err, abstractions.ErrClosed)
		}()
		require.NoError(t, p.Close())
		require.Equal(t, time.Second, time.Since(began))
		require.NoError(t, <-done)
	})
}

// T69: after a panic of a driver, or of the user's context, no call counts as under way.
func TestTrap_T69_PanicsLeaveNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(&ableFake{fake: &fake{do: func(context.Context) error { panic("driver") }}}, Config{Timeout: time.Second})
		for what, call := range verbs(p) {
			require.Panics(t, func() { _ = call(t.Context()) }, what)
			require.Panics(t, func() { _ = call(nil) }, what)
		}
		began := time.Now()
		require.NoError(t, p.Close())
		require.Zero(t, time.Since(began))
	})
}

func TestAbilitiesAreTheDrivers(t *testing.T) {
	full := open(t, &ableFake{fake: &fake{}}, false)
	bare := open(t, &fake{}, false)
	has := func(p *Provider) (all []bool) {
		_, a := abstractions.As[abstractions.BatchRenewer](p)
		_, b := abstractions.As[abstractions.Lister](p)
		_, c := abstractions.As[abstractions.Waiter](p)
		_, d := abstractions.As[abstractions.Pinger](p)
		_, e := abstractions.As[abstractions.HistoryReader](p)
		_, f := abstractions.As[abstractions.WaiterLister](p)
		return []bool{a, b, c, d, e, f}
	}
	require.Equal(t, []bool{true, true, true, true, true, true}, has(full))
	require.Equal(t, make([]bool, 6), has(bare))
	require.Equal(t, []bool{false, false, false, true, false, false}, has(open(t, pingerOnly{&ableFake{fake: &fake{}}}, false)))
	_, err := bare.List(t.Context(), abstractions.ListRequest{})
	require.ErrorIs(t, err, abstractions.ErrUnsupported)
	_, err = bare.RenewBatch(t.Context(), nil)
	require.ErrorIs(t, err, abstractions.ErrUnsupported)
	_, err = bare.Wait(t.Context(), abstractions.WaitRequest{Name: "a", ID: "x"})
	require.ErrorIs(t, err, abstractions.ErrUnsupported)
	_, err = bare.Waiters(t.Context(), abstractions.WaitersRequest{Name: "a"})
	require.ErrorIs(t, err, abstractions.ErrUnsupported)
}

// pingerOnly is a driver whose method As hides all abilities but Pinger.
type pingerOnly struct{ *ableFake }

func (s pingerOnly) As(target any) bool {
	pinger, ok := target.(*abstractions.Pinger)
	if ok {
		*pinger = s
	}
	return ok
}

func TestProviderShowsOnlyItsBackend(t *testing.T) {
	type Outer struct{ *Provider }
	p := open(t, &fake{}, false)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		require.Equal(t, "provider fake", fmt.Sprintf(verb, p))
		require.Equal(t, "provider fake", fmt.Sprintf(verb, Outer{p}))
	}
}

// A provider in memory answers in nanoseconds, so the code around it must not allocate.
func TestCallAllocatesNothing(t *testing.T) {
	p := New(&fake{}, Config{})
	defer p.Close()
	ctx, req := context.Background(), newClaim()
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if _, err := p.Acquire(ctx, req); err != nil {
			panic(err)
		}
		if err := p.Release(ctx, abstractions.ReleaseRequest{Name: req.Name, ID: req.ID}); err != nil {
			panic(err)
		}
	}))
	runtime.KeepAlive(p)
}

func TestConcurrentSafe_CallsAndClose(t *testing.T) {
	for range 200 {
		p := New(&fake{do: func(context.Context) error { runtime.Gosched(); return nil }}, Config{Timeout: time.Minute})
		done := make(chan error, 4)
		for range cap(done) {
			go func() {
				for {
					if err := p.Ping(context.Background()); !errors.Is(err, abstractions.ErrUnsupported) {
						done <- err
						return
					}
					if _, err := p.Acquire(context.Background(), newClaim()); err != nil {
						done <- err
						return
					}
				}
			}()
		}
		require.NoError(t, p.Close())
		for range cap(done) {
			require.ErrorIs(t, <-done, abstractions.ErrClosed)
		}
	}
}

// T71, C5: a dial that failed has sent nothing, whatever else its error says.
func TestTrap_T71_ErrorsOfADialAreDefinite(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := listener.Addr().String()
	require.NoError(t, listener.Close())
	var dialer net.Dialer
	_, refused := dialer.DialContext(t.Context(), "tcp", addr)
	ended, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	_, timeout := dialer.DialContext(ended, "tcp", addr)
	dns := &net.DNSError{Err: "no such host", Name: "nowhere.invalid", IsNotFound: true}

	d := &fake{class: func(err error) Meaning {
		if NotSent(err) {
			return Meaning{Class: Unsent}
		}
		return Meaning{}
	}}
	p := open(t, d, false)
	for _, dial := range []error{refused, timeout, dns, fmt.Errorf("pool: %w", refused)} {
		require.True(t, NotSent(dial), dial)
		d.do = func(context.Context) error { return dial }
		_, err := p.Acquire(t.Context(), newClaim())
		require.ErrorIs(t, err, abstractions.ErrUnavailable)
		require.NotErrorIs(t, err, abstractions.ErrThrottled)
		require.True(t, abstractions.NotApplied(err), err)
		d.do = func(context.Context) error { return Partial(dial) }
		_, err = p.Acquire(t.Context(), newClaim())
		require.False(t, abstractions.NotApplied(err), "an earlier request was sent")
	}
	for _, sent := range []error{&net.OpError{Op: "read", Err: errClient}, &net.OpError{Op: "write", Err: errClient}, errClient, context.Canceled} {
		require.False(t, NotSent(sent), sent)
	}
}
