// Package failure classifies the errors from Redis and from its client library.
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

// meaning is the class of a server's error, and whether to keep the connection. The class says whether the request was applied:
// see [providerkit.Class].
type meaning struct {
	class providerkit.Class
	// reconnect says that the connection is alive but useless: a new connection may lead to another server, or sign in as another user.
	reconnect bool
	advice    string
}

const (
	adviceMode = "the server is one of a Redis Cluster: add mode=cluster, or use a *redis.ClusterClient"
	adviceKeys = "the server must be as in Options, and only this library may use keys under Options.Prefix"
)

// codes maps the code of a Redis error, its first word
// (redis.io/docs/latest/develop/reference/protocol-spec, "Simple errors"), to the error's
// meaning. A code that is not listed leaves the outcome unknown, and the connection in use.
var codes = map[string]meaning{
	"BUSY":         {class: providerkit.Refused}, // another script has run for too long
	"NOCLOCK":      {class: providerkit.Refused}, // raised by scripts/prelude.lua: the server has not set its clock yet
	"OOM":          {class: providerkit.Refused}, // maxmemory
	"TRYAGAIN":     {class: providerkit.Refused}, // the slot is being moved
	"CLUSTERDOWN":  {class: providerkit.Refused, reconnect: true},
	"LOADING":      {class: providerkit.Refused, reconnect: true},
	"MASTERDOWN":   {class: providerkit.Refused, reconnect: true}, // a replica without its master
	"MISCONF":      {class: providerkit.Refused, reconnect: true}, // it can't save to disk, and so refuses writes
	"NOREPLICAS":   {class: providerkit.Refused, reconnect: true}, // min-replicas-to-write: perhaps a master that was replaced
	"READONLY":     {class: providerkit.Refused, reconnect: true}, // a replica, or a failover under way
	"DENIED":       {class: providerkit.Denied},                   // protected mode
	"NOPERM":       {class: providerkit.Denied},
	"NOAUTH":       {class: providerkit.Denied, reconnect: true},
	"WRONGPASS":    {class: providerkit.Denied, reconnect: true},
	"ASK":          {class: providerkit.NotSetUp, advice: adviceMode}, // for a client that follows redirections see OfCluster
	"CROSSSLOT":    {class: providerkit.NotSetUp, advice: adviceMode},
	"MOVED":        {class: providerkit.NotSetUp, advice: adviceMode}, // as ASK
	"NOPROTO":      {class: providerkit.NotSetUp, advice: adviceKeys},
	"NOTOKEN":      {class: providerkit.NotSetUp, advice: adviceKeys}, // of scripts/name.lua
	"OTHERVERSION": {class: providerkit.NotSetUp, advice: adviceKeys}, // of scripts/name.lua
	"WRONGTYPE":    {class: providerkit.NotSetUp, advice: adviceKeys}, // another program's key
}

// wrongServerPrefixes lists the prefixes of errors from a server that can never serve the request: it has
// no database of that number, has renamed the command, is a sentinel, or is not part of a
// Cluster. A script reports an unknown command differently, maybe after other commands have run.
var wrongServerPrefixes = []string{"ERR DB index is out of range", "ERR unknown command", "ERR This instance has cluster support disabled"}

// ScriptError is an error from a command in a script.
type ScriptError string

func (e ScriptError) Error() string { return string(e) }

// RedisError marks the type as a Redis error.
func (e ScriptError) RedisError() {}

// lookup returns the text of a server's error, and its meaning.
func lookup(err error) (text string, m meaning, answered bool) {
	var of redis.Error
	if !errors.As(err, &of) {
		return "", m, false
	}
	// Redis 7 adds the name of the script to an error that a script raises.
	text, _, _ = strings.Cut(of.Error(), " script: ")
	code, _, _ := strings.Cut(text, " ")
	m = codes[code]
	if m.class == providerkit.Unknown && slices.ContainsFunc(wrongServerPrefixes, func(begin string) bool { return strings.HasPrefix(text, begin) }) {
		m = meaning{class: providerkit.NotSetUp, advice: adviceKeys}
	}
	return text, m, true
}

// Classify returns the meaning of an error, by its code.
func Classify(err error) (m providerkit.Meaning) {
	if errors.Is(err, redis.ErrClosed) { // the user closed the client
		m.Class = providerkit.Closed
		return m
	}
	if text, of, answered := lookup(err); answered {
		m.Class, m.Text, m.Advice = of.class, text, of.advice
	}
	return m
}

// Of turns an error from the client library into an error of package leasing,
// keeping both in its chain. It is for the error of a single node: Redlock counts
// votes instead.
func Of(err error) error {
	if err == nil || abstractions.NotApplied(err) || errors.Is(err, abstractions.ErrUnavailable) {
		return err
	}
	return Classify(err).Of(err)
}

// OfCluster is Of for a client of a Cluster. The client follows redirections, so it returns a redirection only while slots are
// being moved.
func OfCluster(err error) error {
	if redis.HasErrorPrefix(err, "MOVED") || redis.HasErrorPrefix(err, "ASK") {
		return providerkit.Meaning{Class: providerkit.Refused}.Of(err)
	}
	return Of(err)
}

// MustReconnect reports whether an error proves that the connection on which it arrived is alive but useless.
func MustReconnect(err error) bool {
	_, m, _ := lookup(err)
	return m.reconnect
}

// OfSource classifies an error from a client that has a function for its credentials. go-redis 9.23 returns the function's
// own error (redis.go, _getConn), which does not come from Redis. So an error that does not come from the server, the
// connection or the pool comes from the function.
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
