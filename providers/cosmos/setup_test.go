package cosmoslease

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/cosmos/cosmostest"
	"github.com/stretchr/testify/require"
)

func TestAMissingContainerIsCreatedOnDemand(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bed) {
		create := func(o *Options) {
			o.Database, o.Container, o.Create, o.PartitionKeyPath = "new", "made", true, "/pk/key"
			o.Throughput, o.Autoscale, o.ExpireDocuments = 1000, true, true
		}
		var all sync.WaitGroup
		for _, p := range []*Provider{b.process(create), b.process(create), b.process(create)} {
			all.Go(func() {
				_, err := p.Acquire(t.Context(), acquireRequest("n", abstractions.NewID(), time.Minute))
				if err != nil {
					require.ErrorIs(t, err, abstractions.ErrHeld)
				}
			})
		}
		all.Wait()
		properties, throughput := b.account.Container("new", "made")
		require.JSONEq(t, `{
			"id": "made", "partitionKey": {"paths": ["/pk/key"], "kind": "Hash", "version": 2}, "defaultTtl": -1,
			"indexingPolicy": {"automatic": true, "indexingMode": "Consistent", "excludedPaths": [{"path": "/*"}]}
		}`, properties)
		require.JSONEq(t, `{"maxThroughput": 1000}`, throughput)
	})
}

func TestAMissingContainerIsSaidWithWhatToRun(t *testing.T) {
	for name, account := range map[string]struct{ db, container string }{"no database": {"other", "leases"}, "no container": {testDatabase, "other"}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bed) {
				p := b.process(func(o *Options) { o.Database, o.Container = account.db, account.container })
				for range 2 {
					_, err := p.Acquire(t.Context(), acquireRequest("n", "a", time.Minute))
					require.ErrorIs(t, err, abstractions.ErrNotSetUp)
					require.ErrorContains(t, err, "az cosmosdb sql container create -g GROUP -a ACCOUNT -d "+account.db+" -n "+account.container+" -p /id --partition-key-version 2")
					require.ErrorIs(t, p.Ping(t.Context()), abstractions.ErrNotSetUp)
				}
				b.account.AddContainer(account.db, account.container, "/id")
				_, err := p.Acquire(t.Context(), acquireRequest("n", "a", time.Minute))
				require.NoError(t, err, "as soon as it is there")
			})
		})
	}
}

// bearer is a credential. Its tokens are valid for the duration life.
type bearer struct {
	mu     sync.Mutex
	life   time.Duration
	issued []time.Time
	fail   error
}

func (c *bearer) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fail != nil {
		return azcore.AccessToken{}, c.fail
	}
	now := time.Now()
	c.issued = append(c.issued, now)
	return azcore.AccessToken{Token: now.Add(c.life).Format(time.RFC3339Nano), ExpiresOn: now.Add(c.life)}, nil
}

// valid checks a bearer's token for the account.
func valid(token string) error {
	expires, err := time.Parse(time.RFC3339Nano, token)
	if err == nil && !time.Now().Before(expires) {
		err = context.DeadlineExceeded
	}
	return err
}

func TestAnIdentityThatMayNotCreateLearnsWhatToRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, cosmostest.Options{Token: valid})
		p := b.process(func(o *Options) {
			o.Key, o.Credential, o.Create, o.Container = "", &bearer{life: time.Hour}, true, "missing"
		})
		_, err := p.Acquire(t.Context(), acquireRequest("n", "a", time.Minute))
		require.ErrorIs(t, err, abstractions.ErrNotSetUp)
		require.ErrorContains(t, err, "this identity may not create containers")
		require.ErrorContains(t, err, "az cosmosdb sql container create")
	})
}

func TestContainersThatDoNotSuitAreRefused(t *testing.T) {
	for path, change := range map[string]func(o *Options){
		"/a,/b":  func(*Options) {}, // hierarchical
		"/pk":    func(o *Options) { o.PartitionKeyPath = "/id" },
		"/lease": func(*Options) {},
		"/_etag": func(*Options) {},
		"/ttl/x": func(*Options) {},
		"/id/x":  func(*Options) {},
		"/x":     func(o *Options) { o.ExpireDocuments = true }, // no time to live
	} {
		inBubble(t, func(t *testing.T, b *bed) {
			b.account.AddContainer(testDatabase, "odd", path)
			p := b.process(func(o *Options) { o.Container = "odd"; change(o) })
			_, err := p.Acquire(t.Context(), acquireRequest("n", "a", time.Minute))
			require.ErrorIs(t, err, abstractions.ErrNotSetUp, path)
		})
	}
	for _, path := range []string{"/id", "/pk", "/deep/er/path"} {
		inBubble(t, func(t *testing.T, b *bed) {
			b.account.AddContainer(testDatabase, "fine", path)
			p := b.process(func(o *Options) { o.Container = "fine" })
			g, err := p.Acquire(t.Context(), acquireRequest("n", "a", time.Minute))
			require.NoError(t, err, path)
			_, err = p.Renew(t.Context(), renewRequest(g))
			require.NoError(t, err)
		})
	}
}

// If a container is deleted while leases are held, the leases are lost, the next claim
// has a higher token, and a provider with Create creates the container.
func TestAContainerDeletedUnderAHolder(t *testing.T) {
	for _, create := range []bool{false, true} {
		inBubble(t, func(t *testing.T, b *bed) {
			m := managerOf(t, b.Provider, leasing.Options{TTL: 20 * time.Second})
			lease, err := m.TryAcquire(t.Context(), "n")
			require.NoError(t, err)
			b.account.DropContainer(testDatabase, testContainer)
			time.Sleep(2 * time.Second)
			other := b.process(func(o *Options) { o.Create = create })
			if !create {
				_, err := other.Acquire(t.Context(), acquireRequest("n", "b", time.Minute))
				require.ErrorIs(t, err, abstractions.ErrNotSetUp)
				b.account.AddContainer(testDatabase, testContainer, "/id")
			}
			next, err := other.Acquire(t.Context(), acquireRequest("n", "b", time.Minute))
			require.NoError(t, err)
			require.Greater(t, next.Token, lease.Token())
			<-lease.Done()
			require.ErrorIs(t, context.Cause(lease.Context()), abstractions.ErrLost)
			record, err := other.Inspect(t.Context(), abstractions.InspectRequest{Name: "n"})
			require.NoError(t, err)
			require.Equal(t, abstractions.FingerprintOf("b"), record.Fingerprint)
		})
	}
}

// A provider in use creates a deleted container again, within the call.
func TestAContainerIsCreatedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bed) {
		p := b.process(func(o *Options) { o.Create = true })
		first, err := p.Acquire(t.Context(), acquireRequest("n", "a", time.Minute))
		require.NoError(t, err)
		b.account.DropContainer(testDatabase, testContainer)
		time.Sleep(time.Second)
		next, err := p.Acquire(t.Context(), acquireRequest("n", "b", time.Minute))
		require.NoError(t, err)
		require.Greater(t, next.Token, first.Token)
		_, err = p.Renew(t.Context(), renewRequest(first))
		requireLost(t, abstractions.LostTaken, err)

		b.account.DropContainer(testDatabase, testContainer)
		_, err = p.Renew(t.Context(), renewRequest(next))
		requireLost(t, abstractions.LostGone, err)
	})
}

// Databases and containers may have names that must be escaped in a path.
func TestDatabasesAndContainersMayHaveAnyName(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bed) {
		for _, name := range []string{"my leases", "größe", "a+b", "日本", "x'y", "a&b=c"} {
			p := b.process(func(o *Options) { o.Database, o.Container, o.Create = name, name, true })
			_, err := p.Acquire(t.Context(), acquireRequest("n", "a", time.Minute))
			require.NoError(t, err, name)
			body, _ := b.account.Container(name, name)
			require.NotEmpty(t, body)
		}
	})
}

// Old containers hash partition keys by their first 101 bytes: names with the same
// beginning would share a partition, and longer names would be refused with a
// misleading error.
func TestAContainerWithOldPartitionKeysIsRefused(t *testing.T) {
	for _, version := range []int{0, 1} {
		inBubble(t, func(t *testing.T, b *bed) {
			b.account.SetPartitionKeyVersion(testDatabase, testContainer, version)
			_, err := b.try("n", "a")
			require.ErrorIs(t, err, abstractions.ErrNotSetUp)
			require.ErrorContains(t, err, "101 bytes")
			b.account.SetPartitionKeyVersion(testDatabase, testContainer, 2)
			b.acquire("n", "a")
		})
	}
}
