package cosmoslease

import (
	"net/http/httptest"
	"testing"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providertest"
	"github.com/distributedleasing/leasing/providers/cosmos/cosmostest"
)

// What the client side costs, over loopback: the service's part is the fake's.
func BenchmarkProvider(b *testing.B) {
	account := cosmostest.New(cosmostest.Options{Key: testKey})
	account.AddContainer(testDatabase, testContainer, "/id")
	server := httptest.NewServer(account)
	b.Cleanup(server.Close)
	providertest.Benchmark(b, providertest.Harness{New: func(t testing.TB) abstractions.Provider {
		return openTest(t, Options{Endpoint: server.URL, Key: testKey, Database: testDatabase, Container: testContainer})
	}})
}
