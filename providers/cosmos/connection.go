package cosmoslease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/livefile"
)

// connection finds the container, when it is first needed: azcosmos reads the
// account, and a read of the container shows that it exists and what its partition
// key is. One caller at a time does that, and goes on when its context ends, since
// azcosmos heeds no caller's context then: the shell has ended the call. See
// providerkit.Config.Detach.
type connection struct {
	options Options
	keys    livefile.Source
	wire    *wire
	found   atomic.Pointer[container]
	finding chan struct{} // of one place
}

// container is the one that leases are in.
type container struct {
	*azcosmos.ContainerClient
	client *azcosmos.Client
	key    string   // of the client; "" with another identity
	path   []string // of the partition key
}

// container returns the container, or waits until ctx ends. To find it it uses a client
// of its own: one of azcosmos that has failed to read the account does not try again for
// five minutes.
func (c *connection) container(ctx context.Context) (*container, error) {
	key, err := c.keys(ctx)
	if err != nil {
		return nil, err
	}
	found := c.found.Load()
	if found == nil || found.key != key {
		select {
		case c.finding <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		defer func() { <-c.finding }()
		if found, err = c.find(key); err != nil {
			return nil, err
		}
	}
	if c.refused() {
		c.forget(found) // the next call looks again
		return nil, errSeveralRegions
	}
	return found, nil
}

func (c *connection) find(key string) (*container, error) {
	if found := c.found.Load(); found != nil && found.key == key {
		return found, nil
	}
	ctx, cancel := context.WithTimeout(c.wire.lifetime, c.options.Timeout)
	defer cancel()
	client, err := c.options.client(c.wire, key)
	if err != nil {
		return nil, err
	}
	found := &container{client: client, key: key}
	if found.ContainerClient, err = client.NewContainer(c.options.Database, c.options.Container); err == nil {
		found.path, err = c.prepare(ctx, found)
	}
	if err != nil {
		client.Close()
		if ended := ctx.Err(); ended != nil && !errors.Is(err, ended) {
			err = fmt.Errorf("%w: %w", ended, err)
		}
		return nil, readError{brief(err)} // nothing of a lease was written
	}
	if former := c.found.Swap(found); former != nil {
		former.client.Close()
	}
	return found, nil
}

// refused reports whether the account has several write regions, and may not.
func (c *connection) refused() bool {
	return c.wire.several.Load() && !c.options.AllowMultipleWriteRegions
}

// errSeveralRegions: with several write regions a write is accepted in one while
// another one accepts a different one, and one of them is undone later
// (learn.microsoft.com/azure/cosmos-db/conflict-resolution-policies).
var errSeveralRegions = fmt.Errorf("%w: the account takes writes in several regions, where an ETag does not keep two holders apart: "+
	"use an account with one write region, or set Options.AllowMultipleWriteRegions if all clients are sure to use the same one", abstractions.ErrNotSetUp)

// forget lets the container be found anew, after a request that met none.
func (c *connection) forget(found *container) {
	if found != nil && c.found.CompareAndSwap(found, nil) {
		found.client.Close()
	}
}

// close closes what is not in use. No call is under way, and the wire's lifetime has
// ended.
func (c *connection) close() {
	c.forget(c.found.Load())
	if own := c.wire.own; own != nil {
		own.CloseIdleConnections()
	}
}

// prepare reads the container, creates it where it may, and returns its partition
// key path.
func (c *connection) prepare(ctx context.Context, found *container) ([]string, error) {
	response, err := found.Read(ctx, nil)
	if class := classOf(err); class == missing || class == noContainer {
		switch {
		case !c.options.Create:
			return nil, c.options.setup("there is no such container", err)
		case c.refused():
			return nil, errSeveralRegions
		}
		if err = c.options.create(ctx, found.client); err == nil {
			response, err = found.Read(ctx, nil)
		}
	}
	if err != nil {
		return nil, err
	}
	return c.options.partitionKey(response.ContainerProperties)
}

// create creates what there is not. Somebody else may be faster, which is as good. No
// field is indexed beside id and _ts, which always are: each makes every write dearer
// (learn.microsoft.com/azure/cosmos-db/index-policy). Without Throughput the account or
// the database has it.
//
// An identity that may read and write documents may not create containers:
// learn.microsoft.com/azure/cosmos-db/nosql/troubleshoot-forbidden, "Non-data operations
// are not allowed".
func (o Options) create(ctx context.Context, client *azcosmos.Client) error {
	properties := azcosmos.ContainerProperties{
		ID: o.Container,
		PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{
			Kind: azcosmos.PartitionKeyKindHash, Version: partitionKeyVersion, Paths: []string{o.path()},
		},
		IndexingPolicy: &azcosmos.IndexingPolicy{
			Automatic: true, IndexingMode: azcosmos.IndexingModeConsistent,
			ExcludedPaths: []azcosmos.ExcludedPath{{Path: "/*"}},
		},
	}
	if o.ExpireDocuments {
		on := int32(neverDeleted)
		properties.DefaultTimeToLive = &on
	}
	throughput := azcosmos.NewManualThroughputProperties(int32(o.Throughput))
	if o.Autoscale {
		throughput = azcosmos.NewAutoscaleThroughputProperties(int32(o.Throughput))
	}
	var options *azcosmos.CreateContainerOptions
	if o.Throughput != 0 {
		options = &azcosmos.CreateContainerOptions{ThroughputProperties: &throughput}
	}
	_, err := client.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: o.Database}, nil)
	if err == nil || classOf(err) == conflict {
		var database *azcosmos.DatabaseClient
		if database, err = client.NewDatabase(o.Database); err == nil {
			_, err = database.CreateContainer(ctx, properties, options)
		}
	}
	switch s, _ := statusOf(err); {
	case classOf(err) == conflict:
		return nil
	case s.code == http.StatusForbidden && classOf(err) == providerkit.Denied:
		return o.setup("there is no such container, and this identity may not create one", err)
	}
	return err
}

// setup says what to run.
func (o Options) setup(what string, err error) error {
	flags := ""
	if o.ExpireDocuments {
		flags = " --ttl -1"
	}
	return fmt.Errorf("%w: %s: %s/%s; create it (az cosmosdb sql database create -g GROUP -a ACCOUNT -n %[3]s; "+
		"az cosmosdb sql container create -g GROUP -a ACCOUNT -d %[3]s -n %[4]s -p %[5]s --partition-key-version 2%[6]s), or set Options.Create and use the account's key: %[7]w",
		errNoContainer, what, o.Database, o.Container, o.path(), flags, brief(err))
}

// path is the partition key path of a container that is created.
func (o Options) path() string { return cmp.Or(o.PartitionKeyPath, DefaultPartitionKeyPath) }

// partitionKeyVersion is of partition keys up to 2 KB. Those of version 1, which
// older containers have, are hashed by their first 101 bytes, and can't be longer:
// learn.microsoft.com/azure/cosmos-db/large-partition-keys. A document's ID is its
// partition key, and may have 250.
const partitionKeyVersion = 2

// partitionKey is the path of a container's partition key. It refuses containers that
// can't do what is asked of them.
func (o Options) partitionKey(p *azcosmos.ContainerProperties) ([]string, error) {
	var path string
	if len(p.PartitionKeyDefinition.Paths) == 1 {
		path = p.PartitionKeyDefinition.Paths[0]
	}
	parts, bad := parsePath(path)
	version := max(1, p.PartitionKeyDefinition.Version)
	var want string
	switch {
	case bad != "":
		want = fmt.Sprintf("one partition key path, and not %s; use %s", bad, DefaultPartitionKeyPath)
	case o.PartitionKeyPath != "" && path != o.PartitionKeyPath:
		want = fmt.Sprintf("the partition key path %s of Options.PartitionKeyPath, and not %s", o.PartitionKeyPath, path)
	case version != partitionKeyVersion:
		want = fmt.Sprintf("partition keys of version 2, and not %d, which are told apart by their first 101 bytes; create one anew, with --partition-key-version 2", version)
	case o.ExpireDocuments && p.DefaultTimeToLive == nil:
		want = fmt.Sprintf("a time to live, for Options.ExpireDocuments; run az cosmosdb sql container update -g GROUP -a ACCOUNT -d %s -n %s --ttl -1", o.Database, o.Container)
	default:
		return parts, nil
	}
	return nil, fmt.Errorf("%w: container %s/%s needs %s", abstractions.ErrNotSetUp, o.Database, o.Container, want)
}

// parsePath takes a partition key path apart, and says of those that the document has no
// room for what they are.
func parsePath(path string) (parts []string, bad string) {
	rest, rooted := strings.CutPrefix(path, "/")
	parts = strings.Split(rest, "/")
	first := parts[0]
	switch {
	case !rooted || strings.ContainsAny(path, "\"\\") || slices.Contains(parts, "") || first == "id" && len(parts) > 1:
		return nil, fmt.Sprintf("%q, which is no path", path)
	case first == "lease" || first == "ttl":
		return nil, fmt.Sprintf("the documents' own field %q", first)
	case strings.HasPrefix(first, "_"):
		return nil, fmt.Sprintf("%q, which is the service's own", path)
	}
	return parts, ""
}

// withPartitionKey sets the partition key of a document, which is its ID.
func (c *container) withPartitionKey(fields map[string]any, id string) map[string]any {
	at, last := fields, len(c.path)-1
	for _, part := range c.path[:last] {
		inner := map[string]any{}
		at[part], at = inner, inner
	}
	at[c.path[last]] = id
	return fields
}
