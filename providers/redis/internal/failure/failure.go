// Package failure says what the errors of Redis and of its client library mean.
package failure

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"

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
	"NOTOKEN":      providerkit.NotSetUp, // of scripts/name.lua
	"OTHERVERSION": providerkit.NotSetUp, // of scripts/name.lua
}

// misplaced begin what a server says that has not what was asked for, and never will have:
// a database of that number, a command that is renamed or is a sentinel's, a Cluster.
// One that a script lacks is told otherwise, and may be noticed in its middle.
var misplaced = []string{"ERR DB index is out of range", "ERR unknown command", "ERR This instance has cluster support disabled"}

// ScriptError is an error of a command in a script.
type ScriptError string

func (e ScriptError) Error() string { return string(e) }

// RedisError makes it one of Redis' errors.
func (e ScriptError) RedisError() {}

// Classify is what an error means, by its code.
func Classify(err error) (m providerkit.Meaning) {
	var answered redis.Error
	switch {
	case errors.Is(err, redis.ErrClosed): // the user closed the client
		m.Class = providerkit.Closed
	case errors.As(err, &answered):
		text := answered.Error()
		code, _, _ := strings.Cut(text, " ")
		m.Class = codes[code]
		if m.Class == providerkit.NotSetUp || slices.ContainsFunc(misplaced, func(begin string) bool { return strings.HasPrefix(text, begin) }) {
			m.Class, m.Advice = providerkit.NotSetUp, "the server must be what Options say, and the keys under Options.Prefix this library's alone"
		}
	}
	return m
}

// Of turns an error of the client library into one of package leasing, keeping
// both in its chain. It is of one node: of several that fail the votes are counted.
func Of(err error) error {
	if err == nil || abstractions.NotApplied(err) || errors.Is(err, abstractions.ErrUnavailable) {
		return err
	}
	return Classify(err).Of(err)
}

// OfSource is an error of a client that has a function for its credentials. go-redis 9.23 returns the
// function's own error (redis.go, _getConn), which says nothing of Redis. So what is neither an answer nor of the connection,
// nor of the pool, is of the function.
func OfSource(err error) error {
	var answered redis.Error
	var network net.Error
	if err == nil || errors.As(err, &answered) || errors.As(err, &network) {
		return err
	}
	for _, of := range [...]error{io.EOF, io.ErrUnexpectedEOF, context.Canceled, context.DeadlineExceeded, redis.ErrClosed, redis.ErrPoolTimeout, redis.ErrPoolExhausted} {
		if errors.Is(err, of) {
			return err
		}
	}
	return providerkit.NewCredentialError(err, false)
}
