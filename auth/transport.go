package auth

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/distributedleasing/leasing/abstractions/providerkit/httpguard"
)

// withoutRedirects returns a client that follows no redirect: a redirect would send a secret, an
// assertion or a managed identity's header to any host named in the answer. A transporter that is
// not an *http.Client is returned unchanged. nil stands for a client of our own, which has no
// proxy for link-local addresses.
func withoutRedirects(t policy.Transporter) policy.Transporter {
	switch client := t.(type) {
	case nil:
		return ownClient()
	case *http.Client:
		its := *client
		its.CheckRedirect = useLastResponse
		return &its
	}
	return t
}

func useLastResponse(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// ownClient is shared: a credential has nothing to close.
var ownClient = sync.OnceValue(func() *http.Client {
	return &http.Client{Transport: &httpguard.NewTransport().Transport, CheckRedirect: useLastResponse}
})

// aliases lists, for each cloud, the hosts of Entra ID that serve the same tenants:
// login.microsoftonline.com/common/discovery/instance, "metadata". A region's host is a subdomain of one of
// these hosts.
var aliases = [][]string{
	{"login.microsoftonline.com", "login.windows.net", "login.microsoft.com", "sts.windows.net"},
	{"login.microsoftonline.us", "login.usgovcloudapi.net"},
	{"login.partner.microsoftonline.cn", "login.chinacloudapi.cn"},
}

// ownAuthority is a policy that sends secrets and assertions only to the authority. The
// authority's metadata, or a forged answer, may name other hosts.
type ownAuthority struct{ address string }

func (a ownAuthority) Do(req *policy.Request) (*http.Response, error) {
	if to := req.Raw().URL; req.Raw().Method == http.MethodPost && !a.includes(to) {
		return nil, errors.New("the authority names " + to.Host + " for tokens, which is not a host of the authority: nothing was sent to this host")
	}
	return req.Next()
}

func (a ownAuthority) includes(to *url.URL) bool {
	authority, err := url.Parse(a.address)
	if err != nil || to.Scheme != "https" {
		return false
	}
	return to.Host == authority.Host ||
		slices.ContainsFunc(aliases, func(hosts []string) bool { return isWithin(authority.Host, hosts) && isWithin(to.Host, hosts) })
}

// isWithin reports whether host is one of the given hosts, or a subdomain of such a host.
func isWithin(host string, some []string) bool {
	return slices.ContainsFunc(some, func(h string) bool { return host == h || strings.HasSuffix(host, "."+h) })
}
