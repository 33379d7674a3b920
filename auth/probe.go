package auth

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/AzureAD/microsoft-authentication-library-for-go/apps/managedidentity"
)

const (
	// metadataAddress is the same on every machine in Azure
	// (learn.microsoft.com/azure/virtual-machines/instance-metadata-service).
	metadataAddress = "http://169.254.169.254/metadata/identity/oauth2/token"
	// probeTimeout equals the timeout of azidentity's DefaultAzureCredential.
	probeTimeout = time.Second
)

// probedIdentity returns the link of Auto's managed identity. If only the metadata service could
// provide the identity, a probe first checks that the service exists: outside of Azure,
// azidentity's attempts to reach the service take minutes, and only its DefaultAzureCredential
// probes.
func (o Options) probedIdentity() link {
	defaultToVariable(&o.ManagedIdentity.ClientID, envClientID)
	l := o.managedIdentity()
	source, err := managedidentity.GetSource()
	if err != nil || source != managedidentity.DefaultToIMDS {
		return l
	}
	l.why += ", if the metadata service answers within " + probeTimeout.String()
	identity := l.make
	l.make = func() (azcore.TokenCredential, error) {
		made, err := identity()
		if err != nil {
			return nil, err
		}
		// In a chain azidentity treats an answer from another server, such as a proxy, as the
		// absence of the metadata service.
		chained, err := azidentity.NewChainedTokenCredential([]azcore.TokenCredential{made}, nil)
		if err != nil {
			return nil, err
		}
		var answered atomic.Bool
		pipeline := o.pipeline()
		return credentialFunc(func(ctx context.Context, options policy.TokenRequestOptions) (azcore.AccessToken, error) {
			if !answered.Load() {
				if err := probe(ctx, pipeline); err != nil {
					return azcore.AccessToken{}, fmt.Errorf("%w: %v", errSilent, err)
				}
				answered.Store(true)
			}
			return chained.GetToken(ctx, options)
		}), nil
	}
	return l
}

// errSilent reports that the metadata service has not answered. The service may be slow or
// absent, so the error does not end a wait, and the next link is tried.
var errSilent = azidentity.NewCredentialUnavailableError("the metadata service of Azure does not answer")

// probe sends a request that the service refuses because a header is missing. Any answer shows that
// the service exists.
func probe(ctx context.Context, pipeline runtime.Pipeline) error {
	ctx, cancel := context.WithTimeout(policy.WithRetryOptions(ctx, policy.RetryOptions{MaxRetries: -1}), probeTimeout)
	defer cancel()
	request, err := runtime.NewRequest(ctx, http.MethodGet, metadataAddress)
	if err != nil {
		return err
	}
	response, err := pipeline.Do(request)
	if err != nil {
		return err
	}
	return response.Body.Close()
}
