package cosmoslease

import (
	"context"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// tokenTimeout bounds a request for a token: as long as azidentity 1.15.0
// allows the slowest of its credentials, those that run a program (cliTimeout).
const tokenTimeout = 10 * time.Second

// credential bounds the requests for tokens of another one. azcosmos asks for one
// when it looks at the account, heeding nobody's context for a minute, and all
// callers wait for the one who asks: a request that hangs would hang them all, and
// Close.
type credential struct {
	next     azcore.TokenCredential
	lifetime context.Context // of the provider
}

// GetToken asks for a token.
func (c credential) GetToken(ctx context.Context, o policy.TokenRequestOptions) (azcore.AccessToken, error) {
	ctx, cancel := context.WithTimeout(ctx, tokenTimeout)
	defer cancel()
	defer context.AfterFunc(c.lifetime, cancel)()
	token, err := c.next.GetToken(ctx, o)
	return token, cut(ctx, err)
}
