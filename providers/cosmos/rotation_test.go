package cosmoslease

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions/providertest"
	"github.com/distributedleasing/leasing/auth"
	"github.com/distributedleasing/leasing/auth/authtest"
	"github.com/distributedleasing/leasing/providers/cosmos/cosmostest"
)

// T122: a lease outlives the files of its identity.
func TestTrap_T122_FilesOfAnIdentityAreReadAgain(t *testing.T) {
	authtest.EachFile(t, func(t *testing.T, server *authtest.Server, identity auth.Options) {
		server.SetLifetime(2 * time.Second)
		account := cosmostest.New(cosmostest.Options{Token: func(token string) error { return server.Check(token, audience) }})
		account.AddContainer(testDatabase, testContainer, "/id")
		service := httptest.NewServer(account)
		t.Cleanup(service.Close)
		p := openTest(t, Options{Endpoint: service.URL, Auth: identity, Database: testDatabase, Container: testContainer})
		providertest.OutlivesRotation(t, p, func() { server.RotateInUse(p.Ping) })
	})
}
