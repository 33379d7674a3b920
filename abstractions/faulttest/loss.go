package faulttest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/servertest"
)

// LossIsReported holds leases on a server that the function begin starts. The server is then killed, paused, or cut off from the
// holder. A killed or paused server returns two TTLs later. holder opens a provider that reaches the server at an address. next
// is the provider of another process, which acquires each name as soon as the name is free. Each holder must have noticed its
// loss by that time, and tokens must rise.
func LossIsReported(t *testing.T, ttl time.Duration, begin func(t *testing.T) (server *servertest.Server, holder func(addr string) leasing.Provider, next leasing.Provider)) {
	for name, fault := range map[string]func(*servertest.Server, *relay) (repair func()){
		"killed":  func(s *servertest.Server, _ *relay) func() { s.Kill(); return s.Restart },
		"paused":  func(s *servertest.Server, _ *relay) func() { s.Pause(); return s.Resume },
		"cut off": func(_ *servertest.Server, l *relay) func() { l.cut.Store(true); return func() {} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, holder, next := begin(t)
			l := newRelay(t, server.Addr())
			LossIsReportedAfter(t, ttl, holder(l.addr), next, func() func() { return fault(server, l) })
		})
	}
}

// LossIsReportedAfter is LossIsReported with the caller's own fault. It calls repair two TTLs later.
func LossIsReportedAfter(t *testing.T, ttl time.Duration, behind, next leasing.Provider, fault func() (repair func())) {
	t.Helper()
	manager, err := leasing.NewManager(behind, leasing.Options{TTL: ttl})
	require.NoError(t, err)
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), ttl)
		defer cancel()
		_ = manager.Close(ctx) // its leases are lost
	}()
	const leases = 32
	lost, held := make([]chan time.Time, leases), make([]*leasing.Lease, leases)
	for i := range leases {
		held[i], err = manager.Acquire(t.Context(), fmt.Sprint("loss/", i))
		require.NoError(t, err)
		lost[i] = make(chan time.Time, 1)
		go func() {
			<-held[i].Done()
			lost[i] <- time.Now()
		}()
	}
	<-time.After(ttl) // the leases are renewed meanwhile
	require.True(t, slices.ContainsFunc(held, func(lease *leasing.Lease) bool { return lease.Err() == nil }))
	repair := fault()
	var all sync.WaitGroup
	for i := range leases {
		all.Go(func() {
			req := abstractions.AcquireRequest{Name: held[i].Name(), ID: abstractions.NewID(), Owner: "next", TTL: time.Minute}
			for t.Context().Err() == nil {
				ctx, cancel := context.WithTimeout(t.Context(), ttl)
				grant, err := next.Acquire(ctx, req)
				cancel()
				if err == nil {
					now := time.Now()
					if noticed := <-lost[i]; noticed.After(now) {
						t.Errorf("lease %d: its holder noticed the loss %v after another had the name", i, noticed.Sub(now))
					}
					if grant.Token <= held[i].Token() {
						t.Errorf("lease %d: token %d after %d", i, grant.Token, held[i].Token())
					}
					return
				}
				<-time.After(20 * time.Millisecond)
			}
		})
	}
	<-time.After(2 * ttl)
	repair()
	all.Wait()
}
