package managertest_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/credentialtest"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
	memlease "github.com/distributedleasing/leasing/providers/memory"
)

// A process can't renew or release another process's lease with anything that it can see of that lease.
func TestTrap_T141_NobodyGetsTheKeyOfALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, name := t.Context(), "x"
		p := memlease.New(memlease.Options{History: 100, HistoryRenewals: true})
		var shown credentialtest.Shown
		observe := func(e leasing.Event) { shown.Show(e) }
		var managers [2]*leasing.Manager
		var mine *leasing.Lease
		t.Cleanup(func() { shown.Hides(t, mine.ID()) }) // once the managers are closed and have logged all
		for i := range managers {
			var log strings.Builder
			m, err := leasing.NewManager(p, leasing.Options{
				Owner: "owner", Tuning: leasing.Tuning{MaxPoll: time.Second}, Logger: slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
			})
			require.NoError(t, err)
			m.Subscribe(observe)
			t.Cleanup(func() {
				require.NoError(t, m.Close(context.Background()))
				require.NotEmpty(t, log.String())
				shown.Show(log.String())
			})
			managers[i] = m
		}
		m1, m2 := managers[0], managers[1]
		var err error
		mine, err = m1.With(leasing.AcquireOptions{Metadata: map[string]string{"k": "v"}, Observer: observe}).TryAcquire(ctx, name)
		require.NoError(t, err)
		require.NoError(t, mine.Renew(ctx))
		other, err := m1.TryAcquire(ctx, "lost")
		require.NoError(t, err)

		synctest.Wait()
		record, err := m2.Inspect(ctx, name)
		require.NoError(t, err)
		shown.Show(record, mine, m1)
		for record, err := range m2.List(ctx, leasing.ListOptions{}) {
			require.NoError(t, err)
			shown.Show(record)
		}
		for _, m := range managers {
			for _, wait := range []time.Duration{0, 10 * time.Second} {
				showAll(&shown, second(m.TryAcquire(ctx, name)))
				showAll(&shown, second(m.With(leasing.AcquireOptions{WaitLimit: wait + time.Millisecond}).Acquire(ctx, name)))
			}
		}
		waiting, stop := context.WithCancel(ctx)
		done := make(chan error)
		go func() { done <- second(m2.Acquire(waiting, name)) }()
		synctest.Wait()
		queue, err := m1.Waiters(ctx, name)
		require.NoError(t, err)
		require.Len(t, queue, 1)
		shown.Show(queue)
		stop()
		showAll(&shown, <-done)
		for _, immediate := range []bool{false, true} {
			broken, err := m2.Break(ctx, other.Name(), leasing.BreakOptions{Immediate: immediate})
			require.NoError(t, err)
			shown.Show(broken)
			showAll(&shown, other.Renew(ctx))
		}
		showAll(&shown, other.Release(ctx))
		history, err := p.History(ctx, abstractions.HistoryRequest{Name: name})
		require.NoError(t, err)
		require.NotEmpty(t, history.Entries)
		shown.Show(history)
		showAll(&shown, second(m1.Adopt(ctx, leasing.Handover{Name: name, ID: mine.ID(), Token: mine.Token()}, leasing.AdoptOptions{})))

		tried := map[string]bool{}
		for _, word := range regexp.MustCompile(`[0-9A-Za-z_-]+`).FindAllString(shown.String(), -1) {
			if tried[word] {
				continue
			}
			tried[word] = true
			stolen, err := m2.Adopt(ctx, leasing.Handover{Name: name, ID: word, Token: record.Token}, leasing.AdoptOptions{})
			if err == nil {
				_ = stolen.Release(ctx)
			}
			require.Error(t, err, "adopted by %q, which is shown", word)
			require.True(t, errors.Is(err, leasing.ErrLost) || errors.Is(err, leasing.ErrInvalid), "%v", err)
			require.NoError(t, p.Release(ctx, abstractions.ReleaseRequest{Name: "unused", ID: "a"}))
		}
		require.Greater(t, len(tried), 50)
		require.NoError(t, mine.Renew(ctx), "it lives")
		require.ErrorIs(t, second(m2.TryAcquire(ctx, name)), leasing.ErrHeld)
		require.NoError(t, mine.Release(ctx))
	})
}

// An error has the fingerprint that its claim has in records, events and history. It does not have the claim's ID.
func TestTrap_T265_AnErrorNamesItsClaim(t *testing.T) {
	virtual(t, leasing.Options{NoAutoRenew: true}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		ctx := t.Context()
		names := func(err error, op, id string) {
			t.Helper()
			var failed *leasing.Error
			require.ErrorAs(t, err, &failed)
			require.Equal(t, op, failed.Op)
			require.Equal(t, leasing.FingerprintOf(id), failed.Fingerprint, "%v", err)
			require.NotContains(t, fmt.Sprintf("%v %+v %#v", err, *failed, *failed), cmp.Or(id, "no ID"))
		}
		latest := func() string { return p.Calls()[len(p.Calls())-1].ID }
		lease := acquire(t, m, nil)
		id := lease.ID()
		names(second(m.TryAcquire(ctx, name)), "acquire", latest())
		names(second(m.With(leasing.AcquireOptions{WaitLimit: time.Second}).Acquire(ctx, name)), "acquire", latest())
		names(second(m.Adopt(ctx, leasing.Handover{Name: name, ID: id, Token: lease.Token()}, leasing.AdoptOptions{})), "adopt", id)
		names(second(m.Break(ctx, name, leasing.BreakOptions{IfToken: lease.Token() + 1})), "break", "")

		for _, failure := range []error{
			errNetwork, context.DeadlineExceeded, // errors that don't mention the claim
			&leasing.Error{Op: "renew", Name: name, Err: errNetwork}, // from a provider that sets no fingerprint
		} {
			remove := p.Use(leasingtest.Fail(leasingtest.Renew, leasingtest.Always, failure))
			names(lease.Renew(ctx), "renew", id)
			names(lease.SetMetadata(ctx, map[string]string{"k": "v"}), "renew", id)
			remove()
		}
		require.NoError(t, lease.SetMetadata(ctx, nil))
		remove := p.Use(leasingtest.Fail(leasingtest.Acquire, leasingtest.Always, errNetwork))
		names(second(m.TryAcquire(ctx, "another")), "acquire", callIDs(p.Calls(), leasingtest.Acquire)[len(callIDs(p.Calls(), leasingtest.Acquire))-1])
		remove()
		leasingtest.Lose(t, p, lease, leasing.LostTaken)
		names(lease.Renew(ctx), "renew", id)
		names(lease.Release(ctx), "release", id)
		names(second(lease.HandOver(ctx)), "hand over", id)
	})
}

// A Handover keeps its ID in JSON. Everything that has a claim's ID is printed without the ID.
func TestTrap_T142_WhatHasAKeyIsPrintedWithoutIt(t *testing.T) {
	id := abstractions.NewID()
	keep := leasing.Handover{Name: "n", ID: id, Token: 7}
	state := struct{ ID string }{id}
	for _, value := range []any{
		keep, &keep, []leasing.Handover{keep}, map[string]any{"handover": keep},
		abstractions.AcquireRequest{Name: "n", ID: id, Owner: "o", TTL: time.Second},
		abstractions.RenewRequest{Name: "n", ID: id, Token: 7, State: state}, []abstractions.RenewRequest{{ID: id}},
		abstractions.ReleaseRequest{Name: "n", ID: id, Token: 7, State: &state},
		abstractions.WaitRequest{Name: "n", ID: id},
		abstractions.Grant{Name: "n", ID: id, Token: 7, State: state},
		abstractions.RenewResult{Grant: abstractions.Grant{Name: "n", ID: id, State: state}},
		abstractions.ReleaseRequest{Name: "n", ID: id + "\n"}.Validate(leasing.Capabilities{}),
		abstractions.ReleaseRequest{Name: "n", ID: strings.Repeat(id, 2)}.Validate(leasing.Capabilities{}),
	} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			text := fmt.Sprintf(verb, value)
			require.NotContains(t, text, id, verb)
			require.NotContains(t, text, fmt.Sprintf("%x", id), verb)
		}
	}
	require.Equal(t, fmt.Sprintf("{Name:n ID:%v Token:7}", leasing.FingerprintOf(id)), fmt.Sprintf("%+v", keep))
	var log strings.Builder
	for _, handler := range []slog.Handler{slog.NewTextHandler(&log, nil), slog.NewJSONHandler(&log, nil)} {
		slog.New(handler).Info("adopting", "handover", keep, "request", abstractions.RenewRequest{ID: id}, "grant", abstractions.Grant{ID: id})
	}
	require.NotContains(t, log.String(), id)
	require.Contains(t, log.String(), leasing.FingerprintOf(id).String())

	text, err := json.Marshal(keep)
	require.NoError(t, err)
	var again leasing.Handover
	require.NoError(t, json.Unmarshal(text, &again))
	require.Equal(t, keep, again, "as JSON it is whole")
}

func TestFingerprint(t *testing.T) {
	f := leasing.FingerprintOf("5e1f0c9a-2b7d-4e52-9c44-8f7d3a6b1e20")
	require.Regexp(t, `^fp_[0-9a-f]{16}$`, f.String())
	require.Equal(t, "fp_", f.String()[:3])
	require.NotEqual(t, f, leasing.FingerprintOf("5e1f0c9a-2b7d-4e52-9c44-8f7d3a6b1e21"))
	require.True(t, leasing.FingerprintOf("").IsZero())
	require.Empty(t, leasing.Fingerprint{}.String())
	require.ErrorIs(t, abstractions.ReleaseRequest{Name: "n", ID: f.String()}.Validate(leasing.Capabilities{}), leasing.ErrInvalid, "it is no ID")

	for _, one := range []leasing.Fingerprint{f, {}} {
		text, err := json.Marshal(map[string]leasing.Fingerprint{"f": one})
		require.NoError(t, err)
		require.JSONEq(t, fmt.Sprintf(`{"f":%q}`, one), string(text))
		read := map[string]leasing.Fingerprint{"f": leasing.FingerprintOf("another")}
		require.NoError(t, json.Unmarshal(text, &read))
		require.Equal(t, one, read["f"])
	}
	for _, text := range []string{"x", "fp_", f.String()[3:], f.String() + "0", f.String()[:18], "FP_" + f.String()[3:], "fp_zzzzzzzzzzzzzzzz"} {
		read := f
		require.ErrorIs(t, read.UnmarshalText([]byte(text)), leasing.ErrInvalid, text)
		require.Equal(t, f, read, "it is left as it was")
	}
	require.Zero(t, testing.AllocsPerRun(100, func() { _ = leasing.FingerprintOf("5e1f0c9a-2b7d-4e52-9c44-8f7d3a6b1e20") }))
}

func second[T any](_ T, err error) error { return err }

// showAll passes an error, and all errors that it wraps, to shown.
func showAll(shown *credentialtest.Shown, err error) {
	if err == nil {
		return
	}
	shown.Show(err)
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range many.Unwrap() {
			showAll(shown, one)
		}
	}
	showAll(shown, errors.Unwrap(err))
}
