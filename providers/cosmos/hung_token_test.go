package cosmoslease

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/cosmos/cosmostest"
	"github.com/stretchr/testify/require"
)

// hangingCredential is a credential whose first requests get no answer.
type hangingCredential struct {
	bearer
	asked sync.Mutex
	left  int // requests that hang
}

func (c *hangingCredential) GetToken(ctx context.Context, o policy.TokenRequestOptions) (azcore.AccessToken, error) {
	c.asked.Lock()
	hangs := c.left > 0
	c.left--
	c.asked.Unlock()
	if hangs {
		<-ctx.Done()
		return azcore.AccessToken{}, ctx.Err()
	}
	return c.bearer.GetToken(ctx, o)
}

// withHanging runs a test with a provider whose first requests for tokens hang.
func withHanging(t *testing.T, requests int, test func(t *testing.T, p *Provider)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, cosmostest.Options{Token: valid})
		test(t, b.process(func(o *Options) {
			o.Key, o.Credential = "", &hangingCredential{bearer: bearer{life: time.Hour}, left: requests}
		}))
	})
}

// A call ends with its context, although azcosmos requests its first token without the
// caller's context, for up to a minute, and all calls wait for the token.
func TestOneRequestForATokenThatHangsDoesNotHangTheProvider(t *testing.T) {
	withHanging(t, 1, func(t *testing.T, p *Provider) {
		began := time.Now()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := p.Acquire(short, acquireRequest("n", "a", time.Minute))
		requireUnknown(t, err)
		require.Equal(t, time.Second, time.Since(began))
		for err != nil {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			_, err = p.Acquire(ctx, acquireRequest("n", "a", time.Minute))
			cancel()
		}
		require.LessOrEqual(t, time.Since(began), 12*time.Second)
	})
}

func TestCloseDoesNotWaitForAToken(t *testing.T) {
	withHanging(t, 1000, func(t *testing.T, p *Provider) {
		ended := make(chan error, 1)
		go func() {
			_, err := p.Inspect(t.Context(), abstractions.InspectRequest{Name: "n"})
			ended <- err
		}()
		synctest.Wait()
		began := time.Now()
		require.NoError(t, p.Close())
		require.ErrorIs(t, <-ended, abstractions.ErrUnavailable)
		require.Zero(t, time.Since(began))
	})
}
