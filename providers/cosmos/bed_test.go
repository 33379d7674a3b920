package cosmoslease

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/cosmos/cosmostest"
	"github.com/stretchr/testify/require"
)

const (
	testKey       = "dGhlIGtleSBvZiB0aGUgYWNjb3VudCBpbiB0aGUgdGVzdHM="
	testDatabase  = "app"
	testContainer = "leases"
)

// bed is a provider, and an account behind a pipe, so that both can run in a bubble.
type bed struct {
	*Provider
	t       testing.TB
	account *cosmostest.Account
	pipe    *cosmostest.Pipe
}

// newBed opens a provider with the account's key. The functions in options change the
// provider's options.
func newBed(t testing.TB, account cosmostest.Options, options ...func(*Options)) *bed {
	t.Helper()
	account.Key = testKey
	b := &bed{t: t, account: cosmostest.New(account)}
	b.account.AddContainer(testDatabase, testContainer, "/id")
	b.pipe = cosmostest.NewPipe(b.account)
	t.Cleanup(func() { b.pipe.Close() })
	b.Provider = b.process(options...)
	return b
}

// process opens another provider, which stands for another process.
func (b *bed) process(options ...func(*Options)) *Provider {
	b.t.Helper()
	transport := b.pipe.Transport()
	o := Options{
		Endpoint: cosmostest.PipeURL, Key: testKey, Database: testDatabase, Container: testContainer,
		ClientOptions: clientOptions(&http.Client{Transport: transport}),
	}
	for _, change := range options {
		change(&o)
	}
	p := openTest(b.t, o)
	if p.driver.store.connection.wire.own == nil {
		p.driver.store.connection.wire.own = transport // so that Close of the provider closes the connections
	}
	return p
}

func clientOptions(transport policy.Transporter) azcosmos.ClientOptions {
	var o azcosmos.ClientOptions
	o.Transport = transport
	return o
}

func openTest(t testing.TB, o Options) *Provider {
	t.Helper()
	p, err := Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

func acquireRequest(name, id string, ttl time.Duration) abstractions.AcquireRequest {
	return abstractions.AcquireRequest{Name: name, ID: id, Owner: "owner of " + id, TTL: ttl}
}

func (b *bed) try(name, id string) (abstractions.Grant, error) {
	return b.Acquire(b.t.Context(), acquireRequest(name, id, time.Minute))
}

func (b *bed) acquire(name, id string) abstractions.Grant {
	b.t.Helper()
	g, err := b.try(name, id)
	require.NoError(b.t, err)
	return g
}

func renewRequest(g abstractions.Grant) abstractions.RenewRequest {
	return abstractions.RenewRequest{Name: g.Name, ID: g.ID, Token: g.Token, TTL: g.TTL, State: g.State}
}

func (b *bed) renew(g abstractions.Grant) (abstractions.Grant, error) {
	return b.Renew(b.t.Context(), renewRequest(g))
}

func releaseRequest(g abstractions.Grant) abstractions.ReleaseRequest {
	return abstractions.ReleaseRequest{Name: g.Name, ID: g.ID, Token: g.Token, State: g.State}
}

func (b *bed) release(g abstractions.Grant) {
	b.t.Helper()
	require.NoError(b.t, b.Release(b.t.Context(), releaseRequest(g)))
}

func (b *bed) inspect(name string) abstractions.Record {
	b.t.Helper()
	r, err := b.Inspect(b.t.Context(), abstractions.InspectRequest{Name: name})
	require.NoError(b.t, err)
	return r
}

// verbs returns the verbs of the account's requests since the last call.
func (b *bed) verbs() []cosmostest.Verb {
	var verbs []cosmostest.Verb
	for _, op := range b.account.Served() {
		verbs = append(verbs, op.Verb)
	}
	b.account.Record()
	return verbs
}

// inBubble runs a test in a bubble, with a bed of its own.
func inBubble(t *testing.T, test func(t *testing.T, b *bed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newBed(t, cosmostest.Options{})) })
}

// faultOn is a hook that applies a fault to the operations of a verb.
func faultOn(verb cosmostest.Verb, fault cosmostest.Fault) cosmostest.Hook {
	return func(op cosmostest.Operation) cosmostest.Fault {
		if op.Verb == verb {
			return fault
		}
		return cosmostest.Fault{}
	}
}

// loseReply drops the reply to a write, and fails the read that looks for the outcome of
// the write.
func (b *bed) loseReply(verb cosmostest.Verb, do func() error) {
	b.t.Helper()
	var spent atomic.Bool
	b.account.Before(func(op cosmostest.Operation) cosmostest.Fault {
		if op.Verb == verb && !spent.Swap(true) {
			return cosmostest.Fault{Drop: true, Applied: true}
		}
		return cosmostest.Fault{Drop: spent.Load() && op.Verb == cosmostest.ReadItem}
	})
	defer b.account.Before(nil)
	requireUnknown(b.t, do())
}

// requireUnknown checks that an error leaves the outcome of the request open.
func requireUnknown(t testing.TB, err error) {
	t.Helper()
	requireUnavailable(t, err)
	require.False(t, abstractions.NotApplied(err))
}

// requireUnavailable checks that an error says only that the service was unavailable.
func requireUnavailable(t testing.TB, err error) {
	t.Helper()
	require.ErrorIs(t, err, abstractions.ErrUnavailable)
	for _, certain := range []error{
		abstractions.ErrHeld, abstractions.ErrLost, abstractions.ErrReleased, abstractions.ErrStale, abstractions.ErrInvalid,
		abstractions.ErrDenied, abstractions.ErrNotSetUp, abstractions.ErrThrottled, abstractions.ErrClosed,
	} {
		require.NotErrorIs(t, err, certain)
	}
}

func requireLost(t testing.TB, reason abstractions.LostReason, err error) {
	t.Helper()
	var lost *abstractions.LostError
	require.ErrorAs(t, err, &lost)
	require.Equal(t, reason, lost.Reason)
}

func managerOf(t testing.TB, p abstractions.Provider, o leasing.Options) *leasing.Manager {
	t.Helper()
	m, err := leasing.NewManager(p, o)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = m.Close(ctx)
	})
	return m
}

// pkOf returns the partition key of an item whose JSON begins with its id, a single letter.
func pkOf(body string) azcosmos.PartitionKey {
	return azcosmos.NewPartitionKeyString(body[8:9])
}
