package faulttest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/servertest"
)

// SwitchOver makes clients reach a server through an endpoint whose target can move, and checks them after faults
// that leave servers running and connections open: the second attempt after the fault succeeds, and leases whose
// trust outlasts the fault are kept.
type SwitchOver struct {
	// Server is the first target of the endpoint, an address.
	Server string
	// Clients open providers that reach the server at the address of the endpoint. The keys name the kinds of
	// clients. The clients share the server, not necessarily the leases.
	Clients map[string]func(t testing.TB, endpoint string) abstractions.Provider
}

const (
	switchTTL     = 15 * time.Second // its trust outlasts the faults
	switchCadence = time.Second      // of renewals, some of which fall into the fault
	switchLeases  = 8                // held during the fault
	switchBound   = 10 * time.Second // of a request: the default of leasing.Options
	switchBurst   = 4                // attempts at a time, so that there are several connections
)

// Endures checks the clients during and after a fault. fault returns when the fault is over. move directs new connections to
// another server, while open connections keep their server. Attempts and renewals use separate clients, so that neither
// replaces the connections of the other.
func (s SwitchOver) Endures(t *testing.T, fault func(move func(addr string))) {
	t.Helper()
	endpoint := newRelay(t, s.Server)
	busy := s.open(t, endpoint.addr, leasing.Options{})
	quiet := s.open(t, endpoint.addr, leasing.Options{TTL: switchTTL, RenewCadence: switchCadence})
	defer endpoint.close() // before the clients close, since their last messages may get no answer
	for i, c := range busy {
		c.openConnections(t)
		quiet[i].hold(t, switchLeases)
	}
	over, tries := make(chan struct{}), sync.WaitGroup{}
	for _, c := range busy {
		tries.Go(func() { c.attemptUntil(over) })
	}
	began := time.Now()
	fault(endpoint.move)
	close(over)
	tries.Wait()
	lasted := time.Since(began)
	for i, c := range busy {
		quiet[i].countRenewals()
		t.Run(c.kind, func(t *testing.T) {
			t.Logf("a fault of %v: %v", lasted.Round(time.Millisecond), &c.during)
			c.checkAttempts(t, "after the fault", 1)
			c.checkAttempts(t, "several after the fault", switchBurst)
			quiet[i].checkLeases(t)
		})
	}
}

// EnduresLostPath checks the clients behind a gateway that forgets a connection after 3 s of silence and notifies neither end.
// A TryDo every 4 s succeeds by the second attempt, and within 1.5 times the time limit of one request. A release at the same
// time succeeds within that limit. A lease whose renewals are the only requests of their client is kept.
func (s SwitchOver) EnduresLostPath(t *testing.T) {
	t.Helper()
	endpoint := newRelay(t, s.Server)
	const silence, pause, rounds = 3 * time.Second, 4 * time.Second, 4
	busy := s.open(t, endpoint.addr, leasing.Options{TTL: 30 * time.Second})
	quiet := s.open(t, endpoint.addr, leasing.Options{TTL: switchTTL, RenewCadence: pause})
	defer endpoint.close()
	for i, c := range busy {
		c.hold(t, rounds)
		c.openConnections(t)
		quiet[i].hold(t, 1)
	}
	endpoint.forgetAfter.Store(int64(silence))
	var all sync.WaitGroup
	for _, c := range busy {
		all.Go(func() {
			for round := range rounds {
				<-time.After(pause)
				released := make(chan error)
				go func() { released <- c.release(t.Context(), round) }()
				c.checkAttempts(c.labeled(t), fmt.Sprint("round ", round), switchBurst)
				assert.NoError(c.labeled(t), <-released)
			}
		})
	}
	all.Wait()
	assert.Positive(t, endpoint.forgotten.Load(), "connections that were forgotten")
	for _, c := range quiet {
		c.countRenewals()
		t.Run(c.kind, c.checkLeases)
	}
}

// open opens a manager over each kind of client.
func (s SwitchOver) open(t *testing.T, endpoint string, o leasing.Options) (clients []*switchClient) {
	t.Helper()
	for _, kind := range slices.Sorted(maps.Keys(s.Clients)) {
		p := s.Clients[kind](t, endpoint)
		m, err := leasing.NewManager(p, o)
		require.NoError(t, err)
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 100*time.Millisecond)
			defer cancel()
			_ = m.Close(ctx) // its leases are still held
		})
		clients = append(clients, &switchClient{kind: kind, m: m})
	}
	return clients
}

// switchClient is a client in a switch-over.
type switchClient struct {
	kind     string
	m        *leasing.Manager
	held     []*leasing.Lease
	renewals []int // of each held lease, by countRenewals
	attempts atomic.Int64
	during   tally
}

// tally counts attempts.
type tally struct {
	worked, failed int
	last           error
}

func (a *tally) String() string {
	return fmt.Sprintf("%d attempts succeeded, %d failed, the last with: %v", a.worked, a.failed, a.last)
}

func (c *switchClient) hold(t *testing.T, n int) {
	t.Helper()
	for range n {
		lease, err := c.m.Acquire(t.Context(), fmt.Sprintf("switch/%s/held/%s", c.kind, abstractions.NewID()))
		require.NoError(t, err)
		c.held = append(c.held, lease)
	}
}

// openConnections makes several attempts at the same time, so that the client opens several connections.
func (c *switchClient) openConnections(t *testing.T) {
	t.Helper()
	errs := make([]error, switchBurst)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { errs[i] = c.attempt(t.Context()) })
	}
	all.Wait()
	require.NoError(t, errors.Join(errs...))
}

// attempt acquires and releases a free name.
func (c *switchClient) attempt(ctx context.Context) error {
	name := fmt.Sprintf("switch/%s/%d", c.kind, c.attempts.Add(1))
	return c.m.TryDo(ctx, name, func(context.Context, *leasing.Lease) error { return nil })
}

// attemptUntil makes an attempt every 250 ms until over is closed.
func (c *switchClient) attemptUntil(over <-chan struct{}) {
	every := time.NewTicker(250 * time.Millisecond)
	defer every.Stop()
	for {
		if err := c.attempt(context.Background()); err != nil {
			c.during.failed, c.during.last = c.during.failed+1, err
		} else {
			c.during.worked++
		}
		select {
		case <-every.C:
		case <-over:
			return
		}
	}
}

// checkAttempts makes each of several callers attempt once, and a second time if the first attempt failed.
func (c *switchClient) checkAttempts(t testing.TB, when string, callers int) {
	t.Helper()
	first, second := make([]error, callers), make([]error, callers)
	began := time.Now()
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			if first[i] = c.attempt(t.Context()); first[i] != nil {
				second[i] = c.attempt(t.Context())
			}
		})
	}
	all.Wait()
	took := time.Since(began).Round(time.Millisecond)
	if err := errors.Join(first...); err != nil {
		t.Logf("%s, the first attempt: %v", when, err)
	}
	assert.NoError(t, errors.Join(second...), "%s, the second attempt; both took %v", when, took)
	assert.Less(t, took, switchBound*3/2, "%s, the time of both attempts", when) // only one of the two requests may use up its time limit
}

// release releases a lease, within the bound of a request.
func (c *switchClient) release(ctx context.Context, i int) error {
	began := time.Now()
	err := c.held[i].Release(ctx)
	if took := time.Since(began); err == nil && took > switchBound {
		err = fmt.Errorf("the release of %s took %v", c.held[i].Name(), took)
	}
	return err
}

// countRenewals records how often each lease has been renewed so far.
func (c *switchClient) countRenewals() {
	c.renewals = nil
	for _, lease := range c.held {
		c.renewals = append(c.renewals, lease.Renewals())
	}
}

// checkLeases checks that the leases are renewed after countRenewals.
func (c *switchClient) checkLeases(t *testing.T) {
	t.Helper()
	for i, lease := range c.held {
		servertest.Eventually(t, "a renewal of "+lease.Name(), func(context.Context) error {
			if err := lease.Err(); err != nil {
				require.NoError(t, err, "a lease that was held before the fault")
			}
			if n := lease.Renewals() - c.renewals[i]; n < 2 { // the first renewal may have been sent before countRenewals
				return fmt.Errorf("%d", n)
			}
			return nil
		})
	}
}

// labeled returns a testing.TB whose messages name the kind of client.
func (c *switchClient) labeled(t testing.TB) testing.TB { return labeledTB{t, c.kind} }

type labeledTB struct {
	testing.TB
	kind string
}

func (r labeledTB) Errorf(format string, args ...any) {
	r.TB.Helper()
	r.TB.Errorf("%s: %s", r.kind, fmt.Sprintf(format, args...))
}

func (r labeledTB) Logf(format string, args ...any) {
	r.TB.Helper()
	r.TB.Logf("%s: %s", r.kind, fmt.Sprintf(format, args...))
}
