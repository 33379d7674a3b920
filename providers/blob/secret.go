package bloblease

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/livefile"
)

// rotatingClient makes a client that signs each request with the newest account key, or adds the newest SAS. The first secret determines the
// kind of all later secrets.
func (o Options) rotatingClient(ctx context.Context, at endpoint, address string, client *container.ClientOptions) (*container.Client, error) {
	of := ""
	source, err := livefile.NewSource(o.Secret, o.SecretFile, func(text string) error {
		if kind := kindOf(text); kind == "" || of != "" && kind != of {
			return providerkit.BadOption("Secret", providerkit.NotShown, "an account key in base64 or a shared access signature, and always the same kind")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	first, err := source(ctx)
	if err != nil {
		return nil, err
	}
	of = kindOf(first)
	add := func(p policy.Policy) { client.PerCallPolicies = append(slices.Clone(client.PerCallPolicies), p) }
	if of == "SAS" {
		add(newestSAS{source})
		return container.NewClientWithNoCredential(address, client)
	}
	key, err := container.NewSharedKeyCredential(at.account, first)
	if err != nil {
		return nil, err
	}
	add(&newestKey{source: source, signer: key})
	return container.NewClientWithSharedKeyCredential(address, key, client)
}

// kindOf returns the kind of a secret, or "" if it is neither. A SAS contains an &, unlike a key.
func kindOf(secret string) string {
	switch {
	case isSAS(strings.TrimPrefix(secret, "?")):
		return "SAS"
	case isKey(secret):
		return "AccountKey"
	}
	return ""
}

// newestSAS adds the newest SAS to each request.
type newestSAS struct{ source livefile.Source }

func (p newestSAS) Do(req *policy.Request) (*http.Response, error) {
	sas, err := p.source(req.Raw().Context())
	if err != nil {
		return nil, err
	}
	u := req.Raw().URL
	u.RawQuery = strings.TrimPrefix(u.RawQuery+"&"+strings.TrimPrefix(sas, "?"), "&")
	return req.Next()
}

// newestKey makes the client library sign with the newest key.
type newestKey struct {
	source livefile.Source
	signer *container.SharedKeyCredential
	last   atomic.Pointer[string]
}

func (p *newestKey) Do(req *policy.Request) (*http.Response, error) {
	key, err := p.source(req.Raw().Context())
	if err != nil {
		return nil, err
	}
	if last := p.last.Load(); last == nil || *last != key {
		if err := p.signer.SetAccountKey(key); err != nil {
			return nil, providerkit.NewCredentialError(err, false)
		}
		p.last.Store(&key)
	}
	return req.Next()
}
