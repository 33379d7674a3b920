package httpguard

import (
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Proxy is http.ProxyFromEnvironment, except that a link-local address or a metadata service is
// always reached directly. A proxy's machine has another metadata service, and would learn the
// credentials.
func Proxy(req *http.Request) (*url.URL, error) {
	if Direct(req.URL.Hostname()) {
		return nil, nil //nolint:nilnil // as http.ProxyFromEnvironment says "no proxy"
	}
	return http.ProxyFromEnvironment(req)
}

// Direct reports whether a host is a link-local address or a cloud's metadata service.
func Direct(host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if at, err := netip.ParseAddr(host); err == nil {
		at = at.Unmap().WithZone("")
		return at.IsLinkLocalUnicast() || slices.Contains(metadata, at)
	}
	return slices.Contains(metadataNames, host)
}

var (
	// metadata lists the metadata services whose addresses are not link-local.
	metadata = []netip.Addr{
		// docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html
		netip.MustParseAddr("fd00:ec2::254"),
		// docs.aws.amazon.com/eks/latest/userguide/pod-id-how-it-works.html
		netip.MustParseAddr("fd00:ec2::23"),
		// docs.cloud.google.com/compute/docs/metadata/querying-metadata
		netip.MustParseAddr("fd20:ce::254"),
		// learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16
		netip.MustParseAddr("168.63.129.16"),
		// www.alibabacloud.com/help/ecs/user-guide/view-instance-metadata
		netip.MustParseAddr("100.100.100.200"),
	}
	metadataNames = []string{"metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal"}
)
