package redislease

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/redis/go-redis/v9"
)

// meaning is what an error of Redis says about the request.
type meaning uint8

const (
	unknown meaning = iota // it may have been applied: ErrUnavailable
	refused                // for now, and not applied: ErrThrottled
	denied                 // ErrDenied
	misused                // ErrNotSetUp
)

// codes gives the first word of Redis' errors, which is their code
// (redis.io/docs/latest/develop/reference/protocol-spec, "Simple errors"), its
// meaning. What is not listed is unknown.
var codes = map[string]meaning{
	"ASK":         refused, // redirected more often than the client follows, as is MOVED
	"BUSY":        refused, // another script runs for too long
	"CLUSTERDOWN": refused,
	"LOADING":     refused,
	"MASTERDOWN":  refused,
	"MISCONF":     refused, // it can't save to disk, and so takes no writes
	"MOVED":       refused, // or a server of a Cluster, and not in that mode
	"NOREPLICAS":  refused, // min-replicas-to-write
	"OOM":         refused, // maxmemory
	"READONLY":    refused, // a replica, or a failover under way
	"TRYAGAIN":    refused, // the slot is being moved
	"DENIED":      denied,  // protected mode
	"NOAUTH":      denied,
	"NOPERM":      denied,
	"WRONGPASS":   denied,
	"WRONGTYPE":   misused, // somebody else's key
	"CROSSSLOT":   misused,
	"NOPROTO":     misused,
}

// scriptError is an error of a command in the script.
type scriptError string

func (e scriptError) Error() string { return string(e) }
func (e scriptError) RedisError()   {}

var _ redis.Error = scriptError("")

func meaningOf(err error) meaning {
	var answered redis.Error
	if !errors.As(err, &answered) {
		return unknown
	}
	code, _, _ := strings.Cut(answered.Error(), " ")
	return codes[code]
}

// failure turns an error of the client library into one of package leasing,
// keeping both in its chain.
func failure(err error) error {
	switch {
	case err == nil || errors.Is(err, abstractions.ErrUnavailable) || errors.Is(err, abstractions.ErrClosed) || errors.Is(err, abstractions.ErrDenied) || errors.Is(err, abstractions.ErrInvalid):
		return err
	case errors.Is(err, redis.ErrClosed): // the user closed the client
		return fmt.Errorf("%w: %w", abstractions.ErrClosed, err)
	}
	switch meaningOf(err) {
	case refused:
		return &abstractions.ThrottledError{Err: err}
	case denied:
		return fmt.Errorf("%w: %w", abstractions.ErrDenied, err)
	case misused:
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
