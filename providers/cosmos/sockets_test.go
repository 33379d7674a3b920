package cosmoslease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit/httpguard"
	"github.com/distributedleasing/leasing/abstractions/providertest"
	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/distributedleasing/leasing/auth"
	"github.com/distributedleasing/leasing/providers/cosmos/cosmostest"
	"github.com/stretchr/testify/require"
)

// The suite runs over a socket, against the fake, with a bearer token.
func TestConformanceBearerToken(t *testing.T) {
	account := cosmostest.New(cosmostest.Options{Token: func(token string) error {
		if token != "good" {
			return errors.New("a bad token")
		}
		return nil
	}})
	account.AddContainer(testDatabase, testContainer, "/partition/key")
	server := httptest.NewServer(account)
	t.Cleanup(server.Close)
	o := Options{
		Endpoint: server.URL, Credential: goodToken{}, Database: testDatabase, Container: testContainer, Prefix: "conformance", ClockSkew: time.Millisecond,
	}
	h := socketHarness(o)
	h.HTTP = func(testing.TB, abstractions.Provider) providertest.Route { // the fake's account names the host of each request as its endpoint
		return providertest.Route{URL: server.URL, Open: func(t testing.TB, url string) abstractions.Provider {
			o := o
			o.Endpoint = url
			p, err := Open(t.Context(), o)
			require.NoError(t, err)
			require.NoError(t, p.Ping(t.Context()), "the first use reads the account and the container")
			return p
		}}
	}
	providertest.Run(t, h)
}

// goodToken is a credential for the account's own scope.
type goodToken struct{}

func (goodToken) GetToken(_ context.Context, o policy.TokenRequestOptions) (azcore.AccessToken, error) {
	if fmt.Sprint(o.Scopes) != "[http://127.0.0.1/.default]" {
		return azcore.AccessToken{}, fmt.Errorf("scopes %v", o.Scopes)
	}
	return azcore.AccessToken{Token: "good", ExpiresOn: time.Now().Add(time.Hour)}, nil
}

// The suite runs against an emulator of another vendor. notFound corrects one of the
// emulator's answers.
func TestConformanceNPM(t *testing.T) {
	servertest.Long(t)
	h := socketHarness(Options{URL: requireEnv(t, "LEASING_TEST_COSMOS_NPM"), ClockSkew: time.Millisecond})
	plain := h.New
	h.New = func(t testing.TB) abstractions.Provider {
		p := plain(t).(*Provider)
		p.driver.store.connection.wire.next = notFound{p.driver.store.connection.wire.next}
		return p
	}
	h.Peer = func(t testing.TB, _ abstractions.Provider) abstractions.Provider { return h.New(t) }
	providertest.Run(t, h)
}

// notFound turns the emulator's 500 for a read of a missing item into the service's 404.
type notFound struct{ httpguard.Doer }

func (n notFound) Do(req *http.Request) (*http.Response, error) {
	response, err := n.Doer.Do(req)
	if err == nil && req.Method == http.MethodGet && response.StatusCode == http.StatusInternalServerError && strings.Contains(req.URL.Path, "/docs/") {
		response.StatusCode = http.StatusNotFound
	}
	return response, err
}

// The suite runs against a real account or the vendor's container, if the environment
// names an endpoint.
func TestConformanceAccount(t *testing.T) {
	endpoint := os.Getenv("COSMOS_ENDPOINT")
	if endpoint == "" {
		t.Skip("no COSMOS_ENDPOINT; with it COSMOS_KEY, or what auth.FromEnvironment reads, and COSMOS_DATABASE and COSMOS_CONTAINER, are used: see samples/azure/cosmos.sh")
	}
	o := Options{
		Endpoint: endpoint, Key: os.Getenv("COSMOS_KEY"),
		Database: os.Getenv("COSMOS_DATABASE"), Container: os.Getenv("COSMOS_CONTAINER"),
	}
	if o.Create = o.Key != ""; !o.Create {
		var err error
		o.Auth, err = auth.FromEnvironment()
		require.NoError(t, err)
	}
	o.Database, o.Container = cmp.Or(o.Database, testDatabase), cmp.Or(o.Container, testContainer)
	providertest.Run(t, socketHarness(o))
}

func socketHarness(o Options) providertest.Harness {
	open := func(t testing.TB) abstractions.Provider { return openTest(t, o) }
	return providertest.Harness{
		New:  open,
		Peer: func(t testing.TB, _ abstractions.Provider) abstractions.Provider { return open(t) },
		Unreachable: func(t testing.TB) abstractions.Provider {
			return openTest(t, Options{Endpoint: silentAddress(t), Key: testKey, Database: "d", Container: "c"})
		},
	}
}

// silentAddress returns the address of a server that accepts connections and never answers.
func silentAddress(t testing.TB) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	return "http://" + listener.Addr().String()
}

// requireEnv returns the environment variable of a server that the tests need.
func requireEnv(t testing.TB, variable string) string {
	return servertest.Require(t, variable)
}
