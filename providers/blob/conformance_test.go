package bloblease

import (
	"context"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/faulttest"
	"github.com/distributedleasing/leasing/abstractions/providerkit/cas"
	"github.com/distributedleasing/leasing/abstractions/providertest"
	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/distributedleasing/leasing/auth"
	"github.com/stretchr/testify/require"
)

func TestConformanceBlob(t *testing.T) {
	o := azuriteOpener(Options{ConnectionString: servertest.Require(t, azuriteVariable), Container: newContainer()})
	h := harness(o)
	h.HTTP = func(t testing.TB, _ abstractions.Provider) providertest.Route {
		azurite := endpointOf.FindString(o.ConnectionString)
		require.NotEmpty(t, azurite)
		return providertest.Route{URL: azurite, Open: func(t testing.TB, url string) abstractions.Provider {
			o := o
			o.ConnectionString = strings.Replace(o.ConnectionString, azurite, url, 1)
			return o.open(t)
		}}
	}
	providertest.Run(t, h)
}

// endpointOf finds Azurite's scheme and host in a connection string.
var endpointOf = regexp.MustCompile(`http://[^/;]+`)

// The suite runs against a real account if the environment names one:
// AZURE_STORAGE_CONNECTION_STRING, or AZURE_STORAGE_ACCOUNT_URL and the variables of
// auth.FromEnvironment. It makes its own container, and takes some minutes: see maxFreeDelay.
func TestConformanceBlobAccount(t *testing.T) {
	o := Options{
		ConnectionString: os.Getenv("AZURE_STORAGE_CONNECTION_STRING"), AccountURL: os.Getenv("AZURE_STORAGE_ACCOUNT_URL"),
		Container: newContainer(), Create: true, Infinite: true,
	}
	if o.ConnectionString == "" && o.AccountURL == "" {
		t.Skip("no AZURE_STORAGE_CONNECTION_STRING, and no AZURE_STORAGE_ACCOUNT_URL with what auth.FromEnvironment reads: see samples/azure/blob.sh")
	}
	if o.ConnectionString != "" {
		o.AccountURL = ""
	} else {
		var err error
		o.Auth, err = auth.FromEnvironment()
		require.NoError(t, err)
	}
	p := opener{Options: o}.open(t)
	t.Cleanup(func() {
		_, err := p.driver.store.container.Delete(context.Background(), nil)
		require.NoError(t, err)
	})
	providertest.Run(t, harness(opener{Options: o}))
}

// opener opens providers of one container.
type opener struct {
	Options
	emulator bool
}

// azuriteOpener returns an opener for Azurite, which frees expired leases at once.
func azuriteOpener(o Options) opener {
	o.Create, o.Infinite = true, true
	return opener{o, true}
}

func (o opener) open(t testing.TB) *Provider {
	options := o.Options
	at, err := options.complete()
	require.NoError(t, err)
	d, err := options.driver(t.Context(), at)
	require.NoError(t, err)
	if o.emulator {
		d.caps.Lateness.Fixed -= maxFreeDelay
	}
	p := d.provider(options.Timeout)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

func newContainer() string { return "leases-" + abstractions.NewID() }

// harness makes the container with the first provider. While there is no container, the provider does not refuse the ID of a
// released claim that never held a name: see the comment of Provider.
func harness(o opener) providertest.Harness {
	var once sync.Once
	return providertest.Harness{
		New: func(t testing.TB) abstractions.Provider {
			p := o.open(t)
			once.Do(func() {
				g, err := p.Acquire(t.Context(), acquireRequest("first", abstractions.NewID()))
				require.NoError(t, err)
				require.NoError(t, p.Release(t.Context(), releaseRequest(g)))
			})
			return p
		},
		Peer:   func(t testing.TB, _ abstractions.Provider) abstractions.Provider { return o.open(t) },
		Forget: func(t testing.TB, p abstractions.Provider, name string) { forget(t, p.(*Provider), name) },
		Remove: func(t testing.TB, p abstractions.Provider, name string) { // like an operator who breaks the lease in the portal
			d := p.(*Provider).driver
			client, err := lease.NewBlobClient(d.store.container.NewBlobClient(d.Key(name)), nil)
			require.NoError(t, err)
			_, err = client.BreakLease(t.Context(), &lease.BlobBreakOptions{BreakPeriod: new(int32)})
			require.NoError(t, err)
		},
		Records:     func(p abstractions.Provider) *cas.Records { return &p.(*Provider).driver.Records },
		Unreachable: func(t testing.TB) abstractions.Provider { return silentServerProvider(t) },
	}
}

// forget deletes a name, and then waits until the service's clock has passed the token. Sweep need not wait: it deletes a name a
// minute or more after its end.
func forget(t testing.TB, p *Provider, name string) {
	before, err := p.Inspect(t.Context(), abstractions.InspectRequest{Name: name})
	require.NoError(t, err)
	item, err := p.driver.store.Get(t.Context(), p.driver.Key(name))
	require.NoError(t, err)
	require.NoError(t, p.driver.store.Delete(t.Context(), item))
	require.Eventually(t, func() bool {
		now, err := p.Inspect(t.Context(), abstractions.InspectRequest{Name: name})
		return err == nil && now.Now.UnixMicro() > before.Token
	}, time.Minute, 50*time.Millisecond)
}

// silentServerProvider returns a provider whose service accepts connections and never answers.
func silentServerProvider(t testing.TB) *Provider {
	p, err := Open(context.Background(), Options{
		AccountURL: "http://" + faulttest.Silent(t) + "/account", AccountKey: "a2V5", Container: "leases", Infinite: true,
	})
	require.NoError(t, err)
	return p
}
