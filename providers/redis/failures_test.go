package redislease

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/redistest"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// T71: if a client makes one attempt, a server that was not reached has done nothing, so
// there is nothing to clean up. A client that retries may have reached the server before.
func TestTrap_T71_WhatWasNotSentIsNotApplied(t *testing.T) {
	t.Parallel()
	const nobody = "127.0.0.1:1" // refuses connections
	cluster := closed(t, redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nobody}}))
	again := closed(t, redis.NewClient(&redis.Options{Addr: nobody, MaxRetries: 1, DialerRetries: 1}))
	for _, test := range []struct {
		options  Options
		definite bool
	}{
		{Options{URL: "redis://" + nobody}, true},
		{Options{URL: "redis://nobody.invalid"}, true},
		{Options{URL: "unix:///nowhere.sock"}, true},
		{Options{URL: "redis://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3?mode=redlock"}, true},
		{Options{URL: silent(t), Timeout: 100 * time.Millisecond}, false},
		{Options{Client: again}, false},
		{Options{Client: cluster}, false},
	} {
		p := openTest(t, test.options)
		_, err := p.Acquire(context.Background(), claimOf("name"))
		require.ErrorIs(t, err, abstractions.ErrUnavailable)
		require.Equal(t, test.definite, abstractions.NotApplied(err), "%v: %v", test.options, err)
		_, err = p.Renew(context.Background(), abstractions.RenewRequest{Name: "name", ID: "x", Token: 1, TTL: time.Minute})
		require.Equal(t, test.definite, abstractions.NotApplied(err), "%v: %v", test.options, err)
	}
}

// A server that does not match the options is reported as a permanent error, not as an outage.
func TestAServerThatIsNotWhatOptionsSayIsNotSetUp(t *testing.T) {
	t.Parallel()
	plain := redistest.Start(t, redistest.Options{}).URL()
	renamed := redistest.Start(t, redistest.Options{Args: []string{"--rename-command", "EVALSHA", "", "--rename-command", "EVAL", ""}}).URL()
	for name, url := range map[string]string{
		"no such database": strings.TrimSuffix(plain, "/0") + "/99",
		"no sentinel":      plain + "?master=m",
		"no Cluster":       plain + "?mode=cluster",
		"no scripts":       renamed,
	} {
		t.Run(name, func(t *testing.T) {
			p := openTest(t, Options{URL: url})
			_, err := p.Acquire(t.Context(), claimOf("name"))
			require.ErrorIs(t, err, abstractions.ErrNotSetUp)
			require.True(t, abstractions.NotApplied(err), "nothing was sent, or it was refused: %v", err)
		})
	}
}
