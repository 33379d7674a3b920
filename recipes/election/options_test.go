package election

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
)

func TestOptionsThatCannotWork(t *testing.T) {
	manager, provider := leasingtest.NewManager(t, leasing.Options{})
	work := func(context.Context, *leasing.Lease) error { return nil }
	for field, options := range map[string]Options{
		"Name":              {OnElected: work},
		"Options.OnElected": {Name: name},
		"Options.OnResigned": {
			Name: name, OnElected: work, StandAgain: true,
		},
		"Options.Lease.WaitLimit": {
			Name: name, OnElected: work, Lease: leasing.AcquireOptions{WaitLimit: time.Second},
		},
		"Options.Pause":    {Name: name, OnElected: work, Pause: -1},
		"Options.MaxPause": {Name: name, OnElected: work, Pause: 2, MaxPause: 1},
	} {
		_, err := New(manager, options)
		require.ErrorIs(t, err, leasing.ErrInvalid)
		require.ErrorContains(t, err, field)
		require.Equal(t, err, Run(t.Context(), manager, options))
	}
	_, err := New(nil, Options{Name: name, OnElected: work})
	require.ErrorContains(t, err, "manager")

	// Run returns the errors of options that the manager validates.
	err = Run(t.Context(), manager, Options{Name: name, OnElected: work, Lease: leasing.AcquireOptions{TTL: -1}})
	require.ErrorIs(t, err, leasing.ErrInvalid)
	require.Zero(t, provider.Count(leasingtest.Acquire))
}

func TestPauseStaysWithinItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := Options{Pause: time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "pause"))}
		o.MaxPause = o.Pause + time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "more"))
		o, err := Options{Pause: o.Pause, MaxPause: o.MaxPause, Name: name, OnElected: func(context.Context, *leasing.Lease) error { return nil }}.complete()
		if err != nil {
			t.Fatal(err)
		}
		failures := rapid.IntRange(0, 1000).Draw(t, "failures")
		random := rapid.Float64Range(0, 1).Draw(t, "random")
		pause := o.pause(failures, random)
		if pause < o.Pause/2 || pause > o.MaxPause {
			t.Fatalf("pause %v", pause)
		}
		if next := o.pause(failures+1, random); next < pause {
			t.Fatalf("%v after %v", next, pause)
		}
	})
}
