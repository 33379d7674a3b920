package bloblease

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/stretchr/testify/require"
)

// silentTokens is a source of tokens that never answers.
type silentTokens struct{}

func (silentTokens) GetToken(ctx context.Context, _ policy.TokenRequestOptions) (azcore.AccessToken, error) {
	<-ctx.Done()
	return azcore.AccessToken{}, ctx.Err()
}

// frozenService is a service that never answers.
type frozenService struct{}

func (frozenService) Do(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func silentProvider(t testing.TB, o Options) *Provider {
	o.AccountURL, o.Container, o.ClientOptions.Transport = "https://account.blob.core.windows.net", "leases", frozenService{}
	p, err := Open(t.Context(), o)
	require.NoError(t, err)
	return p
}

// T42: a call ends with its own context, even while the client library waits, possibly
// for a day, for a token that another call has requested.
func TestTrap_T42_BlobCallDoesNotOutliveItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := silentProvider(t, Options{Credential: silentTokens{}})
		ended := make(chan struct{})
		began := time.Now()
		go func() {
			defer close(ended)
			ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
			defer cancel()
			_, err := p.Inspect(ctx, abstractions.InspectRequest{Name: "n"})
			require.ErrorIs(t, err, context.DeadlineExceeded) // the timeout of auth.ForService
		}()
		synctest.Wait()
		for what, call := range everyCall(p, abstractions.Grant{Name: "n", ID: "a", Token: 1, TTL: maxTTL}) {
			from := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			require.ErrorIs(t, call(ctx), context.DeadlineExceeded, what)
			require.Equal(t, 300*time.Millisecond, time.Since(from), what)
			cancel()
		}
		<-ended
		require.LessOrEqual(t, time.Since(began), 10*time.Second, "a call that waits for a token ends by the provider's bound")
		require.NoError(t, p.Close())
	})
}

// The cause of a context may be the error of another lease, and is not an answer
// about this lease.
func TestBlobCauseOfAContextIsNotAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := silentProvider(t, Options{AccountKey: "a2V5"})
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(&abstractions.LostError{Reason: abstractions.LostExpired}) })
		_, err := p.Renew(ctx, abstractions.RenewRequest{Name: "n", ID: "a", Token: 1, TTL: maxTTL})
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, abstractions.ErrLost)
		_, err = p.Renew(ctx, abstractions.RenewRequest{Name: "n", ID: "a", Token: 1, TTL: maxTTL})
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, abstractions.ErrLost)
		require.NoError(t, p.Close())
	})
}

// Close ends calls in flight, and does not wait for a silent service or a silent source
// of tokens.
func TestBlobCloseEndsWhatIsUnderWay(t *testing.T) {
	for what, o := range map[string]Options{"service": {AccountKey: "a2V5"}, "tokens": {Credential: silentTokens{}}} {
		synctest.Test(t, func(t *testing.T) {
			p := silentProvider(t, o)
			calls := everyCall(p, abstractions.Grant{Name: "n", ID: "a", Token: 1, TTL: maxTTL})
			ended := make(chan error, len(calls))
			for _, call := range calls {
				go func() {
					ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
					defer cancel()
					ended <- call(ctx)
				}()
			}
			synctest.Wait()
			began := time.Now()
			require.NoError(t, p.Close())
			for range calls {
				err := <-ended
				require.True(t, isUnknown(err), "%s: %v", what, err)
				require.NotErrorIs(t, err, abstractions.ErrClosed, "it had begun")
			}
			require.Zero(t, time.Since(began), what)
			require.NoError(t, p.Close())
			require.ErrorIs(t, p.Ping(t.Context()), abstractions.ErrClosed)
		})
	}
}
