package cosmoslease

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// keepInAccount keeps a request within the account. azcosmos sends requests, with the key's signature or a token,
// to the endpoints that the account's answer names. The endpoints of its regions are ACCOUNT-REGION in the
// account's own domain (learn.microsoft.com/azure/cosmos-db/how-to-configure-firewall, "regional endpoints"). A
// request to any other host goes to Options.Endpoint instead, which serves the whole account. keepInAccount modifies
// req itself.
func (w *wire) keepInAccount(req *http.Request) *http.Request {
	if w.account != nil && !owns(w.account, req.URL) {
		to := *req.URL
		to.Scheme, to.Host = w.account.Scheme, w.account.Host
		req.URL, req.Host = &to, to.Host
	}
	return req
}

// owns reports whether an address is that of the account or of one of its regions.
func owns(account, to *url.URL) bool {
	if account.Scheme != to.Scheme || portOf(account) != portOf(to) {
		return false
	}
	own, host := strings.ToLower(account.Hostname()), strings.ToLower(to.Hostname())
	if own == host || isLocal(own) && isLocal(host) { // an emulator may have two names for the local machine
		return true
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return false
	}
	name, domain, _ := strings.Cut(own, ".")
	region, its, _ := strings.Cut(host, ".")
	return domain != "" && domain == its && strings.HasPrefix(region, name+"-")
}

func portOf(u *url.URL) string {
	if port := u.Port(); port != "" || u.Scheme != "https" {
		return port
	}
	return "443"
}
