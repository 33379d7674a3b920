// Package kubernetes_test tests leases alongside candidates of client-go's leaderelection.
package kubernetes_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/servertest"
	kuberneteslease "github.com/distributedleasing/leasing/providers/kubernetes"
)

const (
	ttl    = 5 * time.Second
	atMost = 4 * time.Minute // on a very slow machine
)

// The settings of client-go, shorter than its defaults.
var retryPeriod, renewDeadline = 500 * time.Millisecond, 3 * time.Second

// serverConfig returns the URL of a server, and the same address as client-go's configuration.
func serverConfig(t testing.TB) (string, *rest.Config) {
	t.Helper()
	text := servertest.Require(t, "LEASING_TEST_KUBERNETES")
	u, err := url.Parse(text)
	require.NoError(t, err)
	token, _ := u.User.Password()
	return text, &rest.Config{
		Host: "https://" + u.Host, BearerToken: token, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAFile: u.Query().Get("ca_file")},
	}
}

func open(t testing.TB, url string) *kuberneteslease.Provider {
	t.Helper()
	p, err := kuberneteslease.OpenURL(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// candidate returns a function that runs a candidate of client-go for one term. Unless polite is
// set, the candidate does not free the name at the end.
func candidate(t testing.TB, config *rest.Config, name, identity string, polite bool, lead func(context.Context)) func(context.Context) {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	return func(ctx context.Context) {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		led := make(chan struct{})
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: &resourcelock.LeaseLock{
				LeaseMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Client: client.CoordinationV1(),
				LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
			},
			LeaseDuration: ttl, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod, ReleaseOnCancel: polite,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(ctx context.Context) {
					defer close(led)
					defer stop()
					lead(ctx)
				},
				OnStoppedLeading: func() {},
			},
		})
		if err != nil {
			t.Error(err)
			return
		}
		elector.Run(ctx)
		select {
		case <-led:
		case <-ctx.Done():
		}
	}
}

// exclusionCheck checks that there is only one leader at a time.
type exclusionCheck struct {
	t     *testing.T
	lock  sync.Mutex
	who   string
	terms map[string]int
	token int64
}

func (r *exclusionCheck) enter(who, how string, token int64) {
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.who != "" {
		r.t.Errorf("%s comes in while %s is inside", who, r.who)
	}
	if token != 0 && token <= r.token {
		r.t.Errorf("token %d after %d", token, r.token)
	}
	r.who, r.token = who, max(r.token, token)
	r.terms[how]++
}

func (r *exclusionCheck) leave(who string) {
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.who == who {
		r.who = ""
	}
}

func (r *exclusionCheck) enough() bool {
	r.lock.Lock()
	defer r.lock.Unlock()
	for _, how := range termKinds {
		if r.terms["client-go "+how] == 0 || r.terms["ours "+how] == 0 {
			return false
		}
	}
	return true
}

// termKinds are the kinds of terms: released soon, renewed for longer than the TTL, and ended by
// the holder's death, without a release.
var termKinds = []string{"short", "long", "dead"}

func last(ctx context.Context, how string) {
	d := map[string]time.Duration{"short": 300 * time.Millisecond, "long": ttl + 2*time.Second, "dead": time.Second}[how]
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// Candidates of client-go and leases exclude each other, both ways, whether the previous
// holder released the name or died.
func TestCandidatesAndLeasesExcludeEachOther(t *testing.T) {
	text, config := serverConfig(t)
	name := "shared-" + abstractions.NewID()
	r := &exclusionCheck{t: t, terms: map[string]int{}}
	ctx, cancel := context.WithTimeout(t.Context(), atMost)
	defer cancel()
	var all sync.WaitGroup
	var turn atomic.Int64
	next := func() (how string, n int64) {
		n = turn.Add(1)
		return termKinds[n%3], n
	}
	for range 2 {
		all.Go(func() {
			for ctx.Err() == nil && !r.enough() {
				how, n := next()
				who := fmt.Sprint("client-go-", n)
				candidate(t, config, name, who, how != "dead", func(ctx context.Context) {
					r.enter(who, "client-go "+how, 0)
					last(ctx, how)
					if how != "dead" {
						r.leave(who)
					}
				})(ctx)
				if how == "dead" { // it may lead until its RenewDeadline
					<-time.After(3 * time.Second)
				}
				r.leave(who)
			}
		})
		p := open(t, text)
		all.Go(func() {
			for ctx.Err() == nil && !r.enough() {
				how, n := next()
				holdTerm(ctx, t, p, r, name, how, fmt.Sprint("ours-", n))
			}
		})
	}
	all.Wait()
	t.Log(r.terms)
	require.True(t, r.enough(), "each had its terms")
}

// holdTerm waits for the name and has one term.
func holdTerm(ctx context.Context, t *testing.T, p leasing.Provider, r *exclusionCheck, name, how, who string) {
	req := abstractions.AcquireRequest{Name: name, ID: abstractions.NewID(), Owner: who, TTL: ttl}
	sent := time.Now()
	g, err := p.Acquire(ctx, req)
	for ; errors.Is(err, leasing.ErrHeld) && !r.enough(); g, err = p.Acquire(ctx, req) {
		<-time.After(400 * time.Millisecond) // polls as often as the others
		sent = time.Now()
	}
	if err != nil {
		if ctx.Err() == nil && !errors.Is(err, leasing.ErrHeld) {
			t.Error(err)
		}
		return
	}
	r.enter(who, "ours "+how, g.Token)
	defer r.leave(who)
	if how == "dead" { // works for as long as it may trust its lease, and does not release it
		<-time.After(time.Until(sent.Add(ttl - 500*time.Millisecond)))
		return
	}
	until := time.Now().Add(300 * time.Millisecond)
	if how == "long" {
		until = until.Add(ttl + 2*time.Second)
	}
	for time.Now().Before(until) {
		<-time.After(300 * time.Millisecond) // renews more often than client-go polls
		if g, err = p.Renew(ctx, abstractions.RenewRequest{Name: name, ID: g.ID, Token: g.Token, TTL: ttl, State: g.State}); err != nil {
			t.Errorf("%s: %v", who, err)
			return
		}
	}
	r.leave(who)
	if err = p.Release(ctx, abstractions.ReleaseRequest{Name: name, ID: g.ID, Token: g.Token, State: g.State}); err != nil {
		t.Error(err)
	}
}

// A deployment migrates pod by pod: there is never more than one leader, and again a leader soon after each step.
func TestADeploymentMigratesPodByPod(t *testing.T) {
	text, config := serverConfig(t)
	name := "migrating-" + abstractions.NewID()
	r := &exclusionCheck{t: t, terms: map[string]int{}}
	leads := make(chan string, 100)
	var all sync.WaitGroup
	start := func(who string, run func(context.Context)) (stop func()) {
		ctx, cancel := context.WithTimeout(t.Context(), atMost)
		done := make(chan struct{})
		all.Go(func() {
			defer close(done)
			run(ctx)
		})
		return func() {
			cancel()
			<-done
		}
	}
	work := func(who string) func(context.Context) {
		return func(ctx context.Context) {
			r.enter(who, who, 0)
			leads <- who
			<-ctx.Done()
			r.leave(who)
		}
	}
	var stops []func()
	for i := range 3 {
		who := fmt.Sprint("old-", i)
		stops = append(stops, start(who, candidate(t, config, name, who, true, work(who))))
	}
	<-leads
	for i, stop := range stops {
		who := fmt.Sprint("new-", i)
		m, err := leasing.NewManager(open(t, text), leasing.Options{TTL: ttl})
		require.NoError(t, err)
		stops[i] = start(who, func(ctx context.Context) {
			_ = m.Do(ctx, name, func(ctx context.Context, _ *leasing.Lease) error { work(who)(ctx); return nil })
			_ = m.Close(context.WithoutCancel(ctx))
		})
		stop()
	}
	for leader := ""; len(leader) < 3 || leader[:3] != "new"; {
		select {
		case leader = <-leads:
		case <-time.After(time.Minute):
			t.Fatal("nobody leads")
		}
	}
	for _, stop := range stops {
		stop()
	}
	all.Wait()
	t.Log(r.terms)
}
