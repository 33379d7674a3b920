package etcdlease

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/cas"
	"github.com/distributedleasing/leasing/abstractions/servertest"
)

// openFresh returns a provider on the test's server, under a new prefix.
func openFresh(t testing.TB) (*Provider, *store) {
	t.Helper()
	p := open(t, Options{URL: serverURL(t), Prefix: abstractions.NewID()})
	return p, p.driver.store
}

func (s *store) lookUp(t testing.TB, name string) (cas.Item, *keyState) {
	t.Helper()
	item, err := s.Get(t.Context(), s.key(name))
	require.NoError(t, err)
	return item, item.State.(*keyState)
}

// renew prolongs any lease, and checks a name's claim.
func (s *store) renew(t testing.TB, name string, lease clientv3.LeaseID) error {
	ctx, cancel := context.WithTimeout(t.Context(), servertest.Timeout)
	defer cancel()
	_, v := s.lookUp(t, name)
	claim := s.claimKey(s.key(name))
	p := &renewal{lease: lease, conditions: unchangedSince(claim, v.claim, v.holder)}
	require.NoError(t, s.keeper.calls.Do(ctx, p))
	return p.Err()
}

func lostFor(t testing.TB, err error) abstractions.LostReason {
	t.Helper()
	var lost *abstractions.LostError
	require.ErrorAs(t, err, &lost)
	return lost.Reason
}

// A claim whose key or record was deleted by hand is lost, although etcd still prolongs its
// lease. As long as the claim's key exists, no other claim gets the name.
func TestKeysThatWereDeletedByHand(t *testing.T) {
	p, s := openFresh(t)
	g := acquire(t, p, "claim", "a", time.Minute)
	_, err := s.client.Delete(t.Context(), s.claimKey(s.key("claim")))
	require.NoError(t, err)
	_, err = p.Renew(t.Context(), renewRequest(g))
	require.Equal(t, abstractions.LostExpired, lostFor(t, err))
	require.Greater(t, acquire(t, p, "claim", "b", time.Minute).Token, g.Token)

	g = acquire(t, p, "record", "a", 2*time.Second)
	_, err = s.client.Delete(t.Context(), s.key("record"))
	require.NoError(t, err)
	_, err = p.Acquire(t.Context(), acquireRequest("record", "b", time.Minute))
	require.ErrorIs(t, err, abstractions.ErrHeld)
	record, err := p.Inspect(t.Context(), abstractions.InspectRequest{Name: "record"})
	require.NoError(t, err)
	require.True(t, record.Unconfirmed)
	_, err = p.Renew(t.Context(), renewRequest(g))
	require.Equal(t, abstractions.LostGone, lostFor(t, err))
	require.Greater(t, obtain(t, p, "record", "b", time.Minute).Token, g.Token)
}

// T14: no delayed copy of an earlier request prolongs or ends a later claim.
func TestTrap_T14_DelayedRequestsMeetALeaseOfBefore(t *testing.T) {
	p, s := openFresh(t)
	g := acquire(t, p, "n", "a", time.Minute)
	_, before := s.lookUp(t, "n")
	for _, ttl := range []time.Duration{2 * time.Minute, time.Minute} {
		req := renewRequest(g)
		req.TTL = ttl
		var err error
		g, err = p.Renew(t.Context(), req)
		require.NoError(t, err)
	}
	_, after := s.lookUp(t, "n")
	require.NotEqual(t, before.lease, after.lease)
	_, err := s.client.Revoke(t.Context(), before.lease)
	require.True(t, err == nil || errors.Is(err, rpctypes.ErrLeaseNotFound), "%v", err)
	_, err = p.Renew(t.Context(), renewRequest(g))
	require.NoError(t, err)

	_, err = p.Break(t.Context(), abstractions.BreakRequest{Name: "n"})
	require.NoError(t, err)
	_, broken := s.lookUp(t, "n")
	require.Equal(t, after.lease, broken.lease)
	_, err = p.Renew(t.Context(), renewRequest(g))
	require.Equal(t, abstractions.LostBroken, lostFor(t, err))
}

// T90: a break does not end a lease before the renewals that are granted during the break. The break can't rely on the lease's
// remaining time: the answer may be older than the renewals, or come from a leader that was stopped while another was elected.
func TestTrap_T90_ABreakMeetsRenewals(t *testing.T) {
	const ttl = 6 * time.Second
	p, s := openFresh(t)
	var until time.Time
	var calls int
	g := acquire(t, p, "n", "a", ttl)
	meanwhile := func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if calls++; calls > 1 && !strings.HasSuffix(method, "/LeaseTimeToLive") { // the break has read the record, but not the lease's remaining time
			sent := time.Now()
			if _, err := p.Renew(ctx, renewRequest(g)); err == nil {
				until = sent.Add(ttl)
			}
		}
		return invoke(ctx, method, req, reply, conn, opts...)
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: s.client.Endpoints(), DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(meanwhile)}})
	require.NoError(t, err)
	defer client.Close()
	breaker := open(t, Options{Client: client, Prefix: strings.TrimSuffix(s.prefix, "/")})
	<-time.After(ttl / 2)
	calls = 0 // don't count the calls that Open made
	_, err = breaker.Break(t.Context(), abstractions.BreakRequest{Name: "n"})
	require.NoError(t, err)
	obtain(t, p, "n", "b", ttl)
	require.False(t, until.IsZero() || time.Now().Before(until), "the name was free while its holder had trust in a renewal")
}

// A break whose read is outdated is refused, and does not change the holder's lease.
func TestABreakThatMeetsAChange(t *testing.T) {
	p, s := openFresh(t)
	req := renewRequest(acquire(t, p, "n", "a", time.Minute))
	read, _ := s.lookUp(t, "n")
	req.Metadata = map[string]string{"k": "v"}
	g, err := p.Renew(t.Context(), req)
	require.NoError(t, err)
	_, err = s.Put(t.Context(), read, &providerkit.Record{Name: "n", ID: "a", TTL: time.Minute, Left: time.Minute, Breaking: true}, []byte("{}"))
	require.ErrorIs(t, err, cas.ErrConflict)
	s.revoking.Wait()
	_, err = p.Renew(t.Context(), renewRequest(g))
	require.NoError(t, err)
}

// The etcd lease of a released claim is prolonged and reused for the process's next claim, if that claim has the
// same TTL.
func TestLeasesAreUsedAgain(t *testing.T) {
	p, s := openFresh(t)
	left := func(lease clientv3.LeaseID) int64 {
		answer, err := s.client.TimeToLive(t.Context(), lease)
		require.NoError(t, err)
		return answer.TTL
	}
	first := acquire(t, p, "n", "a", time.Minute)
	_, before := s.lookUp(t, "n")
	<-time.After(3 * time.Second)
	old := left(before.lease)
	require.NoError(t, p.Release(t.Context(), releaseRequest(first)))
	second := acquire(t, p, "m", "b", time.Minute)
	_, after := s.lookUp(t, "m")
	require.Equal(t, before.lease, after.lease)
	require.Greater(t, left(after.lease), old)
	_, err := p.Renew(t.Context(), renewRequest(first)) // a delayed copy
	require.ErrorIs(t, err, abstractions.ErrLost)
	require.NoError(t, p.Release(t.Context(), releaseRequest(first)))
	_, err = p.Renew(t.Context(), renewRequest(second))
	require.NoError(t, err)

	require.NoError(t, p.Release(t.Context(), releaseRequest(second)))
	third := acquire(t, p, "n", "c", 2*time.Minute)
	_, longer := s.lookUp(t, "n")
	require.NotEqual(t, before.lease, longer.lease)
	require.Greater(t, left(longer.lease), int64(60))

	require.NoError(t, p.Release(t.Context(), releaseRequest(third)))
	_, err = s.client.Revoke(t.Context(), longer.lease)
	require.NoError(t, err)
	fourth := acquire(t, p, "n", "d", 2*time.Minute)
	_, err = p.Renew(t.Context(), renewRequest(fourth))
	require.NoError(t, err)
	fourth.State = nil // the time of the prolongation is unknown
	require.NoError(t, p.Release(t.Context(), releaseRequest(fourth)))
	require.Empty(t, s.freeLeases)
}

// T28: a request that has found no record is refused if a record has since been
// created and forgotten, however late the request arrives.
func TestTrap_T28_ForgettingRefusesWhoHasSeenNothing(t *testing.T) {
	p, s := openFresh(t)
	unseen, _ := s.lookUp(t, "n")
	g := acquire(t, p, "n", "a", time.Minute)
	require.NoError(t, p.Release(t.Context(), releaseRequest(g)))
	item, _ := s.lookUp(t, "n")
	require.NoError(t, s.Delete(t.Context(), item))
	_, err := s.Put(t.Context(), unseen, &providerkit.Record{Name: "n"}, []byte("{}"))
	require.ErrorIs(t, err, cas.ErrConflict)
	_, v := s.lookUp(t, "n")
	require.Equal(t, g.Token, v.floor)
	require.Greater(t, acquire(t, p, "n", "b", time.Minute).Token, g.Token)
	held, _ := s.lookUp(t, "n")
	require.ErrorIs(t, s.Delete(t.Context(), held), cas.ErrConflict, "somebody holds it")
}

// T54: tokens rise even if a cluster starts again without its data. Its revisions are low
// again, but tokens follow the clock.
func TestTrap_T54_AClusterWithoutItsData(t *testing.T) {
	t.Parallel()
	before := acquire(t, newCluster(t, 1).open(), "n", "a", time.Minute)
	after := acquire(t, newCluster(t, 1).open(), "n", "b", time.Minute)
	require.Greater(t, after.Token, before.Token)
}

// T54: tokens rise even if a snapshot is restored, which sets the revisions back.
func TestTrap_T54_ASnapshotIsRestored(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	p := c.open()
	first := acquire(t, p, "n", "a", time.Minute)
	path, before := c.snapshot(), c.revision()

	require.NoError(t, p.Release(t.Context(), releaseRequest(first)))
	second, other := acquire(t, p, "n", "b", time.Minute), acquire(t, p, "other", "c", time.Minute)
	c.restore(path)
	require.Equal(t, before, c.revision())

	next := c.open()
	_, err := next.Renew(t.Context(), renewRequest(second))
	require.ErrorIs(t, err, abstractions.ErrLost)
	_, err = next.Acquire(t.Context(), acquireRequest("n", "d", time.Minute))
	require.ErrorIs(t, err, abstractions.ErrHeld, "by the one of the snapshot")
	_, err = next.Break(t.Context(), abstractions.BreakRequest{Name: "n", Immediate: true})
	require.NoError(t, err)
	require.Greater(t, acquire(t, next, "n", "d", time.Minute).Token, second.Token)
	require.Greater(t, acquire(t, next, "other", "d", time.Minute).Token, other.Token)
}

// T125: a cluster that starts over assigns the revisions of the lost claims to other claims. A request for a lost claim does
// not affect the new claim, and a renewal reports the loss.
func TestTrap_T125_RevisionsBeginAgain(t *testing.T) {
	t.Parallel()
	for name, variant := range map[string]struct {
		ttl              time.Duration
		freeLeases, anew bool
	}{
		"an etcd lease that the snapshot has": {ttl: time.Minute, freeLeases: true},
		"leases that never end":               {ttl: abstractions.Infinite},
		"new members without data":            {ttl: abstractions.Infinite, anew: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 1)
			p := c.open()
			names := []string{"renewed", "changed", "released"}
			if variant.freeLeases {
				var before []abstractions.Grant
				for _, name := range names {
					before = append(before, acquire(t, p, "before/"+name, "x", variant.ttl))
				}
				for _, g := range before {
					require.NoError(t, p.Release(t.Context(), releaseRequest(g)))
				}
			}
			again := func() { c.restart("-anew") }
			if !variant.anew {
				path := c.snapshot()
				again = func() { c.restore(path) }
			}
			take := func(p *Provider, id string) (grants map[string]abstractions.Grant, revisions []int64) {
				grants = map[string]abstractions.Grant{}
				for _, name := range names {
					grants[name] = acquire(t, p, name, id, variant.ttl)
					_, v := p.driver.store.lookUp(t, name)
					revisions = append(revisions, v.record, v.claim)
				}
				return grants, revisions
			}
			lost, before := take(p, "a")
			again()
			next := c.open()
			present, after := take(next, "b")
			require.Equal(t, before, after, "revisions")

			changed := renewRequest(lost["changed"])
			changed.Metadata = map[string]string{"k": "v"}
			for _, req := range []abstractions.RenewRequest{renewRequest(lost["renewed"]), changed} {
				servertest.Eventually(t, "the loss is reported", func(ctx context.Context) error { // the first errors may come from lost connections
					_, err := p.Renew(ctx, req)
					require.Error(t, err)
					if errors.Is(err, abstractions.ErrLost) {
						return nil
					}
					return err
				})
			}
			require.NoError(t, p.Release(t.Context(), releaseRequest(lost["released"])))
			for name, g := range present {
				record, err := next.Inspect(t.Context(), abstractions.InspectRequest{Name: name})
				require.NoError(t, err)
				require.Equal(t, g.Token, record.Token)
				require.Empty(t, record.Metadata)
				_, err = next.Renew(t.Context(), renewRequest(g))
				require.NoError(t, err)
			}
		})
	}
}

// A batch uses several streams and transactions, and each claim gets its own result.
func TestABatchReturnsEachClaimsResult(t *testing.T) {
	p, s := openFresh(t)
	reqs := make([]abstractions.RenewRequest, 300)
	var all sync.WaitGroup
	for i := range reqs {
		ttl := time.Minute
		if i == 9 {
			ttl = abstractions.Infinite
		}
		all.Go(func() {
			g, err := p.Acquire(t.Context(), acquireRequest(fmt.Sprint(i), abstractions.NewID(), ttl))
			if err != nil {
				t.Error(err)
			}
			reqs[i] = renewRequest(g)
		})
	}
	all.Wait()
	lost := map[int]func(name string){
		7:   func(name string) { _, _ = s.client.Delete(t.Context(), s.claimKey(s.key(name))) },
		8:   func(name string) { _, _ = s.client.Delete(t.Context(), s.key(name)) },
		150: func(name string) { _, v := s.lookUp(t, name); _, _ = s.client.Revoke(t.Context(), v.lease) },
		299: func(name string) {
			_, _ = p.Break(t.Context(), abstractions.BreakRequest{Name: name, Immediate: true})
		},
	}
	for i, lose := range lost {
		lose(fmt.Sprint(i))
	}
	for range 2 {
		results, err := p.RenewBatch(t.Context(), reqs)
		require.NoError(t, err)
		for i, result := range results {
			if lost[i] != nil {
				require.ErrorIs(t, result.Err, abstractions.ErrLost, i)
			} else {
				require.NoError(t, result.Err, i)
				require.Equal(t, reqs[i].Token, result.Grant.Token)
			}
		}
	}
	require.NotEmpty(t, s.keeper.idle, "streams stay open")
}

// If a member, even the leader, hangs or is gone, some calls fail, but no lease is lost.
func TestLeasesOutliveAMember(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	p := c.open()
	g := acquire(t, p, "n", "a", 30*time.Second)
	renewed := func(ctx context.Context) (err error) {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		_, err = p.Renew(ctx, renewRequest(g))
		require.NotErrorIs(t, err, abstractions.ErrLost)
		return err
	}
	first := c.leader()
	c.members[first].Pause()
	servertest.Eventually(t, "renewed without the leader", renewed)
	c.members[first].Resume()
	c.members[first].Kill()
	servertest.Eventually(t, "renewed without a member", renewed)
	c.members[first].Restart()
	servertest.Eventually(t, "renewed with the member back", renewed)
	c.moveLeader()
	servertest.Eventually(t, "renewed at another leader", renewed)
}

// Waiters get wake-ups for a release and for an expiry, even after a compaction and a new leader.
func TestWakeupsAfterACompactionAndANewLeader(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	p := c.open()
	for i, end := range []func(g abstractions.Grant){
		func(g abstractions.Grant) { require.NoError(t, p.Release(t.Context(), releaseRequest(g))) },
		func(abstractions.Grant) {}, // the lease runs out
	} {
		g := acquire(t, p, "n", string(rune('a'+i)), 2*time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		w, err := p.Wait(ctx, abstractions.WaitRequest{Name: "n", ID: "w"})
		require.NoError(t, err)
		now, err := c.client.Get(t.Context(), "x")
		require.NoError(t, err)
		_, err = c.client.Compact(t.Context(), now.Header.Revision)
		require.NoError(t, err)
		c.moveLeader()
		servertest.Eventually(t, "the new leader answers", c.answers)
		end(g)
		select {
		case <-w.C:
		case <-time.After(servertest.Timeout):
			t.Fatal("no wake-up")
		}
		cancel()
		obtain(t, p, "n", string(rune('c'+i)), time.Minute)
		_, err = p.Break(t.Context(), abstractions.BreakRequest{Name: "n", Immediate: true})
		require.NoError(t, err)
	}
}

// When etcd has run out of space, no claim gets a name, and holders keep their names.
func TestNoSpace(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	p := c.open()
	g := acquire(t, p, "n", "a", 5*time.Second)
	c.raise(pb.AlarmType_NOSPACE)
	_, err := p.Acquire(t.Context(), acquireRequest("other", "b", time.Minute))
	require.ErrorIs(t, err, abstractions.ErrThrottled)
	require.ErrorContains(t, err, "alarm disarm")
	_, err = p.Renew(t.Context(), renewRequest(g))
	require.NoError(t, err)
	require.ErrorIs(t, p.Release(t.Context(), releaseRequest(g)), abstractions.ErrThrottled)
	_, err = c.client.AlarmDisarm(t.Context(), &clientv3.AlarmMember{})
	require.NoError(t, err)
	obtain(t, p, "n", "c", time.Minute)
}

// enableAuth enables authentication for the users root and app, which may use the keys under p/.
func (c *cluster) enableAuth() {
	c.t.Helper()
	t, ctx := c.t, c.t.Context()
	_, err := c.client.RoleAdd(ctx, "leases")
	require.NoError(t, err)
	_, err = c.client.RoleGrantPermission(ctx, "leases", "p/", clientv3.GetPrefixRangeEnd("p/"), clientv3.PermissionType(clientv3.PermReadWrite))
	require.NoError(t, err)
	for user, role := range map[string]string{"root": "root", "app": "leases"} {
		_, err = c.client.UserAdd(ctx, user, "secret/@"+user)
		require.NoError(t, err)
		_, err = c.client.UserGrantRole(ctx, user, role)
		require.NoError(t, err)
	}
	_, err = c.client.AuthEnable(ctx)
	require.NoError(t, err)
}

// A user needs a role with readwrite on the prefix, and nothing else.
func TestUsers(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	ctx := t.Context()
	c.enableAuth()
	at := "etcd://app:secret%2F%40app@" + c.addrs[0]
	p := open(t, Options{URL: at + "/p"})
	g := acquire(t, p, "n", "a", 2*time.Second)
	g, err := p.Renew(ctx, renewRequest(g))
	require.NoError(t, err)
	_, err = p.Wait(ctx, abstractions.WaitRequest{Name: "n", ID: "w"})
	require.NoError(t, err)
	_, err = p.List(ctx, abstractions.ListRequest{})
	require.NoError(t, err)
	_, err = p.Break(ctx, abstractions.BreakRequest{Name: "n"})
	require.NoError(t, err)
	require.NoError(t, p.Release(ctx, releaseRequest(g)))
	_, err = p.Sweep(ctx)
	require.NoError(t, err)

	for _, url := range []string{at + "/other", "etcd://app:wrong@" + c.addrs[0] + "/p", "etcd://" + c.addrs[0] + "/p"} {
		_, err = OpenURL(ctx, url)
		require.ErrorIs(t, err, abstractions.ErrDenied, url)
		require.NotContains(t, err.Error(), "secret")
	}
}

// The client uses certificates from files.
func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certificate, err := servertest.NewCertificate(dir)
	require.NoError(t, err)
	pair, err := tls.LoadX509KeyPair(certificate.Cert, certificate.Key)
	require.NoError(t, err)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAnyClientCert, NextProtos: []string{"h2"},
	})
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	var o Options
	o.URL = serverURL(t)
	require.NoError(t, o.complete())
	go func() {
		for {
			outer, err := listener.Accept()
			if err != nil {
				return
			}
			inner, err := net.Dial("tcp", o.Endpoints[0])
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(inner, outer); inner.Close() }()
			go func() { _, _ = io.Copy(outer, inner); outer.Close() }()
		}
	}()
	url := "etcd://" + listener.Addr().String() + "/" + abstractions.NewID()
	p, err := OpenURL(t.Context(), url+"?ca_file="+certificate.Cert+"&cert_file="+certificate.Cert+"&key_file="+certificate.Key)
	require.NoError(t, err)
	acquire(t, p, "n", "a", time.Minute)
	require.NoError(t, p.Close())
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_, err = OpenURL(ctx, url+"?tls=true") // the system does not trust the certificate
	require.ErrorIs(t, err, abstractions.ErrUnavailable)
}

// T92: a member that was stopped while another was elected answers a KeepAlive at once when it resumes, and no other member has seen
// the request. So a prolongation does not count if the read of the claim is in a later term.
func TestTrap_T92_ARenewalOfAFormerLeader(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	var moving atomic.Bool
	var renewals atomic.Int32
	move := func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if request, ok := req.(*pb.TxnRequest); ok && len(request.Compare) > 0 && moving.Swap(false) {
			c.moveLeader()
			servertest.Eventually(t, "the new leader answers", c.answers)
		}
		return invoke(ctx, method, req, reply, conn, opts...)
	}
	count := func(ctx context.Context, about *grpc.StreamDesc, conn *grpc.ClientConn, method string, stream grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		s, err := stream(ctx, about, conn, method, opts...)
		return countedStream{s, &renewals}, err
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: c.addrs, Logger: zap.NewNop(), DialOptions: []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(move), grpc.WithChainStreamInterceptor(count),
	}})
	require.NoError(t, err)
	defer client.Close()
	p := open(t, Options{Client: client, Prefix: "p", Timeout: servertest.Timeout})
	g := acquire(t, p, "n", "a", time.Minute)
	moving.Store(true)
	_, err = p.Renew(t.Context(), renewRequest(g))
	require.ErrorIs(t, err, abstractions.ErrUnavailable)
	servertest.Eventually(t, "it is renewed", func(ctx context.Context) error {
		g, err := p.Renew(ctx, renewRequest(g))
		if err == nil {
			err = p.Release(ctx, releaseRequest(g))
		}
		return err
	})
	require.Len(t, p.driver.store.freeLeases, 1)
	moving.Store(true)
	renewals.Store(0)
	acquire(t, p, "n", "b", time.Minute)
	require.Equal(t, int32(2), renewals.Load(), "the lease that was left is prolonged once more")
}

type countedStream struct {
	grpc.ClientStream
	sent *atomic.Int32
}

func (c countedStream) SendMsg(m any) error {
	if _, is := m.(*pb.LeaseKeepAliveRequest); is {
		c.sent.Add(1)
	}
	return c.ClientStream.SendMsg(m)
}

// T01: each renewal gets the result of its own lease.
func TestTrap_T01_AnAnswerIsThatToItsOwnRequest(t *testing.T) {
	p, s := openFresh(t)
	acquire(t, p, "n", "a", time.Minute)
	_, v := s.lookUp(t, "n")
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			if err := s.renew(t, "n", v.lease); err != nil {
				t.Errorf("a lease that is there: %v", err)
			}
		})
		all.Go(func() {
			if err := s.renew(t, "n", v.lease+1); !errors.Is(err, cas.ErrConflict) {
				t.Errorf("a lease that is not there: %v", err)
			}
		})
	}
	all.Wait()
}
