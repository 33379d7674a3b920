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

// connection looks up the container at its first use: azcosmos reads the account, and a read
// of the container returns its partition key path, if the container exists. One caller at a
// time does this work, and finishes it even if its context ends: the providerkit.Provider
// around the driver has then ended the call, and azcosmos ignores the context. See
// providerkit.Config.Detach.
type connection struct {
	options Options
	keys    livefile.Source
	wire    *wire
	found   atomic.Pointer[container]
	finding chan struct{} // a semaphore with one permit
}

// container is the container of the leases.
type container struct {
	*azcosmos.ContainerClient
	client *azcosmos.Client
	key    string   // the client's key; "" if another identity is used
	path   []string // the partition key path
}

// container returns the container. If another call is searching for the container, it waits until
// ctx ends at the latest. Each search has a new client: an azcosmos client that has failed to read
// the account does not retry for five minutes.
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
	if c.regionsRefused() {
		c.forget(found) // the next call searches again
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
		return nil, readError{shortError(err)} // no lease was written
	}
	if former := c.found.Swap(found); former != nil {
		former.client.Close()
	}
	return found, nil
}

// regionsRefused reports whether the account has several write regions without
// Options.AllowMultipleWriteRegions.
func (c *connection) regionsRefused() bool {
	return c.wire.severalRegions.Load() && !c.options.AllowMultipleWriteRegions
}

// errSeveralRegions refuses an account with several write regions: one region can accept a
// write while another accepts a different write, and the service undoes one of the two later
// (learn.microsoft.com/azure/cosmos-db/conflict-resolution-policies).
var errSeveralRegions = fmt.Errorf("%w: the account takes writes in several regions, where an ETag does not exclude a second holder: "+
	"use an account with one write region, or set Options.AllowMultipleWriteRegions if all clients write in the same region", abstractions.ErrNotSetUp)

// forget drops the container and its client, so that the next call searches for the container.
func (c *connection) forget(found *container) {
	if found != nil && c.found.CompareAndSwap(found, nil) {
		found.client.Close()
	}
}

// close closes the client and idle connections. Before that, the caller has to end all calls
// and the wire's lifetime.
func (c *connection) close() {
	c.forget(c.found.Load())
	if own := c.wire.own; own != nil {
		own.CloseIdleConnections()
	}
}

// prepare reads the container, creates it if Options.Create is set, and returns its
// partition key path.
func (c *connection) prepare(ctx context.Context, found *container) ([]string, error) {
	response, err := found.Read(ctx, nil)
	if class := classOf(err); class == missing || class == noContainer {
		switch {
		case !c.options.Create:
			return nil, c.options.setup("there is no such container", err)
		case c.regionsRefused():
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

// create creates a missing database and container. A conflict counts as success:
// another process was faster. No field is indexed except id and _ts, which are always
// indexed: each index makes every write more expensive
// (learn.microsoft.com/azure/cosmos-db/index-policy). Without Options.Throughput, the
// throughput is that of the account or the database.
//
// An identity that may read and write documents is not always permitted to create containers:
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
		return o.setup("there is no such container, and this identity may not create containers", err)
	}
	return err
}

// setup returns errNoContainer with the commands that create the container.
func (o Options) setup(what string, err error) error {
	flags := ""
	if o.ExpireDocuments {
		flags = " --ttl -1"
	}
	return fmt.Errorf("%w: %s: %s/%s; create it (az cosmosdb sql database create -g GROUP -a ACCOUNT -n %[3]s; "+
		"az cosmosdb sql container create -g GROUP -a ACCOUNT -d %[3]s -n %[4]s -p %[5]s --partition-key-version 2%[6]s), or set Options.Create and use the account's key: %[7]w",
		errNoContainer, what, o.Database, o.Container, o.path(), flags, shortError(err))
}

// path returns the partition key path of a new container.
func (o Options) path() string { return cmp.Or(o.PartitionKeyPath, DefaultPartitionKeyPath) }

// partitionKeyVersion is the version of partition keys of up to 2 KB. Version 1, in
// older containers, hashes only the first 101 bytes, and refuses longer keys:
// learn.microsoft.com/azure/cosmos-db/large-partition-keys. A document's ID is its
// partition key, and can have up to 250 bytes.
const partitionKeyVersion = 2

// partitionKey returns the path of a container's partition key. It refuses containers
// that do not match the options.
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
		want = fmt.Sprintf("one partition key path, not %s; use %s", bad, DefaultPartitionKeyPath)
	case o.PartitionKeyPath != "" && path != o.PartitionKeyPath:
		want = fmt.Sprintf("the partition key path %s of Options.PartitionKeyPath, not %s", o.PartitionKeyPath, path)
	case version != partitionKeyVersion:
		want = fmt.Sprintf("partition keys of version 2, since version %d compares only their first 101 bytes; create a new container with --partition-key-version 2", version)
	case o.ExpireDocuments && p.DefaultTimeToLive == nil:
		want = fmt.Sprintf("a time to live, for Options.ExpireDocuments; run az cosmosdb sql container update -g GROUP -a ACCOUNT -d %s -n %s --ttl -1", o.Database, o.Container)
	default:
		return parts, nil
	}
	return nil, fmt.Errorf("%w: container %s/%s needs %s", abstractions.ErrNotSetUp, o.Database, o.Container, want)
}

// parsePath splits a partition key path. bad describes a path that can't be used, because
// it is malformed or its field has another meaning.
func parsePath(path string) (parts []string, bad string) {
	rest, rooted := strings.CutPrefix(path, "/")
	parts = strings.Split(rest, "/")
	first := parts[0]
	switch {
	case !rooted || strings.ContainsAny(path, "\"\\") || slices.Contains(parts, "") || first == "id" && len(parts) > 1:
		return nil, fmt.Sprintf("%q, which is not a path", path)
	case first == "lease" || first == "ttl":
		return nil, fmt.Sprintf("the documents' own field %q", first)
	case strings.HasPrefix(first, "_"):
		return nil, fmt.Sprintf("%q, which is the service's own", path)
	}
	return parts, ""
}

// withPartitionKey sets the partition key of a document to its ID.
func (c *container) withPartitionKey(fields map[string]any, id string) map[string]any {
	at, last := fields, len(c.path)-1
	for _, part := range c.path[:last] {
		inner := map[string]any{}
		at[part], at = inner, inner
	}
	at[c.path[last]] = id
	return fields
}
