package bloblease

import (
	"context"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// patience bounds a request for a token: other calls wait for it, and the one that
// has made it may have all day.
const patience = time.Minute

// patient is a source of tokens, for as long as patience lasts.
type patient struct{ azcore.TokenCredential }

func (p patient) GetToken(ctx context.Context, options policy.TokenRequestOptions) (azcore.AccessToken, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return p.TokenCredential.GetToken(ctx, options)
}
