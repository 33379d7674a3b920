package redislease

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/redis/go-redis/v9"
)

// codes gives the first word of Redis' errors, which is their code
// (redis.io/docs/latest/develop/reference/protocol-spec, "Simple errors"), its
// meaning. What is not listed is unknown.
var codes = map[string]providerkit.Class{
	"ASK":          providerkit.Refused, // redirected more often than the client follows, as is MOVED
	"BUSY":         providerkit.Refused, // another script runs for too long
	"CLUSTERDOWN":  providerkit.Refused,
	"LOADING":      providerkit.Refused,
	"MASTERDOWN":   providerkit.Refused,
	"MISCONF":      providerkit.Refused, // it can't save to disk, and so takes no writes
	"MOVED":        providerkit.Refused, // or a server of a Cluster, and not in that mode
	"NOCLOCK":      providerkit.Refused, // of scripts/prelude.lua: the server has not set its clock yet
	"NOREPLICAS":   providerkit.Refused, // min-replicas-to-write
	"OOM":          providerkit.Refused, // maxmemory
	"READONLY":     providerkit.Refused, // a replica, or a failover under way
	"TRYAGAIN":     providerkit.Refused, // the slot is being moved
	"DENIED":       providerkit.Denied,  // protected mode
	"NOAUTH":       providerkit.Denied,
	"NOPERM":       providerkit.Denied,
	"WRONGPASS":    providerkit.Denied,
	"WRONGTYPE":    providerkit.NotSetUp, // somebody else's key
	"CROSSSLOT":    providerkit.NotSetUp,
	"NOPROTO":      providerkit.NotSetUp,
	"OTHERVERSION": providerkit.NotSetUp, // of scripts/prelude.lua
}

// scriptError is an error of a command in the script.
type scriptError string

func (e scriptError) Error() string { return string(e) }
func (e scriptError) RedisError()   {}

var _ redis.Error = scriptError("")

func classOf(err error) providerkit.Class {
	var answered redis.Error
	switch {
	case errors.Is(err, redis.ErrClosed): // the user closed the client
		return providerkit.Closed
	case errors.As(err, &answered):
		code, _, _ := strings.Cut(answered.Error(), " ")
		return codes[code]
	}
	return providerkit.Unknown
}

// Classify says what an error of the client library means, where a node has not.
func (d *driver) Classify(err error) providerkit.Meaning {
	return providerkit.Meaning{Class: classOf(err)}
}

// failure turns an error of the client library into one of package leasing, keeping
// both in its chain. It is of one node: of several that fail the votes are counted.
func failure(err error) error {
	if err == nil || abstractions.NotApplied(err) || errors.Is(err, abstractions.ErrUnavailable) {
		return err
	}
	switch classOf(err) {
	case providerkit.Closed:
		return fmt.Errorf("%w: %w", abstractions.ErrClosed, err)
	case providerkit.Refused:
		return &abstractions.ThrottledError{Err: err}
	case providerkit.Denied:
		return fmt.Errorf("%w: %w", abstractions.ErrDenied, err)
	case providerkit.NotSetUp:
		return fmt.Errorf("%w: %w; the keys under Options.Prefix must be this library's alone", abstractions.ErrNotSetUp, err)
	}
	return fmt.Errorf("%w: %w", abstractions.ErrUnavailable, err)
}

// quarantinedError is a node of Redlock that lost its data and casts no vote for
// now.
type quarantinedError struct {
	left time.Duration
}

func (e *quarantinedError) Error() string {
	return fmt.Sprintf("the server is new or may have lost leases, and casts no vote for another %v; Provider.Bootstrap lets new ones vote at once", e.left)
}

func (e *quarantinedError) Is(target error) bool { return target == abstractions.ErrUnavailable }
