package cosmoslease

import (
	"encoding/base64"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/distributedleasing/leasing/abstractions"
)

const (
	// maxPrefixBytes bounds Options.Prefix: it is in every ID.
	maxPrefixBytes = 50
	// maxResourceBytes is the service's limit for names of databases and containers:
	// learn.microsoft.com/azure/cosmos-db/concepts-limits.
	maxResourceBytes = 255
	// minRetention is far more than clocks may disagree by: see expiry.
	minRetention = time.Minute
	// maxRetention keeps instants within what Go can count.
	maxRetention = 10 * 365 * 24 * time.Hour
	// maxClockSkew is more than any of the service's clocks is off.
	maxClockSkew = time.Minute
)

// complete validates the options and fills in the defaults.
func (o Options) complete() (Options, error) {
	defaultTo(&o.Retention, DefaultRetention)
	defaultTo(&o.Timeout, DefaultTimeout)
	defaultTo(&o.ClockSkew, DefaultClockSkew)
	for _, check := range []func() error{
		o.validateEndpoint, o.validateKey, o.validateNames, o.validateContainer, o.validateDurations, o.validateConsistency,
	} {
		if err := check(); err != nil {
			return o, err
		}
	}
	return o, nil
}

func defaultTo[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// validateEndpoint refuses to send a key's signature or a token in the clear over a
// network.
func (o Options) validateEndpoint() error {
	refuse := func(want string) error {
		return &abstractions.InvalidError{Field: "Options.Endpoint", Value: notShown, Want: want}
	}
	u, err := url.Parse(o.Endpoint)
	switch {
	case err != nil || u.Hostname() == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		return refuse("https://account.documents.azure.com, without path, query, user or password")
	case u.Scheme == "https" || u.Scheme == "http" && local(u.Hostname()):
		return nil
	}
	return refuse("https://; http:// is for 127.0.0.1, ::1 and localhost alone")
}

// local reports whether a host is this machine.
func local(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

func (o Options) validateKey() error {
	if o.Key == "" {
		return nil
	}
	if key, err := base64.StdEncoding.DecodeString(o.Key); err != nil || len(key) == 0 {
		return &abstractions.InvalidError{Field: "Options.Key", Value: notShown, Want: "the account's key, which is in base64"}
	}
	return nil
}

func (o Options) validateNames() error {
	for _, n := range []struct{ field, value string }{{"Database", o.Database}, {"Container", o.Container}} {
		if n.value == "" || len(n.value) > maxResourceBytes || strings.ContainsAny(n.value, `/\?#%"`) || abstractions.ValidateName(n.value) != nil || strings.TrimSpace(n.value) != n.value {
			return &abstractions.InvalidError{Field: "Options." + n.field, Value: n.value, Want: fmt.Sprintf(`1 to %d bytes, without / \ ? # %% " and space around it`, maxResourceBytes)}
		}
	}
	if len(o.Prefix) > maxPrefixBytes || o.Prefix != "" && abstractions.ValidateName(o.Prefix) != nil {
		return &abstractions.InvalidError{Field: "Options.Prefix", Value: o.Prefix, Want: fmt.Sprintf("at most %d bytes of UTF-8 without control characters", maxPrefixBytes)}
	}
	return nil
}

// validateContainer refuses what only a container that is created would heed.
func (o Options) validateContainer() error {
	if o.PartitionKeyPath != "" {
		if _, err := parsePath(o.PartitionKeyPath); err != nil {
			return &abstractions.InvalidError{Field: "Options.PartitionKeyPath", Value: o.PartitionKeyPath, Want: "a path such as /id or /pk, but not " + err.Error()}
		}
	}
	switch {
	case o.Throughput != 0 && !o.Create:
		return &abstractions.InvalidError{Field: "Options.Throughput", Value: o.Throughput, Want: "0, or Create to be set as well"}
	case o.Autoscale && o.Throughput == 0:
		return &abstractions.InvalidError{Field: "Options.Autoscale", Value: true, Want: "Throughput to be set as well"}
	case o.Throughput != 0 && (o.Throughput < 400 || o.Throughput > 1_000_000):
		return &abstractions.InvalidError{Field: "Options.Throughput", Value: o.Throughput, Want: "400 to 1000000 request units per second; or 0 for none"}
	}
	return nil
}

func (o Options) validateDurations() error {
	for _, d := range []struct {
		field       string
		value       time.Duration
		least, most time.Duration
		forever     bool
	}{
		{field: "Retention", value: o.Retention, least: minRetention, most: maxRetention, forever: true},
		{field: "Timeout", value: o.Timeout, least: time.Millisecond, most: time.Hour},
		{field: "ClockSkew", value: o.ClockSkew, least: time.Millisecond, most: maxClockSkew},
	} {
		if d.forever && d.value == Forever || d.value >= d.least && d.value <= d.most {
			continue
		}
		return &abstractions.InvalidError{Field: "Options." + d.field, Value: d.value, Want: fmt.Sprintf("%v to %v; or 0 for the default", d.least, d.most)}
	}
	if o.ExpireDocuments && o.Retention == Forever {
		return &abstractions.InvalidError{Field: "Options.ExpireDocuments", Value: true, Want: "false, or a Retention that ends"}
	}
	return nil
}

// validateConsistency refuses levels at which a client may not see what it has
// itself written: its conflicts would not settle.
func (o Options) validateConsistency() error {
	levels := []string{string(azcosmos.ConsistencyLevelSession), string(azcosmos.ConsistencyLevelBoundedStaleness), string(azcosmos.ConsistencyLevelStrong)}
	if o.Consistency == "" || slices.Contains(levels, o.Consistency) {
		return nil
	}
	return &abstractions.InvalidError{Field: "Options.Consistency", Value: o.Consistency, Want: strings.Join(levels, ", ") + "; or nothing for the account's own"}
}
